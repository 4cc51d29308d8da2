// Lanes along the row. The first extremum takes the whole gradient; that of the product is the product without the
// element, by a division unless an element is 0.
#include "hand.h"

namespace {

struct Row {
  float high, low, product;
};

Row reduce(const float* x, std::int64_t N) {
  Four high(-kHuge), low(kHuge), product(1);
  along(N, [&](auto at, int k) {
    high.v[k] = larger(high.v[k], at.get(x, -kHuge));
    low.v[k] = smaller(low.v[k], at.get(x, kHuge));
    product.v[k] *= at.get(x, 1);
  });
  return {high.highest(), low.lowest(), product.product()};
}

/// The product without element `k`.
float without(const float* x, std::int64_t N, std::int64_t k) {
  float product = 1;
  for (std::int64_t n = 0; n < N; ++n) product *= n == k ? 1 : x[n];
  return product;
}

void product_gradient(const float* x, std::int64_t N, float product, float cotangent, float* dx) {
  if (product != 0) return along(N, [&](auto at, int) { at.put(dx, cotangent * product / at.get(x, 1)); });
  const std::int64_t zeros = std::count(x, x + N, 0.0F);
  for (std::int64_t n = 0; n < N; ++n)
    dx[n] = zeros == 0 || (zeros == 1 && x[n] == 0) ? cotangent * without(x, N, n) : 0;
}

/// std::find() four vectors at a time.
std::int64_t first_equal(const float* x, std::int64_t N, float value) {
  std::int64_t n = 0;
  for (; n + 4 * kLanes <= N; n += 4 * kLanes) {
    Vec apart = larger(load(x + n) - value, value - load(x + n));
    for (int k = 1; k < 4; ++k) {
      const Vec d = load(x + n + k * kLanes) - value;
      apart = smaller(apart, larger(d, -d));
    }
    if (smallest(apart) == 0) break;
  }
  return std::find(x + n, x + N, value) - x;
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  for (std::int64_t s = 0; s < dims[0]; ++s) {
    const Row row = reduce(in[0] + s * dims[1], dims[1]);
    out[0][s] = row.high;
    out[1][s] = row.low;
    out[2][s] = row.product;
  }
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t N = dims[1];
  for (std::int64_t s = 0; s < dims[0]; ++s) {
    const float* x = in[0] + s * N;
    float* dx = out[3] + s * N;
    const Row row = reduce(x, N);
    out[0][s] = row.high;
    out[1][s] = row.low;
    out[2][s] = row.product;
    product_gradient(x, N, row.product, in[3][s], dx);
    dx[first_equal(x, N, row.high)] += in[1][s];
    dx[first_equal(x, N, row.low)] += in[2][s];
  }
}
