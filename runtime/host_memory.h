#pragma once
// Memory of the host for tensors.
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace moxie {

struct FreeHostMemory {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using HostMemory = std::unique_ptr<std::byte, FreeHostMemory>;

/// Zeros, on cache lines of their own; large blocks on large pages, where the system has them. Throws DeviceError if
/// there is no room.
HostMemory allocate_zeros(std::size_t bytes);

}  // namespace moxie
