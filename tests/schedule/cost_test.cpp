// The cost of kernels is read off their loops: what is counted for small formulas, exactly.
#include "compiler/schedule/cost.h"

#include <doctest/doctest.h>

#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tests/loop/sample_programs.h"

using namespace moxie;

namespace {

struct Kernels {
  FusedProgram fused;
  std::vector<LoweredKernel> kernels;
};

Kernels kernels_of(const std::string& text, const DimValues& dims) {
  Kernels result{fuse(optimise(specialise(parse(text), dims)), Products::kernels), {}};
  for (const Step& step : result.fused.steps) result.kernels.push_back(lower(result.fused, std::get<Kernel>(step)));
  return result;
}

/// 16 lanes of f32, and caches that hold everything.
Machine simple_machine() {
  Machine machine = default_machine("x86-64-v4");
  machine.levels = {{"L1", 1 << 10, 64, 64, 0}, {"L2", 1 << 20, 16, 32, 0}};
  return machine;
}

Cost cost_of(const std::string& text, const DimValues& dims, const Machine& machine = simple_machine()) {
  const Kernels all = kernels_of(text, dims);
  REQUIRE(all.kernels.size() == 1);
  INFO(print(all.kernels[0].program));
  return estimate(all.kernels[0], dims, machine);
}

}  // namespace

TEST_CASE("lanes, pieces, masks and fused operations of an element by element formula") {
  const Cost cost = cost_of("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = 2*x[n] + 1\n", {{"N", 1000}});
  CHECK(cost.lanes == 16);
  CHECK(cost.pieces == 63);  // vectors of 1000 elements, each of them a tile
  CHECK(cost.count(OperationClass::Iteration) == doctest::Approx(63));
  CHECK(cost.count(OperationClass::LoopEntry) == doctest::Approx(63));
  CHECK(cost.count(OperationClass::Arithmetic) == doctest::Approx(63));
  CHECK(cost.count(OperationClass::Load) == doctest::Approx(62));
  CHECK(cost.count(OperationClass::MaskedLoad) == doctest::Approx(1));  // the last vector has eight elements
  CHECK(cost.count(OperationClass::Store) == doctest::Approx(62));
  CHECK(cost.count(OperationClass::MaskedStore) == doctest::Approx(1));
  CHECK(cost.count(OperationClass::Gather) == 0);
  CHECK(cost.traffic[0].bytes == doctest::Approx(4000 + 2 * 4000));  // what is stored is fetched first
  CHECK(cost.traffic[1].bytes == 0);                                 // and all of it fits in the second level
}

TEST_CASE("a body that is too long to be written twice runs under masks throughout") {
  const auto text = [](int terms, const char* dim) {
    std::string sum = "x[n]";
    for (int k = 0; k < terms; ++k) sum = "max(" + sum + ", x[n]*" + std::to_string(k + 2) + ")";
    return "dim N" + std::string(dim) + "\nindex n:N\ninput x[N]\noutput y[n] = " + sum + "\n";
  };
  CHECK(cost_of(text(20, " dynamic"), {{"N", 1000}}).count(OperationClass::MaskedStore) == doctest::Approx(1));
  CHECK(cost_of(text(80, " dynamic"), {{"N", 1000}}).count(OperationClass::MaskedStore) == doctest::Approx(63));
}

TEST_CASE("elements two apart are loaded as whole vectors and shuffled, elements far apart one by one") {
  const Cost near = cost_of("dim N = 1024\nindex n:N\ninput x[2*N]\noutput y[n] = x[2*n]\n", {});
  CHECK(near.count(OperationClass::Load) == doctest::Approx(2 * 64));
  CHECK(near.count(OperationClass::Gather) == 0);
  const Cost far = cost_of("dim N = 1024\nindex n:N\ninput x[5*N]\noutput y[n] = x[5*n]\n", {});
  CHECK(far.count(OperationClass::Load) == 0);
  CHECK(far.count(OperationClass::Gather) == doctest::Approx(1024));
}

TEST_CASE("whole vectors need no masks") {
  const Cost cost = cost_of("dim N = 64\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])/x[n]\n", {});
  CHECK(cost.count(OperationClass::Store) == doctest::Approx(4));
  CHECK(cost.count(OperationClass::MaskedStore) == 0);
  CHECK(cost.count(OperationClass::DivideF32) == doctest::Approx(4));
  CHECK(cost.count(OperationClass::Function) == doctest::Approx(40));  // ten multiply-adds each
  CHECK(cost.traffic == std::vector<Traffic>{{}, {}});
}

