#include "runtime/cuda/emulator/emulated_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cuda/emulator/device_attributes.h"
#include "runtime/cuda/emulator/grid_runner.h"
#include "runtime/cuda/emulator/module.h"
#include "runtime/cuda/emulator/registry.h"
#include "runtime/cuda/emulator/streams.h"

namespace moxie::cuda::emulator {
namespace {

struct KernelFunction {
  std::shared_ptr<LoadedModule> module;
  const moxie_emulation::EntryPoint* entry;
  std::string name;
};

struct Device {
  std::recursive_mutex mutex;  // a step of a graph may enqueue
  DeviceMemory memory;
  GridRunner runner{memory};
  StreamState default_stream;
  Registry<Module, LoadedModule> modules{"module"};
  Registry<Function, KernelFunction> functions{"function"};
  Registry<Stream, StreamState> streams{"stream"};
  Registry<Event, EventState> events{"event"};
  Registry<Graph, Recording> graphs{"graph"};
  Registry<GraphExec, Recording> executables{"executable graph"};

  StreamState& stream(Stream handle) { return handle == nullptr ? default_stream : streams[handle]; }
};

Device& device() {
  static Device instance;
  return instance;
}

// ---- The functions of the table. Those that fail throw DriverError. ----

void init(unsigned) {}

void driver_get_version(int* version) { *version = kDriverVersion; }

void device_get_count(int* count) { *count = 1; }

void device_get(DeviceNumber* number, int ordinal) {
  if (ordinal != 0) throw DriverError(kInvalidDevice, fmt::format("device {} of 1", ordinal));
  *number = 0;
}

void device_get_name(char* name, int size, DeviceNumber) {
  if (size > 0) *fmt::format_to_n(name, size - 1, "{}", kDeviceName).out = 0;
}

void device_get_attribute(int* value, int attribute, DeviceNumber) { *value = device_attribute(attribute); }
void device_total_mem(std::size_t* bytes, DeviceNumber) { *bytes = device_memory_bytes(); }
void retain_context(Context* context, DeviceNumber) { *context = reinterpret_cast<Context>(&device()); }
void release_context(DeviceNumber) {}
void set_context(Context) {}

void mem_alloc(DevicePointer* pointer, std::size_t bytes) { *pointer = device().memory.allocate(bytes); }
void mem_free(DevicePointer pointer) { device().memory.release(pointer); }

void mem_alloc_host(void** pointer, std::size_t bytes) {
  *pointer = std::malloc(bytes);
  if (*pointer == nullptr) throw DriverError(kOutOfMemory, fmt::format("no {} bytes of host memory", bytes));
}
void mem_free_host(void* pointer) { std::free(pointer); }

void copy(Stream stream, void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) enqueue(stream, [=] { std::memcpy(to, from, bytes); });
}
void copy_to_device(DevicePointer to, const void* from, std::size_t bytes, Stream stream) {
  copy(stream, device_range(to, bytes, "copy to the device"), from, bytes);
}
void copy_to_host(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  copy(stream, to, device_range(from, bytes, "copy from the device"), bytes);
}
void copy_on_device(DevicePointer to, DevicePointer from, std::size_t bytes, Stream stream) {
  copy(stream, device_range(to, bytes, "copy within the device"), device_range(from, bytes, "copy within the device"),
       bytes);
}
void set_bytes(DevicePointer to, unsigned char value, std::size_t count, Stream stream) {
  std::byte* begin = device_range(to, count, "memset");
  enqueue(stream, [=] { std::fill_n(begin, count, std::byte{value}); });
}

/// CU_POINTER_ATTRIBUTE_MEMORY_TYPE and _DEVICE_ORDINAL: all that is known is memory of the one device.
void pointer_get_attribute(void* value, int attribute, DevicePointer pointer) {
  constexpr int kMemoryType = 2, kDeviceOrdinal = 9;
  constexpr unsigned kMemoryOfDevice = 2;  // CU_MEMORYTYPE_DEVICE
  device_range(pointer, 1, "asking for what a pointer is");
  if (attribute != kMemoryType && attribute != kDeviceOrdinal)
    throw DriverError(kInvalidValue, fmt::format("attribute {} of a pointer", attribute));
  const unsigned known = attribute == kMemoryType ? kMemoryOfDevice : 0;
  std::memcpy(value, &known, sizeof known);
}

void module_load_data(Module* module, const void* image) {
  *module = device().modules.add(LoadedModule(image, device().runner.machine()));
}
void module_unload(Module module) { device().modules.remove(module); }

void module_get_function(Function* function, Module module, const char* name) {
  const auto& loaded = device().modules.get(module);
  *function = device().functions.add({loaded, &loaded->entry(name), name});
}

void func_get_attribute(int* value, int attribute, Function function) {
  device().functions.get(function);
  *value = function_attribute(attribute);
}

/// A launch with copies of its arguments, which outlive the call where the launch is captured.
class KernelStep {
 public:
  KernelStep(std::shared_ptr<KernelFunction> function, const LaunchShape& shape, void** parameters)
      : function_(std::move(function)), shape_(shape) {
    const auto& entry = *function_->entry;
    for (unsigned k = 0; k < entry.parameters; ++k) {
      const auto* bytes = static_cast<const std::byte*>(parameters[k]);
      values_.emplace_back(bytes, bytes + entry.parameter_bytes[k]);
    }
  }
  void operator()() {
    std::vector<void*> pointers;
    for (auto& value : values_) pointers.push_back(value.data());
    device().runner.launch(function_->name, *function_->entry, shape_, pointers.data());
  }

