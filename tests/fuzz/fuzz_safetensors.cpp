#include <span>

#include "runtime/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moxie;
  fuzz::allow_errors([&] {
    const TensorFile file = parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    const TensorFile again = parse_safetensors(format_safetensors(file), "fuzz");
    fuzz::require(format_safetensors(again) == format_safetensors(file));  // bytes, since NaN differs from itself
  });
  return 0;
}
