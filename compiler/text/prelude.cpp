#include "compiler/text/prelude.h"

namespace moxie {

std::string_view prelude_text() {
  return R"(
def log_sigmoid(x) = -softplus(-x)
def clamp(x, low, high) = min(max(x, low), high)
def silu(x) = x*sigmoid(x)
def gelu(x) = x*normal_cdf(x)
def log1mexp(x) = where(x < -0.6931471805599453, log1p(-exp(x)), log(-expm1(x)))
def _round_half(floored, rest) = where(rest < 0.5, floored, where(rest > 0.5, floored + 1, 2*floor((floored + 1)/2)))
def round(x) = _round_half(floor(x), x - floor(x))
def log10(x) = log(x)/2.302585092994046
def tan(x) = sin(x)/cos(x)
def _twice_sinh(x) = expm1(x) - expm1(-x)
def sinh(x) = _twice_sinh(x/2)*0.5*(exp(x/2) + exp(-x/2))
def ceil(x) = -floor(-x)
def cosh(x) = 1 + 0.5*_twice_sinh(x/2)*_twice_sinh(x/2)
def _asinh(x, a) = sign(x)*where(a < 1e8, log1p(a + a*a/(1 + sqrt(1 + a*a))), log(a) + 0.6931471805599453)
def asinh(x) = with_slope(_asinh(stop_gradient(x), abs(stop_gradient(x))), x, rsqrt(1 + x*x))
def _acosh(a, b) = log1p(a*(a + b))
def acosh(x) = _acosh(sqrt(x - 1), sqrt(x + 1))
def atanh(x) = 0.5*(log1p(x) - log1p(-x))
)";
}

}  // namespace moxie
