#include "compiler/expression/functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>

#include "compiler/arithmetic/special_functions.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using Args = std::span<const Expr>;
using Values = std::span<const double>;

constexpr double kInf = Interval::kInf;
constexpr Interval kReal = Interval::all();
constexpr Interval kPositive = Interval::above(0);
constexpr int kVariadic = -1;
/// Exponents whose exponentials are far from infinity, also in f32.
constexpr Interval kSmallExponents = Interval::at_most(88);
/// Sines and cosines exceed 1 by a rounding.
constexpr double kOne = 1 + 0x1p-20;

// ---- Derivatives ----

Expr truth_as_number(const Expr& condition) { return call("where", {condition, 1, 0}); }

Expr zero_derivative(Args, const Expr&, std::size_t) { return 0; }

Expr product_of_others(Args args, const Expr&, std::size_t i) {
  std::vector<Expr> others;
  for (std::size_t k = 0; k < args.size(); ++k) {
    if (k != i) others.push_back(args[k]);
  }
  return others.size() == 1 ? others[0] : call("*", std::move(others));
}

Expr quotient_derivative(Args args, const Expr& self, std::size_t i) {
  return i == 0 ? Expr(1) / args[1] : -(self / args[1]);
}

/// A constant exponent never brings in log(x), which would be undefined for negative x.
Expr pow_derivative(Args args, const Expr& self, std::size_t i) {
  const auto& [x, n] = std::tie(args[0], args[1]);
  if (i == 1) return call("where", {call("==", {x, 0}), 0, self * call("log", {x})});
  if (n->kind != NodeKind::Constant)  // x^0 is 1 at x = 0, too
    return call("where", {call("==", {n, 0}), 0, n * call("pow", {x, n - Expr(1)})});
  if (n->value == 0) return 0;
  if (n->value == 1) return 1;
  if (n->value == 2) return Expr(2) * x;
  return n * call("pow", {x, n->value - 1});
}

Expr where_derivative(Args args, const Expr&, std::size_t i) {
  if (i == 0) return 0;
  return call("where", {args[0], i == 1 ? 1 : 0, i == 2 ? 1 : 0});
}

Expr all_of(std::vector<Expr> tests) { return tests.size() == 1 ? tests[0] : call("and", std::move(tests)); }

/// The first argument that is the extremum takes the whole gradient: it beats those before it and is not beaten by
/// those after it, or it is the first that is NaN.
Expr first_attains(Args args, std::size_t i, std::string_view beats, std::string_view reaches) {
  std::vector<Expr> tests, nan_tests{call("!=", {args[i], args[i]})};
  for (std::size_t k = 0; k < args.size(); ++k) {
    if (k != i) tests.push_back(call(k < i ? beats : reaches, {args[i], args[k]}));
    if (k < i && args[k]->kind != NodeKind::Constant) nan_tests.push_back(call("==", {args[k], args[k]}));
  }
  return truth_as_number(call("or", {all_of(std::move(tests)), all_of(std::move(nan_tests))}));
}
Expr max_derivative(Args args, const Expr&, std::size_t i) { return first_attains(args, i, ">", ">="); }
Expr min_derivative(Args args, const Expr&, std::size_t i) { return first_attains(args, i, "<", "<="); }

Expr log_normal_cdf_derivative(Args args, const Expr& self, std::size_t) {
  const double log_sqrt_two_pi = 0.5 * std::log(2 * std::numbers::pi);
  return call("exp", {Expr(-0.5) * call("pow", {args[0], 2}) - self - Expr(log_sqrt_two_pi)});
}

