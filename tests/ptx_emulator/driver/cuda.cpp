// The functions that libcuda.so.1 exports, by their names there. Numbers are those of cuda.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/ptx_emulator/driver/guard.h"

using namespace moxie::ptx;

namespace {

using Result = int;
using Handle = void*;

constexpr int kDriverVersion = 13000;
constexpr const char* kName = "PTX emulator";

struct Attribute {
  int number, value;
};
/// Those of an H200, with the shared memory that blocks have without asking for more.
constexpr Attribute kAttributes[] = {
    {1, 1024},       // threads of a block
    {8, 49152},      // bytes of shared memory of a block
    {10, 32},        // lanes of a warp
    {12, 65536},     // registers of a block
    {13, 1980000},   // kHz of the clock
    {16, 132},       // multiprocessors
    {36, 3201000},   // kHz of the memory's clock
    {37, 6144},      // bits of the memory's bus
    {38, 62914560},  // bytes of the L2 cache
    {39, 2048},      // threads of a multiprocessor
    {75, 9},         // compute capability, major
    {76, 0},         // and minor
    {81, 233472},    // bytes of shared memory of a multiprocessor
    {82, 65536},     // registers of a multiprocessor
    {97, 49152},     // bytes of shared memory of a block that asks for more: the same
    {106, 32},       // blocks of a multiprocessor
};
constexpr std::uint64_t kMaxSharedBytes = 49152;
/// PTX does not tell the registers; this many fit for any block.
constexpr int kRegisters = 32;

/// Handles of contexts are places here, one for each device.
char kContexts[64];

constexpr unsigned kMaxGridYz = 65535;
constexpr unsigned kMaxGridX = 2147483647;

Stream& stream_of(Handle handle) { return *device().streams.get(handle); }

void check_grid(const Kernel& kernel, Extent grid, Extent block, unsigned shared_bytes) {
  if (grid.count() == 0 || block.count() == 0 || grid.x > kMaxGridX || grid.y > kMaxGridYz || grid.z > kMaxGridYz)
    throw Fault(Reason::invalid_value, fmt::format("a grid of {} x {} x {} blocks", grid.x, grid.y, grid.z));
  if (block.count() > kernel.max_threads) {
    throw Fault(Reason::launch_out_of_resources,
                fmt::format("{} threads, but {} was compiled for {}", block.count(), kernel.name, kernel.max_threads));
  }
  if (kernel.shared_bytes + shared_bytes > kMaxSharedBytes)
    throw Fault(Reason::launch_out_of_resources, fmt::format("{} bytes of shared memory", kernel.shared_bytes));
}

std::vector<std::byte> collect_parameters(const Kernel& kernel, void** values) {
  std::vector<std::byte> bytes(kernel.parameter_bytes, std::byte{0xff});
  for (std::size_t k = 0; k < kernel.parameters.size(); ++k)
    std::memcpy(bytes.data() + kernel.parameters[k].offset, values[k], kernel.parameters[k].bytes);
  return bytes;
}

/// Work that ends before the call returns, as for memory of the host that is not page-locked.
void wait_unless_pinned(Stream& stream, const void* host, std::uint64_t bytes) {
  if (!stream.is_capturing() && !device().is_pinned(host, bytes)) device().drain(stream);
}

template <class T>
void graph_of(T& handles, Handle* handle, std::vector<Work> works) {
  *handle = handles.add(std::make_shared<std::vector<Work>>(std::move(works)));
}

}  // namespace

