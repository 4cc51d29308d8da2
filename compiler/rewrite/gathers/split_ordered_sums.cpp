#include <algorithm>

#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/ordered_sum.h"

namespace moxie {
namespace {

/// A tensor that is made for such a sum has at most this many times the elements of the largest input or output.
constexpr double kRoomForOrdered = 4;

class OrderedSumSplitter {
 public:
  OrderedSumSplitter(Program& known, const Definition& user)
      : program_(known), algebra_(known), user_(user), room_(kRoomForOrdered * largest_tensor(known)) {}

  Expr run() {
    return rewrite_top_down(user_.body, Scope::of(user_), [this](const Expr& e, const Scope& scope) {
      if (e->kind != NodeKind::Reduce) return std::optional<Expr>();
      const std::size_t known_names = program_.definitions.size();
      auto result = split(e, scope);
      if (!result) program_.definitions.resize(known_names);
      return result;
    });
  }

 private:
  std::optional<Expr> split(const Expr& expr, const Scope& around) {
    auto sum = ordered_sum(algebra_, expr, around);
    if (!sum || !around.conditions.empty()) return std::nullopt;
    const std::vector<Symbol> axes = open_symbols_of(expr, around);
    if (!is_faster_sorted(*sum, axes, around, {}, kLargeExtent) || size_of(axes, around) > room_) return std::nullopt;
    const Scope inside = around.with(sum->element, Range::extent(sum->count));
    for (Expr* operand : {&sum->key, &sum->query, &sum->weight.value, &sum->scale.value}) {
      if (!*operand) continue;
      auto tensor = as_tensor(*operand, inside);
      if (!tensor) return std::nullopt;
      *operand = *tensor;
    }
    const Expr result = sum_of(*sum);
    return expr == user_.body ? result : define(around, result, ".ordered");
  }

  /// The number of elements that a dim has whose value is not known: whether sorting is faster is asked again once it
  /// is, and then this is no more than definitions that stand alone.
  static constexpr double kLargeExtent = 1e5;

  static double size_of(const std::vector<Symbol>& symbols, const Scope& scope) {
    double size = 1;
    for (const Symbol symbol : symbols) size *= assumed_extent(*scope.find(symbol));
    return size;
  }

  std::optional<Expr> as_tensor(const Expr& expr, const Scope& scope) {
    const bool is_tensor =
        expr->kind == NodeKind::Access && !reads_by_value(expr) && program_.dtype_of(expr->tensor) == scope.dtype;
    if (is_tensor) return expr;
    return size_of(open_symbols_of(expr, scope), scope) <= room_ ? define(scope, expr, ".operand") : std::nullopt;
  }

  std::optional<Expr> define(const Scope& scope, const Expr& expr, const char* suffix) {
    auto part = extract(program_, scope, expr, user_.name + suffix, scope.dtype);
    if (!part) return std::nullopt;
    return add_part(program_, std::move(*part), user_);
  }

  /// The sum as it is recognised again.
  Expr sum_of(const OrderedSum& sum) const {
    const char* relation = sum.above ? (sum.with_equal ? ">=" : ">") : (sum.with_equal ? "<=" : "<");
    Expr selected = call(relation, {sum.key, sum.query});
    if (sum.tie) {
      const Expr before = call(sum.tie->below ? "<" : ">=", {index_value(sum.element), index_value(sum.tie->limit)});
      selected = call("or", {selected, call("and", {call("==", {sum.key, sum.query}), before})});
    }
    std::vector<Expr> masked, others;
    for (const OrderedFactor* factor : {&sum.weight, &sum.scale}) {
      if (factor->value) (factor->multiplies_zeros ? others : masked).push_back(factor->value);
    }
    Expr value = constant(sum.coefficient);
    for (const Expr& factor : masked) value = algebra_.times(value, factor);
    Expr term = call("where", {selected, value, constant(0)});
    for (const Expr& factor : others) term = algebra_.times(term, factor);
    return reduce(ReduceKind::Sum, sum.element, Range::extent(sum.count), term);
  }

  Program& program_;
  const Algebra algebra_;
  const Definition& user_;
  const double room_;  // elements of an operand
};

}  // namespace

Program split_ordered_sums(const Program& program) {
  return split_bodies(program, [](Program& known, const Definition& definition) {
    const bool steps = definition.scan || definition.body->kind == NodeKind::LinearAlgebra;
    return steps ? definition.body : OrderedSumSplitter(known, definition).run();
  });
}

}  // namespace moxie
