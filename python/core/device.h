#pragma once
// DeviceHandle: a device that is opened when it is first needed, and again in a process that was forked.
#include <memory>
#include <string>

#include "runtime/device.h"

namespace moxie::python {

/// Grows by one in every child of a fork, where the threads of devices are gone.
unsigned fork_generation();

/// Holds what was made before a fork: in the child it can neither be used nor destroyed, so it is abandoned.
template <class T>
class ForkAware {
 public:
  ForkAware() = default;
  explicit ForkAware(T value) : value_(std::make_unique<T>(std::move(value))) {}
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;
  ~ForkAware() { abandon_after_fork(); }

  /// The value, or nullptr where there is none in this process.
  T* get() {
    abandon_after_fork();
    return value_.get();
  }
  T& set(T value) {
    abandon_after_fork();
    value_ = std::make_unique<T>(std::move(value));
    generation_ = fork_generation();
    return *value_;
  }

 private:
  void abandon_after_fork() {
    if (generation_ == fork_generation()) return;
    (void)value_.release();
    generation_ = fork_generation();
  }

  std::unique_ptr<T> value_;
  unsigned generation_ = fork_generation();
};

/// Used with the GIL.
class DeviceHandle {
 public:
  /// Throws DeviceError for an unknown name; the device itself is opened later.
  DeviceHandle(std::string name, DeviceOptions options);
  const std::string& name() const { return name_; }
  int threads() const { return options_.threads; }
  /// Throws DeviceError where this machine has no such device.
  std::shared_ptr<Device> open();

 private:
  std::string name_;
  DeviceOptions options_;
  ForkAware<std::shared_ptr<Device>> device_;
};

}  // namespace moxie::python
