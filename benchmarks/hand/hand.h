#pragma once
// What every formula here defines, and the vectors that they are written with.
//
// dims: the extents in the order of the text. in: its inputs in their order; of forward_backward() then the cotangents
// of its outputs. out: its outputs; of forward_backward() then the gradients that the row in compare.py names. All
// tensors are dense, row-major and in single precision.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out);
extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out);

#ifdef __AVX512F__
inline constexpr int kLanes = 16;
#else
inline constexpr int kLanes = 8;
#endif
using Vec = float __attribute__((vector_size(4 * kLanes)));

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}
inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof(v)); }
inline Vec all(float x) { return Vec{} + x; }
inline float sum(Vec v) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps(v);
#else
  float total = 0;
  for (int k = 0; k < kLanes; ++k) total += v[k];
  return total;
#endif
}

inline Vec square_root(Vec v) {
#ifdef __AVX512F__
  return _mm512_sqrt_ps(v);
#else
  for (int k = 0; k < kLanes; ++k) v[k] = std::sqrt(v[k]);
  return v;
#endif
}

/// The first `count` lanes; the others are 0, and left alone in memory.
inline Vec load(const float* p, std::int64_t count) {
#ifdef __AVX512F__
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << count) - 1), p);
#else
  Vec v{};
  for (int k = 0; k < count; ++k) v[k] = p[k];
  return v;
#endif
}
inline void store(float* p, Vec v, std::int64_t count) {
#ifdef __AVX512F__
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << count) - 1), v);
#else
  for (int k = 0; k < count; ++k) p[k] = v[k];
#endif
}

inline constexpr float kLog2E = 1.44269504F;

/// 2^t for t <= 0, to 1e-7 of itself.
inline float exp2_negative(float t) {
  const float whole = std::nearbyint(std::max(t, -126.0F)), x = std::max(t, -126.0F) - whole;
  float p = 1.327647152e-3F;
  for (const float c : {9.675541331e-3F, 5.550713275e-2F, 2.402211972e-1F, 6.931469671e-1F, 1.000000072F})
    p = p * x + c;
  return p * std::bit_cast<float>((static_cast<std::int32_t>(whole) + 127) << 23);
}
inline float exp_negative(float x) { return exp2_negative(x * kLog2E); }

inline Vec exp2_negative(Vec t) {
#ifdef __AVX512F__
  const Vec whole = _mm512_roundscale_ps(t, 8), x = t - whole;
  Vec p = all(1.327647152e-3F);
  for (const float c : {9.675541331e-3F, 5.550713275e-2F, 2.402211972e-1F, 6.931469671e-1F, 1.000000072F})
    p = p * x + c;
  return _mm512_scalef_ps(p, whole);
#else
  for (int k = 0; k < kLanes; ++k) t[k] = exp2_negative(t[k]);
  return t;
#endif
}

inline Vec larger(Vec a, Vec b) { return a > b ? a : b; }
inline Vec smaller(Vec a, Vec b) { return a < b ? a : b; }
template <class Combine>
float combine(Vec v, Combine two) {
  float result = v[0];
  for (int k = 1; k < kLanes; ++k) result = two(result, v[k]);
  return result;
}
inline float largest(Vec v) {
#ifdef __AVX512F__
  return _mm512_reduce_max_ps(v);
#else
  return combine(v, [](float a, float b) { return std::max(a, b); });
#endif
}
inline float smallest(Vec v) {
#ifdef __AVX512F__
  return _mm512_reduce_min_ps(v);
#else
  return combine(v, [](float a, float b) { return std::min(a, b); });
#endif
}

/// Where a vector of a row begins.
struct Whole {
  std::int64_t n;
  Vec get(const float* p, float = 0) const { return load(p + n); }
  void put(float* p, Vec v) const { store(p + n, v); }
};
/// The last vector of a row: lanes beyond its end read `beyond` and are not written.
struct Tail {
  std::int64_t n, count;
  Vec get(const float* p, float beyond = 0) const {
#ifdef __AVX512F__
    return _mm512_mask_loadu_ps(all(beyond), static_cast<__mmask16>((1U << count) - 1), p + n);
#else
    Vec v = all(beyond);
    for (int k = 0; k < count; ++k) v[k] = p[n + k];
    return v;
#endif
  }
  void put(float* p, Vec v) const { store(p + n, v, count); }
};

/// Calls body(at, k) for each vector of a row, with k counting 0 .. 3 so that reductions have four independent sums.
template <class Body>
inline void along(std::int64_t N, Body body) {
  std::int64_t n = 0;
  for (; n + 4 * kLanes <= N; n += 4 * kLanes) {
    body(Whole{n}, 0);
    body(Whole{n + kLanes}, 1);
    body(Whole{n + 2 * kLanes}, 2);
    body(Whole{n + 3 * kLanes}, 3);
  }
  for (; n + kLanes <= N; n += kLanes) body(Whole{n}, 0);
  if (n < N) body(Tail{n, N - n}, 1);
}

struct Four {
  Vec v[4];
  explicit Four(float start) : v{all(start), all(start), all(start), all(start)} {}
  float total() const { return sum((v[0] + v[1]) + (v[2] + v[3])); }
  float highest() const { return largest(larger(larger(v[0], v[1]), larger(v[2], v[3]))); }
  float lowest() const { return smallest(smaller(smaller(v[0], v[1]), smaller(v[2], v[3]))); }
  float product() const {
    return combine((v[0] * v[1]) * (v[2] * v[3]), [](float a, float b) { return a * b; });
  }
};
inline constexpr float kHuge = 3e38F;         // beyond all elements, where a maximum begins
inline constexpr float kNegligible = -1e37F;  // its exponential is 0, and no step on the way there overflows

inline std::int64_t round_up(std::int64_t n, std::int64_t step) { return (n + step - 1) / step * step; }
