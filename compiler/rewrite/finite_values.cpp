#include "compiler/rewrite/finite_values.h"

#include <algorithm>
#include <cmath>

#include "compiler/ir/functions.h"
#include "compiler/ir/reductions.h"
#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

bool is_never_zero(Sign sign) { return sign == Sign::Positive || sign == Sign::Negative; }

/// x^n is finite for the signs of x that a constant n allows.
bool admits_base(double exponent, Sign base) {
  if (std::nearbyint(exponent) == exponent) return exponent >= 0 || is_never_zero(base);
  return exponent > 0 ? is_non_negative(base) : base == Sign::Positive;
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
         (holds(definition.body) && says_all_of(sign_of(definition.body), definition.domain));
}

bool FiniteValues::compute(const Expr& expr) {
  switch (expr->kind) {
    case NodeKind::Constant:
      return std::isfinite(expr->value);
    case NodeKind::IndexValue:
    case NodeKind::Random:
      return true;
    case NodeKind::Access:
      return compute_access(expr);
    case NodeKind::Call:
      return compute_call(expr);
    case NodeKind::Reduce: {
      if (extremum_of(expr->reduce)) return holds(expr->args[1]) && has_iterations(expr->range);
      const bool empty_is_finite = expr->reduce == ReduceKind::Sum || expr->reduce == ReduceKind::Product;
      return holds(expr->args[0]) && (empty_is_finite || has_iterations(expr->range));
    }
    case NodeKind::LinearAlgebra:
      return false;  // a matrix may be singular
  }
  return false;
}

bool FiniteValues::compute_access(const Expr& access) {
  if (const auto known = tensors_.find(access->tensor); known != tensors_.end()) return known->second;
  bool result = program_.domain_of(access->tensor) != ValueDomain::Any;
  if (const Definition* definition = program_.find_definition(access->tensor); definition && !result)
    result = !definition->scan && holds(definition->body);
  return tensors_[access->tensor] = result;
}

bool FiniteValues::all_of(const std::vector<Expr>& exprs) {
  return std::ranges::all_of(exprs, [this](const Expr& e) { return holds(e); });
}

bool FiniteValues::compute_call(const Expr& expr) {
  const std::string_view name = expr->function->name;
  if (name == "where") return holds(expr->args[1]) && holds(expr->args[2]);
  if (expr->function->result == ResultType::Truth) return true;
  if (!all_of(expr->args)) return false;
  const FiniteFor arguments = finite_for(name);
  if (arguments == FiniteFor::AllNumbers) return true;
  const Sign first = sign_of(expr->args[0]);
  if (arguments != FiniteFor::Unknown) return admits(arguments, first);
  if (name == "/") return is_never_zero(sign_of(expr->args[1]));
  if (name == "pow" && expr->args[1]->kind == NodeKind::Constant) return admits_base(expr->args[1]->value, first);
  return false;
}

}  // namespace moxie
