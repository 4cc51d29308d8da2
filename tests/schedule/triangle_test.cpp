// Loops inside lanes over ranges that the lanes move run no longer than some lane needs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/fuse/fuse.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/schedule/cost.h"
#include "compiler/schedule/lower_nest.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

/// `y[i] = sum[j in RANGE](exp(x[i]*x[j]))`, whose elements do not continue each other.
Program triangle(const std::string& range, std::int64_t extent) {
  const std::string text = "dim N\nindex i:N, j:N\ninput x[N]\noutput y[i] = sum[j" + range + "\n";
  return specialise(parse(text), {{"N", extent}});
}

LoweredKernel lowered(const Program& program, const std::string& schedule) {
  const FusedProgram fused = fuse(optimise(program), Products::library, Layouts::row_major);
  return lower(fused, apply(parse_schedule(schedule), plain_nest(fused.program.definitions)));
}

double functions(const LoweredKernel& kernel) {
  const Cost cost = estimate(kernel, {}, default_machine("x86-64-v4"));
  return cost.operations.at(static_cast<std::size_t>(OperationClass::Function));
}

}  // namespace

TEST_CASE("half of a triangle is left out, whichever index runs over lanes") {
  constexpr std::int64_t kExtent = 640;
  const double square = functions(lowered(triangle("](exp(x[i]*x[j]))", kExtent), "lanes(i)"));
  for (const char* range :
       {" in 0..i+1](exp(x[i]*x[j]))", " in i..N](exp(x[i]*x[j]))", " in 0..N-i](exp(x[i]*x[j]))"}) {
    CAPTURE(range);
    for (const char* schedule : {"lanes(i)", "lanes(sum)", ""}) {
      CAPTURE(schedule);
      const double lanes = *schedule ? 1 : 16;
      CHECK(functions(lowered(triangle(range, kExtent), schedule)) <= 0.54 * lanes * square);
    }
  }
}

TEST_CASE("a short box stays a box, whose loop can be unrolled") {
  const auto moves = [](std::int64_t extent) {
    const LoweredKernel kernel = lowered(triangle(" in 0..i+1](exp(x[i]*x[j]))", extent), "lanes(i)");
    const auto is_loop = [](const Statement& statement) { return std::holds_alternative<stmt::For>(statement); };
    const auto& outer = std::get<stmt::For>(*std::ranges::find_if(kernel.program.body, is_loop));
    return std::ranges::any_of(outer.body, [&](const Statement& statement) {
      const auto* loop = std::get_if<stmt::For>(&statement);
      return loop && std::ranges::any_of(loop->range.highs,
                                         [&](const Bound& high) { return high.value.mentions(outer.variable); });
    });
  };
  CHECK_FALSE(moves(14));
  CHECK(moves(640));
}

TEST_CASE("triangles in lanes have the evaluator's values") {
  for (const char* range : {" in 0..i+1](exp(x[i]*x[j]))", " in i..N](exp(x[i]*x[j]))", " in 0..N-i](exp(x[i]*x[j]))",
                            " in N-1-i..N](exp(x[i]*x[j]))", " in max(i-70,0)..min(i+5,N)](exp(x[i]*x[j]))"}) {
    CAPTURE(range);
    const Program program = triangle(range, 150);
    TensorValues inputs;
    for (std::int64_t k = 0; k < 150; ++k)
      inputs["x"].push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(k))));
    const std::vector<double> want = evaluate(program, {}, inputs).at("y");
    for (const char* schedule :
         {"y: lanes(i)", "y: lanes(i) parallel(i)", "y: lanes(sum)", "y: unroll(i, 4) lanes(sum)"}) {
      CAPTURE(schedule);
      const auto device = test::test_device("cpu", {.schedule = schedule});
      if (!device) continue;
      const std::vector<double> got = test::run_on(device, program, {}, inputs).at("y");
      for (std::size_t k = 0; k < want.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("what a mask throws away is not computed") {
  const auto masked = [](const char* condition, const char* schedule) {
    const std::string text = "dim N = 640\nindex i:N, j:N\ninput x[N]\noutput y[i,j] = where(" +
                             std::string(condition) + ", exp(x[i]*x[j]), 0)\n";
    return functions(lowered(specialise(parse(text), {}), schedule));
  };
  const double square = masked("x[i] < x[j]", "lanes(j)");
  CHECK(masked("j <= i", "lanes(j)") <= 0.54 * square);
  CHECK(masked("j <= i", "unroll(i, 4) lanes(j)") <= 0.54 * square);
  CHECK(masked("j > i", "lanes(j)") <= 0.54 * square);
  CHECK(masked("abs(i - j) <= 32", "lanes(j)") <= 0.15 * square);
  CHECK(masked("j <= i and x[j] < 0", "lanes(j)") == square);  // values decide, too
  CHECK(masked("j <= i", "lanes(i)") == square);               // no iteration is masked in all lanes
}

TEST_CASE("formulas under masks have the evaluator's values") {
  for (const char* body :
       {"where(j <= i, exp(x[i]*x[j]), x[j])", "where(j > i, exp(x[i]*x[j]), x[j])",
        "where(j < i, sin(x[j]), exp(x[i]*x[j]))", "where(abs(i - j) <= 20, exp(x[i]*x[j]), x[j])",
        "where(j >= i + 140 and j <= 5, exp(x[i]), 2)", "where(j >= 20 and j < i - 3, exp(x[i]*x[j]), -1)",
        "where(2*j <= i, exp(x[i]*x[j]), 0)", "where(j == i, exp(x[i]*x[j]), 0)",
        "softmax[j](where(j <= i, x[i]*x[j]/2, -inf))", "softmax[j](where(j >= i, x[i]*x[j], -inf))",
        "softmax[j](where(i - j <= 9 and j <= i, x[i]*x[j], -inf))"}) {
    CAPTURE(body);
    const Program program =
        specialise(parse("dim N = 150\nindex i:N, j:N\ninput x[N]\noutput y[i,j] = " + std::string(body) + "\n"), {});
    const TensorValues inputs = test::wave_inputs(program, {});
    const std::vector<double> want = evaluate(program, {}, inputs).at("y");
    for (const char* schedule : {"", "y: lanes(i)", "y: lanes(j) parallel(i)", "y: unroll(i, 4) lanes(j)"}) {
      CAPTURE(schedule);
      const auto device = test::test_device("cpu", {.schedule = schedule});
      if (!device) continue;
      const std::vector<double> got = test::run_on(device, program, {}, inputs).at("y");
      for (std::size_t k = 0; k < want.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-5));
    }
  }
}
