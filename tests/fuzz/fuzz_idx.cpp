#include "data/idx.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moxie;
  fuzz::allow_errors([&] {
    const IdxArray array = parse_idx(fuzz::text_of(data, size), "fuzz");
    std::size_t count = 1;
    for (const std::size_t extent : array.shape) count *= extent;
    fuzz::require(count == array.values.size());
  });
  return 0;
}
