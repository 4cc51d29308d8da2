#include "compiler/rewrite/algebra.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "compiler/ir/functions.h"
#include "compiler/ir/inside_proof.h"
#include "compiler/ir/reductions.h"
#include "compiler/rewrite/bounds.h"
#include "compiler/rewrite/finite_values.h"

namespace moxie {
namespace {

const Expr& one() {
  static const Expr value = constant(1);
  return value;
}

bool same_symbols(const Expr& a, const Expr& b) { return a->free_symbols == b->free_symbols; }

std::optional<int> small_integer(const Expr& expr) {
  if (expr->kind != NodeKind::Constant || std::nearbyint(expr->value) != expr->value || std::abs(expr->value) > 64)
    return std::nullopt;
  return static_cast<int>(expr->value);
}

/// A sum in normal form whose first term has a negative coefficient.
bool starts_negative(const Expr& expr) {
  if (!is_call(expr, "+")) return false;
  const Expr& first = expr->args[0];
  if (is_call(first, "neg")) return true;
  const Expr& number = is_call(first, "*") ? first->args[0] : first;
  return number->kind == NodeKind::Constant && number->value < 0;
}

/// Multiplication by a power of two, or by its opposite, changes no digit.
bool is_power_of_two(double factor) {
  int exponent = 0;
  return std::abs(std::frexp(factor, &exponent)) == 0.5;
}

Expr raised(const Factor& factor) {
  return factor.power == 1 ? factor.base : call("pow", {factor.base, constant(factor.power)});
}

/// A multiple of an index value or a number, or a sum of such. This looks at the expression as it stands, without
/// taking products apart: their factors may be sums, in a chain of definitions each of them in two products.
bool is_index_term(const Expr& expr) {
  if (expr->kind == NodeKind::IndexValue || expr->kind == NodeKind::Constant) return true;
  if (is_call(expr, "+") || is_call(expr, "neg")) return std::ranges::all_of(expr->args, is_index_term);
  if (is_call(expr, "/")) return expr->args[1]->kind == NodeKind::Constant && is_index_term(expr->args[0]);
  const auto varies = [](const Expr& arg) { return arg->kind != NodeKind::Constant; };
  return is_call(expr, "*") && std::ranges::count_if(expr->args, varies) <= 1 &&
         std::ranges::all_of(expr->args, is_index_term);
}

/// True for sums of index values and numbers: polynomials in the indices, over which products distribute.
bool is_index_polynomial(const Expr& expr) { return is_call(expr, "+") && is_index_term(expr); }

/// Whether something is taken away in a sum of these terms.
bool has_difference(const std::vector<Term>& terms) {
  const auto sign = [](const Term& term) {
    return term.product->kind == NodeKind::Constant ? term.coefficient * term.product->value : term.coefficient;
  };
  return std::ranges::any_of(terms, [&](const Term& t) { return sign(t) < 0; }) &&
         std::ranges::any_of(terms, [&](const Term& t) { return sign(t) > 0; });
}

/// Whether one of the terms is both added and taken away.
bool has_opposites(const std::vector<Term>& terms) {
  std::map<const Node*, int> signs;  // 1: added, 2: taken away
  return std::ranges::any_of(
      terms, [&](const Term& term) { return (signs[term.product.get()] |= term.coefficient < 0 ? 2 : 1) == 3; });
}

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

}  // namespace

bool is_call(const Expr& expr, std::string_view name) {
  return expr->kind == NodeKind::Call && expr->function->name == name;
}

// ---- What is known ----

Algebra::Algebra(const Program& program) {
  if (program.precision == Precision::Strict) finite_ = std::make_shared<FiniteValues>(program);
}

bool Algebra::is_finite(const Expr& expr) const { return has_all_laws() || finite_->holds(expr); }

bool Algebra::is_finite_and_not_zero(const Expr& expr) const {
  if (has_all_laws()) return true;
  const Sign sign = finite_->sign_of(expr);
  return (sign == Sign::Positive || sign == Sign::Negative) && is_finite(expr);
}

bool Algebra::is_finite_product(const Product& product) const {
  return std::ranges::all_of(product.factors, [this](const Factor& factor) {
    return factor.power > 0 ? is_finite(factor.base) : is_finite_and_not_zero(factor.base);
  });
}

/// Finite or NaN. x*(r - 1) is then x*r - x: with an infinite x that would be NaN for all r.
bool Algebra::is_never_infinite(const Product& product) const {
  if (is_finite_product(product)) return true;
  return std::ranges::all_of(product.factors, [this](const Factor& factor) {
    const Interval bounds = bounds_of(factor.base);
    const bool lies_between = std::isfinite(bounds.low) && std::isfinite(bounds.high);
    return factor.power > 0 ? lies_between || is_finite(factor.base) : is_finite_and_not_zero(factor.base);
  });
}

bool Algebra::is_non_negative(const Expr& expr) const {
  return has_all_laws() || moxie::is_non_negative(finite_->sign_of(expr));
}

bool Algebra::have_one_sign(std::span<const Expr> exprs) const {
  const auto have = [&](bool (*sign)(Sign)) {
    return std::ranges::all_of(exprs, [&](const Expr& expr) { return sign(finite_->sign_of(expr)); });
  };
  return has_all_laws() || have(moxie::is_non_negative) || have(is_non_positive);
}

// ---- Products ----

Product Algebra::product_of(const Expr& expr) const {
  Product product;
  multiply_into(product, expr, 1);
  return product;
}

/// A factor that is a call of a function which multiplication knows; false if it is opaque.
bool Algebra::multiply_call_into(Product& product, const Expr& expr, int exponent) const {
  if (is_call(expr, "*")) {
    for (const Expr& arg : expr->args) multiply_into(product, arg, exponent);
  } else if (is_call(expr, "/")) {
    multiply_into(product, expr->args[0], exponent);
    multiply_into(product, expr->args[1], -exponent);
  } else if (is_call(expr, "neg")) {
    if (exponent % 2 != 0) product.coefficient = -product.coefficient;
    multiply_into(product, expr->args[0], exponent);
  } else if (is_call(expr, "pow") && small_integer(expr->args[1])) {
    multiply_into(product, expr->args[0], exponent * *small_integer(expr->args[1]));
  } else if (is_call(expr, "sqrt") && exponent % 2 == 0 && is_non_negative(expr->args[0])) {
    multiply_into(product, expr->args[0], exponent / 2);
  } else {
    return false;
  }
  return true;
}

void Algebra::multiply_into(Product& product, const Expr& expr, int exponent) const {
  if (exponent == 0) return;
  if (expr->kind == NodeKind::Constant) {
    product.coefficient *= std::pow(expr->value, exponent);
    return;
  }
  if (expr->kind == NodeKind::Call && multiply_call_into(product, expr, exponent)) return;
  if (starts_negative(expr)) {
    // (b - a)*c is -(a - b)*c: the first term of a factor is positive.
    if (exponent % 2 != 0) product.coefficient = -product.coefficient;
    return multiply_into(product, scaled(expr, -1), exponent);
  }
  // x/x is 1 only if x is neither 0 nor infinite; else a power below the line stays apart from one above it.
  const auto joins = [&](const Factor& factor) {
    return factor.base == expr && ((factor.power > 0) == (exponent > 0) || is_finite_and_not_zero(expr));
  };
  const auto same = std::ranges::find_if(product.factors, joins);
  if (same != product.factors.end())
    same->power += exponent;
  else
    product.factors.push_back({expr, exponent});
}

/// exp(a)^m * exp(b)^n -> exp(m*a + n*b) where both depend on the same symbols; exp(a)^n -> exp(n*a). One factor that
/// overflows must not meet another that vanishes: both exponents have the same sign.
void Algebra::merge_exponentials(std::vector<Factor>& factors) const {
  std::vector<Factor> merged;
  for (const Factor& factor : factors) {
    if (!is_call(factor.base, "exp")) {
      merged.push_back(factor);
      continue;
    }
    const Expr exponent = scaled(factor.base->args[0], factor.power);
    const auto partner = std::ranges::find_if(merged, [&](const Factor& other) {
      return is_call(other.base, "exp") && same_symbols(other.base, factor.base) &&
             have_one_sign(std::array{other.base->args[0], exponent});
    });
    if (partner == merged.end())
      merged.push_back({call("exp", {exponent}), 1});
    else
      partner->base = call("exp", {plus(partner->base->args[0], exponent)});
  }
  factors = std::move(merged);
}

Expr Algebra::make_product(Product product) const {
  merge_exponentials(product.factors);
  std::erase_if(product.factors, [](const Factor& factor) { return factor.power == 0; });
  if (product.coefficient == 0 && is_finite_product(product)) return constant(0);
  const auto polynomial = std::ranges::find_if(
      product.factors, [](const Factor& f) { return f.power == 1 && is_index_polynomial(f.base); });
  if (polynomial != product.factors.end()) {
    Product others = product;
    others.factors.erase(others.factors.begin() + (polynomial - product.factors.begin()));
    if (is_never_infinite(others)) {
      std::vector<Term> terms;
      for (const Term& term : terms_of(polynomial->base)) {
        Product part = others;
        part.coefficient *= term.coefficient;
        multiply_into(part, term.product, 1);
        for (const Term& t : terms_of(make_product(std::move(part)))) terms.push_back(t);
      }
      return make_sum(std::move(terms));
    }
  }
  std::ranges::sort(product.factors, [](const Factor& a, const Factor& b) {
    return a.base == b.base ? a.power < b.power : precedes(a.base, b.base);
  });
  const bool negated = product.coefficient == -1 && !product.factors.empty();
  std::vector<Expr> args;
  if ((product.coefficient != 1 && !negated) || product.factors.empty()) args.push_back(constant(product.coefficient));
  for (const Factor& factor : product.factors) args.push_back(raised(factor));
  const Expr result = args.size() == 1 ? args[0] : call("*", std::move(args));
  return negated ? call("neg", {result}) : result;
}

Expr Algebra::times(const Expr& a, const Expr& b) const {
  Product product = product_of(a);
  multiply_into(product, b, 1);
  return make_product(std::move(product));
}

// ---- Sums ----

/// 3*(x - y) may be exact but for one rounding, 3*x - 3*y is not.
bool Algebra::may_distribute(double factor, const Expr& sum) const {
  return has_all_laws() || is_power_of_two(factor) || is_index_polynomial(sum) || have_one_sign(sum->args);
}

/// The coefficient of an expression, and the expression without it.
Term Algebra::term_of(const Expr& expr) const {
  if (expr->kind == NodeKind::Constant) return {expr->value, one()};
  if (!is_call(expr, "neg") && !is_call(expr, "*") && !is_call(expr, "/")) return {1, expr};
  Product product = product_of(expr);
  const double coefficient = std::exchange(product.coefficient, 1);
  const bool is_sum =
      product.factors.size() == 1 && product.factors[0].power == 1 && is_call(product.factors[0].base, "+");
  return {coefficient, is_sum ? product.factors[0].base : make_product(std::move(product))};
}

/// The terms of `coefficient * expr`, with those in parentheses where these open.
void Algebra::add_terms(std::vector<Term>& terms, const Expr& expr, double coefficient, Parentheses opened) const {
  Term term = term_of(expr);
  term.coefficient *= coefficient;
  if (!is_call(term.product, "+") || !may_distribute(term.coefficient, term.product)) {
    terms.push_back(std::move(term));
    return;
  }
  std::vector<Term> inside;
  for (const Expr& arg : term.product->args) add_terms(inside, arg, term.coefficient, opened);
  const bool opens = opened == Parentheses::All || is_index_polynomial(term.product) ||
                     (opened == Parentheses::OfSums && !has_difference(inside));
  if (opens)
    terms.insert(terms.end(), inside.begin(), inside.end());
  else
    terms.push_back(std::move(term));
}

/// Parentheses around a difference say what is taken away from what, and stay: it may be exact. Those around a sum,
/// which is rounded, go, unless a term in them meets its opposite: (a + b) - a is not b, but b rounded as a is.
std::vector<Term> Algebra::terms_of(const Expr& expr) const {
  const Term whole = term_of(expr);
  if (!is_call(whole.product, "+") || !may_distribute(whole.coefficient, whole.product)) return {whole};
  const auto terms_with = [&](Parentheses opened) {
    std::vector<Term> terms;
    for (const Expr& arg : whole.product->args) add_terms(terms, arg, whole.coefficient, opened);
    return terms;
  };
  if (has_all_laws()) return terms_with(Parentheses::All);
  std::vector<Term> terms = terms_with(Parentheses::OfSums);
  return has_opposites(terms) ? terms_with(Parentheses::OfIndices) : terms;
}

/// x - x is 0 only if x is finite; else terms that are taken away stay apart from those that are added.
Expr Algebra::make_sum(std::vector<Term> terms) const {
  const auto is_taken_away = [](const Term& term) { return term.coefficient < 0; };
  std::ranges::sort(terms, [&](const Term& a, const Term& b) {
    return a.product == b.product ? is_taken_away(a) < is_taken_away(b) : precedes(a.product, b.product);
  });
  std::vector<Term> joined;
  for (const Term& term : terms) {
    const bool joins = !joined.empty() && joined.back().product == term.product &&
                       (is_taken_away(joined.back()) == is_taken_away(term) || is_finite(term.product));
    if (joins)
      joined.back().coefficient += term.coefficient;
    else
      joined.push_back(term);
  }
  std::erase_if(joined, [&](const Term& term) { return term.coefficient == 0 && is_finite(term.product); });
  if (joined.empty()) return constant(0);
  std::vector<Expr> args;
  for (const Term& term : joined) args.push_back(scaled(term.product, term.coefficient));
  return args.size() == 1 ? args[0] : call("+", std::move(args));
}

Expr Algebra::scaled(const Expr& a, double factor) const {
  if (factor == 1) return a;
  if (is_call(a, "+") && may_distribute(factor, a)) {
    std::vector<Term> terms = terms_of(a);
    for (Term& term : terms) term.coefficient *= factor;
    return make_sum(std::move(terms));
  }
  Product product = product_of(a);
  product.coefficient *= factor;
  return make_product(std::move(product));
}

Expr Algebra::plus(const Expr& a, const Expr& b) const { return make_sum(terms_of(call("+", {a, b}))); }

// ---- Reductions ----

namespace {

/// Whether an expression has the value of an element or a number as it is, without a rounding of its own. (What stands
/// in parentheses may be an exact difference.)
bool is_exact(const Expr& product) {
  static constexpr std::array kExact = {"+", "min", "max", "abs", "relu", "floor", "sign", "where", "f32", "f64"};
  return product->kind != NodeKind::Call || std::ranges::find(kExact, product->function->name) != kExact.end();
}

}  // namespace

bool Algebra::may_be_summed_apart(const std::vector<Term>& terms) const {
  std::vector<Expr> exact;
  for (const Term& term : terms) {
    if (is_exact(term.product)) exact.push_back(term.coefficient < 0 ? -term.product : term.product);
  }
  return exact.size() <= 1 || have_one_sign(exact);
}

namespace {

bool has_rounds(const Range& range) {
  const auto extent = range.as_extent();
  return extent && extent->is_constant() && extent->constant() > 0;
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

/// Whether it holds an extremum that may be one of no elements, and so infinite, such as the shift of a log-sum-exp.
/// Times a sum without iterations it would be NaN.
bool holds_extremum_of_none(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) {
    found |= e->kind == NodeKind::Reduce && std::isinf(neutral_value(e->reduce)) && !has_rounds(e->range);
  });
  return found;
}

/// Whether the expression can be evaluated where the loop over `index` stands, even if that has no rounds.
bool may_leave(const Expr& expr, Symbol index, const Range& range, const Surroundings* around) {
  if (expr->depends_on(index)) return false;
  if (has_rounds(range)) return true;
  if (holds_extremum_of_none(expr)) return false;
  bool reads = false;
  visit(expr, [&](const Expr& e) { reads |= e->kind == NodeKind::Access; });
  return !reads || (around && InsideProof(around->program, Inside::Element).holds_within(expr, around->domain));
}

/// The number of rounds, where no value of a dim makes it negative.
std::optional<Affine> rounds_of(const Range& range) {
  const auto extent = range.as_extent();
  const auto counts = [](const Affine::Term& term) { return term.first.is_dim() && term.second > 0; };
  if (!extent || extent->constant() < 0 || !std::ranges::all_of(extent->terms(), counts)) return std::nullopt;
  return extent;
}

}  // namespace

