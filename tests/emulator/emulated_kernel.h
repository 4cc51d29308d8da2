#pragma once
// Kernels of tests on the emulated device, through the table of the driver as the runtime uses it.
#include <string>
#include <vector>

#include "runtime/cuda/platform.h"

/// Device memory with the values of `T`.
template <class T>
class DeviceArray;

/// The platform of all tests in a program.
const moxie::cuda::Platform& emulated();

struct Shape {
  unsigned blocks = 1, threads = 32, shared_bytes = 0;
  unsigned block_rows = 1;
};

/// A module with the one kernel `f`.
class EmulatedKernel {
 public:
  explicit EmulatedKernel(const std::string& text);
  ~EmulatedKernel();
  EmulatedKernel(const EmulatedKernel&) = delete;
  EmulatedKernel& operator=(const EmulatedKernel&) = delete;

  /// The driver's text where it fails, nothing where it succeeds.
  template <class... A>
  std::string operator()(Shape shape, const A&... arguments) const {
    std::vector<void*> parameters = {const_cast<void*>(static_cast<const void*>(&parameter(arguments)))...};
    return launch(shape, parameters.data());
  }
  std::string launch(Shape shape, void** parameters, moxie::cuda::Stream stream = nullptr) const;

 private:
  template <class T>
  static const T& parameter(const T& value) {
    return value;
  }
  template <class T>
  static const moxie::cuda::DevicePointer& parameter(const DeviceArray<T>& array) {
    return array.pointer();
  }

  moxie::cuda::Module module_ = nullptr;
  moxie::cuda::Function function_ = nullptr;
};

/// What the driver says of a result; nothing of success.
std::string message(moxie::cuda::Result result);

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : count_(values.size()) {
    emulated().driver.MemAlloc(&pointer_, count_ * sizeof(T));
    emulated().driver.MemcpyHtoDAsync(pointer_, values.data(), count_ * sizeof(T), nullptr);
  }
  ~DeviceArray() { emulated().driver.MemFree(pointer_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  const moxie::cuda::DevicePointer& pointer() const { return pointer_; }
  std::vector<T> values() const {
    std::vector<T> result(count_);
    emulated().driver.MemcpyDtoHAsync(result.data(), pointer_, count_ * sizeof(T), nullptr);
    return result;
  }

 private:
  std::size_t count_;
  moxie::cuda::DevicePointer pointer_ = 0;
};
