// CUDA's mathematical functions, by the C library's. No standard header is read: they take longer to compile than a
// kernel.
#pragma once
#include "pointer.h"

#define MOXIE_UNARY(name)                                                \
  MOXIE_INLINE float name##f(float x) { return __builtin_##name##f(x); } \
  MOXIE_INLINE float name(float x) { return __builtin_##name##f(x); }    \
  MOXIE_INLINE double name(double x) { return __builtin_##name(x); }
#define MOXIE_BINARY(name)                                                               \
  MOXIE_INLINE float name##f(float x, float y) { return __builtin_##name##f(x, y); }     \
  MOXIE_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); }        \
  MOXIE_INLINE double name(double x, double y) { return __builtin_##name(x, y); }        \
  MOXIE_INLINE double name(double x, float y) { return __builtin_##name(x, double(y)); } \
  MOXIE_INLINE double name(float x, double y) { return __builtin_##name(double(x), y); }

MOXIE_UNARY(exp)
MOXIE_UNARY(exp2)
MOXIE_UNARY(expm1)
MOXIE_UNARY(log)
MOXIE_UNARY(log2)
MOXIE_UNARY(log10)
MOXIE_UNARY(log1p)
MOXIE_UNARY(sqrt)
MOXIE_UNARY(cbrt)
MOXIE_UNARY(sin)
MOXIE_UNARY(cos)
MOXIE_UNARY(tan)
MOXIE_UNARY(asin)
MOXIE_UNARY(acos)
MOXIE_UNARY(atan)
MOXIE_UNARY(sinh)
MOXIE_UNARY(cosh)
MOXIE_UNARY(tanh)
MOXIE_UNARY(fabs)
MOXIE_UNARY(floor)
MOXIE_UNARY(ceil)
MOXIE_UNARY(trunc)
MOXIE_UNARY(round)
MOXIE_UNARY(rint)
MOXIE_UNARY(erf)
MOXIE_UNARY(erfc)
MOXIE_BINARY(pow)
MOXIE_BINARY(fmin)
MOXIE_BINARY(fmax)
MOXIE_BINARY(fmod)
MOXIE_BINARY(atan2)
MOXIE_BINARY(hypot)
MOXIE_BINARY(copysign)

MOXIE_INLINE float pow(float x, int n) { return __builtin_powf(x, float(n)); }
MOXIE_INLINE double pow(double x, int n) { return __builtin_pow(x, n); }
MOXIE_INLINE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MOXIE_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MOXIE_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
MOXIE_INLINE float rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
MOXIE_INLINE float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
MOXIE_INLINE double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
MOXIE_INLINE float ldexp(float x, int n) { return __builtin_ldexpf(x, n); }
MOXIE_INLINE float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
MOXIE_INLINE double ldexp(double x, int n) { return __builtin_ldexp(x, n); }

constexpr double kMoxieSqrtHalf = 0.70710678118654752440;
MOXIE_INLINE double normcdf(double x) { return 0.5 * __builtin_erfc(-kMoxieSqrtHalf * x); }
MOXIE_INLINE float normcdf(float x) { return float(normcdf(double(x))); }
MOXIE_INLINE float normcdff(float x) { return normcdf(x); }

/// The C library has no erfinv. This one takes Halley's steps from Winitzki's approximation.
MOXIE_INLINE double erfinv(double x) {
  const double a = __builtin_fabs(x);
  if (!(a < 1)) return a == 1 ? x * __builtin_inf() : __builtin_nan("");
  const double l = __builtin_log((1 - a) * (1 + a)), c = 4.33 + l / 2;
  double y = __builtin_sqrt(__builtin_sqrt(c * c - l / 0.147) - c);
  for (int k = 0; k < 4; ++k) {
    const double beyond = a < 0.5 ? __builtin_erf(y) - a : (1 - a) - __builtin_erfc(y);
    const double step = beyond * 0.88622692545275801365 * __builtin_exp(y * y);
    y -= step / (1 + y * step);
  }
  return __builtin_copysign(y, x);
}
MOXIE_INLINE float erfinv(float x) { return float(erfinv(double(x))); }
MOXIE_INLINE float erfinvf(float x) { return erfinv(x); }

// The C library's lgamma writes a global variable.
extern "C" double lgamma_r(double, int*);
extern "C" float lgammaf_r(float, int*);
MOXIE_INLINE double lgamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
MOXIE_INLINE float lgamma(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}
MOXIE_INLINE float lgammaf(float x) { return lgamma(x); }

MOXIE_INLINE void sincosf(float x, float* s, float* c) { *s = sin(x), *c = cos(x); }
MOXIE_INLINE void sincos(float x, float* s, float* c) { *s = sin(x), *c = cos(x); }
MOXIE_INLINE void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }

constexpr double kMoxiePi = 3.14159265358979323846;
/// sin(pi * x) without rounding pi * x: the remainder of x to the nearest even number is exact.
MOXIE_INLINE double sinpi(double x) { return __builtin_sin(kMoxiePi * __builtin_remainder(x, 2)); }
MOXIE_INLINE double cospi(double x) { return __builtin_cos(kMoxiePi * __builtin_remainder(x, 2)); }
MOXIE_INLINE float sinpi(float x) { return float(sinpi(double(x))); }
MOXIE_INLINE float cospi(float x) { return float(cospi(double(x))); }
MOXIE_INLINE float sinpif(float x) { return sinpi(x); }
MOXIE_INLINE float cospif(float x) { return cospi(x); }

#define MOXIE_CLASS(name)                                              \
  MOXIE_INLINE bool name(float x) { return __builtin_##name(x) != 0; } \
  MOXIE_INLINE bool name(double x) { return __builtin_##name(x) != 0; }
MOXIE_CLASS(isnan)
MOXIE_CLASS(isinf)
MOXIE_CLASS(isfinite)
MOXIE_CLASS(signbit)

MOXIE_INLINE int abs(int x) { return x < 0 ? -x : x; }
MOXIE_INLINE long long abs(long long x) { return x < 0 ? -x : x; }
MOXIE_INLINE float abs(float x) { return __builtin_fabsf(x); }
MOXIE_INLINE double abs(double x) { return __builtin_fabs(x); }

#define MOXIE_MIN_MAX(T)                                 \
  MOXIE_INLINE T min(T a, T b) { return b < a ? b : a; } \
  MOXIE_INLINE T max(T a, T b) { return a < b ? b : a; }
MOXIE_MIN_MAX(int)
MOXIE_MIN_MAX(unsigned)
MOXIE_MIN_MAX(long)
MOXIE_MIN_MAX(unsigned long)
MOXIE_MIN_MAX(long long)
MOXIE_MIN_MAX(unsigned long long)
MOXIE_INLINE float min(float a, float b) { return fmin(a, b); }
MOXIE_INLINE float max(float a, float b) { return fmax(a, b); }
MOXIE_INLINE double min(double a, double b) { return fmin(a, b); }
MOXIE_INLINE double max(double a, double b) { return fmax(a, b); }

// ---- Intrinsics ----

MOXIE_INLINE float __expf(float x) { return exp(x); }
MOXIE_INLINE float __logf(float x) { return log(x); }
MOXIE_INLINE float __sinf(float x) { return sin(x); }
MOXIE_INLINE float __cosf(float x) { return cos(x); }
MOXIE_INLINE float __powf(float x, float y) { return pow(x, y); }
MOXIE_INLINE float __fdividef(float x, float y) { return x / y; }

#define MOXIE_ROUNDED(T, prefix)                                \
  MOXIE_INLINE T __##prefix##add_rn(T a, T b) { return a + b; } \
  MOXIE_INLINE T __##prefix##sub_rn(T a, T b) { return a - b; } \
  MOXIE_INLINE T __##prefix##mul_rn(T a, T b) { return a * b; } \
  MOXIE_INLINE T __##prefix##div_rn(T a, T b) { return a / b; } \
  MOXIE_INLINE T __##prefix##sqrt_rn(T a) { return sqrt(a); }   \
  MOXIE_INLINE T __##prefix##rcp_rn(T a) { return 1 / a; }
MOXIE_ROUNDED(float, f)
MOXIE_ROUNDED(double, d)
MOXIE_INLINE float __fmaf_rn(float a, float b, float c) { return fma(a, b, c); }
MOXIE_INLINE double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

#define MOXIE_BITS(name, From, To) \
  MOXIE_INLINE To name(From x) { return __builtin_bit_cast(To, x); }
MOXIE_BITS(__float_as_int, float, int)
MOXIE_BITS(__int_as_float, int, float)
MOXIE_BITS(__float_as_uint, float, unsigned)
MOXIE_BITS(__uint_as_float, unsigned, float)
MOXIE_BITS(__double_as_longlong, double, long long)
MOXIE_BITS(__longlong_as_double, long long, double)
MOXIE_INLINE int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
MOXIE_INLINE int __double2loint(double x) { return int(__double_as_longlong(x)); }
MOXIE_INLINE double __hiloint2double(int high, int low) {
  return __longlong_as_double((long long)(((unsigned long long)unsigned(high) << 32) | unsigned(low)));
}

MOXIE_INLINE unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
MOXIE_INLINE int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
MOXIE_INLINE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
MOXIE_INLINE long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
MOXIE_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
MOXIE_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
MOXIE_INLINE int __clz(int x) { return x == 0 ? 32 : __builtin_clz(unsigned(x)); }
MOXIE_INLINE int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
MOXIE_INLINE int __ffs(int x) { return __builtin_ffs(x); }
MOXIE_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