/// The second derivative of digamma, of a positive number: eight steps of psi2(x) = psi2(x+1) - 2/x^3, then the
/// asymptotic series with the terms -(2k+1)*B(2k)/y^(2k+2), of which twelve are exact to a rounding error from y = 8
/// on. (Abramowitz and Stegun, 6.4.6 and 6.4.13.)
Expr tetragamma_of_positive(const Expr& x) {
  constexpr std::array kTerms = {-1.0 / 2,      1.0 / 6,         -1.0 / 6,      3.0 / 10,
                                 -5.0 / 6,      691.0 / 210,     -35.0 / 2,     3617.0 / 30,
                                 -43867.0 / 42, 1222277.0 / 110, -854513.0 / 6, 1181820455.0 / 546};
  constexpr int kSteps = 8;
  const auto power = [](const Expr& base, int exponent) { return call("pow", {base, exponent}); };
  const Expr y = x + Expr(kSteps);
  const Expr square = power(y, -2);
  Expr series = kTerms.back();
  for (auto term = kTerms.rbegin() + 1; term != kTerms.rend(); ++term) series = Expr(*term) + square * series;
  std::vector<Expr> parts = {square * (Expr(-1) - power(y, -1) + square * series)};
  for (int k = 0; k < kSteps; ++k) parts.push_back(Expr(-2) * power(x + Expr(k), -3));
  return call("+", std::move(parts));
}

/// Where x is not positive, by reflection: psi2(x) = psi2(1-x) - 2*pi^3*cos(pi*x)/sin(pi*x)^3.
Expr trigamma_derivative(Args args, const Expr&, std::size_t) {
  const Expr& x = args[0];
  const Expr angle = Expr(std::numbers::pi) * x;
  const Expr reflected =
      Expr(-2 * std::pow(std::numbers::pi, 3)) * call("cos", {angle}) * call("pow", {call("sin", {angle}), -3});
  return call("where", {call(">", {x, 0}), tetragamma_of_positive(x), tetragamma_of_positive(Expr(1) - x) + reflected});
}

/// Of `with_slope(value, x, slope)`: that of the value, and `slope` times that of x.
Expr with_slope_derivative(Args args, const Expr&, std::size_t i) { return i == 0 ? 1 : i == 1 ? args[2] : Expr(0); }

/// By `m`, there is none: see squared_deviation() in builder.h.
Expr squared_deviation_derivative(Args args, const Expr&, std::size_t i) {
  return i == 0 ? Expr(2) * (args[0] - args[1]) : Expr(0);
}

double squared_deviation(Values v) { return (v[0] - v[1]) * (v[0] - v[1]); }

Expr atan2_derivative(Args args, const Expr&, std::size_t i) {
  const auto& [y, x] = std::tie(args[0], args[1]);
  const Expr square = call("pow", {x, 2}) + call("pow", {y, 2});
  return i == 0 ? x / square : -(y / square);
}

/// 1/sqrt(1 - x^2), without cancellation near 1.
Expr arcsine_slope(const Expr& x) { return call("rsqrt", {(Expr(1) - x) * (Expr(1) + x)}); }

Expr i0e_slope(const Expr& x, const Expr& self) { return call("i1e", {x}) - call("sign", {x}) * self; }

/// I1(x)/x is 1/2 at zero.
Expr i1e_slope(const Expr& x, const Expr& self) {
  const Expr beyond = call("i0e", {x}) - self * (call("sign", {x}) + Expr(1) / x);
  return call("where", {call("==", {x, 0}), 0.5, beyond});
}

Expr gaussian_slope(double factor, const Expr& x) { return Expr(factor) * call("exp", {-call("pow", {x, 2})}); }

// ---- Rows. The derivative of a function of one argument is given as f'(x, f(x)). ----

/// A row with what else is known of the function.
struct FunctionRow : ScalarFunction {
  FunctionRow finite_on(const Interval& arguments) const { return with(&ScalarFunction::finite, arguments); }
  FunctionRow within(const Interval& all_values) const { return with(&ScalarFunction::values, all_values); }
  FunctionRow rises() const { return with(&ScalarFunction::growth, Growth::Rises); }
  FunctionRow rises_in_steps() const { return with(&ScalarFunction::growth, Growth::RisesInSteps); }
  FunctionRow falls() const { return with(&ScalarFunction::growth, Growth::Falls); }
  FunctionRow multiply_adds(double f32, double f64) const {
    return with(&ScalarFunction::register_cost, RegisterCost{f32, f64});
  }
  FunctionRow instructions(double count) const {
    return with(&ScalarFunction::register_cost, RegisterCost{count, count, true});
  }

