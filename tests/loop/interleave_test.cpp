// Which vars a loop accumulates, and how many of its iterations are taken at once.
#include "compiler/loop/interleave.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "compiler/loop/accumulations.h"
#include "tests/loop/sample_programs.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

/// A loop over x[i] with two vars, whose body is written by `body`.
LoopProgram reducing(const std::function<void(Builder&, Block&, ValueId)>& body,
                     const Range& range = Range::extent(Symbol::dim("N"))) {
  Builder b;
  b.varying = true;
  b.program.name = "reducing";
  b.program.arguments = {"N"};
  b.program.buffers = {input("x", {Symbol::dim("N")}), output("y", {Symbol::dim("N")})};
  b.program.vars = {{b.type, true}, {b.type, true}};
  Block block;
  body(b, block, b.let(block, op::Load{0, {i0()}, {}}));
  stmt::For lanes = loop(i0(), range, block);
  lanes.vector = true;
  b.program.body = {lanes};
  return b.program;
}

const stmt::For& only_loop(const LoopProgram& p) { return std::get<stmt::For>(p.body.at(0)); }

std::vector<Accumulation> found(const LoopProgram& p) { return accumulations(p, only_loop(p).body); }

int chosen(LoopProgram p) {
  interleave(p);
  return only_loop(p).interleave;
}

void accumulate(Builder& b, Block& block, VarId var, const char* function, ValueId x) {
  block.push_back(stmt::SetVar{var, b.call(block, function, {b.let(block, op::ReadVar{var}), x})});
}

void sum(Builder& b, Block& block, ValueId x) { accumulate(b, block, 0, "+", x); }

}  // namespace

namespace {

/// The first of the largest elements, where one that is held is not `worse`; or one that compares with the position.
void search(Builder& b, Block& block, ValueId x, const char* worse = ">=", bool reads_again = false) {
  const ValueId at = b.let(block, op::Number{i0()});
  const ValueId held = b.let(block, op::ReadVar{0}), held_at = b.let(block, op::ReadVar{1});
  const ValueId is_worse = b.call(block, "not", {b.call(block, worse, {held, reads_again ? held_at : x})});
  const ValueId replaces = b.call(block, "and", {is_worse, b.call(block, "==", {held, held})});
  block.push_back(stmt::SetVar{0, b.call(block, "where", {replaces, x, held})});
  block.push_back(stmt::SetVar{1, b.call(block, "where", {replaces, at, held_at})});
}

}  // namespace

TEST_CASE("searches for the first of the largest elements are accumulations of two vars") {
  const auto searching = [](const char* worse, bool reads_again) {
    return reducing([&](Builder& b, Block& block, ValueId x) { search(b, block, x, worse, reads_again); });
  };
  CHECK(found(searching(">=", false)) == std::vector<Accumulation>{{0, ReduceKind::Max, 1}});
  CHECK(found(searching("<=", false)) == std::vector<Accumulation>{{0, ReduceKind::Min, 1}});
  CHECK(found(searching("<", false)).empty());
  CHECK(found(searching(">=", true)).empty());
  CHECK(chosen(searching(">=", false)) == 4);
}

TEST_CASE("sums, products, maxima and minima are accumulations, also as a chain of operations") {
  const auto kind_of = [](const char* function) {
    return found(reducing([&](Builder& b, Block& block, ValueId x) { accumulate(b, block, 1, function, x); }));
  };
  CHECK(kind_of("+") == std::vector<Accumulation>{{1, ReduceKind::Sum}});
  CHECK(kind_of("*") == std::vector<Accumulation>{{1, ReduceKind::Product}});
  CHECK(kind_of("max") == std::vector<Accumulation>{{1, ReduceKind::Max}});
  CHECK(kind_of("min") == std::vector<Accumulation>{{1, ReduceKind::Min}});
  CHECK(kind_of("/").empty());
  const auto chain = [](Builder& b, Block& block, ValueId x) {
    const ValueId first = b.call(block, "+", {x, b.let(block, op::ReadVar{0})});
    block.push_back(stmt::SetVar{0, b.call(block, "+", {first, x})});
  };
  CHECK(found(reducing(chain)) == std::vector<Accumulation>{{0, ReduceKind::Sum}});
}

