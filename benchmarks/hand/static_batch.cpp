// Lanes over n, padded to whole vectors. Each pair (r, t) once; what no sample changes is folded into a table of
// weights and midpoints beforehand; the gradients of the table are summed over samples and unfolded at the end.
#include "hand.h"

namespace {

struct Table {
  std::int64_t S, N, R, pairs, padded;
  std::vector<float> points, beta, middle, near, weight;  // [r or pair][padded n]

  Table(const std::int64_t* dims, const float* V, const float* b, const float* M)
      : S(dims[0]),
        N(dims[1]),
        R(dims[2]),
        pairs(R * (R + 1) / 2),
        padded(round_up(N, kLanes)),
        points(R * padded),
        beta(R * padded),
        middle(pairs * padded),
        near(pairs * padded),
        weight(pairs * padded) {
    for (std::int64_t r = 0; r < R; ++r) {
      std::memcpy(&points[r * padded], V + r * N, N * sizeof(float));
      std::memcpy(&beta[r * padded], b + r * N, N * sizeof(float));
    }
    for (std::int64_t r = 0, k = 0; r < R; ++r) {
      for (std::int64_t t = r; t < R; ++t, ++k) {
        const float *v = V + r * N, *u = V + t * N, *m = M + (r * R + t) * N, *mirrored = M + (t * R + r) * N;
#pragma omp simd
        for (std::int64_t n = 0; n < N; ++n) {
          middle[k * padded + n] = (v[n] + u[n]) / 2;
          near[k * padded + n] = exp_negative(-(v[n] - u[n]) * (v[n] - u[n]) / 4);
          weight[k * padded + n] = (r == t ? m[n] : m[n] + mirrored[n]) * near[k * padded + n];
        }
      }
    }
  }
};

struct Sample {
  Vec mu, inverse_p, inverse_q, root_p, root_q;

  Sample(const float* mean, const float* var, std::int64_t count) : mu(load(mean, count)) {
    const Vec v = load(var, count);
    inverse_p = 1 / (1 + v);
    inverse_q = 1 / (1 + 2 * v);
    root_p = square_root(inverse_p);
    root_q = square_root(inverse_q);
  }
};

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const Table table(dims, in[2], in[3], in[4]);
  const std::int64_t N = table.N;
  for (std::int64_t n = 0; n < N; n += kLanes) {
    const std::int64_t count = std::min<std::int64_t>(kLanes, N - n);
    for (std::int64_t s = 0; s < table.S; ++s) {
      const Sample at(in[0] + s * N + n, in[1] + s * N + n, count);
      const Vec gain_p = at.inverse_p * (-0.5F * kLog2E), gain_q = at.inverse_q * -kLog2E;
      Vec mean{}, even{}, odd{};
      for (std::int64_t r = 0; r < table.R; ++r) {
        const Vec d = at.mu - load(&table.points[r * table.padded + n]);
        mean += load(&table.beta[r * table.padded + n]) * exp2_negative(d * d * gain_p);
      }
      const auto pair = [&](std::int64_t k) {
        const Vec d = at.mu - load(&table.middle[k * table.padded + n]);
        return load(&table.weight[k * table.padded + n]) * exp2_negative(d * d * gain_q);
      };
      std::int64_t k = 0;
      for (; k + 2 <= table.pairs; k += 2) {
        even += pair(k);
        odd += pair(k + 1);
      }
      if (k < table.pairs) even += pair(k);
      store(out[0] + s * N + n, mean * at.root_p, count);
      store(out[1] + s * N + n, (even + odd) * at.root_q, count);
    }
  }
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const Table table(dims, in[2], in[3], in[4]);
  const std::int64_t N = table.N, R = table.R, padded = table.padded;
  std::vector<float> dbeta(table.beta.size()), dweight(table.weight.size());
  for (std::int64_t n = 0; n < N; n += kLanes) {
    const std::int64_t count = std::min<std::int64_t>(kLanes, N - n);
    for (std::int64_t s = 0; s < table.S; ++s) {
      const std::int64_t place = s * N + n;
      const Sample at(in[0] + place, in[1] + place, count);
      const Vec gain_p = at.inverse_p * (-0.5F * kLog2E), gain_q = at.inverse_q * -kLog2E;
      const Vec c = load(in[5] + place, count) * at.root_p, g = load(in[6] + place, count) * at.root_q;
      // Sums of the terms, and of the terms times the first and second power of the distance.
      Vec mean{}, mean_1{}, mean_2{}, second{}, second_1{}, second_2{};
      for (std::int64_t r = 0; r < R; ++r) {
        const Vec d = at.mu - load(&table.points[r * padded + n]), e = exp2_negative(d * d * gain_p);
        const Vec term = e * load(&table.beta[r * padded + n]);
        store(&dbeta[r * padded + n], load(&dbeta[r * padded + n]) + c * e);
        mean += term;
        mean_1 += term * d;
        mean_2 += term * d * d;
      }
      for (std::int64_t k = 0; k < table.pairs; ++k) {
        const Vec d = at.mu - load(&table.middle[k * padded + n]), e = exp2_negative(d * d * gain_q);
        const Vec term = e * load(&table.weight[k * padded + n]);
        store(&dweight[k * padded + n], load(&dweight[k * padded + n]) + g * e);
        second += term;
        second_1 += term * d;
        second_2 += term * d * d;
      }
      store(out[0] + place, mean * at.root_p, count);
      store(out[1] + place, second * at.root_q, count);
      store(out[2] + place, -(c * mean_1 * at.inverse_p) - 2 * (g * second_1 * at.inverse_q), count);
      store(out[3] + place,
            c * at.inverse_p * 0.5F * (mean_2 * at.inverse_p - mean) +
                g * at.inverse_q * (2 * second_2 * at.inverse_q - second),
            count);
    }
  }
  for (std::int64_t r = 0, k = 0; r < R; ++r) {
    std::memcpy(out[4] + r * N, &dbeta[r * padded], N * sizeof(float));
    for (std::int64_t t = r; t < R; ++t, ++k) {
      float *to = out[5] + (r * R + t) * N, *mirrored = out[5] + (t * R + r) * N;
      for (std::int64_t n = 0; n < N; ++n) to[n] = mirrored[n] = dweight[k * padded + n] * table.near[k * padded + n];
    }
  }
}
