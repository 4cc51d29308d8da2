#pragma once
// The CUDA driver as one table of functions: NVIDIA's, the emulator's, or a recording fake in tests. Types and numbers
// as in cuda.h, declared here so that moxie builds where no CUDA toolkit is installed.
#include <cstddef>
#include <cstdint>

namespace moxie::cuda {

using Result = int;  // CUresult; 0: success
using DeviceNumber = int;
using DevicePointer = std::uint64_t;
struct ContextHandle_;
struct ModuleHandle_;
struct FunctionHandle_;
struct StreamHandle_;
struct EventHandle_;
struct GraphHandle_;
struct GraphExecHandle_;
using Context = ContextHandle_*;
using Module = ModuleHandle_*;
using Function = FunctionHandle_*;
using Stream = StreamHandle_*;
using Event = EventHandle_*;
using Graph = GraphHandle_*;
using GraphExec = GraphExecHandle_*;

/// Every driver function that moxie calls, by the name it has in cuda.h without the prefix `cu` (versioned entry points
/// resolved by the loader).
struct Driver {
  Result (*Init)(unsigned flags) = nullptr;
  Result (*DriverGetVersion)(int* version) = nullptr;
  Result (*GetErrorName)(Result error, const char** name) = nullptr;
  Result (*GetErrorString)(Result error, const char** text) = nullptr;
  Result (*DeviceGetCount)(int* count) = nullptr;
  Result (*DeviceGet)(DeviceNumber* device, int ordinal) = nullptr;
  Result (*DeviceGetName)(char* name, int size, DeviceNumber device) = nullptr;
  Result (*DeviceGetAttribute)(int* value, int attribute, DeviceNumber device) = nullptr;
  Result (*DeviceTotalMem)(std::size_t* bytes, DeviceNumber device) = nullptr;
  Result (*DevicePrimaryCtxRetain)(Context* context, DeviceNumber device) = nullptr;
  Result (*DevicePrimaryCtxRelease)(DeviceNumber device) = nullptr;
  Result (*CtxSetCurrent)(Context context) = nullptr;
  Result (*MemAlloc)(DevicePointer* pointer, std::size_t bytes) = nullptr;
  Result (*MemFree)(DevicePointer pointer) = nullptr;
  Result (*MemAllocHost)(void** pointer, std::size_t bytes) = nullptr;
  Result (*MemFreeHost)(void* pointer) = nullptr;
  Result (*MemcpyHtoDAsync)(DevicePointer to, const void* from, std::size_t bytes, Stream stream) = nullptr;
  Result (*MemcpyDtoHAsync)(void* to, DevicePointer from, std::size_t bytes, Stream stream) = nullptr;
  Result (*MemcpyDtoDAsync)(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) = nullptr;
  Result (*MemsetD8Async)(DevicePointer to, unsigned char value, std::size_t count, Stream stream) = nullptr;
  Result (*PointerGetAttribute)(void* value, int attribute, DevicePointer pointer) = nullptr;
  Result (*ModuleLoadData)(Module* module, const void* image) = nullptr;
  Result (*ModuleUnload)(Module module) = nullptr;
  Result (*ModuleGetFunction)(Function* function, Module module, const char* name) = nullptr;
  Result (*FuncGetAttribute)(int* value, int attribute, Function function) = nullptr;
  Result (*LaunchKernel)(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                         unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                         void** extra) = nullptr;
  Result (*StreamCreate)(Stream* stream, unsigned flags) = nullptr;
  Result (*StreamDestroy)(Stream stream) = nullptr;
  Result (*StreamSynchronize)(Stream stream) = nullptr;
  Result (*StreamGetCtx)(Stream stream, Context* context) = nullptr;
  Result (*StreamWaitEvent)(Stream stream, Event event, unsigned flags) = nullptr;
  Result (*StreamBeginCapture)(Stream stream, int mode) = nullptr;
  Result (*StreamEndCapture)(Stream stream, Graph* graph) = nullptr;
  Result (*GraphInstantiate)(GraphExec* exec, Graph graph, unsigned long long flags) = nullptr;
  Result (*GraphLaunch)(GraphExec exec, Stream stream) = nullptr;
  Result (*GraphExecDestroy)(GraphExec exec) = nullptr;
  Result (*GraphDestroy)(Graph graph) = nullptr;
  Result (*EventCreate)(Event* event, unsigned flags) = nullptr;
  Result (*EventDestroy)(Event event) = nullptr;
  Result (*EventRecord)(Event event, Stream stream) = nullptr;
  Result (*EventSynchronize)(Event event) = nullptr;
  Result (*EventElapsedTime)(float* milliseconds, Event start, Event end) = nullptr;
};

}  // namespace moxie::cuda
