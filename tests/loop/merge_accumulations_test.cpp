// Reductions over several indices accumulate in one var, as far as rounding allows.
#include "compiler/loop/merge_accumulations.h"

#include <doctest/doctest.h>

#include <limits>

#include "tests/loop/sample_programs.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

struct Nested {
  const char* inner = "+";
  const char* outer = "+";
  double start = 0;  // of the inner reduction
  std::int64_t rows = 8;
  Affine columns = 8;
  bool reads_result = false;  // the outer loop reads the inner result once more
};

/// y = outer over i of (inner over j of x[i,j]), with var 0 for the outer and var 1 for the inner result.
LoopProgram nested(const Nested& wanted) {
  Builder b;
  b.program.name = "nested";
  b.program.arguments = {"N"};
  b.program.buffers = {input("x", {wanted.rows, wanted.columns}), output("y", {1})};
  b.program.vars = {{b.type, false}, {b.type, false}};
  Block element;
  const ValueId x = b.let(element, op::Load{0, {i0(), i1()}, {}});
  element.push_back(stmt::SetVar{1, b.call(element, wanted.inner, {b.let(element, op::ReadVar{1}), x})});
  Block row;
  row.push_back(stmt::SetVar{1, b.constant(row, wanted.start)});
  row.push_back(loop(i1(), Range::extent(wanted.columns), element));
  const ValueId result = b.let(row, op::ReadVar{1});
  row.push_back(stmt::SetVar{0, b.call(row, wanted.outer, {b.let(row, op::ReadVar{0}), result})});
  if (wanted.reads_result) row.push_back(stmt::Store{1, {0}, result});
  Block& body = b.program.body;
  body.push_back(stmt::SetVar{0, b.constant(body, wanted.start)});
  body.push_back(loop(i0(), Range::extent(wanted.rows), row));
  body.push_back(stmt::Store{1, {0}, b.let(body, op::ReadVar{0})});
  verify(b.program);
  return b.program;
}

std::size_t vars_after(const Nested& wanted) {
  LoopProgram program = nested(wanted);
  const LoopProgram before = program;
  merge_accumulations(program, kLongestChain);
  verify(program);
  CHECK((program == before) == (program.vars.size() == 2));
  return program.vars.size();
}

}  // namespace

TEST_CASE("a reduction over two indices has one accumulator") {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  CHECK(vars_after({}) == 1);
  CHECK(vars_after({"*", "*", 1}) == 1);
  CHECK(vars_after({"max", "max", -kInfinity}) == 1);
  CHECK(vars_after({"min", "min", kInfinity}) == 1);
}

TEST_CASE("reductions of two kinds, with another start, or whose inner result is read elsewhere keep both") {
  CHECK(vars_after({"max", "+", 0}) == 2);
  CHECK(vars_after({"+", "+", 1}) == 2);
  CHECK(vars_after({"+", "+", 0, 8, 8, true}) == 2);
}

TEST_CASE("long sums keep partial sums, and so do those whose length is not known") {
  CHECK(vars_after({"+", "+", 0, 32, 32}) == 1);
  CHECK(vars_after({"+", "+", 0, 32, 33}) == 2);
  CHECK(vars_after({"+", "+", 0, 8, Symbol::dim("N")}) == 2);
}
