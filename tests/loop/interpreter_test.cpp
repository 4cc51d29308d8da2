#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "compiler/loop/interpreter.h"
#include "compiler/support/error.h"
#include "tests/loop/sample_programs.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

KernelStatus run(const LoopProgram& program, std::vector<std::vector<double>>& data,
                 std::vector<std::int64_t> arguments = {}) {
  const std::vector<std::span<double>> buffers(data.begin(), data.end());
  return interpret(program, buffers, arguments);
}

std::vector<double> run_elementwise(const LoopProgram& program, std::size_t size,
                                    std::vector<std::int64_t> arguments = {}) {
  std::vector<std::vector<double>> data = {std::vector<double>(size, -1)};
  run(program, data, std::move(arguments));
  return data[0];
}

std::string failure(const LoopProgram& program, std::vector<std::vector<double>> data,
                    std::vector<std::int64_t> arguments = {}) {
  try {
    run(program, data, std::move(arguments));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

/// y[i] = number of j with max(ceil((i-1)/2), 0) <= j <= min(floor(2i/3), 4)
LoopProgram count_between() {
  return elementwise(9, [](Builder& b, Block& block) {
    b.program.vars = {{ValueType::f64, false}};
    const Affine i = i0();
    block.push_back(stmt::SetVar{0, b.constant(block, 0)});
    Block count;
    count.push_back(stmt::SetVar{0, b.call(count, "+", {b.let(count, op::ReadVar{0}), b.constant(count, 1)})});
    block.push_back(loop(i1(), Range{{{2, i - Affine(1)}, {1, 0}}, {{3, i * 2}, {1, 4}}}, count, "j"));
    return b.let(block, op::ReadVar{0});
  });
}

LoopProgram random_draws(RandomKind kind) {
  LoopProgram p =
      elementwise(10000, [&](Builder& b, Block& block) { return b.let(block, op::Random{kind, 3, {i0()}}); });
  p.arguments = {"%seed", "%step"};
  return p;
}

/// y[s,n] = sum[r,t](a[s,r,n] * a[s,t,n] * K[n,r,t] * exp(-(a[s,r,n] - a[s,t,n])^2)): the shape of a GPN layer.
LoopProgram double_sum(std::int64_t samples, std::int64_t units, std::int64_t points) {
  Builder b;
  b.program.name = "double_sum";
  b.program.buffers = {input("a", {samples, points, units}), input("K", {units, points, points}),
                       output("y", {samples, units})};
  b.program.vars = {{ValueType::f64, false}};
  const Affine s = i0(), n = i1(), r = Symbol::bound(2), t = Symbol::bound(3);
  Block unit, rest, term;
  unit.push_back(stmt::SetVar{0, b.constant(unit, 0)});
  const ValueId ar = b.let(rest, op::Load{0, {s, r, n}, {}});
  const ValueId at = b.let(term, op::Load{0, {s, t, n}, {}});
  const ValueId k = b.let(term, op::Load{1, {n, r, t}, {}});
  const ValueId d = b.call(term, "+", {ar, b.call(term, "neg", {at})});
  const ValueId e = b.call(term, "exp", {b.call(term, "neg", {b.call(term, "*", {d, d})})});
  const ValueId product = b.call(term, "*", {b.call(term, "*", {ar, at}), b.call(term, "*", {k, e})});
  term.push_back(stmt::SetVar{0, b.call(term, "+", {b.let(term, op::ReadVar{0}), product})});
  rest.push_back(loop(Symbol::bound(3), Range::extent(points), term, "t"));
  unit.push_back(loop(Symbol::bound(2), Range::extent(points), rest, "r"));
  unit.push_back(stmt::Store{2, {s, n}, b.let(unit, op::ReadVar{0})});
  b.program.body = {loop(i0(), Range::extent(samples), {loop(i1(), Range::extent(units), unit, "n")}, "s")};
  return b.program;
}

}  // namespace

TEST_CASE("accumulators, layouts and a chunk given by arguments") {
  std::vector<std::vector<double>> data = {{1, 2, 3, 4, 5, 6, 7, 8, 9}, {-1, -1, -1}};  // x is stored column by column
  CHECK(run(column_squares(), data, {3, 1, 3}).failed == 0);
  CHECK(data[1] == std::vector<double>{-1, 77, 194});
}

TEST_CASE("loops with several bounds and divisors") {
  std::vector<double> expected;
  for (int i = 0; i < 9; ++i) {
    int count = 0;
    for (int j = 0; j <= 4; ++j) count += 2 * j >= i - 1 && 3 * j <= 2 * i;
    expected.push_back(count);
  }
  CHECK(run_elementwise(count_between(), 9) == expected);
}

TEST_CASE("a load whose guard is false reads nothing and gives zero") {
  Builder b;
  b.program.buffers = {input("x", {3}), output("y", {5})};
  const Affine i = i0();
  Block body;
  const ValueId inside = b.call(body, "<", {b.let(body, op::Number{i}), b.constant(body, 3)});
  body.push_back(stmt::Store{1, {i}, b.let(body, op::Load{0, {i}, inside})});
  b.program.body = {loop(i0(), Range::extent(5), body, "i")};
  std::vector<std::vector<double>> data = {{7, 8, 9}, std::vector<double>(5, -1)};
  run(b.program, data);
  CHECK(data[1] == std::vector<double>{7, 8, 9, 0, 0});
}

TEST_CASE("scratch arrays keep what was stored") {
  const LoopProgram p = elementwise(4, [](Builder& b, Block& block) {
    b.program.arrays = {{"square", DType::f64, {4}, false}};
    const ValueId i = b.let(block, op::Number{i0()});
    block.push_back(stmt::StoreArray{0, {i0()}, b.call(block, "*", {i, i})});
    return b.let(block, op::LoadArray{0, {i0()}});
  });
  CHECK(run_elementwise(p, 4) == std::vector<double>{0, 1, 4, 9});
}

TEST_CASE("one lane combined is itself") {
  Builder b;
  b.program.buffers = {output("y", {1})};
  b.varying = true;
  const ValueId x = b.constant(b.program.body, 2.5);
  b.varying = false;
  for (const ReduceKind kind : {ReduceKind::Sum, ReduceKind::Product, ReduceKind::Max, ReduceKind::Min}) {
    const ValueId combined = b.let(b.program.body, op::CombineLanes{kind, x});
    b.program.body.push_back(stmt::Store{0, {0}, combined});
  }
  CHECK(run_elementwise(b.program, 1) == std::vector<double>{2.5});
}

TEST_CASE("random numbers depend on seed, stream, step and coordinates only") {
  const std::vector<double> uniform = run_elementwise(random_draws(RandomKind::Uniform), 10000, {42, 1});
  const std::vector<double> normal = run_elementwise(random_draws(RandomKind::Normal), 10000, {42, 1});
  CHECK(std::ranges::all_of(uniform, [](double u) { return u > 0 && u < 1; }));
  double mean = 0, square = 0;
  for (const double x : normal) mean += x / 1e4, square += x * x / 1e4;
  CHECK(std::abs(mean) < 0.04);
  CHECK(std::abs(square - 1) < 0.06);
  CHECK(run_elementwise(random_draws(RandomKind::Uniform), 10000, {42, 1}) == uniform);
  CHECK(run_elementwise(random_draws(RandomKind::Uniform), 10000, {42, 2}) != uniform);
  CHECK(run_elementwise(random_draws(RandomKind::Uniform), 10000, {42 + (std::int64_t{1} << 32), 1}) != uniform);
}

TEST_CASE("the first failed check is reported, and the run goes on") {
  const LoopProgram p = elementwise(6, [](Builder& b, Block& block) {
    b.program.checks = {{"too large", {"i", "next"}}};
    const Affine i = i0();
    const ValueId value = b.let(block, op::Number{i * 10});
    const ValueId bad = b.call(block, ">", {value, b.constant(block, 25)});
    block.push_back(stmt::Check{bad, 0, {i, i + Affine(1)}, value});
    return value;
  });
  std::vector<std::vector<double>> data = {std::vector<double>(6, -1)};
  const KernelStatus status = run(p, data);
  CHECK(status.failed == 1);
  CHECK(status.check == 0);
  CHECK(status.coordinates[0] == 3);
  CHECK(status.coordinates[1] == 4);
  CHECK(status.value == 30);
  CHECK(data[0].back() == 50);
}

TEST_CASE("an access outside a buffer or array is refused with its place") {
  LoopProgram p = column_squares();
  CHECK(failure(p, {std::vector<double>(6), std::vector<double>(2)}, {2, 0, 3}) ==
        "loop program column_squares: x[0, 2] lies outside; its shape is [3, 2], in `v1: <f32> = x[r, n]`");
  p = elementwise(2, [](Builder& b, Block& block) {
    b.program.arrays = {{"K", DType::f64, {3, 2}, false}};
    const ValueId one = b.constant(block, 1);
    block.push_back(stmt::StoreArray{0, {0, Affine(i0()) - Affine(1)}, one});
    return one;
  });
  CHECK(failure(p, {{0, 0}}) ==
        "loop program elementwise: K[0, -1] lies outside; its shape is [3, 2], in `K[0, i - 1] = 1`");
}

TEST_CASE("a read of what was never written is refused with its place") {
  const LoopProgram array = elementwise(2, [](Builder& b, Block& block) {
    b.program.arrays = {{"K", DType::f64, {2}, false}};
    return b.let(block, op::LoadArray{0, {i0()}});
  });
  CHECK(failure(array, {{0, 0}}) ==
        "loop program elementwise: K[0] is read but was never written; its shape is [2], in `v0: f64 = K[i]`");
  const LoopProgram var = elementwise(2, [](Builder& b, Block& block) {
    b.program.vars = {{ValueType::f64, false}};
    return b.let(block, op::ReadVar{0});
  });
  CHECK(failure(var, {{0, 0}}) == "loop program elementwise: acc0 is read but was never set, in `v0: f64 = acc0`");
}

TEST_CASE("buffers and arguments that do not fit are refused") {
  const LoopProgram p = column_squares();
  CHECK(failure(p, {}, {1, 0, 1}) == "loop program column_squares: 0 buffers instead of 2");
  CHECK(failure(p, {{}, {}}, {1}) == "loop program column_squares: 1 arguments instead of 3");
  CHECK(failure(p, {{1, 2, 3}, {1, 2}}, {1, 0, 1}) == "loop program column_squares: 2 elements of y instead of 1");
  CHECK(failure(p, {{1}, {}}, {-1, 0, 0}) == "loop program column_squares: 1 elements of x instead of 0");
}

TEST_CASE("a layer's double sum takes milliseconds") {
  const LoopProgram p = double_sum(8, 4, 14);
  std::vector<std::vector<double>> data = {std::vector<double>(8 * 14 * 4, 0.5), std::vector<double>(4 * 14 * 14, 2),
                                           std::vector<double>(8 * 4)};
  const auto start = std::chrono::steady_clock::now();
  run(p, data);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(data[2] == std::vector<double>(8 * 4, 14 * 14 * 0.5));
  CHECK(seconds.count() <
        0.2);  // about half a millisecond on one idle core; the margin is for sanitizers and busy machines
}
