#pragma once
// The one table of scalar functions: everything that moxie knows of a function stands in its row.
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/expr.h"

namespace moxie {

/// The open or closed interval of arguments on which a function is defined and differentiable; for tests and `moxie
/// check`.
struct Domain {
  double low, high;
};

enum class Fixity : std::uint8_t { Prefix, Infix };  // f(a, b) or a + b
enum class ResultType : std::uint8_t { Number, Truth };

struct ScalarFunction {
  std::string_view name;  // as in .mox text; "+", "*", "<" for the operators
  int arity;              // -1: two or more
  Domain domain;          // of every argument
  /// d f / d args[i], given the arguments and the node itself (so that exp can reuse its value).
  std::function<Expr(std::span<const Expr> args, const Expr& self, std::size_t i)> derivative;
  std::function<double(std::span<const double>)> reference;  // in double
  std::string_view cuda;  // CUDA C++ with $0, $1 for the arguments, "f" variants chosen by overloading
  int cost;               // in multiply-adds on a CPU vector lane
  Fixity fixity = Fixity::Prefix;
  ResultType result = ResultType::Number;
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
