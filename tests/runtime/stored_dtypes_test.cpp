// Dtypes in which elements are stored and not computed, on every device.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host.h"
#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/setting.h"
#include "tests/skip.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

void check_same(const Values& found, const Values& expected, double tolerance = 0) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(found[k] - expected[k]) <= tolerance * (1 + std::abs(expected[k])));
  }
}

/// All levels of processors too.
std::vector<std::shared_ptr<Device>> devices() {
  auto all = test::test_devices();
#ifdef MOXIE_TEST_CPU
  for (const MachineLevel& level : machine_levels())
    if (host_supports(level.name))
      all.push_back(make_cpu_device({.threads = 1, .cache_directory = "0"}, level.machine));
#endif
  return all;
}

/// As the evaluator has it, in both precisions, on every device.
void check_everywhere(const std::string& text, const DimValues& dims, const TensorValues& inputs,
                      const std::vector<std::string>& outputs = {}, const std::vector<std::string>& wrt = {}) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    Program program = with_dtype(parse(text), dtype);
    if (!outputs.empty()) program = differentiate(program, outputs, wrt);
    CHECK(print(parse(print(program))) == print(program));
    const TensorValues expected = evaluate(program, dims, inputs);
    for (const auto& device : devices()) {
      CAPTURE(device->name());
      for (const auto& [name, found] : test::run_on(device, program, dims, inputs)) {
        CAPTURE(name);
        check_same(found, expected.at(name), dtype == DType::f64 ? 1e-12 : 2e-6);
      }
    }
  }
}

Values ramp(std::int64_t count, std::int64_t modulus, std::int64_t low = 0) {
  Values values;
  for (std::int64_t k = 0; k < count; ++k) values.push_back(static_cast<double>((k * 7 + 3) % modulus + low));
  return values;
}

Values waves(std::int64_t count) {
  Values values;
  for (std::int64_t k = 0; k < count; ++k)
    values.push_back(static_cast<float>(std::sin(1 + 0.37 * static_cast<double>(k))));
  return values;
}

struct Stored {
  double value, i64, u8, truth;
};

/// The last columns but the one of bool: numpy.clip(numpy.rint(v), low, high), NaN the smallest.
const Stored kStored[] = {
    {0, 0, 0, 0},
    {-0.0, 0, 0, 0},
    {0.2, 0, 0, 1},
    {-3.7, -4, 0, 1},
    {-0.5, 0, 0, 1},
    {0.5, 0, 0, 1},
    {1.5, 2, 2, 1},
    {2.5, 2, 2, 1},
    {253.5, 254, 254, 1},
    {254.5, 254, 254, 1},
    {255.25, 255, 255, 1},
    {300, 300, 255, 1},
    {1e10, 1e10, 255, 1},
    {-1e10, -1e10, 0, 1},
    {9007199254740992.0, 9007199254740992.0, 255, 1},
    {0x1.fffffffffffffp62, 0x1.fffffffffffffp62, 255, 1},
    {1e19, 0x1p63, 255, 1},
    {-1e19, -0x1p63, 0, 1},
    {kInf, 0x1p63, 255, 1},
    {-kInf, -0x1p63, 0, 1},
    {kNan, -0x1p63, 0, 1},
};

}  // namespace

TEST_CASE("numbers are stored as the nearest integers of the range, and in a bool as whether they are not 0") {
  const Program program = parse(
      "dtype f64\ndim S dynamic, N = 8\nindex s:S, n:N\ninput x[S], w[S,N]\n"
      "output l[s]: i64 = x[s]\noutput b[s]: u8 = x[s]\noutput t[s]: bool = x[s]\noutput c[s]: bool = x[s] > 1\n"
      "output rows[s,n]: u8 = w[s,n]\noutput turned[s,n]: i64 = w[s,N-1-n]\noutput turned_bytes[n,s]: u8 = w[s,n]\n"
      "output first: i64 = x[0] + 7");
  TensorValues inputs, expected;
  for (const auto& [value, i64, u8, truth] : kStored) {
    inputs["x"].push_back(value);
    expected["l"].push_back(i64);
    expected["b"].push_back(u8);
    expected["t"].push_back(truth);
    expected["c"].push_back(value > 1 ? 1 : 0);
  }
  const auto rows = static_cast<std::int64_t>(std::size(kStored));
  inputs["w"] = ramp(8 * rows, 256);
  expected["rows"] = inputs["w"];
  for (std::int64_t k = 0; k < 8 * rows; ++k) {
    expected["turned"].push_back(inputs["w"][static_cast<std::size_t>(k - k % 8 + 7 - k % 8)]);
    expected["turned_bytes"].push_back(inputs["w"][static_cast<std::size_t>(k % rows * 8 + k / rows)]);
  }
  expected["first"] = {7};
  const DimValues dims = {{"S", rows}, {"N", 8}};
  for (const auto& [name, values] : evaluate(program, dims, inputs)) {
    CAPTURE(name);
    check_same(values, expected.at(name));
  }
  for (const auto& device : devices()) {
    CAPTURE(device->name());
    for (const auto& [name, values] : test::run_on(device, program, dims, inputs)) {
      CAPTURE(name);
      check_same(values, expected.at(name));
    }
  }
}

