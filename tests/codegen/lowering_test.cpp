// Every row of the function table has a lowering; special values, pow, and calls that must be refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/expression/functions.h"
#include "compiler/support/error.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"
#include "tests/codegen/math_module.h"
#include "tests/codegen/ulp.h"

using namespace moxie;
using namespace moxie::testing;

namespace {

constexpr int kLanes = 8;

std::vector<MathKernel> all_rows() {
  std::vector<MathKernel> kernels;
  for (const ScalarFunction& row : scalar_functions()) kernels.push_back({row.name, row.arity < 0 ? 3 : row.arity});
  return kernels;
}

template <typename T>
const MathModule<T>& all_functions() {
  static const MathModule<T> module(all_rows(), kLanes, host_machine());
  return module;
}

template <typename T>
std::vector<std::vector<T>> random_inputs(const MathKernel& kernel, const Interval& domain, std::size_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(std::fmax(domain.low, -4), 4);
  std::vector<std::vector<T>> inputs(kernel.arity, std::vector<T>(count));
  for (auto& input : inputs) {
    for (T& x : input) x = static_cast<T>(uniform(random));
  }
  if (kernel.function == "where" || kernel.function == "and" || kernel.function == "or" || kernel.function == "not") {
    for (std::size_t i = 0; i < count; i += 3) inputs[i % kernel.arity][i] = 0;
  }
  return inputs;
}

template <typename T>
void check_rows(double tolerance) {
  for (const MathKernel& kernel : all_rows()) {
    const ScalarFunction& row = function(kernel.function);
    const auto inputs = random_inputs<T>(kernel, row.domain, 200);
    const std::vector<T> values = all_functions<T>().run(kernel.function, inputs);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::vector<double> args;
      for (const auto& input : inputs) args.push_back(input[i]);
      const double expected = row.reference(args);
      const bool both_undefined = std::isnan(expected) && std::isnan(values[i]);
      CHECK_MESSAGE(
          (both_undefined || std::fabs(values[i] - expected) <= tolerance * std::fmax(1, std::fabs(expected))),
          kernel.function << " of " << args[0]);
    }
  }
}

struct Special {
  std::string_view function;
  double argument, value;
};

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr Special kSpecials[] = {
    {"exp", 0, 1},
    {"exp", kInf, kInf},
    {"exp", -kInf, 0},
    {"exp", 1e30, kInf},
    {"exp", -1e30, 0},
    {"exp2", 0, 1},
    {"exp2", kInf, kInf},
    {"exp2", -kInf, 0},
    {"exp2", 10, 1024},
    {"exp2", -3, 0.125},
    {"expm1", 0, 0},
    {"expm1", kInf, kInf},
    {"expm1", -kInf, -1},
    {"log", 0, -kInf},
    {"log", -0.0, -kInf},
    {"log", 1, 0},
    {"log", -1, kNaN},
    {"log", kInf, kInf},
    {"log", -kInf, kNaN},
    {"log2", 0, -kInf},
    {"log2", 8, 3},
    {"log2", -1, kNaN},
    {"log1p", -1, -kInf},
    {"log1p", 0, 0},
    {"log1p", -2, kNaN},
    {"log1p", kInf, kInf},
    {"sqrt", -1, kNaN},
    {"rsqrt", 0, kInf},
    {"rsqrt", kInf, 0},
    {"sin", 0, 0},
    {"sin", kInf, kNaN},
    {"cos", 0, 1},
    {"cos", -kInf, kNaN},
    {"tanh", kInf, 1},
    {"tanh", -kInf, -1},
    {"tanh", 0, 0},
    {"sigmoid", kInf, 1},
    {"sigmoid", -kInf, 0},
    {"sigmoid", 0, 0.5},
    {"softplus", kInf, kInf},
    {"softplus", -kInf, 0},
    {"erf", kInf, 1},
    {"erf", -kInf, -1},
    {"erf", 0, 0},
    {"erfc", kInf, 0},
    {"erfc", -kInf, 2},
    {"erfc", 0, 1},
    {"normal_cdf", 0, 0.5},
    {"normal_cdf", kInf, 1},
    {"normal_cdf", -kInf, 0},
    {"normal_pdf", kInf, 0},
    {"log_normal_cdf", kInf, 0},
    {"log_normal_cdf", -kInf, -kInf},
    {"lgamma", 0, kInf},
    {"lgamma", 1, 0},
    {"lgamma", 2, 0},
    {"lgamma", kInf, kInf},
    {"digamma", 0, -kInf},
    {"digamma", kInf, kInf},
    {"trigamma", 0, kInf},
    {"trigamma", kInf, 0},
    {"sign", -3, -1},
    {"sign", 0, 0},
    {"relu", -2, 0},
    {"relu", 2, 2},
    {"floor", -0.5, -1},
    {"floor", 1e30, 1e30},
    {"floor", -kInf, -kInf},
    {"abs", -kInf, kInf},
};

template <typename T>
void check_specials() {
  for (const Special& special : kSpecials) {
    const auto x = static_cast<T>(special.argument), expected = static_cast<T>(special.value);
    const T value = all_functions<T>().run(special.function, {{x}})[0];
    const bool same = std::isnan(expected) ? std::isnan(value) : value == expected;
    CHECK_MESSAGE(same, special.function << "(" << special.argument << ") = " << value << ", not " << special.value);
  }
}

