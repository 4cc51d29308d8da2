#include "ops/catalogue.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace {

using namespace moxie;

TEST_CASE("every operation parses, is verified and prints back to itself") {
  CHECK(catalogue().size() > 70);
  for (const Op& op : catalogue()) {
    CAPTURE(op.name);
    const Program program = load_op(op.name);
    CHECK(program.name == op.name);
    CHECK_NOTHROW(verify(program));
    Program copy = parse(print(program));
    copy.name = program.name;
    for (std::size_t k = 0; k < copy.definitions.size(); ++k) copy.definitions[k].line = program.definitions[k].line;
    CHECK(copy == program);
  }
}

TEST_CASE("every operation has a summary, equations, an output, and constants among its inputs") {
  for (const Op& op : catalogue()) {
    CAPTURE(op.name);
    const Program program = load_op(op.name);
    CHECK(op.summary.ends_with('.'));
    CHECK(!op.equations.empty());
    CHECK(std::ranges::any_of(program.definitions, &Definition::output));
    for (const std::string_view constant : op.constants) {
      CAPTURE(constant);
      CHECK(program.find_input(constant) != nullptr);
    }
  }
}

TEST_CASE("an operation is found by its name") {
  const Op* op = find_op("gpn.kl");
  REQUIRE(op);
  CHECK(op->constants == std::vector<std::string_view>{"jitter"});
  CHECK(differentiable_inputs(*op, load_op("gpn.kl")) == std::vector<std::string>{"mu_u", "cov_u", "V", "lambda"});
  CHECK(find_op("gpn.") == nullptr);
}

TEST_CASE("an unknown name is answered with the closest ones") {
  CHECK_THROWS_WITH_AS(load_op("gpn.respons_mean"), doctest::Contains("closest names are gpn.response_mean"),
                       TypeError);
}

}  // namespace
