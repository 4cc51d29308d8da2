#include "compiler/rewrite/patterns/ordered_sum.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string_view>

#include "compiler/arithmetic/exact_integer.h"

namespace moxie {
namespace {

/// Nanoseconds in f32; in f64 both ways take twice as long. Measured with AVX-512 on one thread, 100 rows of 330 and of
/// 1000: a pair that is compared (0.028 to 0.035), and one with a tie (0.126); a key or query that is sorted, a query
/// that is merged with the keys, and a weight that is added up (together 11 to 12 per key where the queries are the
/// keys, 24 where they are others). A row costs something however short it is.
constexpr double kComparedPair = 0.03;
constexpr double kComparedTie = 0.12;
constexpr double kSortedElement = 9;
constexpr double kMergedQuery = 2;
constexpr double kSummedElement = 1.5;
constexpr double kSortedRow = 1000;

std::vector<Symbol> indices_of(const Expr& expr) {
  std::vector<Symbol> symbols;
  std::ranges::copy_if(expr->free_symbols, std::back_inserter(symbols), [](Symbol symbol) { return !symbol.is_dim(); });
  return symbols;
}

bool selects_terms(const Expr& expr) { return is_call(expr, "where") && expr->args[2]->is_constant(0); }

bool is_strict(const Expr& expr) { return is_call(expr, "<") || is_call(expr, ">"); }
bool is_order(const Expr& expr) { return is_strict(expr) || is_call(expr, "<=") || is_call(expr, ">="); }

/// A comparison as one of the element: `element side` REL `other side`.
struct ElementComparison {
  Expr side, other;
  bool above = false, with_equal = false;
};

/// Nothing where both sides depend on the element, or none does.
std::optional<ElementComparison> comparison_of(const Expr& expr, Symbol element) {
  const bool is_left = expr->args[0]->depends_on(element);
  if (is_left == expr->args[1]->depends_on(element)) return std::nullopt;
  const bool is_greater = is_call(expr, ">") || is_call(expr, ">=");
  return ElementComparison{expr->args[is_left ? 0 : 1], expr->args[is_left ? 1 : 0], is_greater == is_left,
                           !is_strict(expr)};
}

/// `l < n` and its like as a tie, where the index of the element stands alone on one side.
std::optional<OrderedTie> tie_of(const Expr& expr, Symbol element) {
  if (!is_order(expr)) return std::nullopt;
  const Expr &left = expr->args[0], &right = expr->args[1];
  const auto affine_of = [](const Expr& side) -> std::optional<Affine> {
    if (side->kind == NodeKind::IndexValue) return side->affine;
    const auto whole = side->kind == NodeKind::Constant ? exact_integer(side->value) : std::nullopt;
    return whole ? std::optional(Affine(*whole)) : std::nullopt;
  };
  const auto a = affine_of(left), b = affine_of(right);
  if (!a || !b) return std::nullopt;
  // sign*element + rest REL 0
  const Affine difference = *a - *b;
  const std::int64_t sign = difference.coefficient(element);
  if (sign != 1 && sign != -1) return std::nullopt;
  const Affine other = (Affine(element) * sign - difference) * sign;  // element REL other
  const bool above = (is_call(expr, ">") || is_call(expr, ">=")) == (sign == 1);
  const bool with_equal = !is_strict(expr);
  return OrderedTie{above == with_equal ? other : other + Affine(1), !above};
}

void add_flat_parts(const Expr& condition, std::string_view function, std::vector<Expr>& parts) {
  if (!is_call(condition, function)) {
    parts.push_back(condition);
    return;
  }
  for (const Expr& arg : condition->args) add_flat_parts(arg, function, parts);
}

std::vector<Expr> flat_parts(const Expr& condition, std::string_view function) {
  std::vector<Expr> parts;
  add_flat_parts(condition, function, parts);
  return parts;
}

/// The expression under conditions: otherwise it is NaN, which is neither below nor above anything.
Expr comparable_where(const Expr& expr, const std::vector<Expr>& conditions) {
  if (conditions.empty()) return expr;
  const Expr all = conditions.size() == 1 ? conditions.front() : call("and", conditions);
  return call("where", {all, expr, constant(std::numeric_limits<double>::quiet_NaN())});
}

class OrderedSumMatching {
 public:
  OrderedSumMatching(const Algebra& algebra, const OpenedReduce& opened) : algebra_(algebra), element_(opened.index) {
    found_.element = opened.index;
  }

