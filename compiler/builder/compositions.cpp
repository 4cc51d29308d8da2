// Functions that are compositions of others, with the formulas of the text form (compiler/text/prelude.cpp).
#include "compiler/builder/builder.h"

namespace moxie {
namespace {

constexpr double kLog2 = 0.6931471805599453;
/// From here on the 1 in sqrt(x^2 + 1) is below the rounding of x^2, in double too, and x^2 is within single precision.
constexpr double kLarge = 1e8;

Expr twice_sinh(const Expr& x) { return expm1(x) - expm1(-x); }

Expr asinh_of(const Expr& x) {
  const Expr a = abs(x);
  return sign(x) * where(a < kLarge, log1p(a + a * a / (1 + sqrt(1 + a * a))), log(a) + kLog2);
}

}  // namespace

Expr log1mexp(const Expr& x) { return where(x < -kLog2, log1p(-exp(x)), log(-expm1(x))); }

Expr round(const Expr& x) {
  const Expr floored = floor(x);
  const Expr rest = x - floored;
  return where(rest < 0.5, floored, where(rest > 0.5, floored + 1, Expr(2) * floor((floored + 1) / 2)));
}

Expr sinh(const Expr& x) { return twice_sinh(x / 2) * 0.5 * (exp(x / 2) + exp(-x / 2)); }
Expr cosh(const Expr& x) { return 1 + Expr(0.5) * twice_sinh(x / 2) * twice_sinh(x / 2); }
Expr asinh(const Expr& x) { return with_derivative(asinh_of, x, rsqrt(1 + x * x)); }

Expr acosh(const Expr& x) {
  const Expr a = sqrt(x - 1);
  return log1p(a * (a + sqrt(x + 1)));
}

}  // namespace moxie
