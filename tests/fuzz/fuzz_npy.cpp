#include "data/npy.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moxie;
  const std::string_view bytes = fuzz::text_of(data, size);
  fuzz::allow_errors([&] {
    const NpyArray array = parse_npy(bytes, "fuzz");
    fuzz::require(array.to<double>().size() == array.size());
    fuzz::require(parse_npy(print_npy(array), "fuzz") == array);
  });
  fuzz::allow_errors([&] {
    const NpyArrays arrays = parse_npz(bytes, "fuzz");
    fuzz::require(parse_npz(print_npz(arrays), "fuzz") == arrays);
  });
  return 0;
}
