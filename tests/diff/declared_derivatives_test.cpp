// Derivatives that a text declares beside its functions: in every mode of differentiation, on every device.
#include <doctest/doctest.h>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/diff/jacobian.h"
#include "compiler/diff/tangents.h"
#include "compiler/rewrite/passes.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

const DimValues kSizes = {{"S", 3}, {"N", 4}};
const std::string kHead = "dim S dynamic, N\nindex s:S, n:N, m:N\ninput x[S,N], w[N]\n";

Program program_of(const std::string& text) { return with_dtype(parse(kHead + text + "\n"), DType::f64); }

/// Every kind of derivative of y.
std::vector<Program> derivatives_of(const Program& program) {
  return {differentiate(program, {"y"}, {}), tangents(program, {"y"}, {}),
          jacobian(program, {"y"}, {"x"}, JacobianMode::Reverse, kSizes),
          jacobian(program, {"y"}, {"w"}, JacobianMode::Forward, kSizes)};
}

/// The outputs of `program` on `device` are those of `want` by the evaluator.
void check_same(const std::shared_ptr<Device>& device, const Program& program, const Program& want) {
  INFO(device->name(), "\n", print(program));
  const TensorValues inputs = random_inputs(want, kSizes, 3);
  const TensorValues values = evaluate(want, kSizes, inputs);
  const TensorValues got = run_on(device, program, kSizes, inputs);
  for (const Definition& definition : want.definitions) {
    if (!definition.output) continue;
    CAPTURE(definition.name);
    const std::vector<double>& wanted = values.at(definition.name);
    REQUIRE(got.at(definition.name).size() == wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k)
      CHECK(got.at(definition.name)[k] == doctest::Approx(wanted[k]).scale(1).epsilon(1e-10));
  }
}

/// A function whose derivatives are declared as they are, and the same without the declarations.
struct Declared {
  const char *function, *slopes, *uses;
};
constexpr const char* kWave = "def f(u, v) = sin(u*v) + u\n";
constexpr const char* kWaveSlopes = "derivative f.u = v*cos(u*v) + 1\nderivative f.v = u*cos(u*v)\n";
const Declared kSmooth[] = {
    {kWave, kWaveSlopes, "output y[s,n] = f(x[s,n], w[n])"},
    {kWave, "derivative f.v = u*cos(u*v)\n", "output y[s,n] = 2*f(w[n], x[s,n]^2)"},
    {kWave, kWaveSlopes, "output y[s,n] = f(x[s,n], x[s,n])*f(x[s,0], 2) + f(n, w[n])"},
    {kWave, kWaveSlopes, "let u[s,n] = f(x[s,n], w[n])\noutput y[s] = sum[n](u[s,n]*f(u[s,n], sum[m](u[s,m])))"},
    {kWave, kWaveSlopes, "output y[s] = max[n](f(x[s,n], w[n])) + where(w[1] > 0, f(x[s,0], w[0]), f(x[s,1], 1))"},
    {kWave, kWaveSlopes,
     "scan s {\nlet before[s,n] = where(s == 0, w[n], y[s-1,n])\noutput y[s,n] = f(before[s,n], x[s,n])\n}"},
    {"def f(u, a[:]) = sum[m](sin(u*a[m]))\n", "derivative f.u = sum[m](a[m]*cos(u*a[m]))\n",
     "def g(u, a[:]) = f(2*u, a)\noutput y[s,n] = g(x[s,n], w)"},
};

}  // namespace

TEST_CASE("a function whose derivatives are declared as they are has the same first derivatives") {
  for (const auto& device : test_devices()) {
    for (std::size_t which = 0; which < std::size(kSmooth); which += device->name() == "cuda-emu" ? 5 : 1) {
      const auto& [function, slopes, uses] = kSmooth[which];
      const auto declared = derivatives_of(program_of(std::string(function) + slopes + uses));
      const auto plain = derivatives_of(program_of(std::string(function) + uses));
      for (std::size_t k = 0; k < plain.size(); ++k) check_same(device, declared[k], plain[k]);
    }
  }
}

