#include "runtime/host_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "compiler/support/error.h"

using namespace moxie;

TEST_CASE("memory is zeroed and begins on a cache line, large blocks on a large page") {
  constexpr std::size_t kMebibyte = std::size_t{1} << 20;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, 5 * kMebibyte + 1}) {
    CAPTURE(bytes);
    for (int again = 0; again < 2; ++again) {  // the second time, perhaps where the first one was
      const HostMemory memory = allocate_zeros(bytes);
      const std::size_t alignment = bytes > kMebibyte ? 2 * kMebibyte : 64;
      CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % alignment == 0);
      CHECK(std::all_of(memory.get(), memory.get() + bytes, [](std::byte b) { return b == std::byte{0}; }));
      std::fill_n(memory.get(), bytes, std::byte{7});
    }
  }
}

TEST_CASE("more than there is is refused") { CHECK_THROWS_AS(allocate_zeros(std::size_t{1} << 50), DeviceError); }