extern "C" {

// ---- The driver and its device ----

Result cuInit(unsigned) { return 0; }
Result cuDriverGetVersion(int* version) { return *version = kDriverVersion, 0; }
Result cuGetErrorName(Result error, const char** name) { return (*name = error_name(error)) == nullptr ? 1 : 0; }
Result cuGetErrorString(Result error, const char** text) {
  if (error_name(error) == nullptr) return *text = nullptr, 1;
  *text = device().last_error.c_str();
  return 0;
}
/// NVRTC asks for functions that cuda.h does not have, and does without them.
Result cuGetExportTable(const void** table, const void*) { return *table = nullptr, 500; }
Result cuDeviceGetCount(int* count) { return *count = device_count(), 0; }
Result cuDeviceGet(int* number, int ordinal) {
  return *number = ordinal, ordinal >= 0 && ordinal < device_count() ? 0 : 101;
}
Result cuDeviceGetName(char* name, int size, int) {
  if (size > 0) *fmt::format_to_n(name, size - 1, "{}", kName).out = 0;
  return 0;
}
Result cuDeviceGetAttribute(int* value, int number, int) {
  const auto* known = std::ranges::find(kAttributes, number, &Attribute::number);
  if (known == std::end(kAttributes)) return 1;
  *value = known->value;
  return 0;
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, int) { return *bytes = device().memory.capacity(), 0; }

Result cuDevicePrimaryCtxRetain(Handle* context, int number) {
  return guarded(__func__, [&] {
    device().retain_context();
    *context = kContexts + number;
  });
}
Result cuDevicePrimaryCtxRelease_v2(int) {
  return guarded(__func__, [&] { device().release_context(); });
}
Result cuCtxSetCurrent(Handle context) {
  return guarded(__func__, [&] {
    device().set_current(context ? static_cast<int>(static_cast<const char*>(context) - kContexts) : -1);
  });
}

// ---- Memory ----

Result cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  return guarded_in_context(__func__, [&] { *address = device().memory.allocate(bytes); });
}
Result cuMemFree_v2(std::uint64_t address) {
  return guarded_in_context(__func__, [&] {
    if (device().lost == Reason::none) device().drain_all();
    device().memory.release(address);
  });
}
Result cuMemAllocHost_v2(void** memory, std::size_t bytes) {
  return guarded_in_context(__func__, [&] {
    Pinned block{std::make_unique<std::byte[]>(bytes), bytes};
    std::memset(block.memory.get(), 0xff, bytes);
    *memory = block.memory.get();
    device().pinned[*memory] = std::move(block);
  });
}
Result cuMemFreeHost(void* memory) {
  return guarded_in_context(__func__, [&] {
    const auto block = device().pinned.find(memory);
    if (block == device().pinned.end()) throw Fault(Reason::invalid_value, "the memory was not allocated here");
    const auto& streams = device().streams;
    if (std::any_of(streams.begin(), streams.end(),
                    [&](const auto& stream) { return stream.second->uses(memory, block->second.bytes); })) {
      device().misuse("cuMemFreeHost of memory that a copy which is under way uses");  // the memory stays, for the copy
      return;
    }
    device().pinned.erase(block);
  });
}

Result cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, Handle stream) {
  return guarded_in_context(__func__, [&] {
    device_range(to, bytes, "a copy to the device");
    const auto copy = [=] { std::memcpy(device_range(to, bytes, "a copy to the device"), from, bytes); };
    device().enqueue(stream_of(stream), {copy, {from, bytes}});
    wait_unless_pinned(stream_of(stream), from, bytes);
  });
}
Result cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, Handle stream) {
  return guarded_in_context(__func__, [&] {
    device_range(from, bytes, "a copy from the device");
    const auto copy = [=] { std::memcpy(to, device_range(from, bytes, "a copy from the device"), bytes); };
    device().enqueue(stream_of(stream), {copy, {to, bytes}});
    wait_unless_pinned(stream_of(stream), to, bytes);
  });
}
Result cuMemcpyDtoDAsync_v2(std::uint64_t to, std::uint64_t from, std::size_t bytes, Handle stream) {
  return guarded_in_context(__func__, [&] {
    const auto copy = [=] {
      std::memcpy(device_range(to, bytes, "a copy on the device"), device_range(from, bytes, "a copy on the device"),
                  bytes);
    };
    device().enqueue(stream_of(stream), {copy});
  });
}
Result cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, Handle stream) {
  return guarded_in_context(__func__, [&] {
    device_range(to, bytes, "a memset");
    device().enqueue(stream_of(stream), {[=] { std::memset(device_range(to, bytes, "a memset"), value, bytes); }});
  });
}

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE and _DEVICE_ORDINAL, of memory of any device.
Result cuPointerGetAttribute(void* value, int attribute, std::uint64_t pointer) {
  return guarded_in_context(__func__, [&] {
    if (attribute != 2 && attribute != 9) throw Fault(Reason::invalid_value, "no such attribute of a pointer");
    device_range(pointer, 1, "asking for what a pointer is");
    const int known = attribute == 2 ? 2 : current_device();  // CU_MEMORYTYPE_DEVICE
    std::memcpy(value, &known, sizeof known);
  });
}

// ---- Modules ----

