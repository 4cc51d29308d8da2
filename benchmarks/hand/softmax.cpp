// Lanes along the row, which stays in the first cache between its passes.
#include "hand.h"

namespace {

void row(const float* x, float* y, std::int64_t N) {
  Four tops(-kHuge), sums(0);
  along(N, [&](auto at, int k) { tops.v[k] = larger(tops.v[k], at.get(x, -kHuge)); });
  const Vec top = all(tops.highest() * kLog2E);
  along(N, [&](auto at, int k) {
    const Vec e = exp2_negative(at.get(x, kNegligible) * kLog2E - top);
    at.put(y, e);
    sums.v[k] += e;
  });
  const Vec scale = all(1 / sums.total());
  along(N, [&](auto at, int) { at.put(y, at.get(y) * scale); });
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  for (std::int64_t s = 0; s < dims[0]; ++s) row(in[0] + s * dims[1], out[0] + s * dims[1], dims[1]);
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t N = dims[1];
  for (std::int64_t s = 0; s < dims[0]; ++s) {
    row(in[0] + s * N, out[0] + s * N, N);
    const float *y = out[0] + s * N, *c = in[1] + s * N;
    Four means(0);
    along(N, [&](auto at, int k) { means.v[k] += at.get(y) * at.get(c); });
    const Vec mean = all(means.total());
    along(N, [&](auto at, int) { at.put(out[1] + s * N, at.get(y) * (at.get(c) - mean)); });
  }
}
