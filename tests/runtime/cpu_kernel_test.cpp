// Machine code against the interpreter, for every vector width that the processor has.
#include "runtime/cpu/cpu_kernel.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <thread>

#include "compiler/support/error.h"
#include "runtime/cpu/plugin.h"
#include "tests/loop/sample_programs.h"
#include "tests/runtime/kernel_harness.h"

using namespace moxie;
using namespace moxie::samples;

namespace {

constexpr double kSingle = 2e-6, kDouble = 1e-14;

Symbol dim(const char* name) { return Symbol::dim(name); }

BufferDecl single(BufferDecl buffer) {
  buffer.dtype = DType::f32;
  return buffer;
}

stmt::For lanes(Symbol variable, Range range, Block body) {
  stmt::For result = loop(variable, std::move(range), std::move(body));
  result.vector = true;
  return result;
}

/// y[i] = value(i) in single precision over a vector loop of dynamic size N; buffer 0 is y, further ones are the
/// caller's.
template <class Body>
LoopProgram vectorised(std::vector<BufferDecl> inputs, const Body& body) {
  Builder b;
  b.type = ValueType::f32;
  b.varying = true;
  b.program.name = "vectorised";
  b.program.arguments = {"N"};
  b.program.buffers = {single(output("y", {dim("N")}))};
  for (BufferDecl& buffer : inputs) b.program.buffers.push_back(std::move(buffer));
  Block block;
  const ValueId value = body(b, block);
  block.push_back(stmt::Store{0, {i0()}, value});
  b.program.body = {lanes(i0(), Range::extent(dim("N")), block)};
  return b.program;
}

/// y = reduction over n of x[n], by lanes, started from `identity`.
LoopProgram reduction(ReduceKind kind, double identity, const char* step) {
  Builder b;
  b.type = ValueType::f32;
  b.program.name = "reduction";
  b.program.arguments = {"N"};
  b.program.buffers = {single(input("x", {dim("N")})), single(output("y", {1}))};
  b.program.vars = {{ValueType::f32, true}};
  Block& body = b.program.body;
  b.varying = true;
  body.push_back(stmt::SetVar{0, b.constant(body, identity)});
  Block round;
  const ValueId x = b.let(round, op::Load{0, {i0()}, {}});
  round.push_back(stmt::SetVar{0, b.call(round, step, {b.let(round, op::ReadVar{0}), x})});
  body.push_back(lanes(i0(), Range::extent(dim("N")), round));
  const ValueId partial = b.let(body, op::ReadVar{0});
  b.varying = false;
  body.push_back(stmt::Store{1, {0}, b.let(body, op::CombineLanes{kind, partial})});
  return b.program;
}

}  // namespace

TEST_CASE("a vector loop over a part of a buffer, with serial sums inside") {
  check_against_interpreter(column_squares(), {numbers(3 * 37), std::vector<double>(37, -1)}, {37, 2, 35}, kSingle);
}

TEST_CASE("reductions over lanes leave out the lanes beyond the range") {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {0, 1, 5, 16, 37, 64}) {
    CAPTURE(n);
    const Buffers data = {numbers(static_cast<std::size_t>(n), 0.5, 1.5), {-1}};
    check_against_interpreter(reduction(ReduceKind::Sum, 0, "+"), data, {n}, kSingle);
    check_against_interpreter(reduction(ReduceKind::Product, 1, "*"), data, {n}, kSingle);
    check_against_interpreter(reduction(ReduceKind::Max, -infinity, "max"), data, {n}, 0);
    check_against_interpreter(reduction(ReduceKind::Min, infinity, "min"), data, {n}, 0);
  }
}

