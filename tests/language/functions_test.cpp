// The function table, tested as a whole, and the references that are moxie's own.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <set>

#include "compiler/arithmetic/special_functions.h"
#include "compiler/expression/functions.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

/// Arguments inside the domain, away from kinks and ties.
std::vector<std::vector<double>> arguments_for(const ScalarFunction& row) {
  const std::size_t count = row.arity < 0 ? 3 : static_cast<std::size_t>(row.arity);
  std::vector<std::vector<double>> result;
  for (const double base : {-2.3, -0.7, 0.4, 1.7, 3.1}) {
    std::vector<double> arguments;
    for (std::size_t k = 0; k < count; ++k) arguments.push_back(base + 0.37 * static_cast<double>(k));
    const bool inside =
        std::ranges::all_of(arguments, [&](double x) { return x > row.domain.low && x < row.domain.high; });
    if (inside) result.push_back(arguments);
  }
  return result;
}

/// The value of `expr` in inputs x0, x1, ...
double value(const Expr& expr, const std::vector<double>& arguments) {
  Program program;
  TensorValues inputs;
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const std::string name = "x" + std::to_string(k);
    program.inputs.push_back({name, DType::f64, {}, ValueDomain::Any});
    inputs[name] = {arguments[k]};
  }
  program.definitions.push_back({"y", DType::f64, {}, expr, true, 0});
  return evaluate(program, {}, inputs).at("y")[0];
}

double slope(const ScalarFunction& row, std::vector<double> arguments, std::size_t k) {
  const double step = 1e-6;
  arguments[k] += step;
  const double above = row.reference(arguments);
  arguments[k] -= 2 * step;
  return (above - row.reference(arguments)) / (2 * step);
}

/// d name / d argument k at a point.
double derivative(std::string_view name, const std::vector<double>& at, std::size_t k) {
  std::vector<Expr> args;
  for (std::size_t i = 0; i < at.size(); ++i) args.push_back(tensor_access("x" + std::to_string(i), {}));
  const Expr self = call(name, args);
  return value(self->function->derivative(self->args, self, k), at);
}

bool has_derivative(const ScalarFunction& row) {
  return row.derivative && row.name != "stop_gradient" && row.name != "with_slope" && row.name != "squared_deviation";
}

}  // namespace

