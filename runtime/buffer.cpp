#include "runtime/buffer.h"

#include <cstring>

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

}  // namespace

std::unique_ptr<Buffer> make_host_buffer() { return std::make_unique<HostBuffer>(); }

}  // namespace moxie
