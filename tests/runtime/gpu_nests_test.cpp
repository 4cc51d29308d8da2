// Nests of a GPU's kernels: loops whose rounds together are elements, sums that teams and blocks share, searches, rows
// of several loops, and triangles compute what the interpreter computes.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/diff/differentiate.h"
#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

struct Example {
  const char* fragment;  // of the text of one of its kernels
  const char* formula;   // of x[S,N] and v[N]
};

const Example kExamples[] = {
    {"v[i + 30]", "output y[s,n] = max[m](x[s,m]*v[n] - v[m])\n"},  // a tile of every tenth element
    {"if (0 <= m && m < n + 1) {", "output y[s,n,m in 0..n+1] = exp(x[s,n]*v[m] - x[s,m])\n"},
    {"combine_lanes<Sum, 256>", "index p:3\noutput y[p] = sum[s,n](abs(x[s,n] - p))\n"},
    {"const long long round_low = ", "index p:3\noutput y[p] = max[s,n](abs(x[s,n] - p))\n"},
    {"combine_warp<Min>(is_same(acc0_of_lane, acc0)",
     "output y[s] = argmax[n](x[s,n])\noutput z[s] = argmin[n](x[s,n])\n"},
    {"y[s * 40 + n] = ", "let t[s] = max[n](x[s,n])\noutput y[s,n] = exp(x[s,n] - t[s])/sum[m](exp(x[s,m] - t[s]))\n"},
    {"z[s * 1600", "output y[s] = sum[n](x[s,n]^2)\noutput z[s,n,m] = where(n == m, x[s,n]^2, 0)\n"},
    {"(i_1 <= 4 * i + 3) ?", "output y[n,s] = sum[m in 0..n+1](abs(x[s,m] - v[n]))\n"},  // a tile of ragged sums
    {"combine_warp<Sum>", "output y[s] = sum[n](x[s,n]*sum[m in 0..n+1](v[m]*x[s,m]))\n"},
};

constexpr std::int64_t kColumns = 40;

Program program_of(const Example& example, DType dtype) {
  const std::string head = "dim S dynamic, N\nindex s:S, n:N, m:N\ninput x[S,N], v[N]\n";
  return specialise(with_dtype(parse(head + example.formula, "example"), dtype), {{"N", kColumns}});
}

/// Quarters, so that rows have equal elements; with a NaN in one row where it is wanted.
std::vector<double> quarters(std::int64_t count, bool with_nan) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::floor(8 * std::sin(static_cast<double>(7 * i + 3))) / 4 + 0.125;
  if (with_nan && count > 60) values[57] = std::nan("");
  return values;
}

std::map<std::string, std::vector<double>> run(const Program& program, const std::shared_ptr<Device>& device,
                                               std::int64_t rows, bool with_nan = false) {
  Session session(program, {}, device);
  for (const InputDecl& input : program.inputs) {
    const auto shape = extents_of(program, input.name, {{"S", rows}});
    session.set(input.name, make_host_tensor(input.dtype, shape, quarters(element_count(shape), with_nan)));
  }
  session.run();
  std::map<std::string, std::vector<double>> outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs[definition.name] = to_doubles(session.get(definition.name));
  }
  return outputs;
}

/// The largest difference, relative to the largest element; infinite where one of two numbers is none.
double difference(const std::vector<double>& got, const std::vector<double>& want) {
  double worst = 0, scale = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) != std::isnan(got[i])) return HUGE_VAL;
    if (std::isnan(want[i])) continue;
    worst = std::max(worst, std::abs(got[i] - want[i]));
    scale = std::max(scale, std::abs(want[i]));
  }
  return worst / scale;
}

void check_on(const char* device_name, DType dtype, double tolerance) {
  const auto device = test::test_device(device_name);
  if (!device) return;
  for (const Example& example : kExamples) {
    CAPTURE(std::string(example.formula));
    const Program program = program_of(example, dtype);
    for (const std::int64_t rows : {0, 1, 33, 2500}) {  // the last fills a GPU, and leaves a part of a block
      CAPTURE(rows);
      const auto got = run(program, device, rows);
      CHECK(run(program, device, rows) == got);
      for (const auto& [name, want] : run(program, open_device("interp"), rows))
        CHECK(difference(got.at(name), want) <= tolerance);
    }
  }
}

std::string text_of(const Example& example) {
  const PlanTarget target{.products = Products::blas, .gpu = GpuLimits{}, .extents = {{"S", 1 << 18}, {"N", kColumns}}};
  std::string text;
  for (const PlanStep& step : make_plan(program_of(example, DType::f32), {}, target).steps) {
    for (const LoweredKernel* kernel : kernels_of(step))
      text += cuda_kernel(*kernel, choose_cuda_schedule(*kernel, {})).own_text();
  }
  return text;
}

}  // namespace

TEST_CASE("the nests are those that are meant") {
  for (const Example& example : kExamples) {
    const std::string text = text_of(example);
    CHECK_MESSAGE(text.find(example.fragment) != text.npos, text);
  }
}

