// Register tiles for the shape at hand, of which the last vector of a row is written under a mask; y is transposed for
// the gradient of x.
#include "hand.h"
#include "product.h"

namespace {

/// The right operand of a product, of whose rows whole vectors are read: into the next row, which does no harm, but
/// from a copy with padding where the tensor ends.
struct Right {
  std::vector<float> copy;

  const float* of(const float* from, std::int64_t rows, std::int64_t columns, bool at_end) {
    if (!at_end) return from;
    copy.assign(static_cast<std::size_t>(rows * columns + kLanes), 0);
    std::copy(from, from + rows * columns, copy.begin());
    return copy.data();
  }
};

}  // namespace

extern "C" void forward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t B = dims[0], N = dims[1], M = dims[2], K = dims[3];
  Right right;
  for (std::int64_t b = 0; b < B; ++b) {
    const float* y = right.of(in[1] + b * M * K, M, K, b + 1 == B);
    multiply(N, K, M, {in[0] + b * N * M, M, 1}, y, K, out[0] + b * N * K, K);
  }
}

extern "C" void forward_backward(const std::int64_t* dims, const float* const* in, float* const* out) {
  const std::int64_t B = dims[0], N = dims[1], M = dims[2], K = dims[3], turned_row = round_up(M, kLanes);
  std::vector<float> turned(static_cast<std::size_t>(K * turned_row));
  Right right, cotangent;
  for (std::int64_t b = 0; b < B; ++b) {
    const float *x = in[0] + b * N * M, *c = cotangent.of(in[2] + b * N * K, N, K, b + 1 == B);
    const float* y = right.of(in[1] + b * M * K, M, K, b + 1 == B);
    multiply(N, K, M, {x, M, 1}, y, K, out[0] + b * N * K, K);
    transpose(y, M, K, turned.data(), turned_row);
    multiply(N, M, K, {c, K, 1}, turned.data(), turned_row, out[1] + b * N * M, M);
    multiply(M, K, N, {x, 1, M}, c, K, out[2] + b * M * K, K);
  }
}
