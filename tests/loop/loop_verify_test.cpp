#include <doctest/doctest.h>

#include <functional>

#include "compiler/support/error.h"
#include "tests/loop/sample_programs.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

std::string complaint(const LoopProgram& program) {
  try {
    verify(program);
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

stmt::For& outer(LoopProgram& p) { return std::get<stmt::For>(p.body[0]); }
stmt::For& inner(LoopProgram& p) { return std::get<stmt::For>(outer(p).body[2]); }

/// A way to break column_squares(), and what the verifier must say of it.
struct Mistake {
  std::string message;
  std::function<void(LoopProgram&)> make;
};

void add(LoopProgram& p, Block& block, ValueType type, bool varying, Operation operation) {
  p.values.push_back({type, varying, std::move(operation)});
  block.push_back(stmt::Let{static_cast<ValueId>(p.values.size() - 1)});
}

}  // namespace

TEST_CASE("a correct program passes") { CHECK(complaint(column_squares()) == ""); }

TEST_CASE("values are assigned once, before use, in a block around the use") {
  const std::vector<Mistake> mistakes = {
      {"v5 is used before it is assigned, in `y[n] = v5`",
       [](auto& p) { outer(p).body.erase(outer(p).body.end() - 2); }},
      {"v1 is assigned twice", [](auto& p) { inner(p).body.push_back(stmt::Let{1}); }},
      {"v4 is used outside the block that assigns it, in `y[n] = v4`",
       [](auto& p) { std::get<stmt::Store>(outer(p).body.back()).value = 4; }},
      {"value 9 does not exist; there are 6", [](auto& p) { inner(p).body.push_back(stmt::Let{9}); }},
  };
  for (const Mistake& mistake : mistakes) {
    LoopProgram p = column_squares();
    mistake.make(p);
    CHECK_MESSAGE(complaint(p).find(mistake.message) != std::string::npos, complaint(p));
  }
}

TEST_CASE("types agree") {
  const std::vector<Mistake> mistakes = {
      {"v1 is f32 where f64 is needed", [](auto& p) { p.values[3].type = ValueType::f64; }},
      {"* gives a number", [](auto& p) { p.values[3].type = ValueType::truth; }},
      {"* takes two or more arguments, not 1",
       [](auto& p) { std::get<op::Call>(p.values[3].operation).args.pop_back(); }},
      {"a call without a function", [](auto& p) { std::get<op::Call>(p.values[3].operation).function = nullptr; }},
      {"acc0 is f32", [](auto& p) { p.values[2].type = ValueType::f64; }},
      {"v5 is f32 where f64 is needed", [](auto& p) { p.buffers[1].dtype = DType::f64; }},
      {"v1 is f32 where truth is needed",
       [](auto& p) { add(p, inner(p).body, ValueType::truth, true, op::Call{&function("not"), {1}}); }},
      {"a load from K gives f64",
       [](auto& p) {
         p.arrays = {{"K", DType::f64, {}, false}};
         add(p, outer(p).body, ValueType::f32, true, op::LoadArray{0, {}});
       }},
      {"random numbers need the argument %seed",
       [](auto& p) { add(p, outer(p).body, ValueType::f32, true, op::Random{RandomKind::Normal, 1, {}}); }},
  };
  for (const Mistake& mistake : mistakes) {
    LoopProgram p = column_squares();
    mistake.make(p);
    CHECK_MESSAGE(complaint(p).find(mistake.message) != std::string::npos, complaint(p));
  }
}

TEST_CASE("names, ranks and ranges") {
  const std::vector<Mistake> mistakes = {
      {"x has 2 axes but 1 subscripts, in `v1: <f32> = x[r]`",
       [](auto& p) { std::get<op::Load>(p.values[1].operation).subscripts.pop_back(); }},
      {"bound7 is not the variable of a loop around this",
       [](auto& p) { std::get<op::Load>(p.values[1].operation).subscripts[0] = Symbol::bound(7); }},
      {"M is not an argument", [](auto& p) { inner(p).range = Range::extent(Symbol::dim("M")); }},
      {"a loop without bounds", [](auto& p) { inner(p).range.highs.clear(); }},
      {"a loop takes 0 iterations at once", [](auto& p) { inner(p).interleave = 0; }},
      {"a loop around another takes 2 iterations at once", [](auto& p) { outer(p).interleave = 2; }},
      {"a loop bound with the divisor 0", [](auto& p) { inner(p).range.highs[0].divisor = 0; }},
      {"a loop around this has the same variable", [](auto& p) { inner(p).variable = i0(); }},
      {"axis3 cannot be a loop variable", [](auto& p) { inner(p).variable = Symbol::axis(3); }},
      {"the layout of buffer x is not a permutation of its 2 axes", [](auto& p) { p.buffers[0].layout = {1, 1}; }},
      {"buffer y is not declared as written", [](auto& p) { p.buffers[1].written = false; }},
      {"buffer 4 does not exist; there are 2", [](auto& p) { std::get<stmt::Store>(outer(p).body.back()).buffer = 4; }},
      {"scratch array K has the extent -1", [](auto& p) { p.arrays = {{"K", DType::f32, {-1}, false}}; }},
      {"two arguments have one name", [](auto& p) { p.arguments.push_back("N"); }},
      {"check \"deep\" has 5 coordinates; a status holds 4",
       [](auto& p) { p.checks = {{"deep", {"a", "b", "c", "d", "e"}}}; }},
  };
  for (const Mistake& mistake : mistakes) {
    LoopProgram p = column_squares();
    mistake.make(p);
    CHECK_MESSAGE(complaint(p).find(mistake.message) != std::string::npos, complaint(p));
  }
}

TEST_CASE("nothing that varies between lanes stands where a uniform value must") {
  const std::vector<Mistake> mistakes = {
      {"a vector loop inside a vector loop", [](auto& p) { inner(p).vector = true; }},
      {"v1 is uniform but its operation varies between lanes", [](auto& p) { p.values[1].varying = false; }},
      {"acc0 is uniform and v0 varies between lanes", [](auto& p) { p.vars[0].varying = false; }},
      {"all lanes store to one element of y",
       [](auto& p) { std::get<stmt::Store>(outer(p).body.back()).subscripts = {0}; }},
      {"v6 varies between lanes and is stored outside the vector loop",
       [](auto& p) {
         add(p, p.body, ValueType::f32, true, op::ReadVar{0});
         p.body.push_back(stmt::Store{1, {0}, 6});
       }},
      {"lanes are combined inside the vector loop",
       [](auto& p) { add(p, outer(p).body, ValueType::f32, false, op::CombineLanes{ReduceKind::Sum, 0}); }},
      {"lanes are combined by logsumexp, which takes more than one step",
       [](auto& p) { add(p, p.body, ValueType::f32, false, op::CombineLanes{ReduceKind::LogSumExp, 0}); }},
      {"K is uniform and v0 varies between lanes",
       [](auto& p) {
         p.arrays = {{"K", DType::f32, {1}, false}};
         outer(p).body.push_back(stmt::StoreArray{0, {0}, 0});
       }},
      {"K holds one value per lane and is stored to at subscripts that vary",
       [](auto& p) {
         p.arrays = {{"K", DType::f32, {1}, true}};
         outer(p).body.push_back(stmt::StoreArray{0, {i0()}, 0});
       }},
  };
  for (const Mistake& mistake : mistakes) {
    LoopProgram p = column_squares();
    mistake.make(p);
    CHECK_MESSAGE(complaint(p).find(mistake.message) != std::string::npos, complaint(p));
  }
}

TEST_CASE("lanes store to elements of their own of an array that all lanes share") {
  LoopProgram p = column_squares();
  p.arrays = {{"K", DType::f32, {64}, false}};
  outer(p).body.push_back(stmt::StoreArray{0, {i0()}, 0});
  CHECK(complaint(p) == "");
}
