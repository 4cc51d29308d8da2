// sin and cos. x = k pi + r with |r| <= pi/2, for cos x = (k - 1/2) pi + r, reduced after Cody and Waite with pi in
// three parts of 33, 33 and 53 bits: products of k with the first two are exact for |k| < 2^20. Angles from 2^20 on are
// seldom, and reduced one by one in fixed point (llvm/large_angle.ll). f32 is computed in f64.
#include <fmt/format.h>

#include <numbers>

#include "codegen_templates/templates.h"
#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kPiParts[] = {0x1.921fb544p+1, 0x1.0b4611a6p-33, 0x1.3198a2e037073p-68};
constexpr double kHalfPi = std::numbers::pi / 2;
constexpr int kSignBit = 63;

Vec subtract_multiple_of_pi(const Vec& x, const Vec& k) {
  const Vec r = x - k * kPiParts[0] - k * kPiParts[1] - k * kPiParts[2];
  return at_least(at_most(r, kHalfPi), -kHalfPi);
}

/// (-1)^k sin(r), where k stands in the lowest bits of `counter`.
Vec signed_sine(const Vec& r, const Vec& counter) { return real(bits(sin_reduced(r)) ^ (bits(counter) << kSignBit)); }

constexpr double kLargeAngle = 0x1p20;

/// The sine, or cosine, of large angles: that of what large_angle.ll reduces each lane to.
Vec of_large_angles(const Vec& x, bool cosine) {
  TextBuilder& ir = *x.builder;
  ir.define(template_text("llvm/large_angle.ll"));
  Val reduced = x.val;
  for (int lane = 0; lane < x.val.lanes; ++lane) {
    const bool scalar = x.val.lanes == 1;
    const Val angle =
        scalar ? x.val : ir.raw(Scalar::f64, 1, fmt::format("extractelement {}, i64 {}", typed(x.val), lane));
    const Val small =
        ir.raw(Scalar::f64, 1, fmt::format("call double @moxie.large_angle({}, i1 {})", typed(angle), cosine));
    reduced = scalar ? small
                     : ir.raw(Scalar::f64, reduced.lanes,
                              fmt::format("insertelement {}, {}, i64 {}", typed(reduced), typed(small), lane));
  }
  return sin_reduced(x.with(reduced));
}

Vec sin_f64(const Vec& x) {
  const double round = format(x).round;
  const Vec counter = x * std::numbers::inv_pi + round;
  const Vec sine = signed_sine(subtract_multiple_of_pi(x, counter - round), counter);
  return unless(abs(x) >= kLargeAngle, sine, [&] { return of_large_angles(x, false); });
}

Vec cos_f64(const Vec& x) {
  // cos(x) = (-1)^k sin(r) with |x| = (k - 1/2) pi + r
  const double round = format(x).round;
  const Vec magnitude = abs(x);
  const Vec counter = magnitude * std::numbers::inv_pi + 0.5 + round;
  const Vec cosine = signed_sine(subtract_multiple_of_pi(magnitude, counter - round - 0.5), counter);
  return unless(magnitude >= kLargeAngle, cosine, [&] { return of_large_angles(x, true); });
}

}  // namespace

Vec sin_reduced(const Vec& x) {
  const Vec square = x * x;
  return x + x * square * polynomial(square, table::kSinF32, table::kSinF64);
}

Vec sin(const Vec& x) { return through_f64(x, sin_f64); }
Vec cos(const Vec& x) { return through_f64(x, cos_f64); }

}  // namespace moxie::llvm_ir
