#include "compiler/rewrite/cost.h"

#include <functional>

#include "compiler/ir/functions.h"
#include "compiler/ir/node_map.h"
#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/algebra_forms.h"

namespace moxie {
namespace {

double extent_of(const Range& range, double unknown) {
  if (const auto count = range.known_trip_count(); count && count->is_constant())
    return static_cast<double>(count->constant());
  return unknown;
}

}  // namespace

double operation_cost(const Expr& expr) {
  // Small powers are multiplications.
  return is_call(expr, "pow") && small_integer(expr->args[1]) ? 1 : expr->function->cost;
}

double cost(const Expr& expr, double loop_extent) {
  NodeSet done;
  const std::function<double(const Expr&)> walk = [&](const Expr& e) -> double {
    if (!done.insert(e.get())) return 0;  // shared subexpressions are computed once
    double total = e->kind == NodeKind::Access ? 0.5 : e->kind == NodeKind::Call ? operation_cost(e) : 0;
    for (const Expr& arg : e->args) total += walk(arg);
    if (e->kind == NodeKind::Reduce) total *= extent_of(e->range, loop_extent);
    return total;
  };
  return walk(expr);
}

}  // namespace moxie
