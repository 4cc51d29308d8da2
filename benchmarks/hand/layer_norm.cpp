// Lanes along the row, which stays in the first cache between its passes; so do the gradients of gamma and beta.
#include "hand.h"

namespace {

struct Moments {
  float mean, scale;
};

Moments row(const float* x, const float* gamma, const float* beta, float* y, std::int64_t N) {
  Four sums(0), squares(0);
  along(N, [&](auto at, int k) { sums.v[k] += at.get(x); });
  const float mean = sums.total() / static_cast<float>(N);
  along(N, [&](auto at, int k) {
    const Vec d = at.get(x, mean) - mean;
    squares.v[k] += d * d;
  });
  const float scale = 1 / std::sqrt(squares.total() / static_cast<float>(N) + 1e-5F);
  along(N, [&](auto at, int) { at.put(y, at.get(gamma) * ((at.get(x) - mean) * scale) + at.get(beta)); });
  return {mean, scale};
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  for (std::int64_t s = 0; s < dims[0]; ++s) row(in[0] + s * dims[1], in[1], in[2], out[0] + s * dims[1], dims[1]);
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t N = dims[1];
  const float* gamma = in[1];
  float *dgamma = out[2], *dbeta = out[3];
  std::fill_n(dgamma, N, 0.0F);
  std::fill_n(dbeta, N, 0.0F);
  for (std::int64_t s = 0; s < dims[0]; ++s) {
    const float *x = in[0] + s * N, *c = in[3] + s * N;
    const auto [mean, scale] = row(x, gamma, in[2], out[0] + s * N, N);
    Four first(0), second(0);
    along(N, [&, mean = mean, scale = scale](auto at, int k) {
      const Vec normal = (at.get(x) - mean) * scale, cotangent = at.get(c), weighted = cotangent * at.get(gamma);
      at.put(dgamma, at.get(dgamma) + cotangent * normal);
      at.put(dbeta, at.get(dbeta) + cotangent);
      first.v[k] += weighted;
      second.v[k] += weighted * normal;
    });
    const float along_one = first.total() / static_cast<float>(N), along_x = second.total() / static_cast<float>(N);
    along(N, [&, mean = mean, scale = scale](auto at, int) {
      const Vec normal = (at.get(x) - mean) * scale;
      at.put(out[1] + s * N, scale * (at.get(c) * at.get(gamma) - along_one - normal * along_x));
    });
  }
}
