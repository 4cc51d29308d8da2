#pragma once
// Memory between pages that may not be touched: whatever reads or writes beside it crashes.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>
#include <utility>

namespace moxie::test {

class FencedMemory {
 public:
  /// `size` bytes that end at the fence (`at_end`) or begin at it.
  FencedMemory(std::size_t size, bool at_end) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t room = (size + page - 1) / page * page;
    length_ = room + 2 * page;
    void* all = mmap(nullptr, length_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    all_ = static_cast<std::byte*>(all);
    if (room > 0 && mprotect(all_ + page, room, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    data_ = all_ + page + (at_end ? room - size : 0);
  }
  ~FencedMemory() {
    if (all_) munmap(all_, length_);
  }
  FencedMemory(FencedMemory&& other) noexcept
      : all_(std::exchange(other.all_, nullptr)), data_(other.data_), length_(other.length_) {}
  FencedMemory& operator=(FencedMemory&&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* all_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t length_ = 0;
};

}  // namespace moxie::test
