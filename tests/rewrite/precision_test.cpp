// What rewrites keep of a formula in strict precision, and what fast precision and declared domains let them do.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/codegen/llvm/llvm_text.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// One output for every law of the real numbers that does not hold for all floating-point numbers.
constexpr const char* kLaws = R"(
dtype f64
dim N = 5, S = 3
index n:N, s:S, r in 0..2
input x[N], far, near[S], small
output difference[n] = x[n] - x[n]
output quotient[n] = x[n]/x[n]
output nothing[n] = 0*x[n]
output squared_root[n] = sqrt(x[n])^2
output exponentials[n] = exp(x[n])*exp(-x[n])
output reduced[n] = x[n]^2/x[n]
output decay[n,r] = exp(-x[n]*(r + 1))
output deviations = sum[s](near[s] - far)
output rounding = (far + 1) - far
output weighted = 1 + 0.1*(near[0] - far)
let gap = near[1] - far
output nested = small + gap - small*2
)";

const TensorValues kInputs = {
    {"x", {kInf, kNaN, 0, -4, 1000}}, {"far", {1e16}}, {"near", {1e16 + 2, 1e16 + 2, 1e16 + 2}}, {"small", {0.5}}};

TensorValues expected(Precision precision) {
  const double e4 = std::exp(4), e8 = std::exp(8);
  if (precision == Precision::Strict)
    return {{"difference", {kNaN, kNaN, 0, 0, 0}},
            {"quotient", {kNaN, kNaN, kNaN, 1, 1}},
            {"nothing", {kNaN, kNaN, 0, 0, 0}},
            {"squared_root", {kInf, kNaN, 0, kNaN, 1000}},
            {"exponentials", {kNaN, kNaN, 1, 1, kNaN}},
            {"reduced", {kNaN, kNaN, kNaN, -4, 1000}},
            {"decay", {0, 0, kNaN, kNaN, 1, 1, e4, e8, 0, 0}},
            {"deviations", {6}},
            {"rounding", {0}},
            {"weighted", {1.2}},
            {"nested", {1.5}}};
  return {{"difference", {0, 0, 0, 0, 0}},
          {"quotient", {1, 1, 1, 1, 1}},
          {"nothing", {0, 0, 0, 0, 0}},
          {"squared_root", {kInf, kNaN, 0, -4, 1000}},
          {"exponentials", {1, 1, 1, 1, 1}},
          {"reduced", {kInf, kNaN, 0, -4, 1000}},
          {"decay", {kNaN, 0, kNaN, kNaN, 1, 1, e4, e8, 0, 0}},
          {"rounding", {1}}};
}

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-14 * std::abs(b);
}

void check_values(const TensorValues& values, const TensorValues& wanted) {
  for (const auto& [name, elements] : wanted) {
    for (std::size_t k = 0; k < elements.size(); ++k) {
      CAPTURE(name);
      CAPTURE(k);
      CAPTURE(values.at(name)[k]);
      CAPTURE(elements[k]);
      CHECK(same(values.at(name)[k], elements[k]));
    }
  }
}

TensorValues run_on(const std::shared_ptr<Device>& device, const Program& program, const TensorValues& inputs) {
  Session session(program, {}, device);
  for (const InputDecl& input : program.inputs) {
    std::vector<std::int64_t> shape;
    const Values& elements = inputs.at(input.name);
    if (!input.shape.empty()) shape.push_back(static_cast<std::int64_t>(elements.size()));
    session.set(input.name, make_host_tensor(input.dtype, shape, elements));
  }
  session.run();
  TensorValues values;
  for (const Definition& definition : program.definitions) {
    if (definition.output) values[definition.name] = to_doubles(session.get(definition.name));
  }
  return values;
}

Program in(Precision precision, Program program) {
  program.precision = precision;
  return program;
}

