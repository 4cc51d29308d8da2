#include "runtime/cpu/orthogonal_factor.h"

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/cpu/blas.h"

namespace moxie {
namespace {

/// One matrix in a copy of its own, whose columns lie one after the other.
template <class T>
class TallMatrix {
 public:
  TallMatrix(const AlgebraShape& shape, const T* first)
      : rows_(shape.rows),
        columns_(shape.matrix_columns),
        m_(to_blas_int(rows_)),
        n_(to_blas_int(columns_)),
        values_(static_cast<std::size_t>(rows_ * columns_)),
        scales_(static_cast<std::size_t>(columns_)),
        work_(static_cast<std::size_t>(columns_ * kBlock)) {
    for (std::int64_t j = 0; j < columns_; ++j) {
      for (std::int64_t i = 0; i < rows_; ++i)
        at(i, j) = first[i * shape.matrix.row_stride + j * shape.matrix.column_stride];
    }
    if (n_ == 0) return;
    const int length = to_blas_int(columns_ * kBlock);
    int info = 0;
    blas_calls<T>().geqrf(&m_, &n_, values_.data(), &m_, scales_.data(), work_.data(), &length, &info);
  }

  T diagonal(std::int64_t j) { return at(j, j); }

  void put_r(T* out, const MatrixPlace& place) {
    for (std::int64_t i = 0; i < columns_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j)
        out[i * place.row_stride + j * place.column_stride] = j < i ? T(0) : sign(at(i, i)) * at(i, j);
    }
  }

  void put_q(T* out, const MatrixPlace& place) {
    if (n_ == 0) return;
    std::vector<T> signs;
    for (std::int64_t j = 0; j < columns_; ++j) signs.push_back(sign(at(j, j)));
    const int length = to_blas_int(columns_ * kBlock);
    int info = 0;
    blas_calls<T>().orgqr(&m_, &n_, &n_, values_.data(), &m_, scales_.data(), work_.data(), &length, &info);
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j)
        out[i * place.row_stride + j * place.column_stride] = signs[static_cast<std::size_t>(j)] * at(i, j);
    }
  }

 private:
  static constexpr std::int64_t kBlock = 64;  // columns of the blocks that LAPACK takes

  T& at(std::int64_t i, std::int64_t j) { return values_[static_cast<std::size_t>(j * rows_ + i)]; }
  static T sign(T value) { return value < 0 ? T(-1) : T(1); }

  std::int64_t rows_, columns_;
  int m_, n_;
  std::vector<T> values_, scales_, work_;
};

}  // namespace

template <class T>
void run_qr(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, T* out) {
  const AlgebraElement element = element_of(shape, number);
  TallMatrix<T> a(shape, matrix + element.matrix);
  for (std::int64_t j = 0; j < shape.matrix_columns; ++j) {
    const T pivot = a.diagonal(j);
    const bool is_finite = std::isfinite(pivot);
    if (is_finite && pivot != 0) continue;
    fail_factorisation(call, shape, number, j, is_finite ? 0 : std::numeric_limits<double>::quiet_NaN());
  }
  if (call.definition.body->algebra == LinearAlgebraKind::QrQ)
    a.put_q(out + element.out, shape.out);
  else
    a.put_r(out + element.out, shape.out);
}

template void run_qr<float>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const float*, float*);
template void run_qr<double>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const double*, double*);

}  // namespace moxie
