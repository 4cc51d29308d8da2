#include "runtime/buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::size_t kCacheLine = 64;

struct FreeMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class HostBuffer : public Buffer {
 public:
  void resize(std::size_t bytes) override {
    if (!data_ || bytes > room_) {
      const std::size_t room = (std::max<std::size_t>(bytes, 1) + kCacheLine - 1) / kCacheLine * kCacheLine;
      std::unique_ptr<std::byte, FreeMemory> data(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, room)));
      if (!data) throw DeviceError("out of memory: " + std::to_string(room) + " bytes were wanted; use smaller batches");
      data_ = std::move(data);
      room_ = room;
    }
    size_ = bytes;
    std::memset(data_.get(), 0, bytes);
  }
  std::span<const std::byte> read() override { return {data_.get(), size_}; }
  std::span<std::byte> write() override { return {data_.get(), size_}; }
  void* kernel_input() override { return data_.get(); }
  void* kernel_output() override { return data_.get(); }

 private:
  std::unique_ptr<std::byte, FreeMemory> data_;
  std::size_t size_ = 0, room_ = 0;
};

}  // namespace

std::unique_ptr<Buffer> make_host_buffer() { return std::make_unique<HostBuffer>(); }

}  // namespace moxie
