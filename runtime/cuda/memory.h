#pragma once
// Memory of a Gpu and of the host beside it, with owners.
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/cuda/gpu.h"

namespace moxie::cuda {

/// Zeroed memory of the device.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(std::shared_ptr<Gpu> gpu, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  DevicePointer address() const { return address_; }
  std::size_t size() const { return size_; }
  void zero(std::size_t bytes);

 private:
  std::shared_ptr<Gpu> gpu_;
  DevicePointer address_ = 0;
  std::size_t size_ = 0;
};

/// Page-locked memory of the host, to and from which the device copies by itself. Its owner waits for copies before it
/// lets go.
class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(std::shared_ptr<Gpu> gpu, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&& other) noexcept;

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::shared_ptr<Gpu> gpu_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace moxie::cuda
