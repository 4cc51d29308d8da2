#include "runtime/buffer.h"

#include <cstring>
#include <utility>

#include "compiler/support/error.h"
#include "runtime/host_memory.h"

namespace moxie {
namespace {

class HostBuffer : public Buffer {
 public:
  void resize(std::size_t bytes) override {
    if (data_ && bytes <= room_) {
      std::memset(data_.get(), 0, bytes);
    } else {
      data_ = allocate_zeros(bytes);
      room_ = bytes;
    }
    size_ = bytes;
  }
  std::span<const std::byte> read() override { return {data_.get(), size_}; }
  std::span<std::byte> write() override { return {data_.get(), size_}; }
  void* kernel_input() override { return data_.get(); }
  void* kernel_output() override { return data_.get(); }

 private:
  HostMemory data_;
  std::size_t size_ = 0, room_ = 0;
};

/// Kernels of the host take any address at which C++ may have an element, and touch nothing outside of the elements.
class HostView : public Buffer {
 public:
  explicit HostView(TensorView view) : view_(std::move(view)), size_(bytes_of(view_)) {}
  void resize(std::size_t bytes) override {
    if (bytes != size_) throw InternalError("memory of the caller was given another size");
    if (bytes > 0) std::memset(view_.data, 0, bytes);
  }
  std::span<const std::byte> read() override { return {data(), size_}; }
  std::span<std::byte> write() override { return {data(), size_}; }
  void* kernel_input() override { return view_.data; }
  void* kernel_output() override { return view_.data; }

 private:
  std::byte* data() const { return static_cast<std::byte*>(view_.data); }
  TensorView view_;
  std::size_t size_;
};

}  // namespace

void Buffer::copy_from(const TensorView& view) { pack_elements(view, write()); }
void Buffer::copy_to(const TensorView& view) { unpack_elements(read(), view); }

std::unique_ptr<Buffer> make_host_buffer() { return std::make_unique<HostBuffer>(); }

std::unique_ptr<Buffer> make_host_view(const TensorView& view) {
  if (!is_row_major(view) || !is_aligned(view, static_cast<std::size_t>(bytes_of(view.dtype)))) return nullptr;
  return std::make_unique<HostView>(view);
}

}  // namespace moxie
