#pragma once
// The devices of the driver, equal ones that share their memory, with all that programs make on them. What is made in
// the context of one is not for another. What a real driver leaves undefined, or lets pass where nobody looks at the
// result, is a misuse: it is printed, and the process ends with kMisuseExitCode.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "tests/ptx_emulator/device_memory.h"
#include "tests/ptx_emulator/driver/streams.h"
#include "tests/ptx_emulator/fault.h"
#include "tests/ptx_emulator/grid.h"
#include "tests/ptx_emulator/module.h"

namespace moxie::ptx {

constexpr int kMisuseExitCode = 70;

/// How many devices there are: PTX_EMULATOR_GPUS, or one.
int device_count();
/// The device whose context the calling thread is in; -1 for none.
int current_device();

/// Objects behind the handles of the driver's users.
template <class T>
class Handles {
 public:
  explicit Handles(const char* kind) : kind_(kind) {}
  void* add(std::shared_ptr<T> object) {
    void* handle = object.get();
    objects_[handle] = std::move(object);
    makers_[handle] = current_device();
    return handle;
  }
  const std::shared_ptr<T>& get(const void* handle) const {
    const auto object = objects_.find(handle);
    if (object == objects_.end()) throw Fault(Reason::invalid_handle, "no " + kind_);
    if (makers_.at(handle) != current_device())
      throw Fault(Reason::invalid_handle, "a " + kind_ + " of device " + std::to_string(makers_.at(handle)) +
                                              " in the context of device " + std::to_string(current_device()));
    return object->second;
  }
  std::shared_ptr<T> remove(const void* handle) {
    std::shared_ptr<T> object = get(handle);
    objects_.erase(handle);
    makers_.erase(handle);
    return object;
  }
  /// "2 of kind stream; " for a message; empty where there are none.
  std::string describe() const {
    return objects_.empty() ? "" : std::to_string(objects_.size()) + " of kind " + kind_ + "; ";
  }
  void clear() {
    objects_.clear();
    makers_.clear();
  }
  template <class F>
  void remove_if(const F& condition) {
    std::erase_if(objects_, [&](const auto& entry) { return condition(*entry.second); });
  }
  auto begin() const { return objects_.begin(); }
  auto end() const { return objects_.end(); }

 private:
  std::string kind_;
  std::map<const void*, std::shared_ptr<T>> objects_;
  std::map<const void*, int> makers_;  // the devices in whose contexts they were made
};

struct LoadedFunction {
  std::shared_ptr<Module> module;  // gone when it is unloaded
  const Kernel* kernel = nullptr;
  bool is_loaded = true;
};

struct Pinned {
  std::unique_ptr<std::byte[]> memory;
  std::uint64_t bytes = 0;
};

class Device {
 public:
  Device();
  ~Device();

  std::recursive_mutex mutex;
  DeviceMemory memory;
  Handles<Module> modules{"module"};
  Handles<LoadedFunction> functions{"function"};
  Handles<Stream> streams{"stream"};
  Handles<Event> events{"event"};
  Handles<std::vector<Work>> graphs{"graph"};
  Handles<std::vector<Work>> executables{"executable graph"};
  std::map<const void*, Pinned> pinned;  // page-locked memory of the host, by its address

  /// Throws Fault(invalid_context), a misuse, where the calling thread has no context.
  void need_context(const char* call);
  void set_current(int number);  // -1 for none
  void retain_context() { ++retained_; }
  /// What is left of the context's things when it goes is a misuse. A device that was lost is there again.
  void release_context();
  bool is_pinned(const void* host, std::uint64_t bytes) const;
  void enqueue(Stream& stream, Work work);
  void drain(Stream& stream);
  void drain_all();
  void launch(const std::shared_ptr<LoadedFunction>& function, Extent grid, Extent block,
              std::vector<std::byte> parameters);
  void misuse(const std::string& what);

  /// After an error that lasts the device is lost to the process, and with it all that was enqueued.
  void lose(Reason reason);
  Reason lost = Reason::none;
  std::string last_error;

 private:
  std::string describe_things() const;
  void clear();

  BlockOrder order_;
  int retained_ = 0;  // times that primary contexts were
  std::uint64_t misuses_ = 0;
};

Device& device();
/// Whether the device is lost to a process after this error.
bool is_lasting(Reason reason);
/// For the other libraries of the emulator.
void enqueue_on_stream(void* stream, std::function<void()> run);
std::byte* device_range(std::uint64_t address, std::uint64_t bytes, const char* purpose);

}  // namespace moxie::ptx
