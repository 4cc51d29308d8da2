// A .mox text: whatever parses must print as a text that parses to the same Program.
#include "compiler/program/program.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace moxie;
  fuzz::allow_errors([&] {
    const Program program = parse(fuzz::text_of(data, size), "fuzz");
    fuzz::allow_errors([&] { verify(program); });
    const std::string text = print(program);
    fuzz::require(print(parse(text, "fuzz")) == text);
  });
  return 0;
}
