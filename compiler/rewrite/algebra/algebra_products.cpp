// Products in normal form.
#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/algebra_forms.h"

namespace moxie {
namespace {

bool same_symbols(const Expr& a, const Expr& b) { return a->free_symbols == b->free_symbols; }

bool has_negative_coefficient(const Expr& term) {
  if (is_call(term, "neg")) return true;
  const Expr& number = is_call(term, "*") ? term->args[0] : term;
  return number->kind == NodeKind::Constant && number->value < 0;
}

/// A sum in normal form whose first term has a negative coefficient.
bool starts_negative(const Expr& expr) { return is_call(expr, "+") && has_negative_coefficient(expr->args[0]); }

/// The first tensor that an expression reads; empty if it reads none.
std::string_view first_tensor(const Expr& expr) {
  if (expr->kind == NodeKind::Access) return expr->tensor;
  for (const Expr& arg : expr->args) {
    if (const std::string_view tensor = first_tensor(arg); !tensor.empty()) return tensor;
  }
  return {};
}

/// A sum in which the term that reads the tensor of the first name has a negative coefficient.
bool is_negative_by_names(const Expr& expr) {
  return is_call(expr, "+") && has_negative_coefficient(*std::ranges::min_element(expr->args, {}, first_tensor));
}

}  // namespace

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

/// The factor with its power. An even power leaves the sign of a sum open, and names of tensors choose it: the order of
/// terms depends on indices, which are other ones in another definition or reduction. So exp(-(m[s] - v[r])^2) and
/// exp(-(v[i] - m[j])^2) have one form, and are computed once where they stand in one loop.
Expr Algebra::raised(const Factor& factor) const {
  if (factor.power == 1) return factor.base;
  const bool opposite = factor.power % 2 == 0 && is_negative_by_names(factor.base);
  return call("pow", {opposite ? scaled(factor.base, -1) : factor.base, constant(factor.power)});
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

}  // namespace moxie
