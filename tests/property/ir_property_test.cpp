// Random Programs print, parse and print again.
#include <doctest/doctest.h>

#include "compiler/diff/differentiate.h"
#include "tests/property/check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

Finding round_trip(const Program& program) {
  const std::string text = print(program);
  Program parsed = parse(text);
  for (Definition& definition : parsed.definitions) definition.line = 0;
  if (print(parsed) != text) return "printed again: " + print(parsed);
  parsed.name = program.name;
  return parsed == program ? Finding() : Finding("the parsed program prints the same text but is another one");
}

}  // namespace

TEST_CASE("random programs verify and round-trip through text") {
  check_property(800, [](const Sample& sample) -> Finding {
    verify(sample.program);
    return round_trip(sample.program);
  });
}

TEST_CASE("specialised random programs round-trip through text") {
  check_property(300, [](const Sample& sample) { return round_trip(specialise(sample.program, static_dims(sample))); });
}
