#include "compiler/diff/finite_slopes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "compiler/ir/functions.h"

namespace moxie {
namespace {

template <std::size_t n>
bool is_one_of(std::string_view name, const std::array<std::string_view, n>& names) {
  return std::ranges::find(names, name) != names.end();
}

/// Finite for every finite argument.
constexpr std::array<std::string_view, 21> kTotal = {
    "+",        "*",   "neg",  "min", "max",  "abs",        "relu",       "sign",           "floor",
    "sin",      "cos", "tanh", "erf", "erfc", "normal_cdf", "normal_pdf", "log_normal_cdf", "sigmoid",
    "softplus", "f32", "f64"};
constexpr std::array<std::string_view, 3> kExponentials = {"exp", "exp2", "expm1"};
constexpr std::array<std::string_view, 2> kOfNonNegative = {"sqrt", "log1p"};

bool reads_tensors(const Expr& expr) {
  bool reads = false;
  visit(expr, [&](const Expr& node) { reads = reads || node->kind == NodeKind::Access; });
  return reads;
}

}  // namespace

bool FiniteSlopes::holds(const Expr& expr) {
  if (const auto it = done_.find(expr.get()); it != done_.end()) return it->second.second;
  const bool result = compute(expr);
  done_.emplace(expr.get(), std::pair(expr, result));
  return result;
}

bool FiniteSlopes::compute(const Expr& expr) {
  if (expr->kind == NodeKind::Constant) return std::isfinite(expr->value);
  if (expr->kind == NodeKind::Access) return of_tensor(expr->tensor);
  if (expr->kind == NodeKind::Call) return of_call(expr);
  return std::ranges::all_of(expr->args, [this](const Expr& arg) { return holds(arg); });
}

/// What a scan reads of itself is finite if the rest of its formulas is.
bool FiniteSlopes::of_tensor(const std::string& name) {
  const Definition* definition = program_.find_definition(name);
  if (!definition) return true;
  const auto [known, is_new] = tensors_.emplace(name, true);
  if (!is_new) return known->second;
  const bool result = holds(definition->body);
  return tensors_[name] = result;
}

bool FiniteSlopes::is_never_zero(const Expr& expr) {
  const Sign sign = signs_.of(expr);
  return sign == Sign::Positive || sign == Sign::Negative || !reads_tensors(expr);
}

bool FiniteSlopes::of_call(const Expr& expr) {
  if (!reads_tensors(expr)) return true;
  const std::string_view name = expr->function->name;
  if (name == "where") return holds(expr->args[1]) && holds(expr->args[2]);
  if (expr->function->result == ResultType::Truth) return true;
  if (!std::ranges::all_of(expr->args, [this](const Expr& arg) { return holds(arg); })) return false;
  if (is_one_of(name, kTotal)) return true;
  if (name == "/") return is_never_zero(expr->args[1]);
  const Sign first = signs_.of(expr->args[0]);
  if (is_one_of(name, kExponentials)) return is_non_positive(first);
  if (is_one_of(name, kOfNonNegative)) return is_non_negative(first);
  if (name != "pow") return first == Sign::Positive;
  const Expr& exponent = expr->args[1];
  if (exponent->kind != NodeKind::Constant) return first == Sign::Positive;
  const bool is_whole = std::nearbyint(exponent->value) == exponent->value;
  if (exponent->value < 0) return is_never_zero(expr->args[0]) && (is_whole || is_non_negative(first));
  return is_whole || is_non_negative(first);
}

}  // namespace moxie