 private:
  std::shared_ptr<KernelFunction> function_;
  LaunchShape shape_;
  std::vector<std::vector<std::byte>> values_;
};

void launch_kernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** parameters,
                   void** extra) {
  const auto& kernel = device().functions.get(function);
  if (extra != nullptr || (parameters == nullptr && kernel->entry->parameters > 0))
    throw DriverError(kInvalidValue, "arguments are passed one by one here");
  enqueue(stream,
          KernelStep(kernel, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes}, parameters));
}

void stream_create(Stream* stream, unsigned) { *stream = device().streams.add({}); }
void stream_destroy(Stream stream) { device().streams.remove(stream); }
void stream_synchronize(Stream stream) { device().stream(stream).synchronize(); }
void stream_get_context(Stream stream, Context* context) {
  device().stream(stream);  // it must be known
  *context = reinterpret_cast<Context>(&device());
}
void stream_wait_event(Stream stream, Event event, unsigned) { device().events[event].hold(device().stream(stream)); }
void stream_begin_capture(Stream stream, int) {
  if (stream == nullptr) throw DriverError(kCaptureUnsupported, "the default stream cannot be captured");
  device().stream(stream).begin_capture();
}
void stream_end_capture(Stream stream, Graph* graph) {
  *graph = device().graphs.add(device().stream(stream).end_capture());
}

void graph_instantiate(GraphExec* exec, Graph graph, unsigned long long) {
  *exec = device().executables.add(device().graphs[graph]);
}
void graph_launch(GraphExec exec, Stream stream) {
  for (const Step& step : device().executables.get(exec)->steps) device().stream(stream).enqueue(step);
}
void graph_exec_destroy(GraphExec exec) { device().executables.remove(exec); }
void graph_destroy(Graph graph) { device().graphs.remove(graph); }

void event_create(Event* event, unsigned) { *event = device().events.add({}); }
void event_destroy(Event event) { device().events.remove(event); }
void event_record(Event event, Stream stream) { device().events[event].record(device().stream(stream)); }
void event_synchronize(Event event) { device().events[event].synchronize(); }
void event_elapsed_time(float* milliseconds, Event start, Event end) {
  *milliseconds = device().events[start].milliseconds_until(device().events[end]);
}

// ---- Results ----

/// What went wrong last in this thread of the host.
struct LastError {
  Result code = 0;
  std::string text;
};
thread_local LastError last_error;

Result fail(Result code, const char* text) {
  last_error = {code, text};
  return code;
}

template <auto function>
struct Guarded;

