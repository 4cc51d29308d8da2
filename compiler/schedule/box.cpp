#include "compiler/schedule/box.h"

#include <algorithm>
#include <optional>

#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/scope.h"

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

/// Boxes of fewer iterations are unrolled; a mask costs more than the iterations that it saves.
constexpr std::int64_t kShortBox = kLongExtent;

class Boxing {
 public:
  Boxing(Symbol index, const Range& range, bool any_length) : index_(index), range_(range), any_length_(any_length) {}

  Expr apply(const Expr& expr) {
    if (!expr->depends_on(index_)) return expr;
    if (expr->kind != NodeKind::Reduce) return map_children(expr, [&](const Expr& child) { return apply(child); });
    const OpenedReduce opened = open(expr);
    const auto box = mentions(opened.range, index_) ? box_of(opened.range) : std::nullopt;
    if (!box) return map_opened(expr, opened, [&](const Expr& child) { return apply(child); });
    const auto masked = [&](const Expr& child, ReduceKind kind) {
      return call("where", {inside(opened), apply(child), constant(neutral_value(kind))});
    };
    const Expr body = masked(opened.body, extremum_of(expr->reduce).value_or(expr->reduce));
    const Expr position = opened.position ? masked(opened.position, expr->reduce) : Expr();
    return reduce(expr->reduce, opened.index, *box, body, position);
  }

 private:
  std::optional<Range> box_of(Range range) const {
    for (Bound& low : range.lows) {
      if (!widen(low, /*largest=*/false)) return std::nullopt;
    }
    for (Bound& high : range.highs) {
      if (!widen(high, /*largest=*/true)) return std::nullopt;
    }
    if (any_length_) return range;
    const auto extent = longest(range);
    return extent && *extent < kShortBox ? std::optional(std::move(range)) : std::nullopt;
  }

  /// Whether one affine expression bounds it.
  bool widen(Bound& bound, bool largest) const {
    const auto value = at_extreme(bound.value, index_, range_, largest);
    if (value) bound.value = *value;
    return value.has_value();
  }

  /// Iterations, by the bounds that are constants.
  static std::optional<std::int64_t> longest(const Range& range) {
    std::optional<std::int64_t> result;
    for (const Bound& low : range.lows) {
      for (const Bound& high : range.highs) {
        if (!low.value.is_constant() || !high.value.is_constant()) continue;
        const std::int64_t extent =
            floor_div(high.value.constant(), high.divisor) - ceil_div(low.value.constant(), low.divisor) + 1;
        result = std::min(result.value_or(extent), extent);
      }
    }
    return result;
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
  bool any_length_;
};

}  // namespace

Expr box_reductions(const Expr& expr, Symbol index, const Range& range) {
  return Boxing(index, range, /*any_length=*/false).apply(expr);
}

Expr box_reductions_of_tile(const Expr& expr, Symbol index, const Range& range) {
  return Boxing(index, range, /*any_length=*/true).apply(expr);
}

}  // namespace moxie
