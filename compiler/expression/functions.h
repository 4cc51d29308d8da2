#pragma once
// The one table of scalar functions: everything that moxie knows of a function stands in its row.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/expression/expr.h"
#include "compiler/expression/interval.h"

namespace moxie {

enum class Fixity : std::uint8_t { Prefix, Infix };  // f(a, b) or a + b
enum class ResultType : std::uint8_t { Number, Truth };
/// How the value of a function of one argument changes as the argument grows; in steps, it stays the same in between.
enum class Growth : std::uint8_t { Unknown, Rises, RisesInSteps, Falls };

/// What one call costs in a vector register, as the code generator writes it out.
struct RegisterCost {
  double f32 = 0, f64 = 0;    // in multiply-adds, measured with AVX-512
  bool instructions = false;  // a few instructions, counted, and no polynomial
};

struct ScalarFunction {
  std::string_view name;  // as in .mox text; "+", "*", "<" for the operators
  int arity;              // -1: two or more
  Interval domain;        // of every argument, in which the function is differentiable
  /// d f / d args[i], given the arguments and the node itself (so that exp can reuse its value).
  std::function<Expr(std::span<const Expr> args, const Expr& self, std::size_t i)> derivative;
  std::function<double(std::span<const double>)> reference;  // in double
  std::string_view cuda;  // CUDA C++ with $0, $1 for the arguments, "f" variants chosen by overloading
  int cost;               // in multiply-adds on a CPU vector lane
  Fixity fixity = Fixity::Prefix;
  ResultType result = ResultType::Number;
  /// Where finite arguments give finite numbers, products and sums that overflow aside; by default the domain.
  /// Division, powers and `where` have rules of their own instead.
  std::optional<Interval> finite = {};
  Interval values = {};                            // all values lie here
  Growth growth = Growth::Unknown;                 // in the domain
  std::optional<RegisterCost> register_cost = {};  // if it was measured or counted
};

/// Whether this argument of the function is a condition.
bool wants_truth(const ScalarFunction& function, std::size_t arg);
/// Whether the function of integers is one: sums, products and their signs.
bool keeps_integers(const ScalarFunction& function);
/// Whether the function of integers is one of them, or its negative: min, max, abs, where.
bool chooses_integers(const ScalarFunction& function);

/// Whether the expression is a call of this function.
inline bool is_call(const Expr& expr, std::string_view name) {
  return expr->kind == NodeKind::Call && expr->function->name == name;
}

std::span<const ScalarFunction> scalar_functions();
/// The row, or nullptr.
const ScalarFunction* find_function(std::string_view name);
/// The row; throws InternalError when there is none.
const ScalarFunction& function(std::string_view name);

}  // namespace moxie
