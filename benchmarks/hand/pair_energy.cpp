// Each pair once: eight points in registers against vectors of the later ones. Points far away fill the last vector.
#include "hand.h"

namespace {

constexpr int kRows = 8;

struct Triangle {
  explicit Triangle(const float* x, std::int64_t N)
      : N(N), points(round_up(N, kRows) + kLanes, 1e18F), slopes(points.size()) {
    std::copy(x, x + N, points.begin());
  }

  /// The sum over i < j, and in `slopes` the sum over j of (x[i]-x[j]) exp(-(x[i]-x[j])^2).
  template <bool kGradients>
  double run() {
    double energy = 0;
    for (std::int64_t i = 0; i < N; i += kRows) energy += block<kGradients>(i) + diagonal(i);
    return energy;
  }

  double diagonal(std::int64_t first) {
    float energy = 0;
    for (std::int64_t i = first; i < std::min(first + kRows, N); ++i) {
      for (std::int64_t j = i + 1; j < std::min(first + kRows, N); ++j) {
        const float d = points[i] - points[j], k = exp_negative(-d * d);
        energy += k;
        slopes[i] += d * k;
        slopes[j] -= d * k;
      }
    }
    return energy;
  }

  template <bool kGradients>
  float block(std::int64_t first) {
    Vec x[kRows], sums[kRows] = {}, energy = {};
    for (int r = 0; r < kRows; ++r) x[r] = all(points[first + r]);
    for (std::int64_t j = first + kRows; j < N; j += kLanes) {
      const Vec y = load(&points[j]);
      Vec other = kGradients ? load(&slopes[j]) : Vec{};
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vec d = x[r] - y, k = exp2_negative(d * d * -kLog2E);
        energy += k;
        if constexpr (kGradients) {
          sums[r] += d * k;
          other -= d * k;
        }
      }
      if constexpr (kGradients) store(&slopes[j], other);
    }
    if constexpr (kGradients) {
      for (int r = 0; r < kRows; ++r) slopes[first + r] += sum(sums[r]);
    }
    return sum(energy);
  }

  std::int64_t N;
  std::vector<float> points, slopes;
};

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  Triangle triangle(in[0], dims[0]);
  *out[0] = static_cast<float>(static_cast<double>(dims[0]) + 2 * triangle.run<false>());
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  Triangle triangle(in[0], dims[0]);
  *out[0] = static_cast<float>(static_cast<double>(dims[0]) + 2 * triangle.run<true>());
  for (std::int64_t i = 0; i < dims[0]; ++i) out[1][i] = -4 * *in[1] * triangle.slopes[i];
}