TEST_CASE("long sums are rounded once, when all is summed") {
  constexpr std::int64_t kLong = 20000;
  const TensorValues inputs = {{"x", Values(kLong, 0.375)}, {"i", ramp(kLong, 3)}};
  for (const char* rows : {"S = 20000", "S dynamic"}) {
    for (const char* dtype : {"i32", "i64", "u8", "f16", "bf16"}) {
      CAPTURE(dtype);
      check_everywhere(fmt::format("dim {0}, V = 3\nindex s:S, v:V\ninput x[S], i[S]: i32\n"
                                   "output all: {1} = sum[s](x[s])\n"
                                   "output parts[v]: {1} = sum[s](where(i[s] == v, x[s], 0))\n",
                                   rows, dtype),
                       {{"S", kLong}}, inputs);
    }
  }
}

TEST_CASE("stored elements are numbers and conditions") {
  const DimValues dims = {{"S", 21}, {"N", 37}};
  const TensorValues inputs = {
      {"x", waves(21 * 37)},   {"a", ramp(21, 1000003, -500000)}, {"b", ramp(37, 256)},         {"m", ramp(21, 2)},
      {"p", ramp(21 * 37, 2)}, {"img", ramp(21 * 37, 256)},       {"large", {9007199254740991}}};
  check_everywhere(R"(
    dim S dynamic, N
    index s:S, n:N
    input x[S,N], a[S]: i64, b[N]: u8, m[S]: bool, p[S,N]: bool, img[S,N]: u8, large: i64
    output y[s,n] = 0.001*a[s] + b[n]/255 + where(m[s], x[s,n], -1)
    output z[s,n] = where(p[s,n] and not m[s] or b[N-1-n] > 200, img[s,n], x[s,n])
    output total[s] = sum[n](img[s,n]*x[s,n])/256
    output ones[s]: i64 = sum[n](p[s,n])
    output some[s]: bool = any[n](p[s,n])
    output every: bool = all[s](m[s])
    output columns[n]: i64 = sum[s](img[s,n])
    output before[s,n] = where(n > 0, img[s,n-1], 0) - p[s,n]
    output exact: i64 = large - 1
    output flipped[s,n]: bool = not p[s,n]
  )",
                   dims, inputs);
}

TEST_CASE("stored integers stand in subscripts and ranges") {
  for (const char* dtype : {"i64", "u8"}) {
    CAPTURE(dtype);
    const std::string t = std::string(": ") + dtype;
    const DimValues dims = {{"S", 19}, {"V", 6}, {"N", 9}, {"E", 12}, {"P", 20}};
    TensorValues inputs = {{"x", waves(54)},  {"w", waves(12)},       {"idx", ramp(19, 5)}, {"label", ramp(19, 9)},
                           {"start", {}},     {"col", ramp(12, 6)},   {"m", ramp(19, 2)},   {"cot.y", waves(19 * 9)},
                           {"cot.loss", {1}}, {"cot.rows", waves(19)}};
    for (std::int64_t k = 0; k < 20; ++k) inputs["start"].push_back(static_cast<double>(std::min<std::int64_t>(k, 12)));
    const std::string text =
        "dim S dynamic, V, N, E dynamic, P dynamic\nindex s:S, n:N\n"
        "input x[V,N], w[E], idx[S]" +
        t + " >= 0, label[S]" + t + ", start[P]" + t + ", col[E]" + t +
        ", m[S]: bool\n"
        "let next[s]" +
        t +
        " = idx[s] + 1\n"
        "output y[s,n] = x[next[s],n] + x[m[s],N-1-n]\n"
        "output loss = sum[s](logsumexp[n](x[idx[s],n]) - x[idx[s],label[s]])\n"
        "output rows[s] = sum[k in start[s]..start[s+1] of E](w[k]*x[col[k],0])";
    check_everywhere(text, dims, inputs);
    check_everywhere(text, dims, inputs, {"y", "loss", "rows"}, {"x", "w"});
  }
}