 private:
  template <typename Field, typename Value>
  FunctionRow with(Field ScalarFunction::* field, const Value& value) const {
    FunctionRow changed = *this;
    changed.*field = value;
    return changed;
  }
};

using Slope = Expr (*)(const Expr& x, const Expr& self);

FunctionRow unary(std::string_view name, Interval domain, Slope slope, double (*reference)(double),
                  std::string_view cuda, int cost) {
  return {{name, 1, domain, [slope](Args args, const Expr& self, std::size_t) { return slope(args[0], self); },
           [reference](Values v) { return reference(v[0]); }, cuda, cost}};
}

FunctionRow condition(std::string_view name, int arity, std::function<double(Values)> reference, std::string_view cuda,
                      Fixity fixity) {
  return FunctionRow{{name, arity, kReal, {}, std::move(reference), cuda, 1, fixity, ResultType::Truth}}
      .within(Interval::between(0, 1))
      .instructions(1);
}

FunctionRow compare(std::string_view name, bool (*holds)(double, double), std::string_view cuda) {
  return condition(name, 2, [holds](Values v) { return holds(v[0], v[1]) ? 1.0 : 0.0; }, cuda, Fixity::Infix);
}

double fold(Values values, double (*combine)(double, double)) {
  return std::accumulate(values.begin() + 1, values.end(), values[0], combine);
}

std::vector<ScalarFunction> operators() {
  return {
      {"+", kVariadic, kReal, [](Args, const Expr&, std::size_t) { return Expr(1); },
       [](Values v) { return fold(v, [](double a, double b) { return a + b; }); }, "($0 + $1)", 1, Fixity::Infix},
      {"*", kVariadic, kReal, product_of_others,
       [](Values v) { return fold(v, [](double a, double b) { return a * b; }); }, "($0 * $1)", 1, Fixity::Infix},
      {"/", 2, kReal, quotient_derivative, [](Values v) { return v[0] / v[1]; }, "($0 / $1)", 8, Fixity::Infix},
      FunctionRow{{"neg", 1, kReal, [](Args, const Expr&, std::size_t) { return Expr(-1); },
                   [](Values v) { return -v[0]; }, "(-$0)", 1}}
          .instructions(0),  // part of the addition that reads it
      FunctionRow{{"pow", 2, kPositive, pow_derivative, [](Values v) { return std::pow(v[0], v[1]); }, "pow($0, $1)",
                   30, Fixity::Infix}}
          .multiply_adds(145, 170),
  };
}

std::vector<ScalarFunction> conditions() {
  const auto all = [](Values v) { return std::ranges::all_of(v, [](double x) { return x != 0; }) ? 1.0 : 0.0; };
  const auto any = [](Values v) { return std::ranges::any_of(v, [](double x) { return x != 0; }) ? 1.0 : 0.0; };
  const auto none = [](Values v) { return v[0] != 0 ? 0.0 : 1.0; };
  return {
      compare(
          "<", [](double a, double b) { return a < b; }, "($0 < $1)"),
      compare(
          "<=", [](double a, double b) { return a <= b; }, "($0 <= $1)"),
      compare(
          ">", [](double a, double b) { return a > b; }, "($0 > $1)"),
      compare(
          ">=", [](double a, double b) { return a >= b; }, "($0 >= $1)"),
      compare(
          "==", [](double a, double b) { return a == b; }, "($0 == $1)"),
      compare(
          "!=", [](double a, double b) { return a != b; }, "($0 != $1)"),
      condition("and", kVariadic, all, "($0 && $1)", Fixity::Infix),
      condition("or", kVariadic, any, "($0 || $1)", Fixity::Infix),
      condition("not", 1, none, "(!$0)", Fixity::Prefix),
      FunctionRow{
          {"where", 3, kReal, where_derivative, [](Values v) { return v[0] != 0 ? v[1] : v[2]; }, "($0 ? $1 : $2)", 1}}
          .instructions(1),
  };
}

