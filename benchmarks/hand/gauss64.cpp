// Tiles of 48 by 64 pairs: |x|^2 + |z|^2 - 2 x z by a product, the exponential, and a product with the signals; nothing
// larger than a tile is stored. The gradients are four more products of each tile.
#include "hand.h"
#include "product.h"

namespace {

constexpr std::int64_t kSpace = 64, kRows = 48, kColumns = 64;

std::vector<float> squares(const float* points, std::int64_t count) {
  std::vector<float> result(static_cast<std::size_t>(round_up(count, kColumns)));
  for (std::int64_t i = 0; i < count; ++i) {
    float square = 0;
    for (std::int64_t e = 0; e < kSpace; ++e) square += points[i * kSpace + e] * points[i * kSpace + e];
    result[i] = square;
  }
  return result;
}

struct Pairs {
  std::int64_t I, J;
  const float *x, *z, *b, *c;
  float *y, *dx = nullptr, *dz = nullptr, *db = nullptr;
  std::int64_t padded = round_up(J, kColumns);
  std::vector<float> x_squares = squares(x, I), z_squares = squares(z, J);
  std::vector<float> turned_z = std::vector<float>(kSpace * padded), turned_b = turned_z;
  std::vector<float> columns = std::vector<float>(static_cast<std::size_t>(padded));  // sums of weights over i
  float k[kRows * kColumns], weight[kRows * kColumns];

  /// In place of the products x z their kernels; of columns beyond the last, zeros.
  void kernels(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t count) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* row = k + r * kColumns;
      const float square = x_squares[i + r], *other = &z_squares[j];
      along(kColumns, [&](auto at, int) {
        at.put(row, exp2_negative(smaller(2 * at.get(row) - square - at.get(other), Vec{}) * kLog2E));
      });
      for (std::int64_t n = count; n < kColumns; ++n) row[n] = 0;
    }
  }

  void gradients(std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t count) {
    multiply(rows, kColumns, kSpace, {c + i * kSpace, kSpace, 1}, &turned_b[j], padded, weight, kColumns);
    for (std::int64_t r = 0; r < rows; ++r) {
      float *row = weight + r * kColumns, *below = &columns[j], *slope = dx + (i + r) * kSpace;
      const float *kernel = k + r * kColumns, *point = x + (i + r) * kSpace;
      Four sums(0);
      along(kColumns, [&](auto at, int n) {
        const Vec w = 2 * at.get(row) * at.get(kernel);
        at.put(row, w);
        at.put(below, at.get(below) + w);
        sums.v[n] += w;
      });
      const float sum = sums.total();
      along(kSpace, [&](auto at, int) { at.put(slope, at.get(slope) - sum * at.get(point)); });
    }
    multiply(rows, kSpace, count, {weight, kColumns, 1}, z + j * kSpace, kSpace, dx + i * kSpace, kSpace, true);
    multiply(count, kSpace, rows, {weight, 1, kColumns}, x + i * kSpace, kSpace, dz + j * kSpace, kSpace, true);
    multiply(count, kSpace, rows, {k, 1, kColumns}, c + i * kSpace, kSpace, db + j * kSpace, kSpace, true);
  }

  template <bool kGradients>
  void run() {
    transpose(z, J, kSpace, turned_z.data(), padded);
    if (kGradients) transpose(b, J, kSpace, turned_b.data(), padded);
    for (std::int64_t i = 0; i < I; i += kRows) {
      const std::int64_t rows = std::min(kRows, I - i);
      for (std::int64_t j = 0; j < J; j += kColumns) {
        const std::int64_t count = std::min(kColumns, J - j);
        multiply(rows, kColumns, kSpace, {x + i * kSpace, kSpace, 1}, &turned_z[j], padded, k, kColumns);
        kernels(i, rows, j, count);
        multiply(rows, kSpace, count, {k, kColumns, 1}, b + j * kSpace, kSpace, y + i * kSpace, kSpace, j > 0);
        if (kGradients) gradients(i, rows, j, count);
      }
    }
    for (std::int64_t j = 0; kGradients && j < J; ++j) {
      for (std::int64_t e = 0; e < kSpace; ++e) dz[j * kSpace + e] -= columns[j] * z[j * kSpace + e];
    }
  }
};

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  Pairs{dims[0], dims[1], in[0], in[1], in[2], nullptr, out[0]}.run<false>();
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  std::fill_n(out[1], dims[0] * kSpace, 0.0F);
  for (const int k : {2, 3}) std::fill_n(out[k], dims[1] * kSpace, 0.0F);
  Pairs{dims[0], dims[1], in[0], in[1], in[2], in[3], out[0], out[1], out[2], out[3]}.run<true>();
}