template <typename T>
void check_nan_stays() {
  for (const MathKernel& kernel : all_rows()) {
    if (kernel.arity != 1 || kernel.function == "not") continue;
    CHECK_MESSAGE(std::isnan(all_functions<T>().run(kernel.function, {{static_cast<T>(kNaN)}})[0]), kernel.function);
  }
}

template <typename T>
double worst_pow(double log_range) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> logarithm(-log_range, log_range), exponent(-1, 1);
  std::vector<T> x, y;
  for (int i = 0; i < 50000; ++i) {
    x.push_back(static_cast<T>(std::exp(i % 2 == 0 ? logarithm(random) : logarithm(random) / log_range)));
    y.push_back(static_cast<T>(exponent(random) * log_range /
                               std::fmax(std::fabs(std::log(static_cast<double>(x.back()))), 1e-3)));
  }
  const std::vector<T> values = all_functions<T>().run("pow", {x, y});
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst = std::fmax(worst, ulps(values[i], std::pow(static_cast<long double>(x[i]), static_cast<long double>(y[i]))));
  }
  return worst;
}

template <typename T>
void check_special_powers() {
  const std::vector<double> bases = {0, 0.5, 1, 3, -2, -0.5, kInf, -kInf, kNaN},
                            exponents = {0, 1, 3, 4, -3, -4, 0.5, -1.5, 1e300, -1e300, kInf, -kInf};
  for (const double base : bases) {
    for (const double exponent : exponents) {
      const T x = static_cast<T>(base), y = static_cast<T>(exponent);
      const T value = all_functions<T>().run("pow", {{x}, {y}})[0];
      CHECK_MESSAGE(ulps(value, std::pow(static_cast<long double>(x), static_cast<long double>(y))) <= 1,
                    base << " ^ " << exponent << " = " << value);
    }
  }
}

std::string refusal(std::string_view function, std::size_t count) {
  llvm_ir::TextBuilder builder;
  const llvm_ir::Val one = builder.number(llvm_ir::Scalar::f32, 4, 1);
  try {
    llvm_ir::emit_function(builder, function, std::vector(count, one));
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("every function agrees with its reference") {
  check_rows<float>(4e-7);
  check_rows<double>(1e-14);
}

TEST_CASE("special values") {
  check_specials<float>();
  check_specials<double>();
}

TEST_CASE("NaN stays NaN") {
  check_nan_stays<float>();
  check_nan_stays<double>();
}

TEST_CASE("a maximum that passes NaN on takes two instructions; of a literal, as in relu, one") {
  const auto work = [](std::string_view function, std::optional<double> literal) {
    const VectorMachine machine{"x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512f,+avx512vl,+avx512bw,+avx512dq", 512};
    llvm_ir::TextBuilder ir;
    std::vector<llvm_ir::Val> args{{llvm_ir::Scalar::f32, 16, "%x"}, {llvm_ir::Scalar::f32, 16, "%y"}};
    if (literal) args[1] = ir.number(llvm_ir::Scalar::f32, 16, *literal);
    args.resize(function == "relu" ? 1 : 2);
    const llvm_ir::Val result = llvm_ir::emit_function(ir, function, args);
    const std::string text =
        "define <16 x float> @f(<16 x float> %x, <16 x float> %y) #0 {\n" + ir.text() + "  ret " + typed(result) +
        "\n}\nattributes #0 = { \"prefer-vector-width\"=\"512\" \"target-features\"=\"" + machine.features + "\" }\n";
    std::set<std::string> instructions;
    std::istringstream words(compile_llvm(text, machine, LlvmOutput::assembly));
    for (std::string word; words >> word;)
      if (word.starts_with("vmax") || word.starts_with("vmin") || word.starts_with("vcmp") ||
          word.starts_with("vblend") || word.starts_with("k"))
        instructions.insert(word);
    return instructions;
  };
  using Instructions = std::set<std::string>;
  CHECK(work("max", {}) == Instructions{"vcmpordps", "vmaxps"});
  CHECK(work("min", {}) == Instructions{"vcmpordps", "vminps"});
  CHECK(work("max", 0.5) == Instructions{"vmaxps"});
  CHECK(work("relu", {}) == Instructions{"vmaxps"});
}

TEST_CASE("pow") {
  const auto row = std::ranges::find(llvm_ir::accuracies(), "pow", &llvm_ir::Accuracy::function);
  REQUIRE(row != llvm_ir::accuracies().end());
  CHECK(worst_pow<float>(88) <= row->ulp_f32);
  CHECK(worst_pow<double>(708) <= row->ulp_f64);
  check_special_powers<float>();
  check_special_powers<double>();
}

TEST_CASE("unknown functions and wrong numbers of arguments are refused") {
  CHECK(refusal("frobnicate", 1) == "emit_function: no lowering of 'frobnicate'");
  CHECK(refusal("exp", 2) == "emit_function: 'exp' takes 1 arguments, not 2");
  CHECK(refusal("+", 0) == "emit_function: '+' takes one or more arguments, not 0");
}