Expr Algebra::plain_sum(Symbol index, const Range& range, const Expr& body, const Surroundings* around) const {
  if (body->is_constant(0)) return body;
  const auto rounds = rounds_of(range);
  if (!rounds || !may_leave(body, index, range, around)) return reduce(ReduceKind::Sum, index, range, body);
  return times(normalise(index_value(*rounds)), body);
}

/// The factors of `product` that must stay in the loop over the index, and those that leave it.
std::pair<Product, Product> Algebra::split_by_index(const Product& product, Symbol index, const Range& range,
                                                    const Surroundings* around) const {
  Product inside;
  Product outside{product.coefficient, {}};
  for (const Factor& factor : product.factors) {
    (may_leave(factor.base, index, range, around) ? outside : inside).factors.push_back(factor);
  }
  return {inside, outside};
}

Expr Algebra::make_reduction_sum(Symbol index, const Range& range, const Expr& body, const Surroundings* around) const {
  if (is_call(body, "+")) {
    const std::vector<Term> terms = terms_of(body);
    const bool sets_free = std::ranges::any_of(terms, [&](const Term& term) {
      return !split_by_index(product_of(term.product), index, range, around).second.factors.empty();
    });
    if (!sets_free || !may_be_summed_apart(terms)) return plain_sum(index, range, body, around);
    std::vector<Term> sums;
    for (const Term& term : terms)
      sums.push_back({term.coefficient, make_reduction_sum(index, range, term.product, around)});
    Expr total = constant(0);
    for (const Term& sum : sums) total = plus(total, scaled(sum.product, sum.coefficient));
    return total;
  }
  const auto [inside, outside] = split_by_index(product_of(body), index, range, around);
  if (outside.factors.empty() && outside.coefficient == 1) return plain_sum(index, range, body, around);
  if (inside.factors.empty() && !outside.factors.empty()) {
    const Expr rounds = plain_sum(index, range, one(), around);
    const Expr product = times(make_product(outside), rounds);
    // Without iterations the sum is 0, also of what is infinite then, such as exp(-max[s](..)); 0 times it is NaN.
    return has_rounds(range) ? product : call("where", {call(">", {rounds, constant(0)}), product, constant(0)});
  }
  return times(make_product(outside), plain_sum(index, range, make_product(inside), around));
}

