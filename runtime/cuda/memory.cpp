#include "runtime/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace moxie::cuda {

DeviceMemory::DeviceMemory(std::shared_ptr<Gpu> gpu, std::size_t bytes)
    : gpu_(std::move(gpu)), address_(gpu_->allocate(bytes)), size_(bytes) {
  zero(bytes);
}

DeviceMemory::~DeviceMemory() {
  if (gpu_) gpu_->release(address_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : gpu_(std::move(other.gpu_)), address_(std::exchange(other.address_, 0)), size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

void DeviceMemory::zero(std::size_t bytes) {
  if (bytes == 0) return;
  const Gpu::Turn turn = gpu_->turn();
  gpu_->check(gpu_->driver().MemsetD8Async(address_, 0, bytes, gpu_->stream()), "clearing memory");
}

PinnedMemory::PinnedMemory(std::shared_ptr<Gpu> gpu, std::size_t bytes) : gpu_(std::move(gpu)), size_(bytes) {
  const std::size_t wanted = std::max<std::size_t>(bytes, 1);
  void* data = nullptr;
  if (const Result error = gpu_->driver().MemAllocHost(&data, wanted); error != 0)
    gpu_->fail(error, fmt::format("allocating {} bytes of page-locked host memory", wanted));
  data_ = static_cast<std::byte*>(data);
  std::memset(data_, 0, bytes);
}

PinnedMemory::~PinnedMemory() {
  if (gpu_) gpu_->driver().MemFreeHost(data_);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : gpu_(std::move(other.gpu_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(gpu_, other.gpu_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace moxie::cuda
