// Runs of neighbours that lanes far apart load and store: which statements make one, and their values, against the
// interpreter.
#include "compiler/loop/lane_runs.h"

#include <doctest/doctest.h>

#include <functional>

#include "tests/loop/sample_programs.h"
#include "tests/runtime/kernel_harness.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

/// In lanes i of 0..N, all columns k in a shuffled order (if 11 does not divide their number): y[k,i] = x[i,k] and
/// v[i,k] = u[k,i].
LoopProgram transpositions(DType dtype, std::int64_t columns) {
  Builder b;
  b.type = value_type(dtype);
  b.varying = true;
  b.program.name = "transpositions";
  b.program.arguments = {"N"};
  const Affine rows = Symbol::dim("N"), width(columns + 5), i = i0();
  b.program.buffers = {input("x", {rows, width}), output("y", {width, rows}), input("u", {width, rows}),
                       output("v", {rows, width})};
  for (BufferDecl& buffer : b.program.buffers) buffer.dtype = dtype;
  Block block;
  for (std::int64_t n = 0; n < columns; ++n) {
    const Affine k((n * 11 + 3) % columns + 2);
    block.push_back(stmt::Store{1, {k, i}, b.let(block, op::Load{0, {i, k}, {}})});
    block.push_back(stmt::Store{3, {i, k}, b.let(block, op::Load{2, {k, i}, {}})});
  }
  stmt::For lanes = loop(i0(), Range::extent(rows), block);
  lanes.vector = true;
  b.program.body = {lanes};
  return b.program;
}

const Block& body_of(const LoopProgram& program) { return std::get<stmt::For>(program.body[0]).body; }

std::vector<std::size_t> lengths(const std::vector<LaneRun>& runs, bool stores) {
  std::vector<std::size_t> found;
  for (const LaneRun& run : runs) {
    if (run.stores == stores) found.push_back(run.statements.size());
  }
  return found;
}

/// The host's best machine with other vector widths too; LLVM splits vectors that are wider than its registers.
std::vector<TestMachine> machines() {
  std::vector<TestMachine> result = test_machines();
  const VectorMachine best = result.front().machine;
  for (const int bits : {64, 128, 256, 512}) {
    result.push_back({std::to_string(bits) + " bits", best});
    result.back().machine.vector_bits = bits;
  }
  return result;
}

}  // namespace

TEST_CASE("runs are cut into powers of two, of at most as many elements as there are lanes") {
  using Lengths = std::vector<std::size_t>;
  const auto of = [](std::int64_t columns, int lanes) {
    const LoopProgram program = transpositions(DType::f32, columns);
    const auto runs = lane_runs(program, body_of(program), i0(), lanes);
    CHECK(lengths(runs, true) == lengths(runs, false));
    return lengths(runs, true);
  };
  CHECK(of(3, 16).empty());
  CHECK(of(4, 16) == Lengths{4});
  CHECK(of(15, 16) == Lengths{8, 4});
  CHECK(of(16, 16) == Lengths{16});
  CHECK(of(29, 8) == Lengths{8, 8, 8, 4});
  CHECK(of(8, 1).empty());
}

TEST_CASE("what must keep its place makes no run") {
  // x[i,0..8], of which statement number `at` is followed by another one.
  const auto loads = [](const Affine& subscript, std::size_t at, const std::function<void(Builder&, Block&)>& other) {
    Builder b;
    b.type = ValueType::f32;
    b.varying = true;
    b.program.buffers = {input("x", {100, 9}), output("y", {9, 100})};
    for (BufferDecl& buffer : b.program.buffers) buffer.dtype = DType::f32;
    Block block;
    for (std::int64_t k = 0; k < 8; ++k) {
      b.let(block, op::Load{0, {subscript, Affine(k)}, {}});
      if (block.size() == at) other(b, block);
    }
    return lengths(lane_runs(b.program, block, i0(), 16), false);
  };
  const auto nothing = [](Builder&, Block&) {};
  const auto store_to = [](BufferId buffer) {
    return [buffer](Builder& b, Block& block) {
      block.push_back(stmt::Store{buffer, {buffer == 0 ? Affine(i0()) : Affine(0), Affine(0)}, 0});
      b.program.buffers.at(buffer).written = true;
    };
  };
  using Lengths = std::vector<std::size_t>;
  CHECK(loads(i0(), 9, nothing) == Lengths{8});
  CHECK(loads(i1(), 9, nothing).empty());            // one address for all lanes
  CHECK(loads(i0(), 4, store_to(1)) == Lengths{8});  // another tensor does not matter
  CHECK(loads(i0(), 4, store_to(0)) == Lengths{4, 4});
  CHECK(loads(i0(), 4, [](Builder&, Block& block) { block.push_back(loop(i1(), Range::extent(2), {})); }) ==
        Lengths{4, 4});
}

TEST_CASE("runs have the interpreter's values") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const std::int64_t columns : {4, 7, 8, 16, 21}) {
      const LoopProgram program = transpositions(dtype, columns);
      verify(program);
      for (const TestMachine& test : machines()) {
        CAPTURE(test.name);
        CAPTURE(columns);
        const auto kernel = CpuKernel::build(program, test.machine, nullptr);
        const int lanes = lanes_for(program, test.machine);
        for (const std::int64_t rows : {lanes - 1, lanes, 2 * lanes, 2 * lanes + 1}) {
          if (rows == 0) continue;
          const auto count = static_cast<std::size_t>(rows * (columns + 5));
          Buffers got = {numbers(count, -1, 1), std::vector<double>(count, -7), numbers(count, 2, 3),
                         std::vector<double>(count, -7)};
          Buffers want = got;
          run_kernel(*kernel, program, got, {rows});
          run_interpreter(program, want, {rows});
          CHECK(got == want);
        }
      }
    }
  }
}
