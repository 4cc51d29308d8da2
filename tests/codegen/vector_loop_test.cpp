// Vector loops of every trip count around multiples of the lanes, against the interpreter.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/schedule/lower_nest.h"
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
LoopProgram rows(DType dtype, const Affine& extent, int interleave = 1, int padding = 0) {
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
  lanes.interleave = interleave;
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

/// Every path through the loop: several groups at once, single ones, and the tail.
std::int64_t most_trips(const LoopProgram& program, const VectorMachine& machine, int interleave = 1) {
  return (interleave + 2) * lanes_for(program, machine) + 1;
}

constexpr std::array kDTypes{DType::f32, DType::f64};

/// Numbers between two pages that nobody may read: right behind the first or right before the second one.
class Fenced {
 public:
  Fenced(DType dtype, const std::vector<double>& values, bool at_end) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), width = dtype == DType::f32 ? 4 : 8;
    const std::size_t bytes = values.size() * width, room = (bytes / page + 1) * page;
    size_ = room + 2 * page;
    base_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(mprotect(base_ + page, room, PROT_READ | PROT_WRITE) == 0);
    data_ = base_ + page + (at_end ? room - bytes : 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto single = static_cast<float>(values[i]);
      std::memcpy(data_ + i * width, dtype == DType::f32 ? static_cast<const void*>(&single) : &values[i], width);
    }
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(base_, size_); }
  void* data() { return data_; }

 private:
  std::byte *base_, *data_;
  std::size_t size_;
};

/// y[i] = x[subscript] over lanes, i in 0..N.
LoopProgram copy(DType dtype, const Affine& subscript, const Affine& size) {
  Builder b;
  b.type = dtype == DType::f32 ? ValueType::f32 : ValueType::f64;
  b.varying = true;
  b.program.name = "copy";
  b.program.arguments = {"N"};
  b.program.buffers = {input("x", {size}), output("y", {Symbol::dim("N")})};
  for (BufferDecl& buffer : b.program.buffers) buffer.dtype = dtype;
  Block block;
  block.push_back(stmt::Store{1, {i0()}, b.let(block, op::Load{0, {subscript}, {}})});
  stmt::For lanes = loop(i0(), Range::extent(Symbol::dim("N")), block);
  lanes.vector = true;
  b.program.body = {lanes};
  return b.program;
}

}  // namespace

TEST_CASE("reductions and maps over any number of elements, known at run time") {
  for (const DType dtype : kDTypes) {
    for (const int interleave : {1, 2, 3, 4}) {
      CAPTURE(interleave);
      const LoopProgram program = rows(dtype, Symbol::dim("K"), interleave);
      for (const TestMachine& test : test_machines()) {
        CAPTURE(test.name);
        const auto kernel = CpuKernel::build(program, test.machine, nullptr);
        const std::int64_t most = most_trips(program, test.machine, interleave);
        for (std::int64_t extent = 0; extent <= most; ++extent) check(program, run(program, *kernel, extent), extent);
      }
    }
  }
}

TEST_CASE("reductions and maps over a constant number of elements") {
  for (const DType dtype : kDTypes) {
    for (const int interleave : {1, 2}) {
      CAPTURE(interleave);
      const std::int64_t most = most_trips(rows(dtype, 1), host_machine(), interleave);
      for (std::int64_t extent = 0; extent <= most; ++extent) {
        const LoopProgram program = rows(dtype, extent, interleave);
        check(program, run(program, *CpuKernel::build(program, host_machine(), nullptr), extent), extent);
      }
    }
  }
}

TEST_CASE("serial sums inside a vector loop, several iterations at once") {
  for (const int interleave : {2, 4}) {
    LoopProgram program = column_squares();
    auto& serial = std::get<stmt::For>(std::get<stmt::For>(program.body[0]).body[2]);
    serial.interleave = interleave;
    for (std::int64_t rows = 0; rows <= 11; ++rows) {
      CAPTURE(rows);
      serial.range = Range::extent(rows);
      program.buffers[0].shape[0] = rows;
      check_against_interpreter(program, {numbers(static_cast<std::size_t>(rows * 37)), std::vector<double>(37, -1)},
                                {37, 2, 35}, 2e-6);
    }
  }
}