TEST_CASE("every derivative in the table is the slope of its reference") {
  for (const ScalarFunction& row : scalar_functions()) {
    if (!has_derivative(row)) continue;
    for (const auto& arguments : arguments_for(row)) {
      std::vector<Expr> args;
      for (std::size_t k = 0; k < arguments.size(); ++k) args.push_back(tensor_access("x" + std::to_string(k), {}));
      if (row.name == "where") args[0] = call(">", {args[0], 0});
      const Expr self = call(row, args);
      for (std::size_t k = row.name == "where" ? 1 : 0; k < arguments.size(); ++k) {
        const double computed = value(row.derivative(self->args, self, k), arguments);
        const double expected =
            row.name == "where" ? ((arguments[0] > 0) == (k == 1) ? 1 : 0) : slope(row, arguments, k);
        INFO(row.name, " at ", arguments[0]);
        CHECK(computed == doctest::Approx(expected).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("rows are complete and unique") {
  std::set<std::string_view> names;
  for (const ScalarFunction& row : scalar_functions()) {
    INFO(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(find_function(row.name) == &row);
    CHECK(row.cuda.find("$0") != std::string_view::npos);
    CHECK(row.cost > 0);
    CHECK((row.result == ResultType::Truth) == !row.derivative);
    CHECK_FALSE(arguments_for(row).empty());
  }
  CHECK(find_function("nosuch") == nullptr);
  CHECK_THROWS_AS(function("nosuch"), InternalError);
}

TEST_CASE("constant exponents bring in no logarithm") {
  const Expr x = tensor_access("x0", {});
  const auto derivative = [&](double n) {
    const Expr self = call("pow", {x, n});
    return value(self->function->derivative(self->args, self, 0), {-1.5});
  };
  CHECK(derivative(0) == 0);
  CHECK(derivative(1) == 1);
  CHECK(derivative(2) == -3);
  CHECK(derivative(3) == doctest::Approx(6.75));
  const Expr square = call("pow", {x, 2});
  CHECK(square->function->derivative(square->args, square, 0) == Expr(2) * x);
}

TEST_CASE("ties and kinks") {
  CHECK(derivative("max", {2, 2}, 0) == 1);
  CHECK(derivative("max", {2, 2}, 1) == 0);
  CHECK(derivative("min", {3, 2, 2}, 1) == 1);
  CHECK(derivative("min", {3, 2, 2}, 2) == 0);
  CHECK(derivative("relu", {0}, 0) == 0);
  CHECK(derivative("abs", {0}, 0) == 0);
  CHECK(derivative("floor", {1}, 0) == 0);
}

TEST_CASE("slopes where formulas have 0/0, and of what is held constant") {
  CHECK(derivative("i1e", {0}, 0) == 0.5);
  CHECK(derivative("i0e", {0}, 0) == 0);
  CHECK(derivative("stop_gradient", {3}, 0) == 0);
  CHECK(derivative("with_slope", {3, 4, 5}, 0) == 1);
  CHECK(derivative("with_slope", {3, 4, 5}, 1) == 5);
  CHECK(derivative("with_slope", {3, 4, 5}, 2) == 0);
  CHECK(derivative("squared_deviation", {3, 4.5}, 0) == -3);
  CHECK(derivative("squared_deviation", {3, 4.5}, 1) == 0);
  CHECK(derivative("atan2", {0, -2}, 0) == -0.5);
}

TEST_CASE("NaN passes through extrema and signs, and takes their gradient") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto reference = [](std::string_view name, const std::vector<double>& at) {
    return function(name).reference(at);
  };
  for (const char* name : {"max", "min"}) {
    CAPTURE(name);
    for (const std::vector<double>& at : {std::vector{nan, 1.0}, {1, nan}, {nan, nan}, {1, nan, 2}, {1, 2, nan}}) {
      CHECK(std::isnan(reference(name, at)));
      double total = 0;
      for (std::size_t k = 0; k < at.size(); ++k) {
        const double slope = derivative(name, at, k);
        if (slope != 0) CHECK(std::isnan(at[k]));
        total += slope;
      }
      CHECK(total == 1);
    }
  }
  CHECK(std::isnan(reference("relu", {nan})));
  CHECK(derivative("relu", {nan}, 0) == 1);
  CHECK(std::isnan(reference("sign", {nan})));
  CHECK(std::isnan(derivative("abs", {nan}, 0)));
}

TEST_CASE("references far from the origin") {
  CHECK(softplus(-800) == 0);
  CHECK(softplus(800) == 800);
  CHECK(sigmoid(-800) == 0);
  CHECK(sigmoid(800) == 1);
  CHECK(normal_pdf(0) == doctest::Approx(0.3989422804014327).epsilon(1e-15));
  // Values of mpmath: log(ncdf(x)).
  CHECK(log_normal_cdf(0) == doctest::Approx(-std::numbers::ln2).epsilon(1e-15));
  CHECK(log_normal_cdf(-10) == doctest::Approx(-53.23128515051247).epsilon(1e-14));
  CHECK(log_normal_cdf(-40) == doctest::Approx(-804.6084420137538).epsilon(1e-14));
  CHECK(log_normal_cdf(10) == doctest::Approx(-7.619853024160527e-24).epsilon(1e-12));
  // Continuous where the forms meet.
  CHECK(log_normal_cdf(-30 - 1e-9) == doctest::Approx(log_normal_cdf(-30 + 1e-9)).epsilon(1e-9));
}

TEST_CASE("the derivative of trigamma is exact to rounding errors") {
  // mpmath: polygamma(2, x), of negative numbers by the derivative of polygamma(1, x)
  const std::pair<double, double> known[] = {{0.01, -2000002.3403986769596},  {0.5, -16.828796644234319996},
                                             {1, -2.4041138063191885708},     {3.25, -0.12815694713911512072},
                                             {20, -0.0026281224023146545934}, {1000, -1.0010004999998333335e-6},
                                             {-0.5, -0.82879664423431999558}, {-3.3, 68.769445477485233698}};
  for (const auto& [x, expected] : known) {
    CAPTURE(x);
    CHECK(derivative("trigamma", {x}, 0) == doctest::Approx(expected).epsilon(x > 0 ? 2e-15 : 1e-13));
  }
}

TEST_CASE("digamma and trigamma") {
  constexpr double euler = std::numbers::egamma;
  constexpr double pi = std::numbers::pi;
  CHECK(digamma(1) == doctest::Approx(-euler).epsilon(1e-15));
  CHECK(digamma(0.5) == doctest::Approx(-euler - 2 * std::numbers::ln2).epsilon(1e-15));
  CHECK(digamma(-0.5) == doctest::Approx(0.03648997397857652).epsilon(1e-13));
  CHECK(digamma(1e8) == doctest::Approx(std::log(1e8) - 0.5e-8).epsilon(1e-15));
  CHECK(trigamma(1) == doctest::Approx(pi * pi / 6).epsilon(1e-15));
  CHECK(trigamma(0.5) == doctest::Approx(pi * pi / 2).epsilon(1e-15));
  CHECK(trigamma(-0.5) == doctest::Approx(pi * pi / 2 + 4).epsilon(1e-14));
}
