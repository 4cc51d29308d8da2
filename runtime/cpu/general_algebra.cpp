#include "runtime/cpu/general_algebra.h"

#include <cmath>
#include <vector>

#include "compiler/expression/algebra_form.h"
#include "runtime/cpu/blas.h"

namespace moxie {
namespace {

/// One matrix in a copy of its own. LAPACK takes its rows for columns, and so factors the transposed matrix.
template <class T>
class GeneralMatrix {
 public:
  GeneralMatrix(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix)
      : kind_(call.definition.body->algebra),
        shape_(shape),
        element_(element_of(shape, number)),
        n_(to_blas_int(shape.rows)),
        factors_(static_cast<std::size_t>(shape.rows * shape.rows)),
        swaps_(static_cast<std::size_t>(shape.rows)) {
    for (std::int64_t i = 0; i < shape.rows; ++i) {
      for (std::int64_t j = 0; j < shape.rows; ++j)
        at(i, j) = matrix[element_.matrix + i * shape.matrix.row_stride + j * shape.matrix.column_stride];
    }
    int info = 0;
    if (n_ > 0) blas_calls<T>().getrf(&n_, &n_, factors_.data(), &n_, swaps_.data(), &info);
    for (std::int64_t i = 0; i < shape.rows && !takes_singular(kind_); ++i) {
      if (!(std::abs(at(i, i)) > 0)) fail_factorisation(call, shape, number, i, static_cast<double>(at(i, i)));
    }
  }

  void put_result(const T* rhs, T* out) {
    T* first = out + element_.out;
    if (kind_ == LinearAlgebraKind::Determinant)
      *first = determinant();
    else if (kind_ == LinearAlgebraKind::LogAbsDeterminant)
      *first = log_abs_determinant();
    else if (kind_ == LinearAlgebraKind::LuInverse)
      put_inverse(first);
    else
      put_solution(rhs + element_.rhs, first);
  }

 private:
  T& at(std::int64_t i, std::int64_t j) { return factors_[static_cast<std::size_t>(i * shape_.rows + j)]; }

  T determinant() {
    T product = 1;
    for (std::int64_t i = 0; i < shape_.rows; ++i)
      product *= swaps_[static_cast<std::size_t>(i)] == i + 1 ? at(i, i) : -at(i, i);
    return product;
  }

  T log_abs_determinant() {
    T sum = 0;
    for (std::int64_t i = 0; i < shape_.rows; ++i) sum += std::log(std::abs(at(i, i)));
    return sum;
  }

  void put_inverse(T* out) {
    const int length = 64 * n_;  // columns of the blocks that LAPACK takes, times rows
    std::vector<T> work(static_cast<std::size_t>(length));
    int info = 0;
    if (n_ > 0) blas_calls<T>().getri(&n_, factors_.data(), &n_, swaps_.data(), work.data(), &length, &info);
    for (std::int64_t i = 0; i < shape_.rows; ++i) {
      for (std::int64_t j = 0; j < shape_.rows; ++j)
        out[i * shape_.out.row_stride + j * shape_.out.column_stride] = at(i, j);
    }
  }

  void put_solution(const T* rhs, T* out) {
    std::vector<T> x(static_cast<std::size_t>(shape_.rows * shape_.columns));
    const auto place = [&](std::int64_t i, std::int64_t c) { return static_cast<std::size_t>(c * shape_.rows + i); };
    for (std::int64_t i = 0; i < shape_.rows; ++i) {
      for (std::int64_t c = 0; c < shape_.columns; ++c)
        x[place(i, c)] = rhs[i * shape_.rhs.row_stride + c * shape_.rhs.column_stride];
    }
    const int columns = to_blas_int(shape_.columns);
    const char* transposition = kind_ == LinearAlgebraKind::LuSolve ? "T" : "N";
    int info = 0;
    if (n_ > 0)
      blas_calls<T>().getrs(transposition, &n_, &columns, factors_.data(), &n_, swaps_.data(), x.data(), &n_, &info);
    for (std::int64_t i = 0; i < shape_.rows; ++i) {
      for (std::int64_t c = 0; c < shape_.columns; ++c)
        out[i * shape_.out.row_stride + c * shape_.out.column_stride] = x[place(i, c)];
    }
  }

  LinearAlgebraKind kind_;
  const AlgebraShape& shape_;
  AlgebraElement element_;
  int n_;
  std::vector<T> factors_;
  std::vector<int> swaps_;
};

}  // namespace

template <class T>
void run_general(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, const T* matrix, const T* rhs,
                 T* out) {
  GeneralMatrix<T>(call, shape, number, matrix).put_result(rhs, out);
}

template void run_general<float>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const float*, const float*,
                                 float*);
template void run_general<double>(const AlgebraCall&, const AlgebraShape&, std::int64_t, const double*, const double*,
                                  double*);

}  // namespace moxie