TEST_CASE("gathers: strided, reversed, shared by all lanes, and over a dynamic stride") {
  const Affine i = i0(), n = dim("N");
  const auto element_of = [&](std::vector<Affine> shape, std::vector<std::uint32_t> layout,
                              std::vector<Affine> subscripts) {
    BufferDecl x = single(input("x", std::move(shape)));
    x.layout = std::move(layout);
    return vectorised({x}, [&](Builder& b, Block& block) { return b.let(block, op::Load{1, subscripts, {}}); });
  };
  const std::vector<double> y(37, -1);
  check_against_interpreter(element_of({75}, {0}, {i * 2 + Affine(1)}), {y, numbers(75)}, {37}, 0);
  check_against_interpreter(element_of({n}, {0}, {n - Affine(1) - i}), {y, numbers(37)}, {37}, 0);
  check_against_interpreter(element_of({n}, {0}, {n - Affine(1)}), {y, numbers(37)}, {37}, 0);
  check_against_interpreter(element_of({n, 3}, {0, 1}, {i, 2}), {y, numbers(3 * 37)}, {37}, 0);
  check_against_interpreter(element_of({n, n}, {0, 1}, {i, i}), {y, numbers(37 * 37)}, {37}, 0);
  check_against_interpreter(element_of({n, n}, {1, 0}, {i, n - Affine(3)}), {y, numbers(37 * 37)}, {37}, 0);
}

TEST_CASE("scatters: strided and over a dynamic stride, of vectors and of uniform values") {
  Builder b;
  b.type = ValueType::f32;
  b.program.name = "scatter";
  b.program.arguments = {"N"};
  const Affine i = i0(), n = dim("N");
  b.program.buffers = {single(output("y", {n * 2})), single(output("z", {n, n}))};
  Block block;
  const ValueId seven = b.constant(block, 7);
  b.varying = true;
  block.push_back(stmt::Store{0, {i * 2}, b.let(block, op::Number{i})});
  block.push_back(stmt::Store{1, {i, n - Affine(1) - i}, seven});
  b.program.body = {lanes(i0(), Range::extent(n), block)};
  check_against_interpreter(b.program, {std::vector<double>(42, -1), std::vector<double>(21 * 21, -1)}, {21}, 0);
}

TEST_CASE("lanes compare indices, near each other and further apart than 32 bits hold") {
  const Affine i = i0(), n = dim("N");
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  for (const char* comparison : {"<", "<=", ">", ">=", "==", "!="}) {
    for (const Affine& other : {Affine(7), n - Affine(9), n - i, i * 3 - Affine(4), Affine(kFar), Affine(-kFar) - i,
                                i + Affine(kFar), n * kFar, i * kFar}) {
      const LoopProgram program = vectorised({}, [&](Builder& b, Block& block) {
        const ValueId left = b.let(block, op::Number{i}), right = b.let(block, op::Number{other});
        const ValueId holds = b.call(block, comparison, {left, right});
        const ValueId constant = b.call(block, comparison, {left, b.constant(block, 20)});
        const ValueId both = b.call(block, "where", {constant, b.constant(block, 1), b.constant(block, 2)});
        return b.call(block, "where", {holds, both, b.constant(block, 0)});
      });
      check_against_interpreter(program, {std::vector<double>(37, -1)}, {37}, 0);
    }
  }
}

TEST_CASE("a guarded load reads nothing where the guard is false, not even of an empty buffer") {
  const auto guarded = [](bool varying_guard, std::vector<Affine> subscripts) {
    return vectorised({single(input("x", {dim("M")}))}, [&](Builder& b, Block& block) {
      b.program.arguments.push_back("M");
      b.varying = varying_guard;
      const ValueId at = b.let(block, op::Number{varying_guard ? subscripts[0] : Affine(dim("N"))});
      const ValueId size = b.let(block, op::Number{dim("M")});
      const ValueId low = b.call(block, ">=", {at, b.constant(block, 0)});
      const ValueId inside = b.call(block, "and", {low, b.call(block, "<", {at, size})});
      b.varying = true;
      return b.let(block, op::Load{1, subscripts, inside});
    });
  };
  const std::vector<double> y(37, -1);
  for (const bool varying : {true, false}) {
    for (const std::int64_t size : {0, 5, 20, 60}) {
      CAPTURE(size);
      const std::vector<double> x = numbers(static_cast<std::size_t>(size));
      if (varying) check_against_interpreter(guarded(true, {Affine(i0()) - Affine(3)}), {y, x}, {37, size}, 0);
      if (varying) check_against_interpreter(guarded(true, {Affine(i0()) * 2 - Affine(9)}), {y, x}, {37, size}, 0);
      if (!varying) check_against_interpreter(guarded(false, {i0()}), {y, x}, {37, size}, 0);
      if (!varying) check_against_interpreter(guarded(false, {Affine(2)}), {y, x}, {37, size}, 0);
      if (!varying) check_against_interpreter(guarded(false, {dim("N") - Affine(1) - i0()}), {y, x}, {37, size}, 0);
    }
  }
}