/// The optimised body of y, as text.
std::string optimised(const std::string& declarations, const std::string& body, Precision precision) {
  const Program program = in(precision, parse("dtype f64\ndim N = 5, S = 3\nindex n:N, s:S, t:S\n" + declarations +
                                              "\noutput y[n] = " + body + "\n"));
  const std::string text = print(optimise(specialise(program, {})));
  const std::size_t begin = text.rfind("output y[n] = ");
  return text.substr(begin + 14, text.size() - begin - 15);
}

}  // namespace

TEST_CASE("strict precision keeps infinities, NaN and cancellation as they are written, on every device") {
  const Program program = parse(kLaws);
  check_values(evaluate(program, {}, kInputs), expected(Precision::Strict));
  check_values(evaluate(optimise(specialise(program, {})), {}, kInputs), expected(Precision::Strict));
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(run_on(device, program, kInputs), expected(Precision::Strict));
  }
}

TEST_CASE(
    "elements of a definition are equal to themselves wherever they are compared or subtracted, on every device") {
  const Program program = parse(R"(dtype f64
dim N = 21
index i:N, j:N
input a[N] > 0, b[N] > 0
let sums[i] = a[i] + b[i]/3
let products[i] = a[i]*b[i]
output above[i] = sum[j](where(sums[i] - sums[j] >= 0, 1, 0)) + sum[j](where(products[i] <= products[j], 1, 0))
output equal[i] = sum[j](where(sums[i] == sums[j], 1, 0) + where(abs(products[i] - products[j]) > 0, 0, 1))
output near[i] = sum[j](where(products[j] != products[i], 1/(products[j] - products[i])^2, 0))
output next[i] = sums[min(i+1,N-1)] - sums[i]
)");
  TensorValues inputs;
  for (int k = 0; k < 21; ++k) {
    inputs["a"].push_back(0.5 + std::fmod(k * std::sqrt(2.0), 1));
    inputs["b"].push_back(0.5 + std::fmod(k * std::sqrt(3.0), 1));
  }
  const TensorValues wanted = evaluate(program, {}, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues values = run_on(device, program, inputs);
    for (const double element : values.at("near")) CHECK(element < 1e10);
    for (const char* name : {"above", "equal"}) CHECK(values.at(name) == wanted.at(name));
    CHECK(values.at("next").back() == 0);
  }
}

TEST_CASE("a small number that keeps a logarithm finite is added after what cancels, on every device") {
  const Program program = parse(R"(dtype f32
dim N = 3
index n:N
input p[N], q[N]
output constants[n] = log(1 - p[n] + 1e-12)
output definitions[n] = log(p[n] - q[n] + 1e-12)
output choices[n] = log(where(p[n] > 2, 3, p[n]) - q[n] + 1e-12)
output quotients[n] = (p[n] - q[n])/(p[n] - q[n] + 1e-12)
output powers[n] = 1/sqrt(p[n]^2 + q[n]^2 - 2*p[n]*q[n] + 1e-6)
)");
  const TensorValues inputs = {{"p", {1, 1, 0.5}}, {"q", {1, 0.25, 0.5}}};
  const TensorValues wanted = evaluate(program, {}, inputs);
  const auto check = [&](const TensorValues& values) {
    for (const auto& [name, elements] : wanted) {
      for (std::size_t k = 0; k < elements.size(); ++k) {
        CAPTURE(name);
        CAPTURE(k);
        CHECK(values.at(name)[k] == doctest::Approx(elements[k]).epsilon(1e-5));
      }
    }
  };
  check(evaluate(optimise(specialise(program, {})), {}, inputs));
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check(run_on(device, program, inputs));
  }
}

TEST_CASE("fast precision uses all laws of the real numbers, on every device") {
  const Program program = in(Precision::Fast, parse(kLaws));
  const TensorValues values = evaluate(optimise(specialise(program, {})), {}, kInputs);
  check_values(values, expected(Precision::Fast));
  CHECK(values.at("deviations") != Values{6});
  CHECK(values.at("weighted") != Values{1.2});
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(run_on(device, program, kInputs), expected(Precision::Fast));
  }
}

