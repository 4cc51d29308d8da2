// What generated LLVM text looks like: the choices that speed depends on.
#include "compiler/codegen/llvm/llvm_text.h"

#include <doctest/doctest.h>

#include "compiler/codegen/llvm/addressing.h"
#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "tests/loop/sample_programs.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

const VectorMachine& avx512() { return machine_level("x86-64-v4"); }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// y[i] = x[subscript] for i in 0..N over lanes, in single precision.
std::string copy_text(const Affine& subscript, std::int64_t size = 0) {
  Builder b;
  b.type = ValueType::f32;
  b.varying = true;
  b.program.name = "copy";
  b.program.arguments = {"N"};
  const Affine extent = size == 0 ? Affine(Symbol::dim("N")) : Affine(size);
  b.program.buffers = {input("x", {extent * 2 + Affine(9)}), output("y", {extent})};
  for (BufferDecl& buffer : b.program.buffers) buffer.dtype = DType::f32;
  Block block;
  block.push_back(stmt::Store{1, {i0()}, b.let(block, op::Load{0, {subscript}, {}})});
  stmt::For round = loop(i0(), Range::extent(extent), block);
  round.vector = true;
  b.program.body = {round};
  return llvm_text(b.program, avx512());
}

}  // namespace

TEST_CASE("lanes fill a register with the narrowest type of the vector loop") {
  LoopProgram p = column_squares();
  CHECK(lanes_for(p, avx512()) == 16);
  CHECK(lanes_for(p, machine_level("x86-64-v3")) == 8);
  CHECK(lanes_for(p, {"", "", "", 32}) == 1);
  for (Value& value : p.values) value.type = ValueType::f64;
  CHECK(lanes_for(p, avx512()) == 8);
  std::get<stmt::For>(p.body[0]).vector = false;
  CHECK(lanes_for(p, avx512()) == 1);
}

TEST_CASE("accumulators that each round starts anew need no choice in a partial round, those that go on do") {
  const auto choices = [](bool again) {
    LoopProgram p = column_squares();
    p.body.push_back(p.body[0]);  // the same var in two vector loops
    auto& columns = std::get<stmt::For>(p.body[1]).body;
    if (again) columns.erase(columns.begin() + 1);  // it is not set to 0 in the second
    const std::string text = llvm_text(p, avx512());
    std::ptrdiff_t count = 0;
    for (std::size_t at = 0; (at = text.find("select <16 x i1>", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(choices(false) == 0);
  CHECK(choices(true) > 0);
}

TEST_CASE("random numbers are drawn in two registers side by side where there are enough of them") {
  LoopProgram p = column_squares();
  p.values[0].operation = op::Random{RandomKind::Normal, 0, {Affine(i0())}};
  CHECK(lanes_for(p, avx512()) == 32);
  CHECK(lanes_for(p, machine_level("x86-64-v3")) == 8);
}

TEST_CASE("neighbouring elements are loaded as a vector, others are gathered, one element is broadcast") {
  CHECK(contains(copy_text(i0()), "@llvm.masked.load.v16f32"));
  CHECK(contains(copy_text(Affine(i0()) + Affine(1)), "@llvm.masked.load.v16f32"));
  CHECK(contains(copy_text(Affine(i0()) * 2), "@llvm.masked.gather.v16f32"));
  const std::string broadcast = copy_text(Affine(3));
  CHECK(contains(broadcast, "load float"));
  CHECK_FALSE(contains(broadcast, "masked.load"));
}

TEST_CASE("a guard of all lanes has zeros for each of them to read, of the widest type") {
  LoopProgram p = column_squares();
  p.arguments.insert(p.arguments.end(), {"%seed", "%step"});
  p.values[0].operation = op::Random{RandomKind::Normal, 0, {Affine(i0())}};
  p.buffers[0].dtype = DType::f64;
  p.buffers[0].layout = {0, 1};
  const auto guard = static_cast<ValueId>(p.values.size());
  p.values.push_back({ValueType::truth, false, op::Constant{0}});
  p.body.insert(p.body.begin(), stmt::Let{guard});
  std::get<op::Load>(p.values[1].operation).guard = guard;
  const std::string text = llvm_text(p, avx512());
  CHECK(contains(text, "ptr @moxie.zeros"));
  CHECK(contains(text, "@llvm.masked.load.v32f64"));
  CHECK(contains(text, "@moxie.zeros = private unnamed_addr constant [32 x i64]"));
}

TEST_CASE("a loop whose size is a multiple of the lanes has no masks") {
  CHECK_FALSE(contains(copy_text(i0(), 64), "masked"));
  CHECK(contains(copy_text(i0(), 60), "masked"));
}

TEST_CASE("buffers that are only read say so, and nothing aliases") {
  const std::string text = copy_text(i0());
  CHECK(contains(text, "ptr noalias nocapture noundef readonly %buffer0, ptr noalias nocapture noundef %buffer1"));
  CHECK(contains(text, "\"no-builtins\""));
  CHECK(contains(text, avx512().features));
}

TEST_CASE("the same program gives the same text") {
  CHECK(copy_text(i0()) == copy_text(i0()));
  CHECK(llvm_text(column_squares(), avx512()) == llvm_text(column_squares(), avx512()));
}

TEST_CASE("arrays of scratch memory begin on their own cache lines") {
  LoopProgram p = column_squares();
  CHECK(scratch_size(p, avx512()).is_empty());
  p.arrays = {{"a", DType::f64, {3}, false}, {"b", DType::f32, {2, 3}, true}, {"c", DType::f32, {}, false}};
  CHECK(scratch_size(p, avx512()) == ScratchSize{64 + 2 * 3 * 64 + 64});
  p.arrays[0].extents = {std::int64_t{1} << 62, 8};
  CHECK_THROWS_AS(scratch_size(p, avx512()), CompileError);
}

TEST_CASE("constant ranges are counted") {
  CHECK(llvm_ir::constant_trip_count(Range::extent(7)) == 7);
  CHECK(llvm_ir::constant_trip_count(Range{{{2, 3}, {1, -1}}, {{3, 11}}}) == 2);
  CHECK(llvm_ir::constant_trip_count(Range::half_open(5, 2)) == 0);
  CHECK_FALSE(llvm_ir::constant_trip_count(Range::extent(Symbol::dim("N"))));
}

TEST_CASE("a range between equal constants has one iteration or none") {
  const Affine n = Symbol::dim("N");
  CHECK(llvm_ir::only_iteration(Range{{{1, 0}, {1, n}}, {{1, 0}, {1, n + Affine(2)}}}) == 0);
  CHECK(llvm_ir::only_iteration(Range{{{2, 5}, {1, n}}, {{3, 11}}}) == 3);
  CHECK_FALSE(llvm_ir::only_iteration(Range{{{1, 0}, {1, n}}, {{1, 1}}}));
  CHECK_FALSE(llvm_ir::only_iteration(Range{{{1, 0}}, {{1, n}}}));
}

TEST_CASE("names and comments cannot break out of their place") {
  LoopProgram p = column_squares();
  p.name = "a\"b\n}";
  p.comments = {"first\nsecond"};
  const std::string text = llvm_text(p, avx512());
  CHECK(contains(text, "define hidden void @\"a\\22b\\0A\\7D\"("));
  CHECK(contains(text, "; first second\n"));
}
