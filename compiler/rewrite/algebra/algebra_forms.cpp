#include "compiler/rewrite/algebra/algebra_forms.h"

#include <algorithm>
#include <cmath>

#include "compiler/expression/functions.h"
#include "compiler/rewrite/algebra/algebra.h"

namespace moxie {
namespace {

/// A multiple of an index value or a number, or a sum of such. This looks at the expression as it stands, without
/// taking products apart: their factors may be sums, in a chain of definitions each of them in two products.
bool is_index_term(const Expr& expr) {
  if (expr->kind == NodeKind::IndexValue || expr->kind == NodeKind::Constant) return true;
  if (is_call(expr, "+") || is_call(expr, "neg")) return std::ranges::all_of(expr->args, is_index_term);
  if (is_call(expr, "/")) return expr->args[1]->kind == NodeKind::Constant && is_index_term(expr->args[0]);
  const auto varies = [](const Expr& arg) { return arg->kind != NodeKind::Constant; };
  return is_call(expr, "*") && std::ranges::count_if(expr->args, varies) <= 1 &&
         std::ranges::all_of(expr->args, is_index_term);
}

}  // namespace

const Expr& one() {
  static const Expr value = constant(1);
  return value;
}

std::optional<int> small_integer(const Expr& expr) {
  if (expr->kind != NodeKind::Constant || std::nearbyint(expr->value) != expr->value || std::abs(expr->value) > 64)
    return std::nullopt;
  return static_cast<int>(expr->value);
}

bool is_index_polynomial(const Expr& expr) { return is_call(expr, "+") && is_index_term(expr); }

}  // namespace moxie