TEST_CASE("one address for all lanes under a guard that varies") {
  const LoopProgram p = vectorised({single(input("x", {3}))}, [](Builder& b, Block& block) {
    const ValueId far = b.call(block, ">", {b.let(block, op::Number{i0()}), b.constant(block, 30)});
    return b.let(block, op::Load{1, {2}, far});
  });
  check_against_interpreter(p, {std::vector<double>(37, -1), numbers(3)}, {37}, 0);
}

TEST_CASE("scratch arrays, one value per lane and one for all") {
  const LoopProgram p = vectorised({single(input("x", {dim("N"), 5}))}, [](Builder& b, Block& block) {
    b.program.arrays = {{"square", DType::f32, {5}, true}, {"weight", DType::f64, {2, 5}, false}};
    b.program.vars = {{ValueType::f32, true}};
    const Affine r = i1();
    Block fill, sum;
    const ValueId x = b.let(fill, op::Load{1, {i0(), r}, {}});
    fill.push_back(stmt::StoreArray{0, {r}, b.call(fill, "*", {x, x})});
    b.varying = false;
    const ValueId weight = b.let(fill, ValueType::f64, op::Number{r + Affine(1)});
    fill.push_back(stmt::StoreArray{1, {1, r}, weight});
    block.push_back(loop(i1(), Range::extent(5), fill));
    b.varying = true;
    block.push_back(stmt::SetVar{0, b.constant(block, 0)});
    b.varying = false;
    const ValueId wide = b.let(sum, ValueType::f64, op::LoadArray{1, {1, r}});
    const ValueId narrow = b.let(sum, op::Convert{wide});
    b.varying = true;
    const ValueId term = b.call(sum, "*", {b.let(sum, op::LoadArray{0, {r}}), narrow});
    sum.push_back(stmt::SetVar{0, b.call(sum, "+", {b.let(sum, op::ReadVar{0}), term})});
    block.push_back(loop(i1(), Range::extent(5), sum));
    return b.let(block, op::ReadVar{0});
  });
  check_against_interpreter(p, {std::vector<double>(37, -1), numbers(5 * 37)}, {37}, kSingle);
}

TEST_CASE("accumulators in an array outlive the rounds of the vector loop") {
  Builder b;
  b.type = ValueType::f32;
  b.program.name = "array_sums";
  b.program.arguments = {"N"};
  b.program.buffers = {single(input("x", {3, dim("N")})), single(output("y", {3}))};
  b.program.arrays = {{"sum", DType::f32, {3}, true}};
  const Affine r = i1();
  b.varying = true;
  Block start, round, term, finish;
  start.push_back(stmt::StoreArray{0, {r}, b.constant(start, 0)});
  const ValueId x = b.let(term, op::Load{0, {r, i0()}, {}});
  const ValueId biased = b.call(term, "+", {x, b.constant(term, 1)});
  term.push_back(stmt::StoreArray{0, {r}, b.call(term, "+", {b.let(term, op::LoadArray{0, {r}}), biased})});
  round.push_back(loop(i1(), Range::extent(3), term));
  const ValueId sum = b.let(finish, op::LoadArray{0, {r}});
  b.varying = false;
  finish.push_back(stmt::Store{1, {r}, b.let(finish, op::CombineLanes{ReduceKind::Sum, sum})});
  b.program.body = {loop(i1(), Range::extent(3), start), lanes(i0(), Range::extent(dim("N")), round),
                    loop(i1(), Range::extent(3), finish)};
  check_against_interpreter(b.program, {numbers(3 * 37), {-1, -1, -1}}, {37}, kSingle);
}

