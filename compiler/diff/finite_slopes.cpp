#include "compiler/diff/finite_slopes.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "compiler/ir/functions.h"

namespace moxie {
namespace {

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
  const FiniteFor arguments = finite_for(name);
  if (arguments == FiniteFor::AllNumbers) return true;
  const Sign first = signs_.of(expr->args[0]);
  if (arguments != FiniteFor::Unknown) return admits(arguments, first);
  if (name == "/") return is_never_zero(expr->args[1]);
  if (name != "pow") return false;
  const Expr& exponent = expr->args[1];
  if (exponent->kind != NodeKind::Constant) return first == Sign::Positive;
  const bool is_whole = std::nearbyint(exponent->value) == exponent->value;
  if (exponent->value < 0) return is_never_zero(expr->args[0]) && (is_whole || is_non_negative(first));
  return is_whole || is_non_negative(first);
}

}  // namespace moxie