Expr Algebra::normalise_call(const Expr& expr) const {
  if (is_call(expr, "+") || is_call(expr, "neg")) return make_sum(terms_of(expr));
  if (is_call(expr, "*") || is_call(expr, "/") || is_call(expr, "pow")) return make_product(product_of(expr));
  if (is_call(expr, "where")) return normalise_where(expr);
  return fold_constants(expr);
}

class Normaliser {
 public:
  Normaliser(const Algebra& algebra, const Surroundings* around) : algebra_(algebra), around_(around) {}

  Expr apply(const Expr& expr) {
    if (const auto it = done_.find(expr.get()); it != done_.end()) return it->second.second;
    Expr result = compute(expr);
    done_.emplace(expr.get(), std::pair(expr, result));
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
    const Expr rebuilt =
        map_children(expr, [&](const Expr& child) { return is_affine_comparison(expr) ? child : apply(child); });
    return rebuilt->kind == NodeKind::Call ? algebra_.normalise_call(rebuilt) : rebuilt;
  }
  /// Comparisons of indices guard accesses; they keep their form.
  static bool is_affine_comparison(const Expr& expr) {
    const auto affine = [](const Expr& e) { return e->kind == NodeKind::IndexValue || e->kind == NodeKind::Constant; };
    return is_condition(expr) && std::ranges::all_of(expr->args, affine);
  }

