// Three multiplications per element, in vectors; the gradient's two elements at each edge one by one.
#include "hand.h"

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t N = dims[0];
  const float* __restrict x = in[0], *w = in[1];
  const float w0 = w[0], w1 = w[1], w2 = w[2];
  float* __restrict y = out[0];
#pragma omp simd
  for (std::int64_t n = 0; n < N; ++n) y[n] = w0 * x[n] + w1 * x[n + 1] + w2 * x[n + 2];
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t N = dims[0];
  const float* __restrict x = in[0], *w = in[1], * __restrict c = in[2];
  const float w0 = w[0], w1 = w[1], w2 = w[2];
  float* __restrict y = out[0], * __restrict dx = out[1];
  const auto at = [&](std::int64_t n) { return n >= 0 && n < N ? c[n] : 0; };
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{1}, N, N + 1})
    dx[i] = w0 * at(i) + w1 * at(i - 1) + w2 * at(i - 2);
  y[0] = w0 * x[0] + w1 * x[1] + w2 * x[2];
  if (N > 1) y[1] = w0 * x[1] + w1 * x[2] + w2 * x[3];
#pragma omp simd
  for (std::int64_t n = 2; n < N; ++n) {
    y[n] = w0 * x[n] + w1 * x[n + 1] + w2 * x[n + 2];
    dx[n] = w0 * c[n] + w1 * c[n - 1] + w2 * c[n - 2];
  }
}