TEST_CASE("doubles take twice the registers in lanes of single numbers, and half the lanes otherwise") {
  const Cost doubles =
      cost_of("dim N dynamic\nindex n:N\ninput x[N]: f64\noutput y[n]: f64 = 2*x[n] + 1\n", {{"N", 64}});
  CHECK(doubles.lanes == 8);
  CHECK(doubles.count(OperationClass::Arithmetic) == doctest::Approx(8));
}

TEST_CASE("partial sums: each chunk combines its lanes, and the chunks are added") {
  const Cost cost = cost_of("dim N dynamic\nindex n:N\ninput x[N]\noutput y = sum[n](x[n]^2)\n", {{"N", 1 << 20}});
  CHECK(cost.pieces == 16);
  CHECK(cost.count(OperationClass::Combine) == doctest::Approx(16 * 4));  // halvings of 16 lanes
  CHECK(cost.count(OperationClass::Iteration) == doctest::Approx(1 << 16));
  CHECK(cost.combine == doctest::Approx(16e-9 / simple_machine().gigahertz * simple_machine().partial_cycles));
}

TEST_CASE("more cores, less time, as long as there are pieces") {
  const char* text = "dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n";
  Machine machine = simple_machine();
  machine.wake_seconds = 0;
  machine.cores = 1;
  const Cost one = cost_of(text, {{"N", 4096}}, machine);
  machine.cores = 4;
  const Cost four = cost_of(text, {{"N", 4096}}, machine);
  CHECK(four.seconds - four.launch == doctest::Approx((one.seconds - one.launch) / 4));
  CHECK(four.compute == one.compute);
  CHECK(four == cost_of(text, {{"N", 4096}}, machine));
}

TEST_CASE("a dim without a value is an error") {
  const Kernels all = kernels_of("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n", {});
  CHECK_THROWS_AS(estimate(all.kernels.at(0), {}, simple_machine()), ShapeError);
}

namespace {

const Affine kI = samples::i0(), kJ = samples::i1();

/// for i { acc = 0; for j { body }; y[i] = acc }, in f32.
struct PlainNest {
  samples::Builder b;
  Block inner;
  Machine machine = simple_machine();

  explicit PlainNest(const std::vector<Affine>& shape) {
    b.type = ValueType::f32;
    b.program.name = "nest";
    b.program.buffers = {samples::input("x", shape)};
    b.program.buffers[0].dtype = DType::f32;
  }
  ValueId load(const std::vector<Affine>& subscripts) { return b.let(inner, op::Load{0, subscripts, {}}); }
  /// One more sum of `value`.
  void add(ValueId value) {
    const auto var = static_cast<VarId>(b.program.vars.size());
    b.program.vars.push_back({ValueType::f32, b.varying});
    const ValueId sum = b.let(inner, op::ReadVar{var});
    inner.push_back(stmt::SetVar{var, b.call(inner, "+", {sum, value})});
  }
  Cost cost(const Range& outer, const Range& range, bool vector = false) {
    stmt::For j = samples::loop(samples::i1(), range, inner, "j");
    stmt::For i = samples::loop(samples::i0(), outer, {j}, "i");
    (vector ? std::get<stmt::For>(i.body[0]) : i).vector = b.varying;
    LoweredKernel kernel;
    kernel.program = b.program;
    kernel.program.body = {i};
    verify(kernel.program);
    return estimate(kernel, {}, machine);
  }
};

}  // namespace

TEST_CASE("triangles count half, vectors of their rows rounded up") {
  PlainNest nest({64});
  nest.add(nest.load({kJ}));
  const Cost serial = nest.cost(Range::extent(64), Range::half_open(0, kI + Affine(1)));
  CHECK(serial.count(OperationClass::Load) == 64 * 65 / 2);
  CHECK(serial.count(OperationClass::Arithmetic) == 64 * 65 / 2);
  CHECK(serial.count(OperationClass::Iteration) == 64 + 64 * 65 / 2);
  CHECK(serial.count(OperationClass::LoopEntry) == 1 + 64);

  PlainNest rows({64});
  rows.b.varying = true;
  rows.add(rows.load({kJ}));
  const Cost vectors = rows.cost(Range::extent(64), Range::half_open(0, kI + Affine(1)), /*vector=*/true);
  CHECK(vectors.count(OperationClass::Load) + vectors.count(OperationClass::MaskedLoad) ==
        doctest::Approx(16 * (1 + 2 + 3 + 4)));
  CHECK(vectors.count(OperationClass::MaskedLoad) == doctest::Approx(64));  // the end of each row
}