TEST_CASE("declared domains prove what strict precision asks for") {
  struct Proof {
    std::string domain, body, strict, fast;
  };
  const Proof proofs[] = {
      {"> 0", "x[n]/x[n]", "pow(x[n], -1)*x[n]", "1"},
      {">= 0", "0*x[n]", "0*x[n]", "0"},
      {">= 0", "sqrt(x[n])^2", "sqrt(x[n])^2", "x[n]"},
      {">= 0", "3*x[n] - x[n]", "-x[n] + 3*x[n]", "2*x[n]"},
      {"> 0", "x[n]^2/x[n]", "", "x[n]"},
      {">= 0", "exp(-x[n])*exp(-2*x[n])", "exp(-3*x[n])", "exp(-3*x[n])"},
  };
  for (const Proof& proof : proofs) {
    CAPTURE(proof.body);
    CHECK(optimised("input x[N]", proof.body, Precision::Strict) != proof.fast);
    CHECK(optimised("input x[N]", proof.body, Precision::Fast) == proof.fast);
    CHECK(optimised("input x[N] " + proof.domain, proof.body, Precision::Strict) == proof.fast);
  }
}

TEST_CASE("a proof follows domains through functions") {
  const auto reduced = [](const std::string& body) {
    return optimised("input x[N] >= 0, l[N] > 0, z[N]", body, Precision::Strict);
  };
  CHECK(reduced("(x[n] + l[n]^2)/(x[n] + l[n]^2)") == "1");
  CHECK(reduced("sqrt(l[n])/sqrt(l[n])") == "1");
  CHECK(reduced("0*log(l[n])") == "0");
  CHECK(reduced("0*exp(-x[n])") == "0");
  CHECK(reduced("(x[n] + z[n])/(x[n] + z[n])") != "1");
  CHECK(reduced("0*log(x[n])") != "0");
  CHECK(reduced("0*exp(x[n])") != "0");
  CHECK(reduced("x[n]/x[n]") != "1");
}

TEST_CASE("like terms of opposite signs join where minima and maxima exclude infinities, and keep NaN") {
  const auto reduced = [](const std::string& body) { return optimised("input x[N]", body, Precision::Strict); };
  const std::string clamped = "max(min(x[n], 1), -1)";
  CHECK(reduced("3*" + clamped + " - " + clamped) == "2*" + clamped);
  CHECK(reduced("0*" + clamped + " - 6*" + clamped) == "-6*" + clamped);
  CHECK(reduced(clamped + " - " + clamped) != "0");
  CHECK(reduced("0*max(x[n], 1) - 6*max(x[n], 1)") != "-6*max(x[n], 1)");
}

TEST_CASE("what a definition promises holds for its readers, also once its formula stands in them") {
  const auto reduced = [](const std::string& domain) {
    return optimised("input x[N]\nlet v[n]" + domain + " = max(x[n], 0)\nlet p[n] = 1 + v[n]\nlet a[n] = 2*p[n]",
                     "a[n]/p[n]", Precision::Strict);
  };
  CHECK(reduced(" >= 0") == "2");
  CHECK(reduced("") != "2");
  // A formula that shows what it promises is inlined as it is.
  CHECK(optimised("input x[N] >= 0\nlet v[n] >= 0 = 2*x[n]", "v[n] + 1", Precision::Strict) == "2*x[n] + 1");
  CHECK(optimised("input x[N]\nlet v[n] >= 0 = max(x[n], 0)", "v[n] + 1", Precision::Strict) == "max(x[n], 0) + 1");
}

