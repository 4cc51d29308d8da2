#include "runtime/cpu/symmetric_eigen.h"

#include <cmath>
#include <limits>
#include <vector>

#include "compiler/reference/dense_eigen.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/spectral_call.h"

namespace moxie {
namespace {

/// One matrix in a copy of its own, whose columns lie one after the other.
template <class T>
class SymmetricMatrix {
 public:
  SymmetricMatrix(const AlgebraShape& shape, const T* first, bool wants_vectors)
      : rows_(shape.rows),
        wants_vectors_(wants_vectors),
        columns_(static_cast<std::size_t>(rows_ * rows_)),
        values_(static_cast<std::size_t>(rows_)) {
    for (std::int64_t j = 0; j < rows_; ++j) {
      for (std::int64_t i = j; i < rows_; ++i)
        at(i, j) = first[i * shape.matrix.row_stride + j * shape.matrix.column_stride];
    }
  }

  /// Whether they were found. LAPACK may not return from a matrix that holds a NaN.
  bool decompose() {
    if (!is_finite()) return false;
    if (rows_ == 0) return true;
    const int n = to_blas_int(rows_);
    T wanted = 0;
    int wanted_integers = 0;
    if (call(n, &wanted, -1, &wanted_integers, -1) != 0) return false;
    // In single precision the length may have been rounded down.
    std::vector<T> work(static_cast<std::size_t>(std::nextafter(wanted, std::numeric_limits<T>::infinity())) + 1);
    std::vector<int> integers(static_cast<std::size_t>(wanted_integers));
    return call(n, work.data(), to_blas_int(static_cast<std::int64_t>(work.size())), integers.data(),
                wanted_integers) == 0;
  }

  void put_values(T* out, const MatrixPlace& place) const {
    for (std::int64_t t = 0; t < rows_; ++t) out[t * place.row_stride] = values_[static_cast<std::size_t>(t)];
  }

  void put_vectors(T* out, const MatrixPlace& place) {
    for (std::int64_t t = 0; t < rows_; ++t) {
      const int sign = sign_of_vector(static_cast<std::size_t>(rows_),
                                      [&](std::size_t r) { return at(static_cast<std::int64_t>(r), t); });
      for (std::int64_t r = 0; r < rows_; ++r)
        out[r * place.row_stride + t * place.column_stride] = static_cast<T>(sign) * at(r, t);
    }
  }

 private:
  T& at(std::int64_t i, std::int64_t j) { return columns_[static_cast<std::size_t>(j * rows_ + i)]; }

  bool is_finite() {
    for (std::int64_t j = 0; j < rows_; ++j) {
      for (std::int64_t i = j; i < rows_; ++i) {
        if (!std::isfinite(at(i, j))) return false;
      }
    }
    return true;
  }

  int call(int n, T* work, int length, int* integers, int integers_length) {
    int info = 0;
    blas_calls<T>().syevd(wants_vectors_ ? "V" : "N", "L", &n, columns_.data(), &n, values_.data(), work, &length,
                          integers, &integers_length, &info);
    return info;
  }

  std::int64_t rows_;
  bool wants_vectors_;
  std::vector<T> columns_, values_;
};

}  // namespace

template <class T>
void run_eigen(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, T* out) {
  const bool wants_vectors = call.definition.body->algebra == LinearAlgebraKind::Eigenvectors;
  SymmetricMatrix<T> a(shape, matrix + element_of(shape, number).matrix, wants_vectors);
  decompose(std::move(a), wants_vectors, call, shape, number, out);
}

template void run_eigen<float>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const float*, float*);
template void run_eigen<double>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const double*, double*);

}  // namespace moxie