TEST_CASE("double precision inside a single precision kernel") {
  const LoopProgram p =
      vectorised({input("x", {dim("N")}), single(input("w", {dim("N")}))}, [](Builder& b, Block& block) {
        const ValueId x = b.let(block, ValueType::f64, op::Load{1, {i0()}, {}});
        const ValueId w = b.let(block, ValueType::f64, op::Load{2, {i0()}, {}});
        const ValueId difference = b.let(block, ValueType::f64, op::Call{&function("+"), {x, w}});
        const ValueId e = b.let(block, ValueType::f64, op::Call{&function("exp"), {difference}});
        const ValueId less = b.let(block, ValueType::truth, op::Call{&function("<"), {e, x}});
        const ValueId narrow = b.let(block, op::Convert{e});
        return b.call(block, "where", {less, b.constant(block, 0), narrow});
      });
  check_against_interpreter(p, {std::vector<double>(37, -1), numbers(37), numbers(37)}, {37}, kSingle);
}

TEST_CASE("a kernel without a vector loop") {
  const LoopProgram p = elementwise(9, [](Builder& b, Block& block) {
    b.program.vars = {{ValueType::f64, false}};
    const Affine i = i0();
    block.push_back(stmt::SetVar{0, b.constant(block, 0)});
    Block count;
    const ValueId term = b.call(count, "sqrt", {b.let(count, op::Number{Affine(i1()) + Affine(7)})});
    count.push_back(stmt::SetVar{0, b.call(count, "+", {b.let(count, op::ReadVar{0}), term})});
    block.push_back(loop(i1(), Range{{{2, i - Affine(5)}, {1, -2}}, {{3, i * 2 - Affine(4)}, {1, 4}}}, count, "j"));
    return b.let(block, op::ReadVar{0});
  });
  check_against_interpreter(p, {std::vector<double>(9, -1)}, {}, kDouble);
}

TEST_CASE("a loop of constant size that is a multiple of the lanes needs no mask, and one that is not does") {
  for (const std::int64_t size : {0, 1, 64, 65}) {
    CAPTURE(size);
    LoopProgram p = vectorised({single(input("x", {size}))},
                               [](Builder& b, Block& block) { return b.let(block, op::Load{1, {i0()}, {}}); });
    p.buffers[0].shape = {size};
    std::get<stmt::For>(p.body[0]).range = Range::extent(size);
    const auto count = static_cast<std::size_t>(size);
    check_against_interpreter(p, {std::vector<double>(count, -1), numbers(count)}, {0}, 0);
    if (size == 64) CHECK(llvm_text(p, host_machine()).find("masked") == std::string::npos);
  }
}

TEST_CASE("random numbers have the interpreter's bits") {
  for (const RandomKind kind : {RandomKind::Uniform, RandomKind::Normal}) {
    LoopProgram p = vectorised({}, [&](Builder& b, Block& block) {
      return b.let(block, op::Random{kind, 3, {Affine(i0()) * 3 - Affine(7), 11, dim("N")}});
    });
    p.arguments = {"N", "%seed", "%step"};
    check_against_interpreter(p, {std::vector<double>(1000, -1)}, {1000, (std::int64_t{77} << 32) + 5, 9}, 2e-6);
    check_against_interpreter(p, {std::vector<double>(1000, -1)}, {1000, -1, std::int64_t{1} << 40}, 2e-6);
  }
}

