// Elements that are stored in other types than those in which they are computed. Only kernels that have some hold this.

/// The nearest integer, halves to the even one, within the range of the type; its smallest one for NaN.
__device__ __forceinline__ long long nearest_long(double value) {
  constexpr double end = 9223372036854775808.0;
  constexpr long long highest = 9223372036854775807ll;
  return value > -end ? value < end ? (long long)(rint(value)) : highest : -highest - 1;
}
template <class T, int kLow, int kHigh>
__device__ __forceinline__ T nearest_within(double value) {
  return T(value > kLow ? value < kHigh ? int(rint(value)) : kHigh : kLow);
}
/// A bool: 1 for all but zero, also for NaN.
__device__ __forceinline__ unsigned char truth_byte(double value) { return value != 0.0 ? 1 : 0; }

/// Sums and products of indices that are read must not leave the integers of 64 bits.
__device__ __forceinline__ long long exact_index(long long element) {
  constexpr long long last = 1ll << 53;
  return greatest(least(element, last), -last);
}

/// Numbers of 16 bits, rounded to the nearest, halves to even: by integers, which every compiler understands.
__device__ __forceinline__ unsigned rounded_shift(unsigned bits, int dropped) {
  return (bits + (1u << (dropped - 1)) - 1u + ((bits >> dropped) & 1u)) >> dropped;
}

/// 5 bits of exponent, 10 of mantissa.
struct F16 {
  unsigned short bits;
  F16() = default;
  explicit __device__ __forceinline__ F16(float value) {
    const unsigned all = __float_as_uint(value), magnitude = all & 0x7fffffffu;
    unsigned result;
    if (magnitude > 0x7f800000u)
      result = 0x7e00u;  // NaN
    else if (magnitude >= 0x477ff000u)
      result = 0x7c00u;  // from 65520 on infinite
    else if (magnitude >= 0x38800000u)
      result = rounded_shift(magnitude - 0x38000000u, 13);
    else  // multiples of 2^-24
      result = __float_as_uint(__uint_as_float(magnitude) + 0.5f) - 0x3f000000u;
    bits = (unsigned short)((all >> 16 & 0x8000u) | result);
  }
};
__device__ __forceinline__ float half_number(F16 half) {
  const unsigned bits = half.bits, sign = (bits & 0x8000u) << 16, exponent = bits & 0x7c00u, mantissa = bits & 0x3ffu;
  const unsigned shifted = (bits & 0x7fffu) << 13;
  if (exponent == 0) return __uint_as_float(sign | __float_as_uint(float(mantissa) * 5.9604644775390625e-8f));
  return __uint_as_float(sign | (shifted + (exponent == 0x7c00u ? 0x70000000u : 0x38000000u)));
}

/// The upper half of a float.
struct BF16 {
  unsigned short bits;
  BF16() = default;
  explicit __device__ __forceinline__ BF16(float value) {
    const unsigned all = __float_as_uint(value);
    bits = (unsigned short)(value == value ? rounded_shift(all, 16) : (all >> 16 | 0x40u));
  }
};
__device__ __forceinline__ float half_number(BF16 half) { return __uint_as_float(unsigned(half.bits) << 16); }
