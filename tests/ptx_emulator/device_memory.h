#pragma once
// The memory of the device: memory of the host that is known by where it begins and ends.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace moxie::ptx {

class DeviceMemory {
 public:
  struct Range {
    std::uint64_t begin = 0, end = 0;
    bool holds(std::uint64_t address, std::uint64_t bytes) const {
      return address >= begin && address <= end && bytes <= end - address;
    }
  };

  explicit DeviceMemory(std::uint64_t capacity) : capacity_(capacity) {}
  /// Full of garbage: every value a NaN. Throws Fault(out_of_memory).
  std::uint64_t allocate(std::uint64_t bytes);
  /// Throws Fault(invalid_value) for what is no beginning of an allocation.
  void release(std::uint64_t address);
  void clear();
  /// The allocation that `address` lies in or ends; empty if there is none.
  Range find(std::uint64_t address) const;
  /// The bytes from `address` on. Throws Fault(invalid_value) where they are not in one allocation.
  std::byte* range(std::uint64_t address, std::uint64_t bytes, const char* purpose) const;

  std::size_t allocations() const { return blocks_.size(); }
  std::uint64_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  struct Block {
    std::unique_ptr<void, Free> memory;
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, Block> blocks_;
  std::uint64_t capacity_, used_ = 0;
};

}  // namespace moxie::ptx
