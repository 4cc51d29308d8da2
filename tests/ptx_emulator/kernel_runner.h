#pragma once
// Runs PTX in tests: one kernel on arrays.
#include <string>
#include <vector>

#include "tests/ptx_emulator/grid.h"
#include "tests/ptx_emulator/module.h"

namespace moxie::ptx {

/// A module with the kernel `k`, of which the parameters are `addresses` (64 bits each).
std::string kernel_text(const std::string& body, std::size_t parameters, const std::string& before = {});

struct Shape {
  Extent grid = {}, block = {};
  BlockOrder order = BlockOrder::ascending;
};

/// Memory of the device with the values of a vector.
template <class T>
class Array {
 public:
  Array(DeviceMemory& memory, const std::vector<T>& values)
      : memory_(memory), address_(memory.allocate(values.size() * sizeof(T))), size_(values.size()) {
    std::copy(values.begin(), values.end(), reinterpret_cast<T*>(address_));
  }
  ~Array() { memory_.release(address_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  std::uint64_t address() const { return address_; }
  std::vector<T> values() const {
    const auto* begin = reinterpret_cast<const T*>(address_);
    return {begin, begin + size_};
  }

 private:
  DeviceMemory& memory_;
  std::uint64_t address_;
  std::size_t size_;
};

/// Runs the kernel `k` of `text`.
void run_kernel(const std::string& text, DeviceMemory& memory, const std::vector<std::uint64_t>& addresses,
                const Shape& shape = {});
/// What the launch fails with; empty if it does not.
std::string fault_of(const std::string& body, const Shape& shape, const std::string& before = {});

}  // namespace moxie::ptx
