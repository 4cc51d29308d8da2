// One pass: sums inside a vector by shifts, four vectors at a time between carries. The gradient is the same from the
// end.
#include "hand.h"

namespace {

#ifdef __AVX512F__
/// Sums from lane 0 up or, reversed, from lane 15 down.
template <bool kReversed>
Vec scan(Vec v) {
  const __m512i zero = _mm512_setzero_si512();
  const auto add = [&]<int kBy>() {
    const __m512i bits = _mm512_castps_si512(v);
    v += _mm512_castsi512_ps(kReversed ? _mm512_alignr_epi32(zero, bits, kBy)
                                       : _mm512_alignr_epi32(bits, zero, 16 - kBy));
  };
  add.template operator()<1>();
  add.template operator()<2>();
  add.template operator()<4>();
  add.template operator()<8>();
  return v;
}

template <bool kReversed>
Vec total(Vec scanned) {
  return _mm512_permutexvar_ps(_mm512_set1_epi32(kReversed ? 0 : 15), scanned);
}

/// Elements `first` .. `first`+64, before or after which the sum is `carry`.
template <bool kReversed>
Vec scan_block(const float* x, float* y, Vec carry) {
  Vec v[4];
  for (int k = 0; k < 4; ++k) v[k] = scan<kReversed>(load(x + (kReversed ? 3 - k : k) * kLanes));
  Vec before[4] = {Vec{}, total<kReversed>(v[0])};
  before[2] = before[1] + total<kReversed>(v[1]);
  before[3] = before[2] + total<kReversed>(v[2]);
  const Vec all_four = before[3] + total<kReversed>(v[3]);
  for (int k = 0; k < 4; ++k) store(y + (kReversed ? 3 - k : k) * kLanes, v[k] + (before[k] + carry));
  return carry + all_four;
}
constexpr std::int64_t kBlock = 4 * kLanes;
#else
template <bool kReversed>
Vec scan_block(const float* x, float* y, Vec carry) {
  *y = *x + carry[0];
  return all(*y);
}
constexpr std::int64_t kBlock = 1;
#endif

void sums_up(const float* x, float* y, std::int64_t N) {
  Vec carry{};
  std::int64_t i = 0;
  for (; i + kBlock <= N; i += kBlock) carry = scan_block<false>(x + i, y + i, carry);
  for (float sum = carry[0]; i < N; ++i) y[i] = sum += x[i];
}

void sums_down(const float* x, float* y, std::int64_t N) {
  Vec carry{};
  std::int64_t i = N;
  for (; i - kBlock >= 0; i -= kBlock) carry = scan_block<true>(x + i - kBlock, y + i - kBlock, carry);
  for (float sum = carry[0]; i > 0; --i) y[i - 1] = sum += x[i - 1];
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  sums_up(in[0], out[0], dims[0]);
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  sums_up(in[0], out[0], dims[0]);
  sums_down(in[1], out[1], dims[0]);
}
