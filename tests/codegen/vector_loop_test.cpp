// Vector loops of every trip count around multiples of the lanes, against the interpreter.
#include <doctest/doctest.h>

#include <array>
#include <limits>

#include "tests/loop/sample_programs.h"
#include "tests/runtime/kernel_harness.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

constexpr std::int64_t kRows = 2;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Kind {
  ReduceKind kind;
  const char* step;
  double identity;
};
constexpr std::array<Kind, 4> kKinds{{{ReduceKind::Sum, "+", 0},
                                      {ReduceKind::Product, "*", 1},
                                      {ReduceKind::Max, "max", -kInfinity},
                                      {ReduceKind::Min, "min", kInfinity}}};

/// For every row s: y[s,kind] = kind[k](x[s,k]) and z[s,k] = 2*x[s,k] + 1, in one vector loop over k. `padding` makes
/// its body longer by that many statements that change nothing.
LoopProgram rows(DType dtype, const Affine& extent, int padding = 0) {
  Builder b;
  b.type = dtype == DType::f32 ? ValueType::f32 : ValueType::f64;
  b.program.name = "rows";
  b.program.arguments = {"K"};
  b.program.buffers = {input("x", {kRows, extent}), output("y", {kRows, 4}), output("z", {kRows, extent})};
  for (BufferDecl& buffer : b.program.buffers) buffer.dtype = dtype;
  b.program.vars.assign(kKinds.size(), {b.type, true});
  const Affine s = i0(), k = i1();
  Block row, element;
  b.varying = true;
  for (VarId i = 0; i < kKinds.size(); ++i) row.push_back(stmt::SetVar{i, b.constant(row, kKinds[i].identity)});
  ValueId x = b.let(element, op::Load{0, {s, k}, {}});
  for (int i = 0; i < padding; ++i) x = b.call(element, "max", {x, b.constant(element, -1000 - i)});
  for (VarId i = 0; i < kKinds.size(); ++i)
    element.push_back(stmt::SetVar{i, b.call(element, kKinds[i].step, {b.let(element, op::ReadVar{i}), x})});
  const ValueId twice = b.call(element, "*", {x, b.constant(element, 2)});
  element.push_back(stmt::Store{2, {s, k}, b.call(element, "+", {twice, b.constant(element, 1)})});
  stmt::For lanes = loop(i1(), Range::extent(extent), element, "k");
  lanes.vector = true;
  row.push_back(lanes);
  for (VarId i = 0; i < kKinds.size(); ++i) {
    b.varying = true;
    const ValueId partial = b.let(row, op::ReadVar{i});
    b.varying = false;
    row.push_back(stmt::Store{1, {s, Affine(i)}, b.let(row, op::CombineLanes{kKinds[i].kind, partial})});
  }
  b.program.body = {loop(i0(), Range::extent(kRows), row, "s")};
  return b.program;
}

Buffers data_of(std::int64_t extent) {
  const auto count = static_cast<std::size_t>(kRows * extent);
  return {numbers(count, 0.75, 1.25), std::vector<double>(kRows * kKinds.size(), -7), std::vector<double>(count, -7)};
}

Buffers run(const LoopProgram& program, const CpuKernel& kernel, std::int64_t extent) {
  Buffers data = data_of(extent);
  run_kernel(kernel, program, data, {extent});
  return data;
}

/// Maps, maxima and minima to the bit; sums and products as far as their order allows.
void check(const LoopProgram& program, const Buffers& got, std::int64_t extent) {
  CAPTURE(extent);
  Buffers expected = data_of(extent);
  run_interpreter(program, expected, {extent});
  const double tolerance = program.buffers[0].dtype == DType::f32 ? 2e-6 : 1e-14;
  CHECK(got[0] == expected[0]);
  for (std::size_t i = 0; i < got[1].size(); ++i) {
    const bool exact = i % kKinds.size() >= 2;
    const double allowed = exact ? 0 : tolerance * std::max(1.0, std::abs(expected[1][i]));
    CHECK((got[1][i] == expected[1][i] || std::abs(got[1][i] - expected[1][i]) <= allowed));
  }
  for (std::size_t i = 0; i < got[2].size(); ++i)
    CHECK(std::abs(got[2][i] - expected[2][i]) <= tolerance * expected[2][i]);
}

std::int64_t most_trips(const LoopProgram& program, const VectorMachine& machine) {
  return 3 * lanes_for(program, machine) + 1;
}

constexpr std::array kDTypes{DType::f32, DType::f64};

}  // namespace

TEST_CASE("reductions and maps over any number of elements, known at run time") {
  for (const DType dtype : kDTypes) {
    const LoopProgram program = rows(dtype, Symbol::dim("K"));
    for (const TestMachine& test : test_machines()) {
      CAPTURE(test.name);
      const auto kernel = CpuKernel::build(program, test.machine, nullptr);
      for (std::int64_t extent = 0; extent <= most_trips(program, test.machine); ++extent)
        check(program, run(program, *kernel, extent), extent);
    }
  }
}

TEST_CASE("reductions and maps over a constant number of elements") {
  for (const DType dtype : kDTypes) {
    const std::int64_t most = most_trips(rows(dtype, 1), host_machine());
    for (std::int64_t extent = 0; extent <= most; ++extent) {
      const LoopProgram program = rows(dtype, extent);
      check(program, run(program, *CpuKernel::build(program, host_machine(), nullptr), extent), extent);
    }
  }
}

TEST_CASE("a long body, which is written once with masks, gives the bits of one with a tail of its own") {
  for (const DType dtype : kDTypes) {
    const LoopProgram with_tail = rows(dtype, Symbol::dim("K")), masked = rows(dtype, Symbol::dim("K"), 30);
    const auto short_kernel = CpuKernel::build(with_tail, host_machine(), nullptr);
    const auto long_kernel = CpuKernel::build(masked, host_machine(), nullptr);
    CHECK(long_kernel->source().find("tail") == std::string::npos);
    CHECK(short_kernel->source().find("tail") != std::string::npos);
    for (std::int64_t extent = 0; extent <= most_trips(with_tail, host_machine()); ++extent) {
      CAPTURE(extent);
      CHECK(run(with_tail, *short_kernel, extent) == run(masked, *long_kernel, extent));
    }
  }
}