TEST_CASE("the first failing lane inside the range is reported") {
  const LoopProgram p = vectorised({single(input("x", {dim("N")}))}, [](Builder& b, Block& block) {
    b.program.checks = {{"never", {}}, {"negative", {"i", "twice"}}};
    const ValueId x = b.let(block, op::Load{1, {i0()}, {}});
    const ValueId bad = b.call(block, "not", {b.call(block, ">", {x, b.constant(block, 0)})});
    block.push_back(stmt::Check{bad, 1, {i0(), Affine(i0()) * 2 + Affine(1)}, x});
    return x;
  });
  std::vector<double> x = numbers(37, 1, 2);
  check_against_interpreter(p, {std::vector<double>(37, -1), x}, {37},
                            0);  // lanes beyond the range load zero and do not count
  x[22] = -3, x[30] = -4;
  check_against_interpreter(p, {std::vector<double>(37, -1), x}, {37}, 0);
  Buffers data = {std::vector<double>(37, -1), x};
  const KernelStatus status = run_kernel(*CpuKernel::build(p, host_machine(), nullptr), p, data, {37});
  CHECK(status.check == 1);
  CHECK(status.value == -3);
  CHECK(data[0][36] == x[36]);
}

TEST_CASE("a warm start compiles nothing") {
  const auto directory = std::filesystem::temp_directory_path() / "moxie_cpu_kernel_test";
  std::filesystem::remove_all(directory);
  const LoopProgram p = column_squares();
  {
    KernelCache cache(directory);
    CpuKernel::build(p, host_machine(), &cache);
    CHECK(cache.stats().misses == 1);
  }
  const std::int64_t compilations = llvm_compilations();
  KernelCache cache(directory);
  LoopProgram commented = p;
  commented.comments = {"another comment"};
  const auto kernel = CpuKernel::build(commented, host_machine(), &cache);
  CHECK(cache.stats().hits == 1);
  CHECK(llvm_compilations() == compilations);

  SUBCASE("an object that cannot be loaded is compiled again") {
    cache.store(cpu_cache_key(cache, kernel->source(), host_machine()), {"no object", "", ""});
    CpuKernel::build(p, host_machine(), &cache);
    CHECK(cache.stats().damaged == 1);
    CHECK(llvm_compilations() == compilations + 1);
  }
  std::filesystem::remove_all(directory);
}

TEST_CASE("several kernels at once") {
  std::vector<LoopProgram> programs;
  for (int i = 0; i < 6; ++i) {
    programs.push_back(column_squares());
    programs.back().name += std::to_string(i) + " \"odd\"\nname";
  }
  const auto kernels = CpuKernel::build_all(programs, host_machine(), nullptr);
  REQUIRE(kernels.size() == programs.size());
  for (std::size_t i = 0; i < programs.size(); ++i) CHECK(kernels[i]->name() == programs[i].name);
  CHECK(CpuKernel::build_all({}, host_machine(), nullptr).empty());
}

TEST_CASE("kernels that differ in nothing but their names are compiled once") {
  const auto directory = std::filesystem::temp_directory_path() / "moxie_alike_kernels_test";
  std::filesystem::remove_all(directory);
  std::vector<LoopProgram> programs(3, column_squares());
  programs[1].name = "another \"odd\"\nname";
  programs[2].name += ".other";
  KernelCache cache(directory);
  const std::int64_t before = llvm_compilations();
  const auto kernels = CpuKernel::build_all(programs, host_machine(), &cache);
  CHECK(llvm_compilations() == before + 1);
  CpuKernel::build(programs[2], host_machine(), &cache);
  CHECK(llvm_compilations() == before + 1);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    Buffers data = {{1, 2, 3}, {-1}};  // x[3,1], y[1]
    run_kernel(*kernels[i], programs[i], data, {1, 0, 1});
    CHECK(data[1][0] == 14);
    CHECK(kernels[i]->name() == programs[i].name);
    CHECK(&kernels[i]->object() == &kernels[0]->object());
  }
  std::filesystem::remove_all(directory);
}

TEST_CASE("text that LLVM refuses is an error with its reason") {
  CHECK_THROWS_AS(compile_llvm("define void @f( {", host_machine()), CompileError);
  CHECK_THROWS_AS(compile_llvm("", {"no-such-target", "generic", "", 128}), CompileError);
  CHECK_THROWS_AS(compile_llvm("define void @f() { ret i32 0 }", host_machine()), CompileError);
}