TEST_CASE("a loop whose end is the least of several") {
  PlainNest nest({64});
  nest.add(nest.load({kJ}));
  const Cost cost = nest.cost(Range::extent(8), {{{1, kI - Affine(2)}, {1, 0}}, {{1, kI + Affine(1)}, {2, 11}}});
  CHECK(cost.count(OperationClass::Load) == 2 + 3 + 4 + 4 + 4 + 3 + 2 + 1);
}

TEST_CASE(
    "ranges that data give have all elements in parts where one tensor has their ends, otherwise half of them each") {
  const auto loads = [](const char* rows) {
    const std::string text = "dim N = 100, K = 3000\nindex i:N, k:K\ninput start[N+1]: i32, len[N]: i32, w[K]\n";
    const Plan plan = make_plan(specialise(parse(text + rows), {}));
    const auto& kernel = std::get<LoweredKernel>(plan.steps.front());
    return estimate(kernel, {}, simple_machine()).count(OperationClass::Load);
  };
  const double rows = loads("output y[i] = sum[k in start[i]..start[i+1]](w[k])\n");
  CHECK(rows > 2900);
  CHECK(rows < 3500);
  const double boxes = loads("output y[i] = sum[k in len[i]..start[i]](w[k])\n");
  CHECK(boxes > 100 * 1500);
  CHECK(boxes < 100 * 1600);
  const double looked_up = loads("output y[i] = sum[k in start[len[i]]..start[len[i]+1]](w[k])\n");
  CHECK_MESSAGE(looked_up < 4000, "ends that values choose are ends too");
}

TEST_CASE("loops that follow each other are counted by their own values where they have one variable") {
  PlainNest nest({64});
  LoweredKernel kernel;
  Block body;
  for (const std::int64_t first : {0, 8}) {
    nest.inner.clear();
    nest.add(nest.load({kJ}));
    const stmt::For j = samples::loop(samples::i1(), Range::half_open(0, kI + Affine(1)), nest.inner, "j");
    body.emplace_back(samples::loop(samples::i0(), Range::half_open(first, first + 8), {j}, "i"));
  }
  kernel.program = nest.b.program;
  kernel.program.body = body;
  verify(kernel.program);
  CHECK(estimate(kernel, {}, nest.machine).count(OperationClass::Load) == 16 * 17 / 2);
}

TEST_CASE("lanes that are not neighbours in memory are gathered, and scalars are loaded once") {
  PlainNest nest({64, 12});
  nest.b.varying = true;
  nest.add(nest.load({kI, kJ}));
  const Cost gathered = nest.cost(Range::extent(64), Range::extent(12));
  CHECK(gathered.count(OperationClass::Gather) == 64 * 12);
  CHECK(gathered.count(OperationClass::Load) == 0);

  PlainNest columns({12, 64});
  columns.b.varying = true;
  columns.add(columns.load({kJ, kI}));
  const Cost loaded = columns.cost(Range::extent(64), Range::extent(12));
  CHECK(loaded.count(OperationClass::Load) == 4 * 12);
  CHECK(loaded.seconds < gathered.seconds);

  PlainNest uniform({12});
  uniform.b.varying = true;
  uniform.add(uniform.load({kJ}));
  CHECK(uniform.cost(Range::extent(64), Range::extent(12)).count(OperationClass::Load) == 4 * 12);
}

TEST_CASE("a sum waits for itself, several sums for none of each other") {
  const Machine machine = simple_machine();
  const double cycle = 1e-9 / machine.gigahertz;
  PlainNest one({1000});
  one.add(one.load({kJ}));
  const Cost single = one.cost(Range::extent(1), Range::extent(1000));
  CHECK(single.latency / cycle == doctest::Approx(machine.load_latency + 1000 * machine.arithmetic_latency));
  CHECK(single.latency > single.compute);

  PlainNest four({1000});
  const ValueId x = four.load({kJ});
  for (int k = 0; k < 4; ++k) four.add(x);
  const Cost several = four.cost(Range::extent(1), Range::extent(1000));
  CHECK(several.latency == single.latency);
  CHECK(several.count(OperationClass::Arithmetic) == 4 * single.count(OperationClass::Arithmetic));
}

TEST_CASE("what fits in a cache is moved once, what does not as often as it is read") {
  PlainNest rows({1000, 1000});
  rows.add(rows.load({kI, kJ}));
  rows.add(rows.load({Affine(0), kJ}));  // one row again and again
  const Cost by_rows = rows.cost(Range::extent(1000), Range::extent(1000));
  CHECK(by_rows.traffic[0].bytes == doctest::Approx(2 * 4e6));     // 1 KiB holds no row
  CHECK(by_rows.traffic[1].bytes == doctest::Approx(4e6 + 4000));  // 1 MiB holds the row, and one of the matrix

  PlainNest columns({1000, 1000});
  columns.add(columns.load({kJ, kI}));
  const Cost by_columns = columns.cost(Range::extent(1000), Range::extent(1000));
  CHECK(by_columns.traffic[0].bytes == doctest::Approx(64e6));  // a line for each element
  CHECK(by_columns.traffic[0].scattered == by_columns.traffic[0].bytes);
  CHECK(by_rows.traffic[1].scattered == 0);
  CHECK(by_columns.traffic[1].bytes == doctest::Approx(4e6));  // the lines of a column stay until the next column
}

