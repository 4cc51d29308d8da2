#pragma once
// The memory of the emulated device: allocations of host memory, with the shadows of those that kernels use.
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>

#include "codegen_templates/cuda_emu/machine.h"
#include "runtime/cuda/driver.h"

namespace moxie::cuda::emulator {

class DeviceMemory {
 public:
  /// Filled with NaNs. Throws DriverError.
  DevicePointer allocate(std::size_t bytes);
  void release(DevicePointer pointer);
  /// `bytes` from `pointer` on, all in one allocation. Throws DriverError; `what` says who wants them.
  std::byte* range(DevicePointer pointer, std::size_t bytes, const char* what) const;
  /// From `pointer` to the end of its allocation; without data where it points into none.
  moxie_emulation::Region region(DevicePointer pointer);

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Allocation {
    std::unique_ptr<std::byte, Free> data;
    std::size_t bytes = 0;
    std::unique_ptr<moxie_emulation::Shadow, Free> shadow = {};
  };
  using Allocations = std::map<DevicePointer, Allocation>;
  /// Null where `pointer` lies in none.
  template <class Map>
  static auto find(Map& allocations, DevicePointer pointer) -> decltype(&allocations.begin()->second);

  Allocations allocations_;
  std::size_t used_ = 0;
};

/// As much as the host has.
std::size_t device_memory_bytes();

}  // namespace moxie::cuda::emulator
