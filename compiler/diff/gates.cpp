#include "compiler/diff/gates.h"

#include <algorithm>
#include <limits>
#include <span>

#include "compiler/diff/chain.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

bool is_choice(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->name == "where" &&
         (expr->args[1]->is_constant(0) || expr->args[2]->is_constant(0));
}

/// A finite slope counts where the adjoint is zero too, so that derivatives of this are those of the product.
Expr unless_singular(const Expr& local, const Expr& adjoint, const Expr& product) {
  const Expr is_finite = call("<", {call("abs", {local}), std::numeric_limits<double>::infinity()});
  return call("where", {call("or", {is_finite, call("!=", {adjoint, 0})}), product, 0});
}

}  // namespace

bool chooses_by_value(const Expr& body) {
  bool found = false;
  visit(body, [&](const Expr& e) {
    found |= e->kind == NodeKind::Call && e->function->name == "where" && depends_on_values(e->args[0]);
  });
  return found;
}

void Gates::add(const std::string& tensor) {
  const Definition* definition = program_.find_definition(tensor);
  if (definition && definition->body)
    tensors_[tensor] = {condition_of(definition->body), may_be_zero(definition->body, By::Values)};
  else
    tensors_[tensor] = {};
}

Expr Gates::condition_of(const Expr& adjoint) const {
  if (adjoint->kind == NodeKind::Access) {
    const auto known = tensors_.find(adjoint->tensor);
    if (known == tensors_.end() || !known->second.condition || adjoint->gathers) return {};
    return substitute(known->second.condition, axes_by_subscripts(adjoint));
  }
  if (adjoint->kind == NodeKind::Reduce && adjoint->reduce == ReduceKind::Sum) {
    const OpenedReduce opened = open(adjoint);
    const Expr condition = condition_of(opened.body);
    return condition && !condition->depends_on(opened.index) ? condition : Expr();
  }
  if (adjoint->kind != NodeKind::Call) return {};
  const std::string_view name = adjoint->function->name;
  if (name == "where") {
    const bool is_mask = adjoint->args[2]->is_constant(0) && !depends_on_values(adjoint->args[0]);
    return is_mask ? adjoint->args[0] : condition_of_all(adjoint->args, 1);
  }
  if (name == "+") return condition_of_all(adjoint->args, 0);
  if (name == "/" || name == "neg" || name == "f32" || name == "f64") return condition_of(adjoint->args[0]);
  if (name != "*") return {};
  for (const Expr& factor : adjoint->args) {
    if (const Expr condition = condition_of(factor)) return condition;
  }
  return {};
}

Expr Gates::condition_of_all(const std::vector<Expr>& args, std::size_t first) const {
  Expr common;
  for (const Expr& arg : std::span(args).subspan(first)) {
    if (arg->is_constant(0)) continue;
    const Expr condition = condition_of(arg);
    if (!condition || (common && condition != common)) return {};
    common = condition;
  }
  return common;
}

bool Gates::may_be_zero(const Expr& adjoint, By by) const {
  if (adjoint->kind == NodeKind::Constant) return adjoint->value == 0;
  if (adjoint->kind == NodeKind::Access) {
    const auto known = tensors_.find(adjoint->tensor);
    return known != tensors_.end() && (by == By::AnyChoice || known->second.by_values);
  }
  const auto is_zero = [&](const Expr& arg) { return may_be_zero(arg, by); };
  if (adjoint->kind == NodeKind::Reduce) return adjoint->reduce == ReduceKind::Sum && is_zero(adjoint->args[0]);
  if (adjoint->kind != NodeKind::Call) return false;
  const std::string_view name = adjoint->function->name;
  if (name == "where") {
    const bool counts = by == By::AnyChoice || depends_on_values(adjoint->args[0]);
    return std::ranges::any_of(std::span(adjoint->args).subspan(1),
                               [&](const Expr& arg) { return arg->is_constant(0) ? counts : is_zero(arg); });
  }
  if (name == "+") return std::ranges::all_of(adjoint->args, is_zero);
  if (name == "*") return std::ranges::any_of(adjoint->args, is_zero);
  return (name == "/" || name == "neg" || name == "f32" || name == "f64") && is_zero(adjoint->args[0]);
}

Expr Gates::chain(const Expr& local, const Expr& adjoint) {
  return finite_.holds(local) ? moxie::chain(local, adjoint) : chain_singular(local, adjoint, {});
}

Expr Gates::chain_singular(const Expr& local, const Expr& adjoint, const Expr& known) const {
  if (is_choice(adjoint)) {
    const Expr& truth = adjoint->args[0];
    const Expr& inside = depends_on_values(truth) ? known : truth;
    return call("where", {truth, chain_singular(local, adjoint->args[1], inside),
                          chain_singular(local, adjoint->args[2], known)});
  }
  const Expr product = moxie::chain(local, adjoint);
  if (product->kind == NodeKind::Constant) return product;
  const Expr condition = condition_of(adjoint);
  const Expr guarded =
      may_be_zero(adjoint, condition ? By::Values : By::AnyChoice) ? unless_singular(local, adjoint, product) : product;
  return condition && condition != known ? call("where", {condition, guarded, 0}) : guarded;
}

}  // namespace moxie