std::vector<ScalarFunction> exponentials() {
  return {
      unary(
          "exp", kReal, [](const Expr&, const Expr& self) { return self; }, std::exp, "exp($0)", 10)
          .finite_on(kSmallExponents)
          .within(kPositive)
          .rises()
          .multiply_adds(10, 18),
      unary(
          "exp2", kReal, [](const Expr&, const Expr& self) { return Expr(std::numbers::ln2) * self; }, std::exp2,
          "moxie_exp2($0)", 8)
          .finite_on(kSmallExponents)
          .within(kPositive)
          .rises()
          .multiply_adds(6, 10),
      unary(
          "expm1", kReal, [](const Expr&, const Expr& self) { return self + Expr(1); }, std::expm1, "expm1($0)", 14)
          .finite_on(kSmallExponents)
          .within(Interval::at_least(-1))
          .rises()
          .multiply_adds(11, 16),
      unary(
          "log", kPositive, [](const Expr& x, const Expr&) { return Expr(1) / x; }, std::log, "log($0)", 12)
          .rises()
          .multiply_adds(20, 30),
      unary(
          "log2", kPositive, [](const Expr& x, const Expr&) { return Expr(1 / std::numbers::ln2) / x; }, std::log2,
          "log2($0)", 10)
          .rises()
          .multiply_adds(21, 28),
      unary(
          "log1p", Interval::above(-1), [](const Expr& x, const Expr&) { return Expr(1) / (Expr(1) + x); }, std::log1p,
          "log1p($0)", 16)
          .rises()
          .multiply_adds(20, 29),
  };
}

std::vector<ScalarFunction> roots_and_angles() {
  const double pi = std::numbers::pi * kOne;
  return {
      unary(
          "sqrt", kPositive, [](const Expr&, const Expr& self) { return Expr(0.5) / self; }, std::sqrt, "sqrt($0)", 8)
          .finite_on(Interval::at_least(0))
          .within(Interval::at_least(0))
          .rises(),
      unary(
          "rsqrt", kPositive, [](const Expr& x, const Expr& self) { return Expr(-0.5) * self / x; },
          [](double x) { return 1 / std::sqrt(x); }, "rsqrt($0)", 8)
          .within(kPositive)
          .falls(),
      unary(
          "sin", kReal, [](const Expr& x, const Expr&) { return call("cos", {x}); }, std::sin, "sin($0)", 16)
          .within(Interval::between(-kOne, kOne))
          .multiply_adds(38, 17),
      unary(
          "cos", kReal, [](const Expr& x, const Expr&) { return -call("sin", {x}); }, std::cos, "cos($0)", 16)
          .within(Interval::between(-kOne, kOne))
          .multiply_adds(42, 20),
      unary(
          "atan", kReal, [](const Expr& x, const Expr&) { return Expr(1) / (Expr(1) + call("pow", {x, 2})); },
          std::atan, "atan($0)", 26)
          .within(Interval::between(-pi / 2, pi / 2))
          .rises(),
      FunctionRow{
          {"atan2", 2, kReal, atan2_derivative, [](Values v) { return std::atan2(v[0], v[1]); }, "atan2($0, $1)", 36}}
          .within(Interval::between(-pi, pi)),
      unary(
          "asin", Interval::between(-1, 1), [](const Expr& x, const Expr&) { return arcsine_slope(x); }, std::asin,
          "asin($0)", 26)
          .within(Interval::between(-pi / 2, pi / 2))
          .rises(),
      unary(
          "acos", Interval::between(-1, 1), [](const Expr& x, const Expr&) { return -arcsine_slope(x); }, std::acos,
          "acos($0)", 26)
          .within(Interval::between(0, pi))
          .falls(),
  };
}