TEST_CASE("warps look for the terms of their rows") {
  const Program program = with_dtype(parse("dim S dynamic, V, N\nindex s:S, v:V, n:N\n"
                                           "input key[S]: i32 >= 0, x[S,N]\n"
                                           "output y[v,n] = sum[s](where(key[s] == v, exp(x[s,n]), 0))\n"),
                                     DType::f32);
  const PlanTarget target{
      .products = Products::blas, .gpu = GpuLimits{}, .extents = {{"S", 100000}, {"V", 5000}, {"N", 40}}};
  const Plan plan = make_plan(specialise(program, {{"V", 5000}, {"N", 40}}), {}, target);
  REQUIRE(plan.steps.size() == 1);
  const LoweredKernel& kernel = *kernels_of(plan.steps.front()).front();
  const CudaSchedule schedule = choose_cuda_schedule(kernel, {});
  CHECK(schedule.mapping == CudaMapping::search);
  const std::string text(cuda_kernel(kernel, schedule).own_text());
  CHECK_MESSAGE(text.find("found = __ballot_sync(") != text.npos, text);
}

TEST_CASE("lanes run through ranges by data of their own, teams share long ones") {
  const auto text_for = [](std::int64_t rows, std::int64_t elements) {
    const Program program = with_dtype(parse("dim N, Z\nindex i:N, k:Z\n"
                                             "input start[N+1]: i32 >= 0, col[Z]: i32 >= 0, val[Z], x[N]\n"
                                             "output y[i] = sum[k in start[i]..start[i+1]](val[k]*x[col[k]])\n"),
                                       DType::f32);
    const DimValues dims = {{"N", rows}, {"Z", elements}};
    const Plan plan =
        make_plan(specialise(program, dims), {}, {.products = Products::blas, .gpu = GpuLimits{}, .extents = dims});
    REQUIRE(plan.steps.size() == 1);
    const LoweredKernel& kernel = *kernels_of(plan.steps.front()).front();
    return std::string(cuda_kernel(kernel, choose_cuda_schedule(kernel, {})).own_text());
  };
  const std::string short_rows = text_for(100000, 1000000);
  CHECK_MESSAGE(short_rows.find("for (Index k = greatest(Index(0), Index(v1)); k <=") != short_rows.npos, short_rows);
  const std::string long_rows = text_for(100, 1000000);
  CHECK_MESSAGE(long_rows.find("for (Index k = greatest(Index(0), Index(v1)) + lane; k <=") != long_rows.npos,
                long_rows);
}

TEST_CASE("nests on cuda-emu in double") { check_on("cuda-emu", DType::f64, 1e-12); }
TEST_CASE("nests on cuda-emu in single") { check_on("cuda-emu", DType::f32, 2e-6); }
TEST_CASE("nests on cuda in double") { check_on("cuda", DType::f64, 1e-12); }
TEST_CASE("nests on cuda in single") { check_on("cuda", DType::f32, 2e-6); }

TEST_CASE("lanes that search a row find its first extremum, or its NaN") {
  for (const auto& device : test::test_devices()) {
    INFO(device->name());
    const Program program = program_of(kExamples[4], DType::f32);
    CHECK(run(program, device, 300, true) == run(program, open_device("interp"), 300, true));
  }
}

TEST_CASE("lanes with ranges of their own share no row of scratch") {
  const Program forward = with_dtype(parse("dim S\nindex s:S, i:S\ninput x[S]\n"
                                           "output y[s] = variance[i in 0..s+1](tanh(x[i])*exp(x[i]))\n"),
                                     DType::f64);
  const Program program = specialise(differentiate(forward, {"y"}, {"x"}), {{"S", 5}});
  const auto want = run(program, open_device("interp"), 0);
  for (const auto& device : test::test_devices()) {
    INFO(device->name());
    for (const auto& [name, got] : run(program, device, 0)) CHECK(difference(got, want.at(name)) <= 1e-12);
  }
}

TEST_CASE("a sum whose inner extent is 0 is zero") {
  const Program program = with_dtype(parse("dim S dynamic, T dynamic\nindex s:S, t:T, p:3\ninput x[S], z[T]\n"
                                           "output y[p] = sum[s,t](abs(x[s] - p*z[t]))\n"),
                                     DType::f64);
  for (const auto& device : test::test_devices()) {
    INFO(device->name());
    Session session(program, {}, device);
    for (const std::int64_t inner : {0, 2}) {
      session.set("x", make_host_tensor(DType::f64, {20000}, std::vector<double>(20000, 1)));
      session.set("z", make_host_tensor(DType::f64, {inner}, std::vector<double>(static_cast<std::size_t>(inner), 1)));
      session.run();
      const double terms = 20000.0 * static_cast<double>(inner);
      CHECK(to_doubles(session.get("y")) == std::vector<double>{terms, 0, terms});
    }
  }
}