Result cuModuleLoadData(Handle* module, const void* image) {
  return guarded_in_context(__func__, [&] {
    const auto* text = static_cast<const char*>(image);
    *module = device().modules.add(std::make_shared<Module>(text, device().memory));
  });
}
Result cuModuleUnload(Handle module) {
  return guarded_in_context(__func__, [&] {
    const auto unloaded = device().modules.get(module);
    if (device().lost == Reason::none) device().drain_all();
    device().functions.remove_if([&](LoadedFunction& function) {
      if (function.module == unloaded) function.is_loaded = false;  // for what was captured
      return !function.is_loaded;
    });
    device().modules.remove(module);
  });
}
Result cuModuleGetFunction(Handle* function, Handle module, const char* name) {
  return guarded_in_context(__func__, [&] {
    const auto& loaded = device().modules.get(module);
    const Kernel* kernel = loaded->find(name);
    if (kernel == nullptr) throw Fault(Reason::not_found, fmt::format("the module has no kernel {}", name));
    *function = device().functions.add(std::make_shared<LoadedFunction>(LoadedFunction{loaded, kernel}));
  });
}
Result cuFuncGetAttribute(int* value, int number, Handle function) {
  return guarded_in_context(__func__, [&] {
    const Kernel& kernel = *device().functions.get(function)->kernel;
    const std::uint64_t values[] = {kernel.max_threads, kernel.shared_bytes, 0, kernel.local_bytes, kRegisters};
    if (number < 0 || number >= std::ssize(values)) throw Fault(Reason::invalid_value, "no such attribute");
    *value = static_cast<int>(values[number]);
  });
}
Result cuLaunchKernel(Handle handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, Handle stream, void** parameters,
                      void** extra) {
  return guarded_in_context(__func__, [&] {
    const auto function = device().functions.get(handle);
    const Extent grid{grid_x, grid_y, grid_z};
    const Extent block{block_x, block_y, block_z};
    if (extra != nullptr) throw Fault(Reason::invalid_value, "parameters in one block are not taken");
    check_grid(*function->kernel, grid, block, shared_bytes);
    device().enqueue(stream_of(stream), {[=, values = collect_parameters(*function->kernel, parameters)] {
                       device().launch(function, grid, block, values);
                     }});
  });
}

// ---- Streams and events ----

Result cuStreamCreate(Handle* stream, unsigned) {
  return guarded_in_context(__func__, [&] { *stream = device().streams.add(std::make_shared<Stream>()); });
}
Result cuStreamDestroy_v2(Handle stream) {
  return guarded_in_context(__func__, [&] {
    const auto destroyed = device().streams.remove(stream);
    if (device().lost == Reason::none) device().drain(*destroyed);
  });
}
Result cuStreamSynchronize(Handle handle) {
  return guarded_in_context(__func__, [&] {
    Stream& stream = stream_of(handle);
    if (stream.is_capturing()) {
      stream.invalidate_capture();
      throw Fault(Reason::capture_unsupported, "the stream is being captured");
    }
    device().drain(stream);
  });
}
Result cuStreamGetCtx(Handle stream, Handle* context) {
  return guarded_in_context(__func__, [&] {
    stream_of(stream);
    *context = kContexts + current_device();
  });
}
Result cuStreamWaitEvent(Handle stream, Handle event, unsigned) {
  return guarded_in_context(__func__, [&] {
    const auto awaited = device().events.get(event);
    if (stream_of(stream).is_capturing())
      throw Fault(Reason::capture_unsupported, "branches of a graph are unknown to the PTX emulator");
    if (!awaited->is_done()) device().drain_all();  // what is to be waited for is enqueued already
  });
}
Result cuEventCreate(Handle* event, unsigned) {
  return guarded_in_context(__func__, [&] { *event = device().events.add(std::make_shared<Event>()); });
}
Result cuEventDestroy_v2(Handle event) {
  return guarded_in_context(__func__, [&] { device().events.remove(event); });
}
Result cuEventRecord(Handle event, Handle stream) {
  return guarded_in_context(__func__, [&] { device().events.get(event)->record(stream_of(stream)); });
}
Result cuEventSynchronize(Handle event) {
  return guarded_in_context(__func__, [&] {
    if (!device().events.get(event)->is_done()) device().drain_all();
  });
}
Result cuEventElapsedTime(float* milliseconds, Handle start, Handle end) {
  return guarded_in_context(
      __func__, [&] { *milliseconds = device().events.get(start)->milliseconds_until(*device().events.get(end)); });
}

// ---- Graphs ----

Result cuStreamBeginCapture_v2(Handle stream, int) {
  return guarded_in_context(__func__, [&] { stream_of(stream).begin_capture(); });
}
Result cuStreamEndCapture(Handle stream, Handle* graph) {
  return guarded_in_context(__func__, [&] { graph_of(device().graphs, graph, stream_of(stream).end_capture()); });
}
Result cuGraphInstantiateWithFlags(Handle* executable, Handle graph, unsigned long long) {
  return guarded_in_context(__func__, [&] { graph_of(device().executables, executable, *device().graphs.get(graph)); });
}
Result cuGraphLaunch(Handle executable, Handle stream) {
  return guarded_in_context(__func__, [&] {
    for (const Work& work : *device().executables.get(executable)) device().enqueue(stream_of(stream), work);
  });
}
Result cuGraphExecDestroy(Handle executable) {
  return guarded_in_context(__func__, [&] { device().executables.remove(executable); });
}
Result cuGraphDestroy(Handle graph) {
  return guarded_in_context(__func__, [&] { device().graphs.remove(graph); });
}

}  // extern "C"
