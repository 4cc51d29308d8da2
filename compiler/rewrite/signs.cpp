#include "compiler/rewrite/signs.h"

#include <algorithm>
#include <array>

#include "compiler/ir/functions.h"
#include "compiler/rewrite/algebra.h"

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

Sign power_sign(const Expr& base, const Expr& exponent, const Program& program) {
  const Sign sign = sign_of(base, program);
  if (sign == Sign::Positive) return Sign::Positive;
  if (exponent->kind != NodeKind::Constant) return Sign::Unknown;
  const auto n = static_cast<long>(exponent->value);
  if (static_cast<double>(n) != exponent->value) return is_non_negative(sign) ? Sign::NonNegative : Sign::Unknown;
  if (n % 2 == 0) return n >= 0 ? Sign::NonNegative : Sign::Positive;
  return n > 0 ? sign : Sign::Unknown;
}

Sign constant_sign(double value) {
  return value > 0 ? Sign::Positive : value < 0 ? Sign::Negative : value == 0 ? Sign::Zero : Sign::Unknown;
}

/// A maximum is at least each of its arguments, a minimum at most.
Sign extreme_sign(const Expr& expr, const Program& program) {
  const bool maximum = is_call(expr, "max");
  Sign best = Sign::Unknown;
  for (const Expr& arg : expr->args) {
    const Sign sign = sign_of(arg, program);
    if (sign == (maximum ? Sign::Positive : Sign::Negative)) return sign;
    if (maximum ? is_non_negative(sign) : is_non_positive(sign)) best = maximum ? Sign::NonNegative : Sign::NonPositive;
  }
  return best;
}

Sign declared_sign(const ValueDomain& declared) {
  using enum ValueDomain::Relation;
  const bool above = declared.relation == Above || declared.relation == AtLeast;
  if (declared == ValueDomain::NonNegative) return Sign::NonNegative;
  if (above && declared.bound >= 0) return Sign::Positive;
  if (declared.relation == Below && declared.bound <= 0) return Sign::Negative;
  return Sign::Unknown;
}

Sign call_sign(const Expr& expr, const Program& program) {
  constexpr std::array positive = {"exp", "exp2", "normal_pdf", "sigmoid", "softplus", "normal_cdf", "erfc"};
  constexpr std::array non_negative = {"abs", "relu", "sqrt"};
  const auto named = [&](const auto& names) { return std::ranges::find(names, expr->function->name) != names.end(); };
  if (named(positive)) return Sign::Positive;
  if (is_call(expr, "sqrt") && sign_of(expr->args[0], program) == Sign::Positive) return Sign::Positive;
  if (named(non_negative)) return Sign::NonNegative;
  if (is_call(expr, "pow")) return power_sign(expr->args[0], expr->args[1], program);
  if (is_call(expr, "neg")) return negated(sign_of(expr->args[0], program));
  if (is_call(expr, "f32") || is_call(expr, "f64") || is_call(expr, "rsqrt")) return sign_of(expr->args[0], program);
  if (is_call(expr, "max") || is_call(expr, "min")) return extreme_sign(expr, program);
  const bool sum = is_call(expr, "+");
  if (!sum && !is_call(expr, "*") && !is_call(expr, "/")) return Sign::Unknown;
  Sign sign = sign_of(expr->args[0], program);
  for (std::size_t i = 1; i < expr->args.size(); ++i) {
    const Sign next = sign_of(expr->args[i], program);
    sign = sum ? sum_sign(sign, next) : product_sign(sign, next);
  }
  return sign;
}

}  // namespace

bool is_non_negative(Sign sign) { return sign == Sign::NonNegative || sign == Sign::Positive || sign == Sign::Zero; }
bool is_non_positive(Sign sign) { return sign == Sign::NonPositive || sign == Sign::Negative || sign == Sign::Zero; }

Sign sign_of(const Expr& expr, const Program& program) {
  switch (expr->kind) {
    case NodeKind::Constant:
      return constant_sign(expr->value);
    case NodeKind::Access: {
      if (const Definition* definition = program.find_definition(expr->tensor))
        return definition->scan ? Sign::Unknown : sign_of(definition->body, program);
      const InputDecl* input = program.find_input(expr->tensor);
      return input ? declared_sign(input->domain) : Sign::Unknown;
    }
    case NodeKind::Call:
      return call_sign(expr, program);
    case NodeKind::Reduce: {
      const Sign body = sign_of(expr->args[0], program);
      if (expr->reduce == ReduceKind::Sum)
        return is_non_negative(body) ? Sign::NonNegative : is_non_positive(body) ? Sign::NonPositive : Sign::Unknown;
      return Sign::Unknown;
    }
    default:
      return Sign::Unknown;
  }
}

}  // namespace moxie
