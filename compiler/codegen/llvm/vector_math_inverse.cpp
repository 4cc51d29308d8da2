// Inverse functions: atan, atan2, asin, acos and the inverse of erf.
#include <numbers>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/codegen/llvm/vector_math_tables.h"

namespace moxie::llvm_ir {
namespace {

constexpr double kRightAngle = std::numbers::pi / 2;
constexpr double kTanEighthOfPi = std::numbers::sqrt2 - 1, kTanThreeEighthsOfPi = std::numbers::sqrt2 + 1;

/// What rounding pi/2 to the type of x leaves.
double right_angle_low(const Vec& x) {
  constexpr double kLow = 6.123233995736766e-17;
  return x.val.type == Scalar::f32 ? kRightAngle - static_cast<double>(static_cast<float>(kRightAngle)) : kLow;
}

/// pi/2 - x
Vec from_right_angle(const Vec& x) { return kRightAngle - (x - right_angle_low(x)); }

/// For x >= 0 or NaN: atan(x) = k pi/4 + atan(r), with r = x, (x-1)/(x+1) or -1/x, so that |r| <= tan(pi/8).
Vec atan_of_positive(const Vec& x) {
  const Vec large = x > kTanThreeEighthsOfPi, middle = x > kTanEighthOfPi;
  const Vec numerator = select(large, -1, select(middle, x - 1, x));
  const Vec denominator = select(large, x, select(middle, x + 1, 1));
  const Vec r = numerator / denominator;
  const Vec square = r * r;
  const Vec tail = r * square * polynomial(square, table::kAtanF32, table::kAtanF64);
  const Vec quarters = select(large, 1, select(middle, constant(x, 0.5), 0));
  return quarters * kRightAngle + (r + (tail + quarters * right_angle_low(x)));
}

/// asin(|x|) where |x| <= 1/2, else that of sqrt((1 - |x|)/2), which is (pi/2 - asin(|x|))/2.
struct ReducedSine {
  Vec beyond, angle;
};

ReducedSine reduced_sine(const Vec& x) {
  const Vec magnitude = abs(x);
  const Vec beyond = magnitude > 0.5;
  const Vec square = select(beyond, (1 - magnitude) * 0.5, magnitude * magnitude);
  const Vec sine = select(beyond, sqrt(square), magnitude);
  return {beyond, sine + sine * square * polynomial(square, table::kAsinF32, table::kAsinF64)};
}

/// x times a function of w = -log(1 - x^2), after M. Giles, Approximating the erfinv function (2010).
Vec erfinv_f64(const Vec& x) {
  const Vec w = -log((1 - x) * (1 + x));
  const Vec root = sqrt(w);
  const Vec centre = polynomial(w * (1 / 3.125) - 1, table::kErfinvCentre);
  const Vec middle = polynomial((root - 3.25) * (1 / 0.75), table::kErfinvMiddle);
  const Vec tail = polynomial((root - 5.05) * (1 / 1.05), table::kErfinvTail);
  const Vec ratio = select(w <= 6.25, centre, select(root <= 4, middle, tail));
  return select(equal(abs(x), 1), copysign(constant(x, kInf), x), x * ratio);
}

/// In singles w stays below 16.7, and only near 1 it is beyond the centre.
Vec erfinv_f32(const Vec& x) {
  const Vec w = -log((1 - x) * (1 + x));
  const Vec ratio = unless(w > 6.25, polynomial(w * (1 / 3.125) - 1, table::kErfinvCentreF32),
                           [&] { return polynomial((sqrt(w) - 3.25) * (1 / 0.75), table::kErfinvMiddleF32); });
  return select(equal(abs(x), 1), copysign(constant(x, kInf), x), x * ratio);
}

}  // namespace

Vec atan(const Vec& x) { return copysign(atan_of_positive(abs(x)), x); }

Vec atan2(const Vec& y, const Vec& x) {
  const Vec height = abs(y), width = abs(x);
  const Vec steep = height > width;
  const Vec larger = select(steep, height, width), smaller = select(steep, width, height);
  const Vec are_infinite = equal(smaller, kInf) & equal(larger, kInf);
  const Vec ratio = select(equal(larger, 0), smaller, select(are_infinite, 1, smaller / larger));
  const Vec flat = atan_of_positive(ratio);
  const Vec right = select(steep, from_right_angle(flat), flat);
  const Vec left = 2 * kRightAngle - (right - 2 * right_angle_low(x));
  return copysign(select(bits(x) < 0, left, right), y);
}

Vec asin(const Vec& x) {
  const auto [beyond, angle] = reduced_sine(x);
  return copysign(select(beyond, from_right_angle(angle + angle), angle), x);
}

Vec acos(const Vec& x) {
  const auto [beyond, angle] = reduced_sine(x);
  const Vec far = select(x < 0, 2 * from_right_angle(angle), angle + angle);
  return select(beyond, far, from_right_angle(copysign(angle, x)));
}

Vec erfinv(const Vec& x) { return x.val.type == Scalar::f32 ? erfinv_f32(x) : erfinv_f64(x); }

}  // namespace moxie::llvm_ir
