// Bounds of loops.
template <class T>
__device__ __forceinline__ T least(T a, T b) {
  return a < b ? a : b;
}
template <class T>
__device__ __forceinline__ T greatest(T a, T b) {
  return a > b ? a : b;
}

/// A subscript that was read from a tensor, moved to the nearest element of an axis that has some.
__device__ __forceinline__ Index inside_extent(long long subscript, long long extent) {
  return Index(greatest(least(subscript, extent - 1), 0ll));
}

/// The nearest integer, halves to the even one, within the range of int; the smallest int for NaN.
__device__ __forceinline__ int nearest_integer(double value) {
  constexpr int low = -2147483647 - 1, high = 2147483647;
  return value > low ? value < high ? int(rint(value)) : high : low;
}

/// For divisor > 0, rounded towards minus infinity.
template <class T>
__device__ __forceinline__ T floor_divide(T dividend, int divisor) {
  const T quotient = dividend / divisor;
  return quotient - (dividend % divisor < 0);
}
