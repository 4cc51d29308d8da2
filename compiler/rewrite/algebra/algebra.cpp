#include "compiler/rewrite/algebra/algebra.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/analysis/finite_values.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/algebra_forms.h"

namespace moxie {

// ---- What is known ----

Algebra::Algebra(const Program& program) {
  if (program.precision == Precision::Strict) finite_ = std::make_shared<FiniteValues>(program);
}

bool Algebra::is_finite(const Expr& expr) const { return has_all_laws() || finite_->holds(expr); }

bool Algebra::is_finite_and_not_zero(const Expr& expr) const {
  if (has_all_laws()) return true;
  const Interval range = finite_->range_of(expr);
  return (is_positive(range) || is_negative(range)) && is_finite(expr);
}

bool Algebra::is_finite_product(const Product& product) const {
  return std::ranges::all_of(product.factors, [this](const Factor& factor) {
    return factor.power > 0 ? is_finite(factor.base) : is_finite_and_not_zero(factor.base);
  });
}

/// x*(r - 1) is then x*r - x, and 3*x - x is 2*x: with an infinite x the longer forms would be NaN.
bool Algebra::is_never_infinite(const Product& product) const {
  if (is_finite_product(product)) return true;
  return std::ranges::all_of(product.factors, [this](const Factor& factor) {
    if (factor.power < 0) return is_finite_and_not_zero(factor.base);
    return moxie::is_finite(finite_->range_of(factor.base)) || is_finite(factor.base);
  });
}

bool Algebra::is_never_infinite(const Expr& expr) const { return is_never_infinite(product_of(expr)); }

bool Algebra::is_non_negative(const Expr& expr) const {
  return has_all_laws() || moxie::is_non_negative(finite_->range_of(expr));
}

bool Algebra::have_one_sign(std::span<const Expr> exprs) const {
  const auto have = [&](bool (*sign)(const Interval&)) {
    return std::ranges::all_of(exprs, [&](const Expr& expr) { return sign(finite_->range_of(expr)); });
  };
  return has_all_laws() || have(moxie::is_non_negative) || have(is_non_positive);
}

// ---- The normal form of whole expressions ----

namespace {

/// An affine number as a sum of single indices, so that like terms meet.
Expr expand(const Affine& affine) {
  std::vector<Term> terms;
  for (const auto& [symbol, coefficient] : affine.terms()) {
    terms.push_back({static_cast<double>(coefficient), index_value(Affine(symbol))});
  }
  if (affine.constant() != 0 || terms.empty()) terms.push_back({static_cast<double>(affine.constant()), one()});
  return Algebra::of_reals().make_sum(std::move(terms));
}

Expr fold_constants(const Expr& expr) {
  const bool constants = !expr->args.empty() && std::ranges::all_of(expr->args, [](const Expr& arg) {
    return arg->kind == NodeKind::Constant;
  });
  if (!constants || expr->function->result == ResultType::Truth) return expr;
  std::vector<double> values;
  for (const Expr& arg : expr->args) values.push_back(arg->value);
  return constant(expr->function->reference(values));
}

/// The truth of a comparison of index values that does not depend on any index.
std::optional<bool> known_truth(const Expr& condition) {
  if (condition->kind != NodeKind::Call || condition->args.size() != 2) return std::nullopt;
  const auto is_number = [](const Expr& e) {
    return e->kind == NodeKind::Constant || (e->kind == NodeKind::IndexValue && e->affine.is_constant());
  };
  if (!std::ranges::all_of(condition->args, is_number)) return std::nullopt;
  const auto number = [](const Expr& e) {
    return e->kind == NodeKind::Constant ? e->value : static_cast<double>(e->affine.constant());
  };
  const double values[] = {number(condition->args[0]), number(condition->args[1])};
  return condition->function->reference(values) != 0;
}

Expr normalise_where(const Expr& expr) {
  if (expr->args[1] == expr->args[2]) return expr->args[1];
  if (const auto truth = known_truth(expr->args[0])) return expr->args[*truth ? 1 : 2];
  return expr;
}

bool is_condition(const Expr& expr) {
  return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth;
}

/// No iterations, whatever the values of dims and outer indices are.
bool is_known_empty(const Range& range) {
  const auto is_constant = [](const Bound& bound) { return bound.value.is_constant(); };
  if (!std::ranges::all_of(range.lows, is_constant) || !std::ranges::all_of(range.highs, is_constant)) return false;
  const auto ends_before = [&](const Bound& low) {
    return std::ranges::any_of(range.highs, [&](const Bound& high) {
      return floor_div(high.value.constant(), high.divisor) < ceil_div(low.value.constant(), low.divisor);
    });
  };
  return std::ranges::any_of(range.lows, ends_before);
}

}  // namespace

Expr Algebra::normalise_call(const Expr& expr) const {
  if (is_call(expr, "+") || is_call(expr, "neg")) return make_sum(terms_of(expr));
  if (is_call(expr, "*") || is_call(expr, "/") || is_call(expr, "pow")) return make_product(product_of(expr));
  if (is_call(expr, "where")) return normalise_where(expr);
  return fold_constants(expr);
}

class Normaliser {
 public:
  Normaliser(const Algebra& algebra, const Surroundings* around)
      : algebra_(algebra), around_(around), done_(around ? own_ : *algebra.normal_forms_) {}