  const Algebra& algebra_;
  const Surroundings* around_;
  /// Keeps the key alive, so that no other node can take its address.
  std::unordered_map<const Node*, std::pair<Expr, Expr>> done_;
};

namespace {

double extent_of(const Range& range, double unknown) {
  if (const auto extent = range.as_extent(); extent && extent->is_constant())
    return static_cast<double>(extent->constant());
  return unknown;
}

}  // namespace

Expr Algebra::normalise(const Expr& expr, const Surroundings* around) const {
  return Normaliser(*this, around).apply(expr);
}

double operation_cost(const Expr& expr) {
  // Small powers are multiplications.
  return is_call(expr, "pow") && small_integer(expr->args[1]) ? 1 : expr->function->cost;
}

double cost(const Expr& expr, double loop_extent) {
  std::unordered_map<const Node*, double> done;
  const std::function<double(const Expr&)> walk = [&](const Expr& e) -> double {
    if (!done.emplace(e.get(), 0).second) return 0;  // shared subexpressions are computed once
    double total = e->kind == NodeKind::Access ? 0.5 : e->kind == NodeKind::Call ? operation_cost(e) : 0;
    for (const Expr& arg : e->args) total += walk(arg);
    if (e->kind == NodeKind::Reduce) total *= extent_of(e->range, loop_extent);
    return total;
  };
  return walk(expr);
}

}  // namespace moxie
