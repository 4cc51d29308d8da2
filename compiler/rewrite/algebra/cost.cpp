#include "compiler/rewrite/algebra/cost.h"

#include <algorithm>
#include <functional>

#include "compiler/expression/functions.h"
#include "compiler/expression/node_map.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/algebra_forms.h"
#include "compiler/rewrite/algebra/scope.h"

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

bool is_over_samples(const Expr& reduction, const Scope& scope) {
  constexpr double kShortest = 16, kCostly = 8;
  constexpr double kWorthAKernel = 1e5;  // multiply-adds, some microseconds
  if (is_long(reduction->range)) return true;
  bool is_costly = false;
  visit(reduction, [&](const Expr& e) { is_costly |= e->kind == NodeKind::Call && operation_cost(e) >= kCostly; });
  return is_costly && assumed_extent(reduction->range) >= kShortest &&
         iterations(reduction, scope) * cost(reduction) >= kWorthAKernel &&
         std::ranges::none_of(scope.open, [](const auto& loop) { return is_long(loop.second); });
}

}  // namespace moxie
