#include "compiler/loop/guards.h"

#include <algorithm>

#include "compiler/ir/functions.h"
#include "compiler/rewrite/algebra.h"

namespace moxie {
namespace {

/// A single index stays inside the tensor by itself: verify() has proved it. (A dynamic extent need not have room for a constant.)
bool is_plain(const Expr& access) {
  return std::ranges::all_of(access->subscripts, [](const Affine& s) { return s.as_symbol().has_value(); });
}

bool has_guardable_access(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Access && !is_plain(e); });
  return found;
}

Expr guarded(const Expr& expr, const Expr& condition) {
  if (!has_guardable_access(expr)) return expr;
  if (expr->kind == NodeKind::Access) return condition ? call("where", {condition, expr, constant(0)}) : expr;
  if (is_call(expr, "where")) {
    const Expr own = guarded(expr->args[0], condition);  // it guards in its turn, and may read no more than it could itself
    const Expr negated = call("not", {own});
    const Expr yes = condition ? call("and", {condition, own}) : own;
    const Expr no = condition ? call("and", {condition, negated}) : negated;
    return call("where", {own, guarded(expr->args[1], yes), guarded(expr->args[2], no)});
  }
  return map_children(expr, [&](const Expr& child) { return guarded(child, condition); });
}

}  // namespace

Expr guard_accesses(const Expr& expr) { return guarded(expr, Expr()); }

}  // namespace moxie
