#include "compiler/diff/gates.h"

#include <algorithm>
#include <limits>

#include "compiler/diff/chain.h"
#include "compiler/ir/functions.h"

namespace moxie {
namespace {

bool is_choice(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->name == "where" &&
         (expr->args[1]->is_constant(0) || expr->args[2]->is_constant(0));
}

}  // namespace

bool depends_on_values(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Access || e->kind == NodeKind::Random; });
  return found;
}

bool chooses_by_value(const Expr& body) {
  bool found = false;
  visit(body, [&](const Expr& e) {
    found |= e->kind == NodeKind::Call && e->function->name == "where" && depends_on_values(e->args[0]);
  });
  return found;
}

bool Gates::may_be_zero(const Expr& adjoint) const {
  if (adjoint->kind == NodeKind::Constant) return adjoint->value == 0;
  if (adjoint->kind == NodeKind::Access) return tensors_.contains(adjoint->tensor);
  if (adjoint->kind == NodeKind::Reduce) return adjoint->reduce == ReduceKind::Sum && may_be_zero(adjoint->args[0]);
  if (adjoint->kind != NodeKind::Call) return false;
  const auto is_zero = [this](const Expr& arg) { return may_be_zero(arg); };
  const std::string_view name = adjoint->function->name;
  if (name == "where") return is_zero(adjoint->args[1]) || is_zero(adjoint->args[2]);
  if (name == "+") return std::ranges::all_of(adjoint->args, is_zero);
  if (name == "*") return std::ranges::any_of(adjoint->args, is_zero);
  return (name == "/" || name == "neg" || name == "f32" || name == "f64") && is_zero(adjoint->args[0]);
}

Expr Gates::chain(const Expr& local, const Expr& adjoint) {
  return finite_.holds(local) ? moxie::chain(local, adjoint) : chain_singular(local, adjoint);
}

Expr Gates::chain_singular(const Expr& local, const Expr& adjoint) const {
  if (is_choice(adjoint)) {
    return call("where",
                {adjoint->args[0], chain_singular(local, adjoint->args[1]), chain_singular(local, adjoint->args[2])});
  }
  const Expr product = moxie::chain(local, adjoint);
  if (product->kind == NodeKind::Constant || !may_be_zero(adjoint)) return product;
  // A finite slope counts where the adjoint is zero too, so that derivatives of this are those of the product.
  const Expr is_finite = call("<", {call("abs", {local}), std::numeric_limits<double>::infinity()});
  return call("where", {call("or", {is_finite, call("!=", {adjoint, 0})}), product, 0});
}

}  // namespace moxie
