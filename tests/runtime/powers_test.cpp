// Powers by numbers that stand in the formula, on every device: multiplications and roots have the values of C's pow.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/expression/functions.h"
#include "compiler/program/program.h"
#include "compiler/rewrite/passes.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The same number, both NaN, or nearly the same.
bool is_near(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(got);
  return got == wanted || std::abs(got - wanted) <= tolerance * std::abs(wanted);
}

}  // namespace

TEST_CASE("powers by literals have the values of pow, special ones included") {
  const std::vector<double> bases = {0,    -0.0, 0.25,  0.7,          1,    1.5,  2,   3.3, 7, -2,
                                     -0.5, kInf, -kInf, std::nan(""), 1e-3, 12.5, 0.01};
  const DimValues dims = {{"N", static_cast<std::int64_t>(bases.size())}};
  for (const char* exponent : {"1.5", "-1.5", "2.5", "-2.5", "3.5", "-3.5", "7.5", "-7.5", "8.5", "3", "-4", "2.25"}) {
    const std::string text = std::string("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = x[n]^") +
                             (exponent[0] == '-' ? "(" + std::string(exponent) + ")" : exponent) + "\n";
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Program program = with_dtype(parse(text), dtype);
      for (const auto& device : test::test_devices()) {
        const std::vector<double> y = test::run_on(device, program, dims, {{"x", bases}}).at("y");
        for (std::size_t n = 0; n < bases.size(); ++n) {
          const double x = dtype == DType::f32 ? static_cast<float>(bases[n]) : bases[n];
          const double wanted = std::pow(x, std::stod(exponent));
          CHECK_MESSAGE(is_near(y[n], wanted, dtype == DType::f64 ? 1e-14 : 3e-6),
                        device->name() << ": " << x << "^" << exponent << " = " << y[n] << ", not " << wanted);
        }
      }
    }
  }
}

TEST_CASE("powers by an index of a short range are products, with the values and derivatives of pow") {
  const char* const text = R"(
    dim N, A
    index n:N, a:A
    input x[N], c[A], m[N]
    output y[n] = sum[a](c[a]*x[n]^a)
    output z[a] = sum[n](m[n]*x[n]^(a-1))
    output w[n,a] = x[n]^(5-a)
  )";
  constexpr std::size_t kCount = 101;
  const DimValues dims = {{"N", kCount}, {"A", 6}};
  std::vector<double> x(kCount), m(kCount, 1);
  for (std::size_t n = 0; n < kCount; ++n) x[n] = -1.5 + static_cast<double>(n) / 32;  // 0 is one of them
  const std::size_t zero = 48;
  REQUIRE(x[zero] == 0);
  m[zero] = 0;  // 0^-1 is no number to sum up
  const TensorValues inputs = {
      {"x", x}, {"c", {3, -2, 0.5, 1, -1, 0.25}}, {"m", m}, {"cot.y", std::vector<double>(kCount, 1)}};
  const std::vector<double>& c = inputs.at("c");
  const Program specialised = specialise(parse(text), dims);
  const auto is_general = [](const Expr& e) { return is_call(e, "pow") && e->args[1]->kind != NodeKind::Constant; };
  for (const Program& program : {optimise(specialised), optimise(differentiate(specialised, {"y"}, {"x"}))}) {
    for (const Definition& definition : program.definitions)
      visit(definition.body, [&](const Expr& e) { CHECK_FALSE(is_general(e)); });
  }
  for (const DType dtype : {DType::f64, DType::f32}) {
    Program program = with_dtype(parse(text), dtype);
    program.definitions.erase(program.definitions.begin() + 1);
    program = differentiate(program, {"y"}, {"x"});
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      const double tolerance = dtype == DType::f64 ? 1e-13 : 1e-5;
      const TensorValues found = test::run_on(device, program, dims, inputs);
      for (std::size_t n = 0; n < kCount; ++n) {
        double y = 0, slope = 0;
        for (std::size_t a = 0; a < c.size(); ++a) {
          y += c[a] * std::pow(x[n], a);
          if (a > 0) slope += c[a] * static_cast<double>(a) * std::pow(x[n], a - 1);
          CHECK(is_near(found.at("w")[n * c.size() + a], std::pow(x[n], 5 - static_cast<int>(a)), tolerance));
        }
        CHECK(found.at("y")[n] == doctest::Approx(y).epsilon(tolerance));
        CHECK(found.at("grad.x")[n] == doctest::Approx(slope).epsilon(tolerance));
      }
    }
  }
  for (const auto& device : test::test_devices()) {
    std::vector<double> positive = x;
    positive[zero] = 1;
    const std::vector<double> z =
        test::run_on(device, with_dtype(parse(text), DType::f64), dims, {{"x", positive}, {"c", c}, {"m", m}}).at("z");
    for (std::size_t a = 0; a < c.size(); ++a) {
      double wanted = 0;
      for (std::size_t n = 0; n < kCount; ++n) wanted += m[n] * std::pow(positive[n], static_cast<int>(a) - 1);
      CHECK(z[a] == doctest::Approx(wanted).epsilon(1e-12));
    }
  }
}