TEST_CASE("second derivatives are those of the declared slopes") {
  for (const auto& device : test_devices()) {
    for (const auto& [function, slopes, uses] : kSmooth) {
      if (std::string(slopes) != kWaveSlopes) continue;  // all of them are declared
      check_same(device, hessian_products(program_of(std::string(function) + slopes + uses), {"y"}, {}),
                 hessian_products(program_of(std::string(function) + uses), {"y"}, {}));
    }
    // What is not declared follows from the body, in which declared parameters are constants.
    const Program mixed = program_of("def f(u, v) = u*v^2\nderivative f.u = 3*u*v\noutput y[s] = f(x[s,0], w[0])");
    const Program by_hand = program_of(
        "input cot.y[S], tan.x[S,N], tan.w[N]\n"
        "output hvp.x[s,n] = where(n == 0, cot.y[s]*3*(w[0]*tan.x[s,0] + x[s,0]*tan.w[0]), 0)\n"
        "output hvp.w[n] = where(n == 0, sum[s](cot.y[s]*2*x[s,0]*tan.w[0]), 0)");
    check_same(device, hessian_products(mixed, {"y"}, {}, false), by_hand);
  }
}

TEST_CASE("a declared derivative stands in the place of what follows from the body") {
  const Program program = program_of(
      "def quantise(u, step) = step*floor(u/step)\nderivative quantise.u = 1\n"
      "output y[s,n] = quantise(w[n]*x[s,n], 0.25)^2 + quantise(1, w[n])");
  const Program by_hand = program_of(
      "input cot.y[S,N]\nlet q[s,n] = 0.25*floor(w[n]*x[s,n]/0.25)\noutput y[s,n] = q[s,n]^2 + w[n]*floor(1/w[n])\n"
      "output grad.x[s,n] = 2*q[s,n]*w[n]*cot.y[s,n]\n"
      "output grad.w[n] = sum[s](2*q[s,n]*x[s,n]*cot.y[s,n] + floor(1/w[n])*cot.y[s,n])");
  for (const auto& device : test_devices()) check_same(device, differentiate(program, {"y"}, {}), by_hand);
}

TEST_CASE("a straight-through layer in C++") {
  Program p("layer", DType::f64);
  const Dim S = p.dim("S", dynamic), N = p.dim("N");
  const Index s(S), n(N);
  const Tensor x = p.input("x", {S, N}), w = p.input("w", {N});
  const Expr sign_of =
      with_derivative([](const Expr& u) { return where(u >= 0, 1, -1); }, w(n), where(abs(w(n)) <= 0.5, 1, 0));
  p.output("y", {s}, sum(n, sign_of * x(s, n)));
  const Program text = program_of(
      "def binary(u) = where(u >= 0, 1, -1)\nderivative binary.u = where(abs(u) <= 0.5, 1, 0)\n"
      "output y[s] = sum[n](binary(w[n])*x[s,n])");
  CHECK(p.definitions[0].body == text.definitions[0].body);
  const Program by_hand =
      program_of("input cot.y[S]\noutput grad.w[n] = where(abs(w[n]) <= 0.5, sum[s](cot.y[s]*x[s,n]), 0)");
  for (const auto& device : test_devices()) check_same(device, differentiate(p, {"y"}, {"w"}, false), by_hand);
}

TEST_CASE("slopes cost nothing where no derivative is asked") {
  const std::string function = "def f(u) = floor(u)*exp(u)\n", use = "output y[s,n] = f(x[s,n])*f(x[s,n])\n";
  const Program declared =
      program_of("let costly = sum[m](exp(w[m]))\n" + function + "derivative f.u = costly*lgamma(u)\n" + use);
  const auto optimised = [](const Program& program) { return print(optimise(specialise(program, kSizes))); };
  CHECK(optimised(declared) == optimised(program_of(function + use)));

  // Nor does the evaluator look at them.
  const Program outside = parse("input k: i32, x, E[2]\noutput y = with_slope(x, x, E[k])\n");
  CHECK(evaluate(outside, {}, {{"k", {7}}, {"x", {3}}, {"E", {1, 2}}}).at("y")[0] == 3);
}