/// What gives an argument as it is, with another derivative or type, and a square that has no derivative by its mean.
std::vector<ScalarFunction> identities() {
  return {
      {"stop_gradient", 1, kReal, zero_derivative, [](Values v) { return v[0]; }, "($0)", 1},
      {"with_slope", 3, kReal, with_slope_derivative, [](Values v) { return v[0]; }, "($0)", 1},
      FunctionRow{{"squared_deviation", 2, kReal, squared_deviation_derivative, squared_deviation,
                   "(($0) - ($1))*(($0) - ($1))", 2}}
          .within(Interval::at_least(0)),
      unary(
          "f32", kReal, [](const Expr&, const Expr&) { return Expr(1); }, [](double x) { return x; }, "float($0)", 1)
          .instructions(1),
      unary(
          "f64", kReal, [](const Expr&, const Expr&) { return Expr(1); }, [](double x) { return x; }, "double($0)", 1)
          .instructions(1),
  };
}

/// Functions with kinks and steps. At a kink the derivative is 0 (abs, relu), and a step has derivative 0 everywhere.
std::vector<ScalarFunction> piecewise() {
  return {
      unary(
          "abs", kReal, [](const Expr& x, const Expr&) { return call("sign", {x}); }, std::fabs, "fabs($0)", 1)
          .within(Interval::at_least(0))
          .instructions(1),
      FunctionRow{{"sign", 1, kReal, zero_derivative, [](Values v) { return sign(v[0]); }, "moxie_sign($0)", 2}}
          .within(Interval::between(-1, 1))
          .rises_in_steps()
          .instructions(4),
      FunctionRow{{"floor", 1, kReal, zero_derivative, [](Values v) { return std::floor(v[0]); }, "floor($0)", 1}}
          .rises_in_steps()
          .instructions(1),
      FunctionRow{
          {"min", kVariadic, kReal, min_derivative, [](Values v) { return fold(v, minimum); }, "moxie_min($0, $1)", 1}}
          .instructions(3),
      FunctionRow{
          {"max", kVariadic, kReal, max_derivative, [](Values v) { return fold(v, maximum); }, "moxie_max($0, $1)", 1}}
          .instructions(3),
      unary(
          "relu", kReal, [](const Expr& x, const Expr&) { return call("where", {call("<=", {x, 0}), 0, 1}); },
          [](double x) { return maximum(x, 0); }, "moxie_relu($0)", 1)
          .within(Interval::at_least(0))
          .instructions(1),
  };
}

/// Values that come near an end are rounded to it.
std::vector<ScalarFunction> sigmoidal() {
  return {
      unary(
          "tanh", kReal, [](const Expr&, const Expr& self) { return Expr(1) - call("pow", {self, 2}); }, std::tanh,
          "tanh($0)", 16)
          .within(Interval::between(-1, 1))
          .rises()
          .multiply_adds(16, 22),
      unary(
          "sigmoid", kReal, [](const Expr&, const Expr& self) { return self * (Expr(1) - self); }, sigmoid,
          "moxie_sigmoid($0)", 14)
          .within({0, 1, true, false})
          .rises()
          .multiply_adds(14, 22),
      unary(
          "softplus", kReal, [](const Expr& x, const Expr&) { return call("sigmoid", {x}); }, softplus,
          "moxie_softplus($0)", 26)
          .within(kPositive)
          .rises()
          .multiply_adds(24, 70),
      unary(
          "erf", kReal, [](const Expr& x, const Expr&) { return gaussian_slope(2 * std::numbers::inv_sqrtpi, x); },
          std::erf, "erf($0)", 20)
          .within(Interval::between(-kOne, kOne))
          .rises()
          .multiply_adds(22, 74),
      unary(
          "erfc", kReal, [](const Expr& x, const Expr&) { return gaussian_slope(-2 * std::numbers::inv_sqrtpi, x); },
          std::erfc, "erfc($0)", 30)
          .within({0, 2 * kOne, true, false})
          .falls()
          .multiply_adds(43, 74),
      unary(
          "normal_cdf", kReal, [](const Expr& x, const Expr&) { return call("normal_pdf", {x}); }, normal_cdf,
          "normcdf($0)", 30)
          .within({0, kOne, true, false})
          .rises()
          .multiply_adds(50, 84),
      unary(
          "normal_pdf", kReal, [](const Expr& x, const Expr& self) { return -(x * self); }, normal_pdf,
          "moxie_normal_pdf($0)", 12)
          .within({0, 0.4, true, false})
          .multiply_adds(13, 22),
      FunctionRow{{"log_normal_cdf", 1, kReal, log_normal_cdf_derivative, [](Values v) { return log_normal_cdf(v[0]); },
                   "moxie_log_normal_cdf($0)", 45}}
          .within(Interval::at_most(0))
          .rises()
          .multiply_adds(190, 145),
  };
}