TEST_CASE("a term under a condition is one of its accumulation, where the other branch changes nothing") {
  const auto is_masked = [](const char* function, double otherwise, bool reads_var = true) {
    const LoopProgram p = reducing([&](Builder& b, Block& block, ValueId x) {
      const ValueId chosen = b.call(block, "where", {b.call(block, "<", {x, x}), x, b.constant(block, otherwise)});
      const ValueId other = reads_var ? b.let(block, op::ReadVar{0}) : x;
      block.push_back(stmt::SetVar{0, b.call(block, function, {other, chosen})});
    });
    return masked_term(p, std::get<op::Call>(p.values.back().operation)).has_value();
  };
  CHECK(is_masked("+", 0));
  CHECK(is_masked("*", 1));
  CHECK(is_masked("max", -HUGE_VAL));
  CHECK_FALSE(is_masked("+", 1));
  CHECK_FALSE(is_masked("*", 0));
  CHECK_FALSE(is_masked("+", 0, false));  // what is held may be -0
}

TEST_CASE("a var that the loop also reads otherwise, or sets to anything else, is no accumulation") {
  const auto running_sum = [](Builder& b, Block& block, ValueId x) {
    const ValueId total = b.call(block, "+", {b.let(block, op::ReadVar{0}), x});
    block.push_back(stmt::SetVar{0, total});
    block.push_back(stmt::Store{1, {i0()}, total});
    block.push_back(stmt::Store{1, {i0()}, b.let(block, op::ReadVar{0})});
  };
  const auto scaled = [](Builder& b, Block& block, ValueId x) {
    const ValueId half = b.call(block, "*", {b.let(block, op::ReadVar{0}), x});
    block.push_back(stmt::SetVar{0, b.call(block, "+", {half, x})});
  };
  const auto doubled = [](Builder& b, Block& block, ValueId x) {
    const ValueId held = b.let(block, op::ReadVar{0});
    block.push_back(stmt::SetVar{0, b.call(block, "+", {held, b.call(block, "*", {held, x})})});
  };
  const auto twice = [](Builder& b, Block& block, ValueId x) { sum(b, block, x), sum(b, block, x); };
  const auto overwritten = [](Builder&, Block& block, ValueId x) { block.push_back(stmt::SetVar{0, x}); };
  for (const auto& body :
       std::vector<std::function<void(Builder&, Block&, ValueId)>>{running_sum, scaled, doubled, twice, overwritten}) {
    CHECK(found(reducing(body)).empty());
    CHECK(chosen(reducing(body)) == 1);
  }
}

TEST_CASE("as many iterations at once as hide the latency of the accumulation") {
  const auto dot = [](Builder& b, Block& block, ValueId x) { sum(b, block, b.call(block, "*", {x, x})); };
  const auto of_exponentials = [](Builder& b, Block& block, ValueId x) { sum(b, block, b.call(block, "exp", {x})); };
  const auto two = [](Builder& b, Block& block, ValueId x) {
    sum(b, block, x);
    accumulate(b, block, 1, "max", x);
  };
  const auto map = [](Builder&, Block& block, ValueId x) { block.push_back(stmt::Store{1, {i0()}, x}); };
  CHECK(chosen(reducing(sum)) == 4);
  CHECK(chosen(reducing(dot)) == 4);
  CHECK(chosen(reducing(two)) == 4);
  CHECK(chosen(reducing(of_exponentials)) == 1);
  CHECK(chosen(reducing(map)) == 1);
  CHECK(chosen(reducing(sum, Range::extent(64))) == 4);
  CHECK(chosen(reducing(sum, Range::extent(7))) == 1);
}

TEST_CASE(
    "loops that are known to be short take one iteration after the other, also where other loops move their bounds") {
  const auto triangular = [](const Affine& extent) {
    LoopProgram p = column_squares();
    auto& columns = std::get<stmt::For>(p.body[0]);
    auto& squares = std::get<stmt::For>(columns.body[2]);
    columns.vector = false;
    columns.range = Range::extent(extent);
    squares.range = Range::extent(i0());
    interleave(p);
    return squares.interleave;
  };
  CHECK(triangular(14) == 1);
  CHECK(triangular(100) == 4);
  CHECK(triangular(Symbol::dim("N")) == 4);
}

TEST_CASE("only innermost loops take several iterations at once") {
  LoopProgram p = column_squares();
  std::get<stmt::For>(std::get<stmt::For>(p.body[0]).body[2]).range = Range::extent(30);
  interleave(p);
  const auto& columns = std::get<stmt::For>(p.body[0]);
  CHECK(columns.interleave == 1);
  CHECK(std::get<stmt::For>(columns.body[2]).interleave == 4);
  verify(p);
}
