// Every scalar function over its whole domain (poles, zeros of both signs, subnormal and huge numbers, infinities, NaN)
// against mpmath: the references of the table, and every device in f32 and f64.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/builder/builder.h"
#include "compiler/expression/functions.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/values/function_values.h"
#ifdef MOXIE_TEST_CPU
#include "runtime/cpu/host.h"
#include "tests/codegen/math_module.h"
#endif

using namespace moxie;
using namespace moxie::testing;

namespace {

/// The largest error in units in the last place, on any device. Functions that are not here round once.
struct Bound {
  std::string_view function;
  double f32, f64;
};
constexpr Bound kBounds[] = {
    {"/", 1.5, 1.5},
    {"pow", 4, 2.5},
    {"exp", 2, 1.5},
    {"exp2", 3, 2},
    {"expm1", 2.5, 2.5},
    {"log", 1.5, 1.5},
    {"log2", 2.5, 2.5},
    {"log1p", 2.5, 2.5},
    {"rsqrt", 2, 1.5},
    {"sin", 2, 4},
    {"cos", 2, 4},
    {"tanh", 3.5, 3},
    {"sigmoid", 3, 3},
    {"softplus", 3, 3},
    {"erf", 2.5, 2},
    {"erfc", 5, 6},
    {"normal_cdf", 5, 7},
    {"normal_pdf", 3, 3},
    {"log_normal_cdf", 8, 10},
    {"lgamma", 6, 9},
    {"digamma", 8, 14},
    {"trigamma", 8, 9},
    {"atan", 2.5, 2.5},
    {"atan2", 3.5, 3.5},
    {"asin", 3.5, 3.5},
    {"acos", 3.5, 3.5},
    {"erfinv", 3, 6},
    {"i0e", 6, 9},
    {"i1e", 6, 9},
};
constexpr double kExact = 0.5;

template <typename T>
double bound_of(std::string_view function) {
  const auto row = std::ranges::find(kBounds, function, &Bound::function);
  if (row == std::end(kBounds)) return kExact;
  return sizeof(T) == 4 ? row->f32 : row->f64;
}

std::string text_of(const std::string& function, const ValueRow& row) {
  return fmt::format("{}({})", function, fmt::join(row.arguments, ", "));
}

/// A Program multiplies with the reciprocal of a divisor, which must then be a normal number.
template <typename T>
bool divides_safely(const std::string& function, const ValueRow& row) {
  return function != "/" || row.arguments[1] == 0 || !std::isfinite(row.arguments[1]) ||
         std::isnormal(static_cast<T>(1 / row.arguments[1]));
}

/// Compares what `where` computed of the rows that T holds. Zeros of both signs are equal.
template <typename T>
void check_values(const std::string& where, const std::string& function, const std::vector<double>& values) {
  // The function f32 rounds to single precision, whatever the type of its argument.
  if (function == "f32" && sizeof(T) == 8) return check_values<float>(where, function, values);
  const FunctionValues& known = function_values().at(function);
  double worst = 0;
  std::string at = "none";
  for (std::size_t k = 0; k < known.rows.size(); ++k) {
    const ValueRow& row = known.rows[k];
    if (!holds_arguments<T>(row) || !divides_safely<T>(function, row)) continue;
    const T value = static_cast<T>(values[k]);
    const double error = error_in_ulps<T>(value, row);
    if (!(error <= worst))
      worst = error, at = fmt::format("{} = {}, not {}", text_of(function, row), value, static_cast<double>(row.value));
  }
  fmt::print("{:12} f{} {:16} {:10.2f} {}\n", where, 8 * sizeof(T), function, worst, at);
  CHECK_MESSAGE(worst <= bound_of<T>(function), where << " f" << 8 * sizeof(T) << ": " << at);
}

std::size_t most_rows() {
  std::size_t count = 0;
  for (const auto& [name, known] : function_values()) count = std::max(count, known.rows.size());
  return count;
}

bool takes_truth(const ScalarFunction& row, int argument) {
  return row.name == "and" || row.name == "or" || row.name == "not" || (row.name == "where" && argument == 0);
}

std::string input_name(std::string_view output, int argument) { return fmt::format("{}_x{}", output, argument); }

Expr truth_as_number(const Expr& truth) { return call("where", {truth, 1, 0}); }

/// y<k>[n] = f(y<k>_x0[n], y<k>_x1[n], ...) of the k-th function of the file.
Program program_of_all(DType dtype) {
  Program program("functions", dtype);
  const Dim N = program.dim("N");
  const Index n(N);
  for (int k = 0; const auto& [name, known] : function_values()) {
    const std::string output = fmt::format("y{}", k++);
    const ScalarFunction& row = function(name);
    std::vector<Expr> args;
    for (int i = 0; i < known.arity; ++i) {
      const Expr x = program.input(input_name(output, i), {N})(n);
      args.push_back(takes_truth(row, i) ? call("!=", {x, 0}) : x);
    }
    const Expr value = call(row, args);
    program.output(output, {n}, row.result == ResultType::Truth ? truth_as_number(value) : value);
  }
  return program;
}

/// Argument i of every row, and ones up to the longest list.
std::vector<double> column(const FunctionValues& known, int i) {
  std::vector<double> values;
  for (const ValueRow& row : known.rows) values.push_back(row.arguments[static_cast<std::size_t>(i)]);
  values.resize(most_rows(), 1);
  return values;
}

template <typename T>
void check_device(const std::shared_ptr<Device>& device) {
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const auto count = static_cast<std::int64_t>(most_rows());
  Session session(program_of_all(dtype), {{"N", count}}, device);
  for (int k = 0; const auto& [name, known] : function_values()) {
    for (int i = 0; i < known.arity; ++i)
      session.set(input_name(fmt::format("y{}", k), i), make_host_tensor(dtype, {count}, column(known, i)));
    ++k;
  }
  session.run();
  for (int k = 0; const auto& [name, known] : function_values())
    check_values<T>(std::string(device->name()), name, to_doubles(session.get(fmt::format("y{}", k++))));
}

#ifdef MOXIE_TEST_CPU
template <typename T>
void check_lanes(int lanes) {
  std::vector<MathKernel> kernels;
  for (const auto& [name, known] : function_values()) kernels.push_back({name, known.arity});
  const MathModule<T> module(kernels, lanes, host_machine());
  for (const auto& [name, known] : function_values()) {
    std::vector<std::vector<T>> inputs;
    for (int i = 0; i < known.arity; ++i) {
      inputs.emplace_back();
      for (const double x : column(known, i)) inputs.back().push_back(static_cast<T>(x));
    }
    const std::vector<T> values = module.run(name, inputs);
    check_values<T>(fmt::format("{} lanes", lanes), name, {values.begin(), values.end()});
  }
}
#endif

}  // namespace

TEST_CASE("every function of the table has reference values, and every list of values a function") {
  for (const ScalarFunction& row : scalar_functions()) {
    CAPTURE(row.name);
    const auto known = function_values().find(std::string(row.name));
    REQUIRE(known != function_values().end());
    CHECK((row.arity < 0 || row.arity == known->second.arity));
    CHECK(known->second.rows.size() >= 2);
  }
  for (const auto& [name, known] : function_values()) CHECK(find_function(name) != nullptr);
}

TEST_CASE("the table's references over their whole domain") {
  for (const auto& [name, known] : function_values()) {
    std::vector<double> values;
    for (const ValueRow& row : known.rows) values.push_back(function(name).reference(row.arguments));
    check_values<double>("reference", name, values);
  }
}

TEST_CASE("every function over its whole domain on every device") {
  for (const auto& device : test::test_devices()) {
    check_device<float>(device);
    check_device<double>(device);
  }
}

#ifdef MOXIE_TEST_CPU
TEST_CASE("every function over its whole domain without and with vectors") {
  for (const int lanes : {1, 8}) {
    check_lanes<float>(lanes);
    check_lanes<double>(lanes);
  }
}
#endif
