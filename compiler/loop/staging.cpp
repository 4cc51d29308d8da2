#include "compiler/loop/staging.h"

#include <algorithm>
#include <set>

#include "compiler/ir/functions.h"
#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/cost.h"

namespace moxie {
namespace {

/// From about half an exponential on, a load is cheaper.
constexpr double kWorthStaging = 6;
/// More would leave the nearest cache.
constexpr std::int64_t kLongestStage = 128;

std::optional<std::int64_t> box_extent(const Range& range) {
  for (const Bound& bound : range.highs) {
    if (bound.divisor != 1 || !bound.value.is_constant()) continue;
    const std::int64_t extent = bound.value.constant() + 1;
    if (extent > 0 && extent <= kLongestStage) return extent;
  }
  return std::nullopt;
}

bool has_loops(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce || e->kind == NodeKind::LinearAlgebra; });
  return found;
}

class StageFinder {
 public:
  StageFinder(Symbol index, const std::function<bool(Symbol)>& is_available)
      : index_(index), is_available_(is_available) {}

  std::vector<Staged> found;

  void search(const Expr& expr, ValueType type) {
    // What does not depend on the index is computed before its loop as a whole.
    if (expr->height == 0 || !expr->depends_on(index_) || !seen_.insert({expr.get(), type}).second) return;
    if (expr->kind == NodeKind::Reduce) {
      if (const auto extent = box_extent(expr->range))
        collect(expr->args[0], type, Symbol::bound(expr->height), *extent);
    }
    for (const Expr& arg : expr->args) search(arg, argument_type(expr, type));
  }

 private:
  /// The largest subexpressions of a reduction's body that depend on its own index and on nothing else that is unknown
  /// before the loop.
  void collect(const Expr& expr, ValueType type, Symbol bound, std::int64_t extent) {
    if (!expr->depends_on(bound)) return;
    const bool known = !expr->depends_on(index_) && std::ranges::all_of(expr->free_symbols, [&](Symbol s) {
      return s == bound || is_available_(s);
    });
    const bool number = expr->kind != NodeKind::Call || expr->function->result == ResultType::Number;
    if (known && number && !has_loops(expr) && cost(expr) >= kWorthStaging) return add(expr, type, bound, extent);
    if (expr->kind == NodeKind::Reduce) return;
    for (const Expr& arg : expr->args) collect(arg, argument_type(expr, type), bound, extent);
  }

  void add(const Expr& expr, ValueType type, Symbol bound, std::int64_t extent) {
    const Symbol placeholder = Symbol::fresh();
    const Expr general = substitute(expr, {{bound, placeholder}});
    for (Staged& other : found) {
      if (other.type != type || substitute(other.expr, {{other.placeholder, placeholder}}) != general) continue;
      other.extent = std::max(other.extent, extent);
      return;
    }
    found.push_back({general, placeholder, extent, type});
  }

  Symbol index_;
  const std::function<bool(Symbol)>& is_available_;
  std::set<std::pair<const Node*, ValueType>> seen_;
};

}  // namespace

ValueType argument_type(const Expr& expr, ValueType type) {
  if (is_call(expr, "f32")) return ValueType::f32;
  if (is_call(expr, "f64")) return ValueType::f64;
  if (expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth) {
    // Index arithmetic stays exact in double.
    const auto is_index = [](const Expr& e) {
      return e->kind == NodeKind::IndexValue || e->kind == NodeKind::Constant;
    };
    if (std::ranges::all_of(expr->args, is_index)) return ValueType::f64;
  }
  return type;
}

std::vector<Staged> find_staged(const Expr& body, ValueType type, Symbol index,
                                const std::function<bool(Symbol)>& is_available) {
  StageFinder finder(index, is_available);
  finder.search(body, type);
  return std::move(finder.found);
}

}  // namespace moxie
