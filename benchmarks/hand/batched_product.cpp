// Register tiles for the shape at hand, the last vector of a row masked; y is transposed for the gradient of x.
#include "hand.h"
#include "product.h"

namespace {

/// b's rows end within a vector: the product reads up to a vector beyond, from a copy with padding.
void pad(const float* from, std::int64_t rows, std::int64_t columns, std::vector<float>& to, std::int64_t to_row) {
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(&to[r * to_row], from + r * columns, columns * sizeof(float));
}

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t B = dims[0], N = dims[1], M = dims[2], K = dims[3], row = round_up(K, kLanes);
  std::vector<float> right(static_cast<std::size_t>(M * row));
  for (std::int64_t b = 0; b < B; ++b) {
    pad(in[1] + b * M * K, M, K, right, row);
    multiply(N, K, M, {in[0] + b * N * M, M, 1}, right.data(), row, out[0] + b * N * K, K);
  }
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t B = dims[0], N = dims[1], M = dims[2], K = dims[3];
  const std::int64_t row = round_up(K, kLanes), turned_row = round_up(M, kLanes);
  std::vector<float> right(static_cast<std::size_t>(M * row)), turned(static_cast<std::size_t>(K * turned_row));
  std::vector<float> cotangent(static_cast<std::size_t>(N * row));
  for (std::int64_t b = 0; b < B; ++b) {
    const float *x = in[0] + b * N * M, *y = in[1] + b * M * K, *c = in[2] + b * N * K;
    pad(y, M, K, right, row);
    multiply(N, K, M, {x, M, 1}, right.data(), row, out[0] + b * N * K, K);
    transpose(y, M, K, turned.data(), turned_row);
    multiply(N, M, K, {c, K, 1}, turned.data(), turned_row, out[1] + b * N * M, M);
    pad(c, N, K, cotangent, row);
    multiply(M, K, N, {x, 1, M}, cotangent.data(), row, out[2] + b * M * K, K);
  }
}
