// The modified Bessel functions I0 and I1 times e^-|x|: the power series below 8, whose terms are positive (Abramowitz
// and Stegun 9.6.10), else a fit of sqrt(x) e^-x I(x) in 16/x - 1.
#include <array>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr int kBesselTerms = 24;  // the next one is below 1e-18 of the sum, at 8
constexpr double kSeriesEnd = 8;

/// 1/(k! (k + order)!)
constexpr std::array<double, kBesselTerms> bessel_series(int order) {
  std::array<double, kBesselTerms> terms{1};
  for (int k = 1; k < kBesselTerms; ++k)
    terms[static_cast<std::size_t>(k)] = terms[static_cast<std::size_t>(k) - 1] / (k * (k + order));
  return terms;
}
constexpr std::array kSeries0 = bessel_series(0), kSeries1 = bessel_series(1);

Vec bessel_tail(const Vec& x, std::span<const double> fit) { return polynomial(16 / x - 1, fit) / sqrt(x); }

Vec i0e_f64(const Vec& x) {
  const Vec magnitude = abs(x);
  const Vec near = exp(-magnitude) * polynomial(0.25 * magnitude * magnitude, kSeries0);
  return select(magnitude < kSeriesEnd, near, bessel_tail(magnitude, table::kBessel0Tail));
}

Vec i1e_f64(const Vec& x) {
  const Vec magnitude = abs(x);
  const Vec near = 0.5 * x * (exp(-magnitude) * polynomial(0.25 * magnitude * magnitude, kSeries1));
  return select(magnitude < kSeriesEnd, near, copysign(bessel_tail(magnitude, table::kBessel1Tail), x));
}

}  // namespace

Vec i0e(const Vec& x) { return through_f64(x, i0e_f64); }
Vec i1e(const Vec& x) { return through_f64(x, i1e_f64); }

}  // namespace moxie::llvm_ir