TEST_CASE("what iterations hand on besides is handed on in order") {
  Builder b;
  b.type = ValueType::f32;
  b.program.name = "running";
  b.program.arguments = {"K"};
  const Affine k = i0(), extent = Symbol::dim("K");
  b.program.buffers = {input("x", {extent}), output("y", {extent})};
  for (BufferDecl& buffer : b.program.buffers) buffer.dtype = DType::f32;
  b.program.vars = {{b.type, false}};
  Block element;
  b.program.body.push_back(stmt::SetVar{0, b.constant(b.program.body, 0)});
  const ValueId half = b.call(element, "*", {b.let(element, op::ReadVar{0}), b.constant(element, 0.5)});
  const ValueId next = b.call(element, "+", {half, b.let(element, op::Load{0, {k}, {}})});
  element.push_back(stmt::SetVar{0, next});
  element.push_back(stmt::Store{1, {k}, next});
  stmt::For serial = loop(i0(), Range::extent(extent), element, "k");
  serial.interleave = 4;
  b.program.body.push_back(serial);
  for (std::int64_t count = 0; count <= 9; ++count) {
    const auto size = static_cast<std::size_t>(count);
    check_against_interpreter(b.program, {numbers(size), std::vector<double>(size, -1)}, {count}, 1e-6);
  }
}

TEST_CASE("a long body, which is written once with masks, gives the bits of one with a tail of its own") {
  for (const DType dtype : kDTypes) {
    const LoopProgram with_tail = rows(dtype, Symbol::dim("K")), masked = rows(dtype, Symbol::dim("K"), 1, 200);
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

TEST_CASE("elements at a short stride are read in whole vectors, and nothing beyond the first and last of them") {
  const Affine i = i0(), n = Symbol::dim("N");
  for (const DType dtype : kDTypes) {
    for (const std::int64_t stride : {-5, -4, -3, -2, -1, 2, 3, 4, 5}) {
      CAPTURE(stride);
      const std::int64_t distance = std::abs(stride);
      // Elements 0, distance, ..., distance*(N-1): the buffer begins with the first and ends with the last.
      const Affine size = n * distance - Affine(distance - 1);
      const Affine subscript = stride > 0 ? i * stride : i * stride + n * distance - Affine(distance);
      const LoopProgram program = copy(dtype, subscript, size);
      for (const TestMachine& test : test_machines()) {
        CAPTURE(test.name);
        const auto kernel = CpuKernel::build(program, test.machine, nullptr);
        for (std::int64_t count = 1; count <= most_trips(program, test.machine); ++count) {
          CAPTURE(count);
          Buffers expected{numbers(static_cast<std::size_t>(distance * (count - 1) + 1)),
                           std::vector<double>(static_cast<std::size_t>(count), -7)};
          for (const bool at_end : {false, true}) {
            Fenced x(dtype, expected[0], at_end), y(dtype, expected[1], at_end);
            const std::array<void*, 2> pointers{x.data(), y.data()};
            KernelStatus status;
            kernel->run(pointers.data(), &count, nullptr, &status);
            run_interpreter(program, expected, {count});
            CHECK(std::memcmp(y.data(), Fenced(dtype, expected[1], at_end).data(),
                              expected[1].size() * (dtype == DType::f32 ? 4 : 8)) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("lanes that search for the position of an extremum find the first of equal elements") {
  const Program program = optimise(parse(R"(dim K dynamic
index s in 0..3, k:K
input x[3,K]
output y[s] = argmax[k](x[s,k])
output z[s] = argmin[k](x[s,k])
)"));
  const FusedProgram fused = fuse(program);
  const LoweredKernel lowered =
      lower(fused, apply(parse_schedule("lanes(sum)"), plain_nest(fused.program.definitions)));
  CHECK(lanes_for(lowered.program, host_machine()) > 1);
  for (const TestMachine& test : test_machines()) {
    CAPTURE(test.name);
    const auto kernel = CpuKernel::build(lowered.program, test.machine, nullptr);
    for (std::int64_t extent = 1; extent <= most_trips(lowered.program, test.machine); ++extent) {
      CAPTURE(extent);
      const auto count = static_cast<std::size_t>(extent);
      std::vector<double> x(3 * count, -kInfinity);  // the first row holds ties, the second nothing else
      for (std::size_t k = 0; k < count; ++k) x[k] = static_cast<double>((7 * k) % 5);
      for (std::size_t k = 0; k < count; ++k) x[2 * count + k] = k % 6 == 4 ? std::nan("") : static_cast<double>(k);
      Buffers data{x, {-7, -7, -7}, {-7, -7, -7}};
      run_kernel(*kernel, lowered.program, data, {extent, 0, 1, 0, 0, 0, 0, 0, 0});
      const TensorValues expected = evaluate(program, {{"K", extent}}, {{"x", x}});
      CHECK(data[1] == expected.at("y"));
      CHECK(data[2] == expected.at("z"));
    }
  }
}
