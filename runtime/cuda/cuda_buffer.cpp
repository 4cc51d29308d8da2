#include "runtime/cuda/cuda_buffer.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie::cuda {
namespace {

constexpr unsigned kNoTiming = 2;  // CU_EVENT_DISABLE_TIMING

}  // namespace

CudaBuffer::CudaBuffer(std::shared_ptr<Gpu> gpu, const TensorView& view)
    : gpu_(std::move(gpu)), given_(view), owner_(view.owner), size_(bytes_of(view)), device_is_current_(true) {}

/// Waits for copies from and to its host memory, and for runs with memory that goes with its last owner. The thread may
/// be another one than that of the last call.
CudaBuffer::~CudaBuffer() {
  const Driver& driver = gpu_->driver();
  const Gpu::Turn turn = gpu_->last_turn();
  const std::uint64_t last_use = owner_ ? std::max(used_ticket_, fetch_ticket_) : fetch_ticket_;
  if (last_use > gpu_->finished_ticket()) gpu_->settle();
  for (Slot& slot : slots_) {
    if (in_flight(slot)) driver.EventSynchronize(slot.copied);
    if (slot.copied != nullptr) driver.EventDestroy(slot.copied);
  }
}

void CudaBuffer::resize(std::size_t bytes) {
  const Gpu::Turn turn = gpu_->turn();
  if (given_) {
    if (bytes != size_) throw InternalError("memory of the caller was given another size");
    if (bytes > 0)
      gpu_->check(gpu_->driver().MemsetD8Async(address(), 0, bytes, gpu_->stream()), "clearing memory of the caller");
    host_copy_ = HostCopy::stale;
    return note_use();
  }
  if (device_.size() < bytes || device_.address() == 0)
    device_ = DeviceMemory(gpu_, bytes);
  else
    device_.zero(bytes);
  size_ = bytes;
  device_is_current_ = true;
  host_copy_ = HostCopy::stale;
}

void CudaBuffer::prefetch() {
  if (host_copy_ != HostCopy::stale) return;
  const Gpu::Turn turn = gpu_->turn();
  make_room(slot());
  const Result error = gpu_->driver().MemcpyDtoHAsync(slot().memory.data(), address(), size_, gpu_->stream());
  gpu_->check(error, "copying from the device");
  fetch_ticket_ = gpu_->next_ticket();
  host_copy_ = HostCopy::coming;
}

std::span<const std::byte> CudaBuffer::read() {
  const Gpu::Turn turn = gpu_->turn();
  prefetch();
  if (fetch_ticket_ > gpu_->finished_ticket()) gpu_->synchronize();
  host_copy_ = HostCopy::current;
  return {slot().memory.data(), size_};
}

std::span<std::byte> CudaBuffer::write() {
  const Gpu::Turn turn = gpu_->turn();
  if (fetch_ticket_ > gpu_->finished_ticket()) gpu_->synchronize();
  if (in_flight(slot())) current_ = 1 - current_;
  await_copy(slot());
  make_room(slot());
  host_copy_ = HostCopy::current;
  device_is_current_ = false;
  return {slot().memory.data(), size_};
}

void* CudaBuffer::kernel_input() {
  const Gpu::Turn turn = gpu_->turn();
  if (!device_is_current_ && size_ > 0) {
    const Driver& driver = gpu_->driver();
    if (slot().copied == nullptr) gpu_->check(driver.EventCreate(&slot().copied, kNoTiming), "making an event");
    gpu_->check(driver.MemcpyHtoDAsync(address(), slot().memory.data(), size_, gpu_->stream()),
                "copying to the device");
    slot().ticket = gpu_->next_ticket();
    gpu_->check(driver.EventRecord(slot().copied, gpu_->stream()), "recording an event");
  }
  device_is_current_ = true;
  note_use();
  return reinterpret_cast<void*>(address());
}

/// The caller may change its memory between any two runs.
void CudaBuffer::note_use() {
  if (!given_) return;
  const Gpu::Turn turn = gpu_->turn();
  used_ticket_ = gpu_->next_ticket();
  host_copy_ = HostCopy::stale;
}

void CudaBuffer::copy_from(const TensorView& view) {
  if (is_on_host(view)) return Buffer::copy_from(view);
  copy_on_device(address(), reinterpret_cast<DevicePointer>(view.data), view);
  host_copy_ = HostCopy::stale;
  device_is_current_ = true;
}

void CudaBuffer::copy_to(const TensorView& view) {
  if (is_on_host(view)) return Buffer::copy_to(view);
  copy_on_device(reinterpret_cast<DevicePointer>(view.data), address(), view);
}

void CudaBuffer::copy_on_device(DevicePointer to, DevicePointer from, const TensorView& view) {
  if (size_ == 0) return;
  const Gpu::Turn turn = gpu_->turn();
  gpu_->check(gpu_->driver().MemcpyDtoDAsync(to, from, size_, gpu_->stream()), "copying memory of the caller");
  owner_ = view.owner;
  used_ticket_ = gpu_->next_ticket();
}

void* CudaBuffer::kernel_output() {
  note_use();
  host_copy_ = HostCopy::stale;
  device_is_current_ = true;
  return reinterpret_cast<void*>(address());
}

/// Host memory that is too small goes when no copy uses it any more.
void CudaBuffer::make_room(Slot& slot) const {
  if (slot.memory.data() != nullptr && slot.memory.size() >= size_) return;
  if (fetch_ticket_ > gpu_->finished_ticket()) gpu_->synchronize();
  await_copy(slot);
  slot.memory = PinnedMemory(gpu_, size_);
}

void CudaBuffer::await_copy(Slot& slot) const {
  if (!in_flight(slot)) return;
  gpu_->check(gpu_->driver().EventSynchronize(slot.copied), "waiting for a copy to the device");
  slot.ticket = 0;
}

}  // namespace moxie::cuda
