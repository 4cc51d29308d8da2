#include "runtime/cpu/singular_vectors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/reference/dense_eigen.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/spectral_call.h"

namespace moxie {
namespace {

/// One matrix in a copy of its own, whose rows lie one after the other: to LAPACK, these are columns of the transposed
/// matrix, whose left singular vectors are the right ones of this.
template <class T>
class SingularMatrix {
 public:
  SingularMatrix(const AlgebraShape& shape, const T* first, bool wants_vectors)
      : rows_(shape.rows),
        columns_(shape.matrix_columns),
        wants_vectors_(wants_vectors),
        elements_(size(rows_ * columns_)),
        values_(size(columns_)),
        u_(size(wants_vectors ? rows_ * columns_ : 0)),
        v_(size(wants_vectors ? columns_ * columns_ : 0)) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j)
        elements_[size(i * columns_ + j)] = first[i * shape.matrix.row_stride + j * shape.matrix.column_stride];
    }
  }

  /// Whether they were found. LAPACK may not return from a matrix that holds a NaN.
  bool decompose() {
    if (!std::ranges::all_of(elements_, [](T x) { return std::isfinite(x); })) return false;
    if (columns_ == 0) return true;
    integers_.resize(size(8 * columns_));
    T wanted = 0;
    if (call(&wanted, -1) != 0) return false;
    // In single precision the length may have been rounded down.
    std::vector<T> work(static_cast<std::size_t>(std::nextafter(wanted, std::numeric_limits<T>::infinity())) + 1);
    return call(work.data(), to_blas_int(static_cast<std::int64_t>(work.size()))) == 0;
  }

  void put_values(T* out, const MatrixPlace& place) const {
    for (std::int64_t t = 0; t < columns_; ++t) out[t * place.row_stride] = values_[size(t)];
  }

  void put_vectors(T* out, const MatrixPlace& place) const {
    std::vector<T> signs;
    for (std::int64_t t = 0; t < columns_; ++t)
      signs.push_back(
          static_cast<T>(sign_of_vector(size(columns_), [&](std::size_t c) { return v_[size(t * columns_) + c]; })));
    for (std::int64_t r = 0; r < rows_ + columns_; ++r) {
      for (std::int64_t t = 0; t < columns_; ++t) {
        const T component = r < rows_ ? u_[size(r * columns_ + t)] : v_[size(t * columns_ + r - rows_)];
        out[r * place.row_stride + t * place.column_stride] = signs[size(t)] * component;
      }
    }
  }

 private:
  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

  int call(T* work, int length) {
    const int m = to_blas_int(columns_), n = to_blas_int(rows_);
    int info = 0;
    blas_calls<T>().gesdd(wants_vectors_ ? "S" : "N", &m, &n, elements_.data(), &m, values_.data(), v_.data(), &m,
                          u_.data(), &m, work, &length, integers_.data(), &info);
    return info;
  }

  std::int64_t rows_, columns_;
  bool wants_vectors_;
  std::vector<T> elements_, values_;
  std::vector<T> u_, v_;  // a row of U after the other, a column of V after the other
  std::vector<int> integers_;
};

}  // namespace

template <class T>
void run_svd(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, T* out) {
  const bool wants_vectors = call.definition.body->algebra == LinearAlgebraKind::Svd;
  SingularMatrix<T> a(shape, matrix + element_of(shape, number).matrix, wants_vectors);
  decompose(std::move(a), wants_vectors, call, shape, number, out);
}

template void run_svd<float>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const float*, float*);
template void run_svd<double>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const double*, double*);

}  // namespace moxie
