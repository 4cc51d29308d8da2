#include "runtime/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kLargePage = std::size_t{2} << 20;

}  // namespace

HostMemory allocate_zeros(std::size_t bytes) {
  // Kernels that go through many tensors at once would miss the table of small pages at almost every access.
  const bool is_large = bytes >= 2 * kLargePage;
  const std::size_t alignment = is_large ? kLargePage : kCacheLine;
  const std::size_t room = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  HostMemory memory(static_cast<std::byte*>(std::aligned_alloc(alignment, room)));
  if (!memory) throw DeviceError("out of memory: " + std::to_string(room) + " bytes were wanted; use smaller batches");
#ifdef MADV_HUGEPAGE
  if (is_large) madvise(memory.get(), room, MADV_HUGEPAGE);  // a wish: without it all is the same but slower
#endif
  std::memset(memory.get(), 0, room);
  return memory;
}

}  // namespace moxie
