#pragma once
// Numbers of 16 bits: f16 (5 bits of exponent, 10 of mantissa) and bf16 (8 and 7: the upper half of an f32).
#include <cstdint>

namespace moxie {

/// The nearest f16, halves to even. NaN stays NaN; numbers from 65520 on become infinite.
std::uint16_t f16_bits(float value);
float f16_value(std::uint16_t bits);
/// The nearest bf16, halves to even. NaN stays NaN.
std::uint16_t bf16_bits(float value);
float bf16_value(std::uint16_t bits);

}  // namespace moxie