TEST_CASE("a few rows that a loop takes on line by line are streams, many are not") {
  const auto scattered = [](std::int64_t rows) {
    PlainNest nest({rows, 4096});
    nest.add(nest.load({kJ, kI}));
    nest.machine.levels = {{"L1", 32 << 10, 64, 64, 4096}};
    return nest.cost(Range::extent(4096), Range::extent(rows)).traffic[0];
  };
  CHECK(scattered(16).bytes == doctest::Approx(64.0 * 16 * 4096));  // all rows begin in the same lines of the cache
  CHECK(scattered(16).scattered == 0);
  CHECK(scattered(64).scattered == scattered(64).bytes);
}

TEST_CASE("what different values name is moved once for each") {
  const auto moved = [](const std::string& sum) {
    return cost_of("dim S, V\nindex s:S\ninput x[V], i[S]: i32 >= 0, j[S]: i32 >= 0\noutput y[s] = " + sum + "\n",
                   {{"S", 4096}, {"V", 1 << 20}})
        .traffic[1]
        .bytes;
  };
  const double one = moved("x[i[s]]*j[s]");
  CHECK(moved("x[i[s]] + x[j[s]]") == doctest::Approx(one + 64.0 * 4096).epsilon(0.02));
  CHECK(moved("x[i[s]] + x[i[s]+1]*j[s]") < one + 64.0 * 4096);
}

TEST_CASE("neighbours far from those of other lanes take a load for each lane, and shuffles") {
  constexpr double kLanes = 16, kRun = 4;
  PlainNest nest({64, 12});
  nest.b.varying = true;
  for (std::int64_t k = 0; k < 4; ++k) nest.add(nest.load({kI, Affine(k)}));
  const Cost cost = nest.cost(Range::extent(64), Range::extent(1));
  CHECK(cost.longest_run == 4);
  CHECK(cost.count(OperationClass::Gather) == 0);
  CHECK(cost.count(OperationClass::Load) == 4 * kRun * kLanes / kRun);
  CHECK(cost.count(OperationClass::Select) == 4 * kRun * (2 + kLanes / kRun - 1));
}

TEST_CASE("columns of a matrix whose rows are pages meet in the same lines of a cache") {
  const auto moved = [](std::int64_t columns) {
    PlainNest nest({64, columns});
    nest.add(nest.load({kJ, kI}));
    nest.machine.levels = {{"L1", 32 << 10, 64, 64, 4096}};
    return nest.cost(Range::extent(columns), Range::extent(64)).traffic[0].bytes;
  };
  CHECK(moved(1024) == doctest::Approx(64.0 * 64 * 1024));  // 8 of 64 lines fit: each element fetches its line again
  CHECK(moved(1024 + 16) == doctest::Approx(4.0 * 64 * (1024 + 16)));  // the same lines until the next column
}

TEST_CASE("sums beyond the registers are spilled") {
  const auto spills = [](int sums) {
    PlainNest nest({16});
    nest.b.varying = true;
    const ValueId x = nest.load({kJ});
    for (int k = 0; k < sums; ++k) nest.add(x);
    return nest.cost(Range::extent(16), Range::extent(16));
  };
  CHECK(spills(20).count(OperationClass::Spill) == 0);
  CHECK(spills(40).live_registers == spills(20).live_registers + 20);
  const double beyond = spills(40).live_registers - 32, sums_beyond = 40 + 2 - 32;  // two are multiplied
  CHECK(spills(40).count(OperationClass::Spill) == 16 * (beyond + 4 * sums_beyond));
}

TEST_CASE("default machines have their names, and nobody else's figures") {
  for (const Machine& machine : default_machines()) {
    CHECK(default_machine(machine.name) == machine);
    CHECK(machine.levels.size() == 3);
    for (const MachineFigure& figure : machine_figures()) CHECK_MESSAGE(machine.*figure.value > 0, figure.name);
  }
  CHECK(!(default_machine("x86-64-v3") == default_machine("x86-64-v4")));
  CHECK_THROWS_AS(default_machine("z80"), CompileError);
}
