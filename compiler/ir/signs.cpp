#include "compiler/ir/signs.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/ir/functions.h"

namespace moxie {
namespace {

Sign negated(Sign sign) {
  switch (sign) {
    case Sign::NonNegative:
      return Sign::NonPositive;
    case Sign::Positive:
      return Sign::Negative;
    case Sign::NonPositive:
      return Sign::NonNegative;
    case Sign::Negative:
      return Sign::Positive;
    default:
      return sign;
  }
}

Sign product_sign(Sign a, Sign b) {
  if (a == Sign::Zero || b == Sign::Zero) return Sign::Zero;
  if (a == Sign::Unknown || b == Sign::Unknown) return Sign::Unknown;
  const bool strict = (a == Sign::Positive || a == Sign::Negative) && (b == Sign::Positive || b == Sign::Negative);
  const bool same = is_non_negative(a) == is_non_negative(b);
  if (strict) return same ? Sign::Positive : Sign::Negative;
  return same ? Sign::NonNegative : Sign::NonPositive;
}

Sign sum_sign(Sign a, Sign b) {
  if (a == Sign::Zero) return b;
  if (b == Sign::Zero) return a;
  if (is_non_negative(a) && is_non_negative(b))
    return a == Sign::Positive || b == Sign::Positive ? Sign::Positive : Sign::NonNegative;
  if (is_non_positive(a) && is_non_positive(b))
    return a == Sign::Negative || b == Sign::Negative ? Sign::Negative : Sign::NonPositive;
  return Sign::Unknown;
}

/// What holds of a number that is one or the other.
Sign either_sign(Sign a, Sign b) {
  if (a == b) return a;
  if (is_non_negative(a) && is_non_negative(b)) return Sign::NonNegative;
  return is_non_positive(a) && is_non_positive(b) ? Sign::NonPositive : Sign::Unknown;
}

Sign constant_sign(double value) {
  return value > 0 ? Sign::Positive : value < 0 ? Sign::Negative : value == 0 ? Sign::Zero : Sign::Unknown;
}

/// Dims and positions along axes are never negative; what a reduction runs over may be.
Sign index_sign(const Affine& value) {
  const bool grows = std::ranges::all_of(value.terms(), [](const auto& term) {
    return term.second > 0 && (term.first.kind() == Symbol::Kind::Dim || term.first.kind() == Symbol::Kind::Axis);
  });
  if (!grows || value.constant() < 0) return Sign::Unknown;
  return value.constant() > 0 ? Sign::Positive : value.terms().empty() ? Sign::Zero : Sign::NonNegative;
}

/// The sign of what is more than a number of the given sign, or at least that.
Sign above(Sign least, bool strictly) {
  if (least == Sign::Positive) return Sign::Positive;
  if (!is_non_negative(least)) return Sign::Unknown;
  return strictly ? Sign::Positive : Sign::NonNegative;
}

Sign declared_sign(const ValueDomain& declared) {
  const auto& [low, high] = declared;
  if (low && low->value >= 0) return low->value > 0 || low->open ? Sign::Positive : Sign::NonNegative;
  if (high && high->value <= 0) return high->value < 0 || high->open ? Sign::Negative : Sign::NonPositive;
  return Sign::Unknown;
}

}  // namespace

bool is_non_negative(Sign sign) { return sign == Sign::NonNegative || sign == Sign::Positive || sign == Sign::Zero; }
bool is_non_positive(Sign sign) { return sign == Sign::NonPositive || sign == Sign::Negative || sign == Sign::Zero; }

FiniteFor finite_for(std::string_view function) {
  constexpr std::array<std::string_view, 26> total = {
      "+",        "*",   "neg",  "min",  "max",   "abs",        "relu",       "sign",           "floor",
      "sin",      "cos", "tanh", "erf",  "erfc",  "normal_cdf", "normal_pdf", "log_normal_cdf", "sigmoid",
      "softplus", "f32", "f64",  "atan", "atan2", "i0e",        "i1e",        "stop_gradient"};
  constexpr std::array<std::string_view, 6> of_positive = {"log", "log2", "rsqrt", "lgamma", "digamma", "trigamma"};
  constexpr std::array<std::string_view, 2> of_non_negative = {"sqrt", "log1p"};
  constexpr std::array<std::string_view, 3> exponentials = {"exp", "exp2", "expm1"};  // overflow is soon reached
  const auto is_one_of = [&](const auto& names) { return std::ranges::find(names, function) != names.end(); };
  if (is_one_of(total)) return FiniteFor::AllNumbers;
  if (is_one_of(of_positive)) return FiniteFor::Positive;
  if (is_one_of(of_non_negative)) return FiniteFor::NonNegative;
  return is_one_of(exponentials) ? FiniteFor::NonPositive : FiniteFor::Unknown;
}

bool admits(FiniteFor arguments, Sign sign) {
  switch (arguments) {
    case FiniteFor::AllNumbers:
      return true;
    case FiniteFor::NonPositive:
      return is_non_positive(sign);
    case FiniteFor::NonNegative:
      return is_non_negative(sign);
    case FiniteFor::Positive:
      return sign == Sign::Positive;
    case FiniteFor::Unknown:
      break;
  }
  return false;
}

bool says_all_of(Sign sign, const ValueDomain& declared) {
  const Sign wanted = declared_sign(declared);
  return wanted == Sign::Unknown || sign == wanted || (wanted == Sign::NonNegative && is_non_negative(sign));
}

Sign sign_of(const Expr& expr, const Program& program) { return Signs(program).of(expr); }

Sign Signs::of(const Expr& expr) {
  if (const auto found = nodes_.find(expr.get()); found != nodes_.end()) return found->second.second;
  const Sign sign = of_node(expr);
  nodes_.emplace(expr.get(), std::pair(expr, sign));
  return sign;
}

Sign Signs::of_node(const Expr& expr) {
  switch (expr->kind) {
    case NodeKind::Constant:
      return constant_sign(expr->value);
    case NodeKind::IndexValue:
      return index_sign(expr->affine);
    case NodeKind::Access:
      return of_tensor(expr->tensor);
    case NodeKind::Call:
      return of_call(expr);
    case NodeKind::Reduce: {
      const Sign body = of(expr->args[0]);
      if (expr->reduce == ReduceKind::Sum)
        return is_non_negative(body) ? Sign::NonNegative : is_non_positive(body) ? Sign::NonPositive : Sign::Unknown;
      return Sign::Unknown;
    }
    default:
      return Sign::Unknown;
  }
}

Sign Signs::of_tensor(const std::string& name) {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  const InputDecl* input = program_.find_input(name);
  const Definition* definition = input ? nullptr : program_.find_definition(name);
  const Sign sign = input ? declared_sign(input->domain) : definition ? of_definition(*definition) : Sign::Unknown;
  return tensors_[name] = sign;
}

/// A declaration is taken at its word, as for inputs, unless the formula proves more.
Sign Signs::of_definition(const Definition& definition) {
  const Sign declared = declared_sign(definition.domain);
  if (definition.scan || declared == Sign::Positive || declared == Sign::Negative) return declared;
  const Sign proved = of(definition.body);
  return proved == Sign::Unknown ? declared : proved;
}

Sign Signs::of_call(const Expr& expr) {
  constexpr std::array positive = {"exp", "exp2", "normal_pdf", "sigmoid", "softplus", "normal_cdf", "erfc"};
  constexpr std::array non_negative = {"abs", "relu", "sqrt", "acos", "i0e", "squared_deviation"};
  constexpr std::array same_sign = {"f32", "f64", "rsqrt", "stop_gradient", "with_slope", "atan", "asin", "erfinv"};
  const auto named = [&](const auto& names) { return std::ranges::find(names, expr->function->name) != names.end(); };
  if (named(positive)) return Sign::Positive;
  if (is_call(expr, "sqrt") && of(expr->args[0]) == Sign::Positive) return Sign::Positive;
  if (named(non_negative)) return Sign::NonNegative;
  if (is_call(expr, "pow")) return of_power(expr->args[0], expr->args[1]);
  if (is_call(expr, "neg")) return negated(of(expr->args[0]));
  if (named(same_sign)) return of(expr->args[0]);
  if (is_call(expr, "max") || is_call(expr, "min")) return of_extreme(expr);
  if (is_call(expr, "where"))
    return either_sign(of_branch(expr->args[1], expr->args[0], true), of_branch(expr->args[2], expr->args[0], false));
  return of_sum_or_product(expr);
}

/// In `where(x <= a, b, x)` with a >= 0 the second branch is more than 0, since x > a there.
Sign Signs::of_branch(const Expr& branch, const Expr& condition, bool holds) {
  const Sign sign = of(branch);
  if (condition->kind != NodeKind::Call || condition->args.size() != 2) return sign;
  const std::string_view name = condition->function->name;
  const bool is_less = name == "<" || name == "<=";
  if (!is_less && name != ">" && name != ">=") return sign;
  const bool strictly = (name == "<" || name == ">") == holds;
  const bool is_left = branch == condition->args[0];
  if (!is_left && branch != condition->args[1]) return sign;
  const Sign other = of(condition->args[is_left ? 1 : 0]);
  const bool is_above = (is_less == holds) != is_left;
  const Sign shown = is_above ? above(other, strictly) : negated(above(negated(other), strictly));
  return shown == Sign::Positive || shown == Sign::Negative || sign == Sign::Unknown ? shown : sign;
}

Sign Signs::of_power(const Expr& base, const Expr& exponent) {
  const Sign sign = of(base);
  if (sign == Sign::Positive) return Sign::Positive;
  if (exponent->kind != NodeKind::Constant) return Sign::Unknown;
  const double n = exponent->value;
  if (std::trunc(n) != n) return is_non_negative(sign) ? Sign::NonNegative : Sign::Unknown;
  if (std::fmod(n, 2) == 0) return n >= 0 ? Sign::NonNegative : Sign::Positive;
  return n > 0 ? sign : Sign::Unknown;
}

/// A maximum is at least each of its arguments, a minimum at most.
Sign Signs::of_extreme(const Expr& expr) {
  const bool maximum = is_call(expr, "max");
  Sign best = Sign::Unknown;
  for (const Expr& arg : expr->args) {
    const Sign sign = of(arg);
    if (sign == (maximum ? Sign::Positive : Sign::Negative)) return sign;
    if (maximum ? is_non_negative(sign) : is_non_positive(sign)) best = maximum ? Sign::NonNegative : Sign::NonPositive;
  }
  return best;
}

Sign Signs::of_sum_or_product(const Expr& expr) {
  const bool sum = is_call(expr, "+");
  if (!sum && !is_call(expr, "*") && !is_call(expr, "/")) return Sign::Unknown;
  Sign sign = of(expr->args[0]);
  for (std::size_t i = 1; i < expr->args.size(); ++i) {
    const Sign next = of(expr->args[i]);
    sign = sum ? sum_sign(sign, next) : product_sign(sign, next);
  }
  return sign;
}

}  // namespace moxie