  std::optional<OrderedSum> run(const Expr& body) {
    Product weight{1, {}}, scale{1, {}};
    const Product product = algebra_.product_of(body);
    found_.coefficient = product.coefficient;
    const Expr* mask = nullptr;
    for (const Factor& factor : product.factors) {
      if (!mask && factor.power == 1 && selects_terms(factor.base))
        mask = &factor.base;
      else
        add_factor(factor, true);
    }
    if (!mask || !take_mask(*mask) || !fits_) return std::nullopt;
    return is_complete() ? std::optional(std::move(found_)) : std::nullopt;
  }

 private:
  /// The conditions of masks inside each other, and the factors of what they select.
  bool take_mask(Expr mask) {
    std::vector<Expr> conditions;
    while (selects_terms(mask)) {
      add_flat_parts(mask->args[0], "and", conditions);
      mask = Expr(mask->args[1]);
    }
    const Product selected = algebra_.product_of(mask);
    found_.coefficient *= selected.coefficient;
    for (const Factor& factor : selected.factors) add_factor(factor, false);
    if (found_.coefficient == 0 || !std::isfinite(found_.coefficient)) return false;
    const auto order =
        std::ranges::find_if(conditions, [&](const Expr& condition) { return take_comparison(condition); });
    if (order == conditions.end()) return false;
    conditions.erase(order);
    return take_conditions(conditions);
  }

  /// Factors that multiply unselected terms do not join those that do not, or the other way round.
  void add_factor(const Factor& factor, bool multiplies_zeros) {
    const bool is_weight = factor.base->depends_on(element_);
    OrderedFactor& known = is_weight ? found_.weight : found_.scale;
    const Expr value = algebra_.make_product({1, {factor}});
    if (known.value && known.multiplies_zeros != multiplies_zeros) fits_ = false;
    known = {known.value ? algebra_.times(known.value, value) : value, multiplies_zeros};
  }

  /// key < query, or `key < query or key == query and l < n`.
  bool take_comparison(const Expr& condition) {
    const std::vector<Expr> cases = flat_parts(condition, "or");
    if (cases.size() == 1) return is_order(condition) && take_order(condition);
    if (cases.size() != 2) return false;
    for (std::size_t first : {0, 1}) {
      if (is_strict(cases[first]) && take_order(cases[first]) && take_tie(cases[1 - first])) return true;
    }
    found_.tie = {};
    return false;
  }

  bool take_order(const Expr& condition) {
    const auto comparison = comparison_of(condition, element_);
    if (!comparison) return false;
    const auto& [side, other, above, with_equal] = *comparison;
    const bool reads = depends_on_values(side) || depends_on_values(other);
    const auto is_own = [&](Symbol symbol) { return !side->depends_on(symbol); };
    if (!reads || std::ranges::none_of(indices_of(other), is_own)) return false;
    found_.key = side;
    found_.query = other;
    found_.above = above;
    found_.with_equal = with_equal;
    return true;
  }

  /// `key == query and l < n`
  bool take_tie(const Expr& condition) {
    const std::vector<Expr> parts = flat_parts(condition, "and");
    if (parts.size() != 2) return false;
    for (std::size_t first : {0, 1}) {
      const Expr& equation = parts[first];
      if (!is_call(equation, "==")) continue;
      const bool same = (equation->args[0] == found_.key && equation->args[1] == found_.query) ||
                        (equation->args[1] == found_.key && equation->args[0] == found_.query);
      if (!same) continue;
      found_.tie = tie_of(parts[1 - first], element_);
      return found_.tie.has_value();
    }
    return false;
  }

