// Blocks of 48 rows of one head: their scores up to the diagonal by a product, softmax, a product with V; all of it,
// and the adjoint with its four products, stays in the second cache.
#include "hand.h"
#include "product.h"

namespace {

constexpr std::int64_t kSize = 64, kRows = 48;
constexpr float kScale = 0.125F;

struct Head {
  std::int64_t S;
  const float *Q, *K, *V, *C;
  float *O, *dQ, *dK, *dV;
  std::int64_t padded;
  std::vector<float>&turned_K, &turned_V, &weights, &slopes;

  void softmax(float* row, std::int64_t count, std::int64_t width) {
    Four tops(-kHuge), sums(0);
    along(count, [&](auto at, int k) { tops.v[k] = larger(tops.v[k], at.get(row, -kHuge)); });
    const Vec top = all(tops.highest() * (kScale * kLog2E));
    along(count, [&](auto at, int k) {
      const Vec e = exp2_negative(at.get(row, kNegligible) * (kScale * kLog2E) - top);
      at.put(row, e);
      sums.v[k] += e;
    });
    const Vec scale = all(1 / sums.total());
    along(count, [&](auto at, int) { at.put(row, at.get(row) * scale); });
    std::fill(row + count, row + width, 0.0F);
  }

  /// dK and dV get a block's contributions; dQ is written.
  void gradients(std::int64_t first, std::int64_t rows, std::int64_t width) {
    const float* c = C + first * kSize;
    multiply(rows, width, kSize, {c, kSize, 1}, turned_V.data(), padded, slopes.data(), padded);
    for (std::int64_t r = 0; r < rows; ++r) {
      const float *p = &weights[r * padded], *o = O + (first + r) * kSize, *given = c + r * kSize;
      float* slope = &slopes[r * padded];
      Four means(0);
      along(kSize, [&](auto at, int k) { means.v[k] += at.get(o) * at.get(given); });
      const float mean = means.total();
      along(width, [&](auto at, int) { at.put(slope, kScale * at.get(p) * (at.get(slope) - mean)); });
    }
    multiply(rows, kSize, width, {slopes.data(), padded, 1}, K, kSize, dQ + first * kSize, kSize);
    multiply(width, kSize, rows, {slopes.data(), 1, padded}, Q + first * kSize, kSize, dK, kSize, true);
    multiply(width, kSize, rows, {weights.data(), 1, padded}, c, kSize, dV, kSize, true);
  }

  template <bool kGradients>
  void run() {
    transpose(K, S, kSize, turned_K.data(), padded);
    if (kGradients) transpose(V, S, kSize, turned_V.data(), padded);
    for (std::int64_t first = 0; first < S; first += kRows) {
      const std::int64_t rows = std::min(kRows, S - first), width = first + rows;
      multiply(rows, width, kSize, {Q + first * kSize, kSize, 1}, turned_K.data(), padded, weights.data(), padded);
      for (std::int64_t r = 0; r < rows; ++r) softmax(&weights[r * padded], first + r + 1, width);
      multiply(rows, kSize, width, {weights.data(), padded, 1}, V, kSize, O + first * kSize, kSize);
      if (kGradients) gradients(first, rows, width);
    }
  }
};

template <bool kGradients>
void run(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t H = dims[0], S = dims[1], padded = round_up(S, 4 * kLanes), step = S * kSize;
  std::vector<float> turned_K(kSize * padded), turned_V(kSize * padded), weights(kRows * padded),
      slopes(kRows * padded);
  for (std::int64_t h = 0; h < H; ++h) {
    const auto from = [&](int k) { return in[k] + h * step; };
    const auto to = [&](int k) { return out[k] + h * step; };
    if constexpr (kGradients) {
      std::fill_n(to(2), step, 0.0F);
      std::fill_n(to(3), step, 0.0F);
      Head{S,     from(0), from(1), from(2),  from(3),  to(0),   to(1),
           to(2), to(3),   padded,  turned_K, turned_V, weights, slopes}
          .template run<true>();
    } else {
      Head{S,       from(0), from(1), from(2),  nullptr,  to(0),   nullptr,
           nullptr, nullptr, padded,  turned_K, turned_V, weights, slopes}
          .template run<false>();
    }
  }
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  run<false>(dims, in, out);
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  run<true>(dims, in, out);
}
