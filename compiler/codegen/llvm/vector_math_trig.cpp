// sin and cos. x = k pi + r with |r| <= pi/2, for cos x = (k - 1/2) pi + r, reduced after Cody and Waite with pi in
// three parts of 33, 33 and 53 bits: products of k with the first two are exact for |k| < 2^20. Hence full accuracy for
// |x| < 10^6, which is what is promised for f64; f32 is computed in f64. Beyond, results stay in [-1, 1] but lose all
// meaning as |x| grows.
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kPi[] = {0x1.921fb544p+1, 0x1.0b4611a6p-33, 0x1.3198a2e037073p-68};
constexpr double kHalfPi = std::numbers::pi / 2;
constexpr int kSignBit = 63;

Vec subtract_multiple_of_pi(const Vec& x, const Vec& k) {
  const Vec r = x - k * kPi[0] - k * kPi[1] - k * kPi[2];
  return at_least(at_most(r, kHalfPi), -kHalfPi);
}

/// (-1)^k sin(r), where k stands in the lowest bits of `counter`.
Vec signed_sine(const Vec& r, const Vec& counter) {
  const Vec square = r * r;
  const Vec sine = r + r * square * polynomial(square, table::kSinF32, table::kSinF64);
  return real(bits(sine) ^ (bits(counter) << kSignBit));
}

Vec sin_f64(const Vec& x) {
  const double round = format(x).round;
  const Vec counter = x * std::numbers::inv_pi + round;
  return signed_sine(subtract_multiple_of_pi(x, counter - round), counter);
}

Vec cos_f64(const Vec& x) {
  // cos(x) = (-1)^k sin(r) with |x| = (k - 1/2) pi + r
  const double round = format(x).round;
  const Vec magnitude = abs(x);
  const Vec counter = magnitude * std::numbers::inv_pi + 0.5 + round;
  return signed_sine(subtract_multiple_of_pi(magnitude, counter - round - 0.5), counter);
}

}  // namespace

Vec sin(const Vec& x) { return through_f64(x, sin_f64); }
Vec cos(const Vec& x) { return through_f64(x, cos_f64); }

}  // namespace moxie::llvm_ir