std::vector<ScalarFunction> inverse_error_and_bessel() {
  return {
      unary(
          "erfinv", Interval::open(-1, 1),
          [](const Expr&, const Expr& self) {
            return Expr(0.5 / std::numbers::inv_sqrtpi) * call("exp", {call("pow", {self, 2})});
          },
          erfinv, "erfinv($0)", 80)
          .rises()
          .multiply_adds(49, 220),
      unary("i0e", kReal, i0e_slope, i0e, "moxie_i0e($0)", 60).within({0, kOne, true, false}),
      unary("i1e", kReal, i1e_slope, i1e, "moxie_i1e($0)", 60).within(Interval::between(-0.25, 0.25)),
  };
}

std::vector<ScalarFunction> gamma_family() {
  return {
      unary(
          "lgamma", kPositive, [](const Expr& x, const Expr&) { return call("digamma", {x}); }, std::lgamma,
          "lgamma($0)", 40)
          .multiply_adds(185, 96),
      unary(
          "digamma", kPositive, [](const Expr& x, const Expr&) { return call("trigamma", {x}); }, digamma,
          "moxie_digamma($0)", 40)
          .rises()
          .multiply_adds(120, 62),
      FunctionRow{{"trigamma", 1, kPositive, trigamma_derivative, [](Values v) { return trigamma(v[0]); },
                   "moxie_trigamma($0)", 40}}
          .within(kPositive)
          .falls()
          .multiply_adds(120, 62),
  };
}

const std::vector<ScalarFunction>& table() {
  static const std::vector<ScalarFunction> rows = [] {
    std::vector<ScalarFunction> all;
    for (const auto& part : {operators(), conditions(), exponentials(), roots_and_angles(), identities(), piecewise(),
                             sigmoidal(), inverse_error_and_bessel(), gamma_family()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace

bool wants_truth(const ScalarFunction& function, std::size_t arg) {
  return function.name == "and" || function.name == "or" || function.name == "not" ||
         (function.name == "where" && arg == 0);
}

bool keeps_integers(const ScalarFunction& function) {
  return function.name == "+" || function.name == "*" || function.name == "neg";
}

bool chooses_integers(const ScalarFunction& function) {
  return function.name == "min" || function.name == "max" || function.name == "abs" || function.name == "where";
}

std::span<const ScalarFunction> scalar_functions() { return table(); }

const ScalarFunction* find_function(std::string_view name) {
  static const std::map<std::string_view, const ScalarFunction*> by_name = [] {
    std::map<std::string_view, const ScalarFunction*> rows;
    for (const ScalarFunction& row : table()) rows.emplace(row.name, &row);
    return rows;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

const ScalarFunction& function(std::string_view name) {
  if (const ScalarFunction* row = find_function(name)) return *row;
  throw InternalError("the function table has no row '" + std::string(name) + "'");
}

}  // namespace moxie