/// `function` as the driver offers it: with a result in place of exceptions.
template <class... A, void (*function)(A...)>
struct Guarded<function> {
  static Result call(A... arguments) {
    try {
      const std::scoped_lock lock(device().mutex);
      function(arguments...);
      return 0;
    } catch (const DriverError& error) {
      return fail(error.code, error.what());
    } catch (const std::bad_alloc&) {
      return fail(kOutOfMemory, "the host has no memory left");
    } catch (const std::exception& error) {
      return fail(kOperatingSystem, error.what());
    }
  }
};

Result get_error_name(Result code, const char** name) {
  *name = error_name(code);
  return 0;
}

Result get_error_string(Result code, const char** text) {
  *text = last_error.code == code && code != 0 ? last_error.text.c_str() : error_name(code);
  return 0;
}

}  // namespace

void enqueue(Stream stream, std::function<void()> step) {
  const std::scoped_lock lock(device().mutex);
  device().stream(stream).enqueue(std::move(step));
}

std::byte* device_range(DevicePointer pointer, std::size_t bytes, const char* what) {
  const std::scoped_lock lock(device().mutex);
  return device().memory.range(pointer, bytes, what);
}

Driver emulated_driver() {
  return {
      .Init = Guarded<&init>::call,
      .DriverGetVersion = Guarded<&driver_get_version>::call,
      .GetErrorName = get_error_name,
      .GetErrorString = get_error_string,
      .DeviceGetCount = Guarded<&device_get_count>::call,
      .DeviceGet = Guarded<&device_get>::call,
      .DeviceGetName = Guarded<&device_get_name>::call,
      .DeviceGetAttribute = Guarded<&device_get_attribute>::call,
      .DeviceTotalMem = Guarded<&device_total_mem>::call,
      .DevicePrimaryCtxRetain = Guarded<&retain_context>::call,
      .DevicePrimaryCtxRelease = Guarded<&release_context>::call,
      .CtxSetCurrent = Guarded<&set_context>::call,
      .MemAlloc = Guarded<&mem_alloc>::call,
      .MemFree = Guarded<&mem_free>::call,
      .MemAllocHost = Guarded<&mem_alloc_host>::call,
      .MemFreeHost = Guarded<&mem_free_host>::call,
      .MemcpyHtoDAsync = Guarded<&copy_to_device>::call,
      .MemcpyDtoHAsync = Guarded<&copy_to_host>::call,
      .MemcpyDtoDAsync = Guarded<&copy_on_device>::call,
      .MemsetD8Async = Guarded<&set_bytes>::call,
      .PointerGetAttribute = Guarded<&pointer_get_attribute>::call,
      .ModuleLoadData = Guarded<&module_load_data>::call,
      .ModuleUnload = Guarded<&module_unload>::call,
      .ModuleGetFunction = Guarded<&module_get_function>::call,
      .FuncGetAttribute = Guarded<&func_get_attribute>::call,
      .LaunchKernel = Guarded<&launch_kernel>::call,
      .StreamCreate = Guarded<&stream_create>::call,
      .StreamDestroy = Guarded<&stream_destroy>::call,
      .StreamSynchronize = Guarded<&stream_synchronize>::call,
      .StreamGetCtx = Guarded<&stream_get_context>::call,
      .StreamWaitEvent = Guarded<&stream_wait_event>::call,
      .StreamBeginCapture = Guarded<&stream_begin_capture>::call,
      .StreamEndCapture = Guarded<&stream_end_capture>::call,
      .GraphInstantiate = Guarded<&graph_instantiate>::call,
      .GraphLaunch = Guarded<&graph_launch>::call,
      .GraphExecDestroy = Guarded<&graph_exec_destroy>::call,
      .GraphDestroy = Guarded<&graph_destroy>::call,
      .EventCreate = Guarded<&event_create>::call,
      .EventDestroy = Guarded<&event_destroy>::call,
      .EventRecord = Guarded<&event_record>::call,
      .EventSynchronize = Guarded<&event_synchronize>::call,
      .EventElapsedTime = Guarded<&event_elapsed_time>::call,
  };
}

}  // namespace moxie::cuda::emulator