TEST_CASE("readers take what is stored, also in the kernel that computes it") {
  const Values x = ramp(40 * 64, 5);
  for (const char* dtype : {"i32", "i64"}) {
    CAPTURE(dtype);
    const std::string t = std::string(": ") + dtype;
    check_everywhere("dim P, J\nindex p:P, j:J\ninput x[P,J]\nlet k[p]" + t + " = 1.4*sum[j](x[p,j])\noutput m[p]" + t +
                         " = 10*k[p] + sum[j](x[p,j])\n",
                     {{"P", 40}, {"J", 64}}, {{"x", x}});
  }
}

TEST_CASE("quotients of whole numbers are exact") {
  // 49*(1/49) is below 1 in double, and so are products of 1/c and multiples of other c.
  Values whole(5000);
  for (std::size_t k = 0; k < whole.size(); ++k) whole[k] = static_cast<double>(k);
  for (const int divisor : {3, 10, 49, 103, 187}) {
    CAPTURE(divisor);
    const std::string c = std::to_string(divisor);
    check_everywhere("dim N\nindex n:N\ninput a[N]: i32, x[N]\noutput q[n]: i32 = a[n]//" + c +
                         "\noutput r[n]: i32 = a[n]%" + c + "\noutput f[n] = x[n]//" + c +
                         "\noutput s[n] = floor((2*x[n] + " + c + ")/" + c + ")\n",
                     {{"N", 5000}}, {{"a", whole}, {"x", whole}});
  }
}

TEST_CASE("positions and ranks are stored as any integers") {
  const DimValues dims = {{"S", 3}, {"K", 100}};
  check_everywhere(R"(
    dim S dynamic, K
    index s:S, k:K, j:K
    input x[S,K], u[S,K]: u8
    output order[s,k]: i64 = argsort[k](x[s,k])
    output byte[s,k]: u8 = argsort[k](u[s,k])
    output sorted[s,k] = sort[k](u[s,k])
    output rank[s,k]: i64 = sum[j](where(x[s,j] < x[s,k], 1, 0))
    output best[s]: u8 = argmax[k](x[s,k])
  )",
                   dims, {{"x", waves(300)}, {"u", ramp(300, 256)}});
}

TEST_CASE("linear algebra that is stored as integers is computed in double") {
  check_everywhere(R"(
    dim R = 3
    index r:R, t:R
    input a[R,R]
    output d: i64 = 100*logdet[r,t](sum[k in 0..R](a[r,k]*a[t,k]) + where(r == t, 1, 0))
    output m[r,t]: i32 = cholesky[r,t](where(r == t, 4, 0) + 0*a[r,t])
  )",
                   {{"R", 3}}, {{"a", waves(9)}});
}

TEST_CASE("what the dtype has no element for is refused") {
  const Program program = parse(
      "dim S dynamic\nindex s:S\ninput a[S]: i64, b[S]: u8, m[S]: bool\n"
      "output y[s] = a[s] + b[s] + m[s]");
  Session session(program, {}, open_device("interp"));
  const auto set = [&](const char* input, DType dtype, const Values& values) {
    session.set(input, make_host_tensor(dtype, {static_cast<std::int64_t>(values.size())}, values));
  };
  set("b", DType::f32, {0, 255});
  set("b", DType::i64, {0, 255});
  set("m", DType::u8, {0, 1});
  set("a", DType::u8, {0, 255});
  CHECK_THROWS_WITH_AS(set("b", DType::f32, {0, 256}), doctest::Contains("u8 tensor holds integers from 0 to 255"),
                       DataError);
  CHECK_THROWS_WITH_AS(set("b", DType::f32, {0.5, 1}), doctest::Contains("input b: element 0 is 0.5"), DataError);
  CHECK_THROWS_WITH_AS(set("m", DType::f32, {0, 2}), doctest::Contains("bool tensor holds integers from 0 to 1"),
                       DataError);
  CHECK_THROWS_WITH_AS(set("a", DType::f64, {0, 1e16}), doctest::Contains("element 1 is 1e+16"), DataError);
  HostTensor large = make_host_tensor(DType::i64, {2}, Values{1, 2});
  const std::int64_t number = (std::int64_t{1} << 53) + 1;
  std::memcpy(large.data.data() + 8, &number, 8);
  CHECK_THROWS_WITH_AS(session.set("a", large), doctest::Contains("a[1] = 9007199254740993, but integers are computed"),
                       DataError);
  CHECK_THROWS_AS(verify(parse("input b: u8 >= -1\noutput y = b")), TypeError);
  CHECK_THROWS_AS(parse("dtype u8\ninput x\noutput y = x"), TypeError);
  CHECK_THROWS_WITH_AS(differentiate(parse("input b: bool\noutput y = 2*b"), {"y"}, {"b"}),
                       doctest::Contains("holds integers"), TypeError);
}

