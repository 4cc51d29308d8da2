#include "tests/runtime/fake_gpu.h"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <utility>

namespace moxie::cuda {

struct FunctionHandle_ {
  std::string name;
};
struct GraphHandle_ {
  std::vector<std::function<void()>> nodes;
};

namespace {

FakeGpu* gpu = nullptr;
std::map<void*, std::size_t> blocks;
std::set<FunctionHandle_*> functions;
GraphHandle_* recording = nullptr;

constexpr Result kInvalidValue = 1, kOutOfMemory = 2, kInvalidImage = 200;

/// Notes a call; gives the error that the test wants of it.
Result note(const std::string& name, const std::string& detail = {}) {
  gpu->calls.push_back(detail.empty() ? name : name + " " + detail);
  const auto failure = gpu->failures.find(name);
  return failure == gpu->failures.end() ? 0 : failure->second;
}

/// Done at once, or when the graph that is being recorded is launched.
Result enqueue(Stream stream, Result error, std::function<void()> work) {
  gpu->streams.insert(stream);
  if (error != 0) return error;
  if (recording != nullptr)
    recording->nodes.push_back(std::move(work));
  else
    work();
  return 0;
}

Result allocate(void** pointer, std::size_t bytes) {
  if (bytes > gpu->memory) return kOutOfMemory;
  gpu->memory -= bytes;
  *pointer = std::calloc(bytes, 1);
  blocks[*pointer] = bytes;
  return 0;
}

Result release(void* pointer) {
  gpu->memory += blocks.at(pointer);
  blocks.erase(pointer);
  std::free(pointer);
  return 0;
}

Result copy(const char* name, void* to, const void* from, std::size_t bytes, Stream stream) {
  return enqueue(stream, note(name, std::to_string(bytes)), [=] { std::memcpy(to, from, bytes); });
}

void* host(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

Result launch(Function function, unsigned grid_x, unsigned grid_y, Stream stream, void** parameters) {
  gpu->streams.insert(stream);
  const Result error =
      note("LaunchKernel", function->name + " " + std::to_string(grid_x) + "x" + std::to_string(grid_y));
  const auto kernel = gpu->kernels.find(function->name);
  if (kernel == gpu->kernels.end()) return error;
  std::vector<std::uint64_t> values;
  for (std::size_t k = 0; k < kernel->second.parameters; ++k)
    values.push_back(*static_cast<std::uint64_t*>(parameters[k]));
  return enqueue(stream, error, [values, body = kernel->second.body] { body(values); });
}

int device_attribute(int attribute) {
  const std::map<int, int> values = {{8, 48 * 1024}, {16, 4}, {39, 2048}, {75, 9}, {76, 0}};
  return values.at(attribute);
}

void fill_device(Driver& d) {
  d.DriverGetVersion = [](int* version) { return *version = 12040, 0; };
  d.GetErrorName = [](Result error, const char** name) {
    return *name = error == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE", 0;
  };
  d.GetErrorString = [](Result, const char** text) { return *text = "as the test wants it", 0; };
  d.DeviceGetCount = [](int* count) { return *count = 1, 0; };
  d.DeviceGet = [](DeviceNumber* device, int) { return *device = 0, note("DeviceGet"); };
  d.DeviceGetName = [](char* name, int size, DeviceNumber) {
    return std::strncpy(name, "Fake GPU", static_cast<std::size_t>(size)), 0;
  };
  d.DeviceGetAttribute = [](int* value, int attribute, DeviceNumber) {
    return *value = device_attribute(attribute), 0;
  };
  d.DevicePrimaryCtxRetain = [](Context* context, DeviceNumber) { return *context = nullptr, 0; };
  d.DevicePrimaryCtxRelease = [](DeviceNumber) { return 0; };
  d.CtxSetCurrent = [](Context) { return 0; };
}

void fill_memory(Driver& d) {
  d.MemAlloc = [](DevicePointer* pointer, std::size_t bytes) {
    void* block = nullptr;
    if (const Result error = note("MemAlloc", std::to_string(bytes)); error != 0) return error;
    const Result error = allocate(&block, bytes);
    *pointer = reinterpret_cast<DevicePointer>(block);
    return error;
  };
  d.MemFree = [](DevicePointer pointer) { return note("MemFree"), release(host(pointer)); };
  d.MemAllocHost = [](void** pointer, std::size_t bytes) { return note("MemAllocHost"), allocate(pointer, bytes); };
  d.MemFreeHost = [](void* pointer) { return release(pointer); };
  d.MemcpyHtoDAsync = [](DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
    return copy("MemcpyHtoDAsync", host(to), from, bytes, stream);
  };
  d.MemcpyDtoHAsync = [](void* to, DevicePointer from, std::size_t bytes, Stream stream) {
    return copy("MemcpyDtoHAsync", to, host(from), bytes, stream);
  };
  d.MemcpyDtoDAsync = [](DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
    return copy("MemcpyDtoDAsync", host(to), host(from), bytes, stream);
  };
  d.PointerGetAttribute = [](void* value, int attribute, DevicePointer pointer) {
    const auto next = blocks.upper_bound(host(pointer));
    const bool known =
        next != blocks.begin() && host(pointer) < static_cast<char*>(std::prev(next)->first) + std::prev(next)->second;
    const int answer = attribute == 2 ? 2 : 0;  // device memory, of device 0
    if (known) std::memcpy(value, &answer, sizeof answer);
    return known ? note("PointerGetAttribute") : kInvalidValue;
  };
  d.MemsetD8Async = [](DevicePointer to, unsigned char value, std::size_t count, Stream stream) {
    return enqueue(stream, note("MemsetD8Async", std::to_string(count)), [=] { std::memset(host(to), value, count); });
  };
}

void fill_kernels(Driver& d) {
  d.ModuleLoadData = [](Module* module, const void* image) {
    *module = nullptr;
    const Result error = note("ModuleLoadData");
    return gpu->refused.contains(static_cast<const char*>(image)) ? kInvalidImage : error;
  };
  d.ModuleUnload = [](Module) { return 0; };
  d.ModuleGetFunction = [](Function* function, Module, const char* name) {
    *function = *functions.insert(new FunctionHandle_{name}).first;
    return 0;
  };
  d.FuncGetAttribute = [](int* value, int attribute, Function) {
    return *value = attribute == 0 ? 1024 : 40, note("FuncGetAttribute");
  };
  d.LaunchKernel = [](Function function, unsigned x, unsigned y, unsigned, unsigned, unsigned, unsigned, unsigned,
                      Stream stream, void** parameters, void**) { return launch(function, x, y, stream, parameters); };
}

void fill_streams(Driver& d) {
  d.StreamCreate = [](Stream* stream, unsigned) { return *stream = nullptr, 0; };
  d.StreamDestroy = [](Stream) { return 0; };
  d.StreamSynchronize = [](Stream stream) { return gpu->streams.insert(stream), note("StreamSynchronize"); };
  d.StreamGetCtx = [](Stream, Context* context) { return *context = gpu->context_of_streams, note("StreamGetCtx"); };
  d.StreamBeginCapture = [](Stream stream, int) {
    gpu->streams.insert(stream);
    return recording = new GraphHandle_, note("StreamBeginCapture");
  };
  d.StreamEndCapture = [](Stream, Graph* graph) {
    const Result error = note("StreamEndCapture");
    if (error != 0) delete std::exchange(recording, nullptr);
    *graph = std::exchange(recording, nullptr);
    return error;
  };
  // A graph made ready is a copy of it.
  d.GraphInstantiate = [](GraphExec* exec, Graph graph, unsigned long long) {
    const Result error = note("GraphInstantiate");
    if (error == 0) *exec = reinterpret_cast<GraphExec>(new GraphHandle_(*graph));
    return error;
  };
  d.GraphLaunch = [](GraphExec exec, Stream stream) {
    gpu->streams.insert(stream);
    const Result error = note("GraphLaunch");
    if (error == 0) {
      for (const auto& node : reinterpret_cast<Graph>(exec)->nodes) node();
    }
    return error;
  };
  d.GraphExecDestroy = [](GraphExec exec) { return delete reinterpret_cast<Graph>(exec), 0; };
  d.GraphDestroy = [](Graph graph) { return delete graph, 0; };
  d.EventCreate = [](Event* event, unsigned) { return *event = reinterpret_cast<Event>(&gpu), 0; };
  d.EventDestroy = [](Event) { return 0; };
  d.EventRecord = [](Event, Stream stream) { return gpu->streams.insert(stream), note("EventRecord"); };
  d.EventSynchronize = [](Event) { return note("EventSynchronize"); };
  d.EventElapsedTime = [](float* milliseconds, Event, Event) { return *milliseconds = 1, 0; };
}

}  // namespace

FakeGpu::FakeGpu() { gpu = this; }

FakeGpu::~FakeGpu() {
  gpu = nullptr;
  for (FunctionHandle_* function : std::exchange(functions, {})) delete function;
}

Platform FakeGpu::platform() const {
  Driver driver;
  fill_device(driver);
  fill_memory(driver);
  fill_kernels(driver);
  fill_streams(driver);
  const auto compile = [](const std::string& text, std::span<const std::string>, int) {
    ++gpu->compilations;
    return CacheEntry{gpu->code, text, ""};
  };
  return {"cuda", driver, {"fake compiler", compile}, [](const MatrixProductCall&, Stream) { note("multiply"); }};
}

std::vector<std::string> FakeGpu::take_calls() { return std::exchange(calls, {}); }

}  // namespace moxie::cuda
