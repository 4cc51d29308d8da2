#pragma once
// CudaBuffer: a tensor in device memory, its own or the caller's, with page-locked memory of the host beside it for
// what the host reads or writes.
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/buffer.h"
#include "runtime/cuda/memory.h"

namespace moxie::cuda {

/// Bytes that kernels load and store at once, at most: addresses of tensors are multiples of it.
inline constexpr std::size_t kWidestAccess = 16;

class CudaBuffer : public Buffer {
 public:
  explicit CudaBuffer(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  /// The caller's memory, row by row, aligned to kWidestAccess. It is never written from the host, but for zeros.
  CudaBuffer(std::shared_ptr<Gpu> gpu, const TensorView& view);
  ~CudaBuffer() override;
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;

  void resize(std::size_t bytes) override;
  std::span<const std::byte> read() override;
  void prefetch() override;
  std::span<std::byte> write() override;
  /// In memory of the device, these are enqueued; an owner keeps it until they are done.
  void copy_from(const TensorView& view) override;
  void copy_to(const TensorView& view) override;
  void* kernel_input() override;
  void* kernel_output() override;
  DevicePointer address() const { return given_ ? reinterpret_cast<DevicePointer>(given_->data) : device_.address(); }

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

  void note_use();
  void copy_on_device(DevicePointer to, DevicePointer from, const TensorView& view);

  std::shared_ptr<Gpu> gpu_;
  DeviceMemory device_;
  std::optional<TensorView> given_;              // in the place of device_
  std::shared_ptr<const void> owner_ = nullptr;  // of the caller's memory, which is not waited for without one
  std::uint64_t used_ticket_ = 0;                // of what was enqueued last with the caller's memory
  std::array<Slot, 2> slots_;                    // the host fills one while the device may still copy from the other
  std::size_t current_ = 0;
  std::size_t size_ = 0;
  std::uint64_t fetch_ticket_ = 0;  // of the last copy to the host
  HostCopy host_copy_ = HostCopy::stale;
  bool device_is_current_ = false;
};

}  // namespace moxie::cuda