  /// Other conditions are on a key alone, or on a query alone.
  bool take_conditions(const std::vector<Expr>& conditions) {
    std::vector<Expr> on_key, on_query;
    for (const Expr& condition : conditions) {
      if (!condition->depends_on(element_))
        on_query.push_back(condition);
      else if (std::ranges::all_of(indices_of(condition), [&](Symbol s) { return found_.key->depends_on(s); }))
        on_key.push_back(condition);
      else
        return false;
    }
    found_.key = comparable_where(found_.key, on_key);
    found_.query = comparable_where(found_.query, on_query);
    return true;
  }

  /// Whether all queries that share the keys share the weights: these see no index of the queries alone.
  bool is_complete() const {
    const auto is_shared = [&](Symbol symbol) { return axis_of(found_, symbol) != OrderedAxis::Query; };
    return !found_.weight.value || std::ranges::all_of(indices_of(found_.weight.value), is_shared);
  }

  const Algebra& algebra_;
  const Symbol element_;
  OrderedSum found_{.element = element_, .count = {}, .key = {}, .query = {}, .weight = {}, .scale = {}};
  bool fits_ = true;
};

}  // namespace

OrderedAxis axis_of(const OrderedSum& sum, Symbol index) {
  if (sum.key->depends_on(index)) return OrderedAxis::Row;
  const bool moves_query = sum.query->depends_on(index) || (sum.tie && sum.tie->limit.mentions(index));
  return moves_query ? OrderedAxis::Query : OrderedAxis::Sum;
}

std::optional<OrderedSum> ordered_sum(const Algebra& algebra, const Expr& sum, const Scope& around) {
  if (sum->kind != NodeKind::Reduce || sum->reduce != ReduceKind::Sum) return std::nullopt;
  const OpenedReduce opened = open(sum);
  const auto count = opened.range.as_extent();
  const auto is_dim = [](const Affine::Term& term) { return term.first.is_dim(); };
  if (!count || !std::ranges::all_of(count->terms(), is_dim)) return std::nullopt;
  auto found = OrderedSumMatching(algebra, opened).run(opened.body);
  if (!found) return std::nullopt;
  found->count = *count;
  const auto is_open = [&](Symbol symbol) { return symbol == opened.index || around.find(symbol) != nullptr; };
  const bool stands = std::ranges::all_of(indices_of(opened.body), is_open);
  return stands ? found : std::nullopt;
}

namespace {

/// Whether the queries are the keys themselves, and sorted with them.
bool asks_keys(const OrderedSum& sum, const std::vector<Symbol>& axes) {
  return std::ranges::any_of(axes, [&](Symbol axis) {
    return axis_of(sum, axis) == OrderedAxis::Query && substitute(sum.key, {{sum.element, Affine(axis)}}) == sum.query;
  });
}

}  // namespace

bool is_faster_sorted(const OrderedSum& sum, const std::vector<Symbol>& axes, const Scope& scope,
                      const DimValues& extents, double unknown) {
  const auto value_of = [&](const Affine& extent) {
    double value = static_cast<double>(extent.constant());
    for (const auto& [symbol, coefficient] : extent.terms()) {
      const auto known = symbol.is_dim() ? extents.find(symbol.name()) : extents.end();
      value +=
          static_cast<double>(coefficient) * (known == extents.end() ? unknown : static_cast<double>(known->second));
    }
    return std::max(value, 0.0);
  };
  double queries = 1, sums = 1;  // of a row
  for (const Symbol axis : axes) {
    const auto extent = scope.find(axis)->as_extent();
    const double count = extent ? value_of(*extent) : unknown;
    const OrderedAxis kind = axis_of(sum, axis);
    if (kind == OrderedAxis::Query) queries *= count;
    if (kind == OrderedAxis::Sum) sums *= count;
  }
  const double keys = value_of(sum.count);
  const double compared = (sum.tie ? kComparedTie : kComparedPair) * keys * queries * sums;
  const double sorted = kSortedElement * (asks_keys(sum, axes) ? keys : keys + queries) + kMergedQuery * queries +
                        kSummedElement * keys * sums;
  return kSortedRow + (scope.dtype == DType::f64 ? 2 : 1) * (sorted - compared) < 0;
}

}  // namespace moxie
