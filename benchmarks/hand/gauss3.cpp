// Lanes over j, two points i in registers; the exponential once per pair, for the value and all gradients. Points far
// away fill the last vector.
#include "hand.h"

namespace {

constexpr int kRows = 2, kSpace = 3;

/// Coordinates one after the other instead of points.
std::vector<float> planes(const float* points, std::int64_t count, std::int64_t padded, float fill) {
  std::vector<float> result(static_cast<std::size_t>(kSpace * padded), fill);
  for (std::int64_t j = 0; j < count; ++j) {
    for (int e = 0; e < kSpace; ++e) result[e * padded + j] = points[j * kSpace + e];
  }
  return result;
}

void unpack(const std::vector<float>& from, std::int64_t padded, std::int64_t count, float* points) {
  for (std::int64_t j = 0; j < count; ++j) {
    for (int e = 0; e < kSpace; ++e) points[j * kSpace + e] = from[e * padded + j];
  }
}

struct Pairs {
  std::int64_t I, J, padded;
  const float *x, *c;
  std::vector<float> z, b, dz, db;
  float *y, *dx;

  template <bool kGradients, int kPoints>
  void rows(std::int64_t i) {
    Vec value[kPoints][kSpace] = {}, slope[kPoints][kSpace] = {};
    for (std::int64_t j = 0; j < padded; j += kLanes) {
      Vec grad_z[kSpace], grad_b[kSpace];
      for (int e = 0; kGradients && e < kSpace; ++e) {
        grad_z[e] = load(&dz[e * padded + j]);
        grad_b[e] = load(&db[e * padded + j]);
      }
      for (int r = 0; r < kPoints; ++r) {
        Vec d[kSpace], square{}, weight{};
        for (int e = 0; e < kSpace; ++e) {
          d[e] = all(x[(i + r) * kSpace + e]) - load(&z[e * padded + j]);
          square += d[e] * d[e];
        }
        const Vec k = exp2_negative(square * -kLog2E);
        for (int e = 0; e < kSpace; ++e) {
          const Vec signal = load(&b[e * padded + j]);
          value[r][e] += k * signal;
          if constexpr (kGradients) {
            const Vec cotangent = all(c[(i + r) * kSpace + e]);
            weight += cotangent * signal;
            grad_b[e] += k * cotangent;
          }
        }
        if constexpr (kGradients) {
          weight *= k;
          for (int e = 0; e < kSpace; ++e) {
            slope[r][e] += weight * d[e];
            grad_z[e] += weight * d[e];
          }
        }
      }
      for (int e = 0; kGradients && e < kSpace; ++e) {
        store(&dz[e * padded + j], grad_z[e]);
        store(&db[e * padded + j], grad_b[e]);
      }
    }
    for (int r = 0; r < kPoints; ++r) {
      for (int e = 0; e < kSpace; ++e) {
        y[(i + r) * kSpace + e] = sum(value[r][e]);
        if constexpr (kGradients) dx[(i + r) * kSpace + e] = -2 * sum(slope[r][e]);
      }
    }
  }

  template <bool kGradients>
  void run() {
    std::int64_t i = 0;
    for (; i + kRows <= I; i += kRows) rows<kGradients, kRows>(i);
    if (i < I) rows<kGradients, 1>(i);
  }
};

Pairs pairs(const std::int64_t* dims, const float* const* in, const float* c, float* y, float* dx) {
  const std::int64_t I = dims[0], J = dims[1], padded = round_up(J, kLanes);
  return {I, J, padded, in[0], c, planes(in[1], J, padded, 1e18F), planes(in[2], J, padded, 0), {}, {}, y, dx};
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  pairs(dims, in, nullptr, out[0], nullptr).run<false>();
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  Pairs all_pairs = pairs(dims, in, in[3], out[0], out[1]);
  all_pairs.dz.resize(all_pairs.z.size());
  all_pairs.db.resize(all_pairs.z.size());
  all_pairs.run<true>();
  for (float& slope : all_pairs.dz) slope *= 2;
  unpack(all_pairs.dz, all_pairs.padded, all_pairs.J, out[2]);
  unpack(all_pairs.db, all_pairs.padded, all_pairs.J, out[3]);
}
