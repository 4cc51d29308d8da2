#include "compiler/analysis/finite_values.h"

#include <algorithm>
#include <cmath>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"

namespace moxie {
namespace {

bool reads_tensors(const Expr& expr) {
  bool reads = false;
  visit(expr, [&](const Expr& node) { reads = reads || node->kind == NodeKind::Access; });
  return reads;
}

/// Whether the expression, of indices and numbers only, is an integer.
bool is_whole(const Expr& expr) {
  if (expr->kind == NodeKind::IndexValue) return true;
  if (expr->kind == NodeKind::Constant) return std::nearbyint(expr->value) == expr->value;
  if (expr->kind != NodeKind::Call) return false;
  const std::string_view name = expr->function->name;
  return (name == "+" || name == "-" || name == "*" || name == "neg") && std::ranges::all_of(expr->args, is_whole);
}

}  // namespace

bool FiniteValues::holds(const Expr& expr) {
  if (const auto it = done_.find(expr.get()); it != done_.end()) return it->second.second;
  const bool result = compute(expr);
  done_.emplace(expr.get(), std::pair(expr, result));
  return result;
}

bool FiniteValues::shows_domain_of(const Definition& definition) {
  return definition.domain == ValueDomain::Any ||
         (holds(definition.body) && lies_within(range_of(definition.body), Interval::of(definition.domain)));
}

bool FiniteValues::is_granted(const Expr& expr) const {
  return granted_ == Granted::FiniteInputs && !reads_tensors(expr);
}

bool FiniteValues::compute(const Expr& expr) {
  switch (expr->kind) {
    case NodeKind::Constant:
      return std::isfinite(expr->value);
    case NodeKind::IndexValue:
    case NodeKind::Random:
      return true;
    case NodeKind::Access:
      return compute_tensor(expr->tensor);
    case NodeKind::Call:
      return is_granted(expr) || compute_call(expr);
    case NodeKind::Reduce:
      return compute_reduction(expr);
    case NodeKind::LinearAlgebra:  // a matrix may be singular
      return granted_ == Granted::FiniteInputs && all_of(expr->args);
  }
  return false;
}

/// What a scan reads of itself is finite if the rest of its formulas is and it starts with finite numbers.
bool FiniteValues::compute_tensor(const std::string& name) {
  if (program_.domain_of(name) != ValueDomain::Any || holds_integers(program_.dtype_of(name))) return true;
  const Definition* definition = program_.find_definition(name);
  if (!definition) return granted_ == Granted::FiniteInputs;
  if (definition->scan && granted_ == Granted::Nothing) return false;
  const auto [known, is_new] = tensors_.emplace(name, true);
  if (!is_new) return known->second;
  const bool result = holds(definition->body);
  return tensors_[name] = result;
}

bool FiniteValues::compute_reduction(const Expr& expr) {
  const bool empty_is_finite = expr->reduce == ReduceKind::Sum || expr->reduce == ReduceKind::Product;
  if (granted_ == Granted::Nothing && !empty_is_finite && !expr->range.has_iterations()) return false;
  return holds(extremum_of(expr->reduce) ? expr->args[1] : expr->args[0]);
}

bool FiniteValues::all_of(const std::vector<Expr>& exprs) {
  return std::ranges::all_of(exprs, [this](const Expr& e) { return holds(e); });
}

bool FiniteValues::is_never_zero(const Expr& expr) {
  const Interval range = range_of(expr);
  if (is_positive(range) || is_negative(range) || is_granted(expr)) return true;
  const std::string_view name = expr->kind == NodeKind::Call ? expr->function->name : "";
  if (name == "/" || name == "neg" || name == "f32" || name == "f64") return is_never_zero(expr->args[0]);
  return name == "*" && std::ranges::all_of(expr->args, [this](const Expr& e) { return is_never_zero(e); });
}

/// x^n is finite for the signs of x that a constant n allows. Other powers may overflow, as exponentials do; but what
/// is granted for numbers of indices are powers of a series, x^i.
bool FiniteValues::compute_power(const Expr& base, const Expr& exponent) {
  const Interval range = range_of(base);
  if (exponent->kind != NodeKind::Constant)
    return granted_ == Granted::FiniteInputs && (is_positive(range) || is_whole(exponent));
  return (is_whole(exponent) || is_non_negative(range)) && (exponent->value >= 0 || is_never_zero(base));
}

bool FiniteValues::compute_call(const Expr& expr) {
  const std::string_view name = expr->function->name;
  if (name == "where") return holds(expr->args[1]) && holds(expr->args[2]);
  if (expr->function->result == ResultType::Truth) return true;
  if (name == "with_slope") return holds(expr->args[0]);
  if (!all_of(expr->args)) return false;
  if (name == "/") return is_never_zero(expr->args[1]);
  if (name == "pow") return compute_power(expr->args[0], expr->args[1]);
  const Interval finite = expr->function->finite.value_or(expr->function->domain);
  return std::ranges::all_of(expr->args, [&](const Expr& arg) { return lies_within(range_of(arg), finite); });
}

}  // namespace moxie
