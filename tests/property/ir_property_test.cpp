// Random Programs print, parse and print again.
#include <doctest/doctest.h>

#include "tests/property/check.h"
#include "tests/property/random_expr.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// Dims that took their values leave index values without an index.
Program with_plain_bodies(Program program) {
  for (Definition& definition : program.definitions) definition.body = test::with_plain_numbers(definition.body);
  return program;
}

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
  check_property(300, [](const Sample& sample) {
    return round_trip(with_plain_bodies(specialise(sample.program, static_dims(sample))));
  });
}