TEST_CASE("integers of 64 bits that nobody has checked read inside of the tensor") {
  const test::Setting unchecked("MOXIE_CHECK_INPUTS", "off");
  const Program program = parse("dim S dynamic, V\nindex s:S\ninput x[V], idx[S]: i64\noutput y[s] = x[4*idx[s]+V]");
  HostTensor index = make_host_tensor(DType::i64, {19}, Values(19));
  for (std::size_t k = 0; k < 19; ++k) {
    const std::int64_t number =
        k % 2 == 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
    std::memcpy(index.data.data() + 8 * k, &number, 8);
  }
  for (const char* name : {"cpu", "cuda-emu"}) {
    const auto device = test::test_device(name);
    if (!device) continue;
    CAPTURE(name);
    Session session(program, {{"V", 3}}, device);
    session.set("x", make_host_tensor(DType::f32, {3}, Values{1, 2, 3}));
    session.set("idx", index);
    session.run();
    Values expected;
    for (int k = 0; k < 19; ++k) expected.push_back(k % 2 == 0 ? 3 : 1);
    check_same(to_doubles(session.get("y")), expected);
  }
}

TEST_CASE("the C++ form says the same") {
  Program p("stored");
  const Dim S = p.dim("S", dynamic), V = p.dim("V");
  const Index s(S, "s");
  const Tensor x = p.input("x", {V}), i = p.input("i", {S}, ValueDomain::NonNegative, DType::i64);
  const Tensor m = p.input("m", {S}, ValueDomain::Any, DType::boolean);
  p.output("y", {s}, where(not_equal(m(s), 0), x(i(s)), 0), DType::f32);
  p.output("large", {s}, where(x(i(s)) > 0, 1, 0), DType::boolean);
  CHECK(parse(print(p)).inputs == p.inputs);
  CHECK(parse(print(p)).dtype_of("large") == DType::boolean);
  CHECK(print(p).find("i[S]: i64 >= 0") != std::string::npos);
}

TEST_SUITE("nvrtc") {
  TEST_CASE("NVRTC accepts kernels of every dtype") {
    std::string text = "dim S dynamic, N = 8\nindex s:S, n:N\ninput z[S,N]";
    for (const DTypeInfo& row : dtypes()) text += fmt::format(", x_{0}[S,N]: {0}", row.name);
    text += "\n";
    for (const DTypeInfo& row : dtypes()) {
      text += fmt::format("output y_{0}[s,n]: {0} = 2*x_{0}[s,n] + z[s,n]\n", row.name);
      text += fmt::format("output sum_{0}[n] = sum[s](x_{0}[s,N-1-n]*z[s,n])\n", row.name);
      if (holds_integers(row.dtype)) text += fmt::format("output read_{0}[s,n] = z[x_{0}[s,n],n]\n", row.name);
    }
    std::shared_ptr<const cuda::Nvrtc> nvrtc;
    try {
      nvrtc = std::make_shared<const cuda::Nvrtc>();
    } catch (const DeviceError& error) {
      return test::skip(error.what());
    }
    KernelCache cache({});
    KernelOverrides overrides({});
    cuda::KernelBuilder builder{cuda::nvrtc_compiler(nvrtc), 90, cache, overrides};
    const Plan plan = make_plan(specialise(parse(text), {}));
    std::vector<cuda::KernelRequest> requests;
    for (const PlanStep& step : plan.steps)
      for (const LoweredKernel* kernel : kernels_of(step)) requests.push_back({kernel});
    CHECK(cuda::compile_kernels(requests, builder).size() == requests.size());
  }
}
