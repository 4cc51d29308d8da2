#include "compiler/loop/kept_values.h"

#include <algorithm>
#include <set>

#include "compiler/expression/functions.h"
#include "compiler/loop/staging.h"
#include "compiler/rewrite/algebra/cost.h"

namespace moxie {
namespace {

/// From about half an exponential on, a store and a load are cheaper.
constexpr double kWorthKeeping = 6;

using Key = std::pair<const Node*, ValueType>;

class KeptValues {
 public:
  KeptValues(Symbol index, const KeepScope& scope) : index_(index), scope_(scope) {}

  std::vector<TypedExpr> found;

  /// Notes what is computed in every iteration of this loop.
  void note(const TypedExpr& body) {
    const auto& [expr, type] = body;
    if (!expr->depends_on(index_) || !computed_.insert({expr.get(), type}).second) return;
    if (expr->kind == NodeKind::Reduce || expr->kind == NodeKind::LinearAlgebra) return;
    for (const Expr& arg : expr->args) note({arg, argument_type(expr, type, scope_.source)});
  }

  void search(const TypedExpr& body) {
    const auto& [expr, type] = body;
    if (!expr->depends_on(index_) || !seen_.insert({expr.get(), type}).second) return;
    if (computed_.contains({expr.get(), type}) && is_number(body) && is_worth_keeping(expr, index_) &&
        is_computable(body)) {
      found.push_back(body);
      return;
    }
    if (expr->kind == NodeKind::Reduce || expr->kind == NodeKind::LinearAlgebra) return;
    for (const Expr& arg : expr->args) search({arg, argument_type(expr, type, scope_.source)});
  }

 private:
  static bool is_number(const TypedExpr& value) {
    return value.type != ValueType::index && value.type != ValueType::truth && value.expr->kind == NodeKind::Call &&
           value.expr->function->result == ResultType::Number;
  }

  /// Whether the iteration knows all that the value is made of.
  bool is_computable(const TypedExpr& value) const {
    const auto& [expr, type] = value;
    if (expr->kind == NodeKind::Reduce) return !expr->depends_on(index_) && scope_.is_ready(expr, type);
    if (expr->kind == NodeKind::LinearAlgebra || expr->kind == NodeKind::Random) return false;
    if (!std::ranges::all_of(expr->free_symbols, scope_.is_available)) return false;
    return std::ranges::all_of(
        expr->args, [&](const Expr& arg) { return is_computable({arg, argument_type(expr, type, scope_.source)}); });
  }

  Symbol index_;
  const KeepScope& scope_;
  std::set<Key> computed_, seen_;
};

}  // namespace

bool is_worth_keeping(const Expr& value, Symbol index) {
  double total = 0;
  visit(value, [&](const Expr& e) {
    if (e->kind == NodeKind::Call && e->depends_on(index)) total += operation_cost(e);
  });
  return total >= kWorthKeeping;
}

std::vector<TypedExpr> values_to_keep(std::span<const TypedExpr> now, std::span<const TypedExpr> later, Symbol index,
                                      const KeepScope& scope) {
  KeptValues values(index, scope);
  for (const TypedExpr& body : now) values.note(body);
  for (const TypedExpr& body : later) values.search(body);
  return std::move(values.found);
}

}  // namespace moxie
