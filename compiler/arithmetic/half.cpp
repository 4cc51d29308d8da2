#include "compiler/arithmetic/half.h"

#include <bit>
#include <cmath>

namespace moxie {
namespace {

/// `bits` without the lowest `dropped` ones, rounded to the nearest, halves to even.
std::uint32_t rounded_shift(std::uint32_t bits, int dropped) {
  const std::uint32_t half = std::uint32_t{1} << (dropped - 1), odd = bits >> dropped & 1;
  return (bits + half - 1 + odd) >> dropped;
}

}  // namespace

std::uint16_t f16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  constexpr std::uint32_t kInfinity = 0x7f800000, kFirstNormal = 0x38800000, kExponentDifference = 0x38000000;
  std::uint32_t result = 0;
  if (magnitude > kInfinity)
    result = 0x7e00;
  else if (magnitude >= 0x477ff000)  // 65520, halfway from the largest number to the next
    result = 0x7c00;
  else if (magnitude >= kFirstNormal)
    result = rounded_shift(magnitude - kExponentDifference, 13);
  else  // multiples of 2^-24
    result = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(static_cast<double>(std::fabs(value)), 24)));
  return static_cast<std::uint16_t>(sign | result);
}

float f16_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16, exponent = bits >> 10 & 0x1f, mantissa = bits & 0x3ff;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | mantissa << 13);
}

std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>(rounded_shift(bits, 16));
}

float bf16_value(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

}  // namespace moxie