TEST_CASE("a sum is split where no more digits can cancel than before") {
  const auto split = [](const std::string& declarations, const std::string& body) {
    const std::string text = optimised(declarations, body, Precision::Strict);
    CAPTURE(text);
    return text.find("sum") != text.rfind("sum") || text.find("3*m[n]") != text.npos;
  };
  CHECK_FALSE(split("input x[N,S], m[N]", "sum[s](x[n,s] - m[n])"));
  CHECK_FALSE(split("input x[N,S], m[N]", "sum[s](x[n,s] + m[n])"));
  CHECK(split("input x[N,S] >= 0, m[N] >= 0", "sum[s](x[n,s] + m[n])"));
  CHECK(split("input x[N,S] >= 0, m[N] < 0", "sum[s](x[n,s] - m[n])"));
  // Products are rounded already: apart they lose no more than sums do.
  CHECK(split("input x[N,S], z[N,S], m[N]", "sum[s](x[n,s]*z[n,s] - m[n]*z[n,s])"));
}

TEST_CASE("a log-sum-exp keeps infinities and the largest of large elements") {
  const Program program =
      parse("dtype f64\ninput x[3], z[3]\nindex k:3\noutput y = logsumexp[k](x[k])\noutput w = logsumexp[k](z[k])\n");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.set("x", make_host_tensor(DType::f64, {3}, Values{1, kInf, -kInf}));
    session.set("z", make_host_tensor(DType::f64, {3}, Values{-1e300, -1e300, -kInf}));
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{kInf});
    CHECK(to_doubles(session.get("w")) == Values{-1e300});
  }
}

TEST_CASE("infinities are in no declared domain") {
  Session session(parse("dtype f64\ninput x[2] >= 0, z[2] < 0\nindex k:2\noutput y[k] = x[k] - z[k]\n"), {},
                  open_device("interp"));
  CHECK_THROWS_AS(session.set("x", make_host_tensor(DType::f64, {2}, Values{1, kInf})), DataError);
  CHECK_THROWS_AS(session.set("z", make_host_tensor(DType::f64, {2}, Values{-kInf, -1})), DataError);
}

TEST_CASE("code of kernels names the precision, and so do the keys of caches") {
  const auto kernel = [](Precision precision) {
    const Program program = parse("input x[4]\nindex k:4\noutput y[k] = x[k]*2\n");
    const Plan plan = make_plan(specialise(in(precision, program), {}));
    return *kernels_of(plan.steps.at(0)).at(0);
  };
  const LoweredKernel strict = kernel(Precision::Strict), fast = kernel(Precision::Fast);
  CHECK(print(fast.program).find("in fast precision") != std::string::npos);
  const auto cuda = [](const LoweredKernel& k) { return cuda_kernel(k, choose_cuda_schedule(k, {}, {}, true)).text; };
  CHECK(cuda(strict).find("STRICT_PRECISION") != std::string::npos);
  CHECK(cuda(fast).find("FAST_PRECISION") != std::string::npos);
  CHECK(llvm_text(strict.program, machine_level("x86-64")).find("\"strict precision\"") != std::string::npos);
  CHECK(llvm_text(fast.program, machine_level("x86-64")).find("\"fast precision\"") != std::string::npos);
}

TEST_CASE("precision is part of a Program and of its text") {
  const Program strict = parse("input x\noutput y = x\n");
  CHECK(strict.precision == Precision::Strict);
  const Program fast = parse("precision fast\ninput x\noutput y = x\n");
  CHECK(fast.precision == Precision::Fast);
  const Program accurate = parse("precision accurate\ninput x\noutput y = x\n");
  CHECK(accurate.precision == Precision::Accurate);
  CHECK(parse(print(accurate)) == accurate);
  CHECK(fast != strict);
  CHECK(parse(print(fast)) == fast);
  CHECK(print(fast).find("precision fast\n") == 0);
  CHECK(parse("precision strict\ninput x\noutput y = x\n").precision == Precision::Strict);
  CHECK(parse("dtype f64\nprecision fast\ninput x\noutput y = x\n").precision == Precision::Fast);
  CHECK_THROWS_WITH_AS(parse("input x\nprecision fast\noutput y = x\n"),
                       doctest::Contains("must be the first statement"), ParseError);
  CHECK_THROWS_WITH_AS(parse("precision loose\ninput x\noutput y = x\n"),
                       doctest::Contains("`strict`, `fast` or `accurate`"), ParseError);
}