  Expr apply(const Expr& expr) {
    if (const Expr* known = done_.find(expr)) return *known;
    Expr result = compute(expr);
    done_.emplace(expr, result);
    return result;
  }

 private:
  Expr compute(const Expr& expr) {
    if (expr->kind == NodeKind::IndexValue) return expand(expr->affine);
    if (expr->kind == NodeKind::Reduce && is_known_empty(expr->range)) return constant(neutral_value(expr->reduce));
    if (expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum) {
      const OpenedReduce opened = open(expr);
      if (!around_) return algebra_.make_reduction_sum(opened.index, opened.range, apply(opened.body));
      Surroundings inside = *around_;
      inside.domain.add_range(opened.index, opened.range);
      return algebra_.make_reduction_sum(opened.index, opened.range, Normaliser(algebra_, &inside).apply(opened.body),
                                         around_);
    }
    if (is_call(expr, "floor")) return fold_constants(call("floor", {with_divisions(expr->args[0])}));
    const Expr rebuilt =
        map_children(expr, [&](const Expr& child) { return is_affine_comparison(expr) ? child : apply(child); });
    return rebuilt->kind == NodeKind::Call ? algebra_.normalise_call(rebuilt) : rebuilt;
  }

  /// What floor rounds down keeps its divisions by numbers: 49/49 is 1, where 49*(1/49) is below, in double.
  Expr with_divisions(const Expr& expr) {
    if (!divides_by_number(expr)) return apply(expr);
    return map_children(expr, [&](const Expr& child) { return with_divisions(child); });
  }

  /// Whether a sum of products has such a division in one of its operands, however deep.
  static bool divides_by_number(const Expr& expr) {
    const bool is_division = is_call(expr, "/");
    if (is_division && expr->args[1]->kind == NodeKind::Constant) return true;
    const bool is_arithmetic = is_division || is_call(expr, "+") || is_call(expr, "*") || is_call(expr, "neg");
    return is_arithmetic && std::ranges::any_of(expr->args, divides_by_number);
  }

  /// Comparisons of indices guard accesses; they keep their form.
  static bool is_affine_comparison(const Expr& expr) {
    const auto affine = [](const Expr& e) { return e->kind == NodeKind::IndexValue || e->kind == NodeKind::Constant; };
    return is_condition(expr) && std::ranges::all_of(expr->args, affine);
  }

  const Algebra& algebra_;
  const Surroundings* around_;
  Results own_;
  Results& done_;
};

Expr Algebra::normalise(const Expr& expr, const Surroundings* around) const {
  return Normaliser(*this, around).apply(expr);
}

}  // namespace moxie
