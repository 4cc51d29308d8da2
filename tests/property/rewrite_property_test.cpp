// No rewrite pass changes a value or a gradient of a random Program.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/passes.h"
#include "tests/property/check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

constexpr double kTolerance = 1e-9;

std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

Finding same_values(const Reference& want, const Program& rewritten, const DimValues& dims, std::string_view after) {
  const auto finding = difference(want.program, evaluate(rewritten, dims, want.inputs), want.values, kTolerance);
  return finding ? Finding(fmt::format("after {}: {}\n{}", after, *finding, print(rewritten))) : finding;
}

/// Every pass by itself on the program as it was written.
Finding each_alone(const Reference& want, const DimValues& dims) {
  for (const Pass& pass : passes()) {
    const Program rewritten = pass.run(want.program);
    verify(rewritten);
    if (auto finding = same_values(want, rewritten, dims, fmt::format("{} alone", pass.name))) return finding;
  }
  return std::nullopt;
}

Finding all_together(const Reference& want, const DimValues& dims) {
  Finding finding;
  std::optional<Program> before = want.program;
  optimise(want.program, [&](const Pass& pass, const Program& rewritten) {
    if (!finding && rewritten != *before)
      finding = same_values(want, rewritten, dims, fmt::format("{} in its turn", pass.name));
    before = rewritten;
  });
  return finding;
}

}  // namespace

TEST_CASE("every pass alone keeps values") {
  check_property(250, [](const Sample& sample) -> Finding {
    const auto want = reference(sample);
    return want ? each_alone(*want, sample.dims) : std::nullopt;
  });
}

TEST_CASE("all passes together keep values") {
  check_property(400, [](const Sample& sample) -> Finding {
    const auto want = reference(sample);
    return want ? all_together(*want, sample.dims) : std::nullopt;
  });
}

TEST_CASE("each pass can be left out") {
  check_property(60, [](const Sample& sample) -> Finding {
    const auto want = reference(sample);
    if (!want) return std::nullopt;
    for (const std::string_view pass : optional_passes()) {
      const std::string without(pass);
      const Program rewritten = optimise(want->program, {}, std::span(&without, 1));
      if (auto finding = same_values(*want, rewritten, sample.dims, "all but " + without)) return finding;
    }
    return std::nullopt;
  });
}

TEST_CASE("all passes together keep the values of gradient programs") {
  check_property(100, [](const Sample& sample) -> Finding {
    const auto want = gradient_reference(sample);
    return want ? all_together(*want, sample.dims) : std::nullopt;
  });
}

TEST_CASE("a rewritten program has the gradients of the original") {
  check_property(60, [](const Sample& sample) -> Finding {
    const auto original = reference(sample);
    const auto want = gradient_reference(sample);
    if (!want) return std::nullopt;
    const Program rewritten = optimise(original->program);
    const Program gradient = differentiate(rewritten, outputs_of(rewritten), {});
    return same_values(*want, gradient, sample.dims, "differentiating the optimised program");
  });
}
