// Bounds of loops.
template <class T>
__device__ __forceinline__ T least(T a, T b) {
  return a < b ? a : b;
}
template <class T>
__device__ __forceinline__ T greatest(T a, T b) {
  return a > b ? a : b;
}

/// For divisor > 0, rounded towards minus infinity.
template <class T>
__device__ __forceinline__ T floor_divide(T dividend, int divisor) {
  const T quotient = dividend / divisor;
  return quotient - (dividend % divisor < 0);
}
