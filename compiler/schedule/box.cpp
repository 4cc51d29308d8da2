#include "compiler/schedule/box.h"

#include "compiler/ir/reductions.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// `index` at the end of its range where `affine` is smallest or largest; nullopt where that end is not one affine
/// expression.
std::optional<Affine> at_extreme(const Affine& affine, Symbol index, const Range& range, bool largest) {
  const std::int64_t coefficient = affine.coefficient(index);
  if (coefficient == 0) return affine;
  const std::vector<Bound>& ends = (coefficient > 0) == largest ? range.highs : range.lows;
  if (ends.size() != 1 || ends.front().divisor != 1) return std::nullopt;
  const Affine& end = ends.front().value;
  return affine.substitute([&](Symbol symbol) { return symbol == index ? &end : nullptr; });
}

class Boxing {
 public:
  Boxing(Symbol index, const Range& range) : index_(index), range_(range) {}

  Expr apply(const Expr& expr) {
    if (!expr->depends_on(index_)) return expr;
    if (expr->kind != NodeKind::Reduce) return map_children(expr, [&](const Expr& child) { return apply(child); });
    const OpenedReduce opened = open(expr);
    if (!mentions(opened.range, index_))
      return map_opened(expr, opened, [&](const Expr& child) { return apply(child); });
    const auto masked = [&](const Expr& child, ReduceKind kind) {
      return call("where", {inside(opened), apply(child), constant(neutral_value(kind))});
    };
    const Expr body = masked(opened.body, extremum_of(expr->reduce).value_or(expr->reduce));
    const Expr position = opened.position ? masked(opened.position, expr->reduce) : Expr();
    return reduce(expr->reduce, opened.index, box_of(opened.range), body, position);
  }

  bool is_bounded = true;

 private:
  Range box_of(Range range) {
    for (Bound& low : range.lows) widen(low, /*largest=*/false);
    for (Bound& high : range.highs) widen(high, /*largest=*/true);
    return range;
  }

  void widen(Bound& bound, bool largest) {
    const auto value = at_extreme(bound.value, index_, range_, largest);
    if (value) bound.value = *value;
    is_bounded = is_bounded && value;
  }

  /// That the reduced index lies between the bounds that `index` moves.
  Expr inside(const OpenedReduce& opened) const {
    std::vector<Expr> tests;
    const auto test = [&](const Bound& bound, const char* comparison) {
      if (!bound.value.mentions(index_)) return;
      tests.push_back(call(comparison, {index_value(Affine(opened.index) * bound.divisor), index_value(bound.value)}));
    };
    for (const Bound& low : opened.range.lows) test(low, ">=");
    for (const Bound& high : opened.range.highs) test(high, "<=");
    return tests.size() == 1 ? tests.front() : call("and", std::move(tests));
  }

  Symbol index_;
  const Range& range_;
};

}  // namespace

std::optional<Expr> box_reductions(const Expr& expr, Symbol index, const Range& range) {
  Boxing boxing(index, range);
  Expr boxed = boxing.apply(expr);
  return boxing.is_bounded ? std::optional(std::move(boxed)) : std::nullopt;
}

}  // namespace moxie
