#pragma once
// CudaBuffer: a tensor in device memory, with page-locked memory of the host beside it for what the host reads or
// writes.
#include <array>
#include <cstdint>
#include <memory>

#include "runtime/buffer.h"
#include "runtime/cuda/memory.h"

namespace moxie::cuda {

class CudaBuffer : public Buffer {
 public:
  explicit CudaBuffer(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void resize(std::size_t bytes) override;
  std::span<const std::byte> read() override;
  void prefetch() override;
  std::span<std::byte> write() override;
  void* kernel_input() override;
  void* kernel_output() override;
  DevicePointer address() const { return device_.address(); }

 private:
  /// Whether the current slot has the values, or will when what is enqueued is done.
  enum class HostCopy : std::uint8_t { stale, coming, current };
  /// Host memory, and the copy to the device that was enqueued from it last.
  struct Slot {
    PinnedMemory memory;
    Event copied = nullptr;
    std::uint64_t ticket = 0;  // 0: none
  };

  Slot& slot() { return slots_[current_]; }
  bool in_flight(const Slot& slot) const { return slot.ticket > gpu_->finished_ticket(); }
  void make_room(Slot& slot) const;
  void await_copy(Slot& slot) const;

  std::shared_ptr<Gpu> gpu_;
  DeviceMemory device_;
  std::array<Slot, 2> slots_;  // the host fills one while the device may still copy from the other
  std::size_t current_ = 0;
  std::size_t size_ = 0;
  std::uint64_t fetch_ticket_ = 0;  // of the last copy to the host
  HostCopy host_copy_ = HostCopy::stale;
  bool device_is_current_ = false;
};

}  // namespace moxie::cuda
