#include "runtime/cpu/dense_algebra.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/general_algebra.h"
#include "runtime/cpu/orthogonal_factor.h"
#include "runtime/cpu/singular_vectors.h"
#include "runtime/cpu/symmetric_eigen.h"
#include "runtime/elements.h"

namespace moxie {
namespace {

using namespace cblas;

/// Columns of a panel that is factored at once, and rows of the tiles that threads share out. (Single thread, N = 2000,
/// f64: 64 columns take 1.15 times as long as 128, 256 columns 1.05 times.)
constexpr std::int64_t kPanel = 128;
constexpr std::int64_t kTile = 256;

/// Calls f(k) for k in 0..count, in any order.
using ForEach = std::function<void(std::int64_t count, const std::function<void(std::int64_t)>& f)>;

/// A matrix whose rows lie one after the other.
template <class T>
struct Rows {
  T* first;
  std::int64_t stride;
  T* at(std::int64_t row, std::int64_t column) const { return first + row * stride + column; }
  operator Rows<const T>() const  // NOLINT: what is written can be read
    requires(!std::is_const_v<T>)
  {
    return {first, stride};
  }
};

struct BadFactor {
  std::int64_t pivot;
  double value;
};

template <class T>
class DenseAlgebra {
 public:
  DenseAlgebra(ForEach for_each, std::int64_t rows) : for_each_(std::move(for_each)), n_(rows) {}

  /// a := L, the zeros above the diagonal left as they are. Every panel takes what those to its left add, then
  /// is factored: products as deep as they can be.
  std::optional<BadFactor> cholesky(const Rows<T>& a) const {
    for (std::int64_t k = 0; k < n_; k += kPanel) {
      const std::int64_t width = std::min(kPanel, n_ - k);
      for_each_(tiles(n_ - k), [&](std::int64_t tile) {
        const std::int64_t row = k + tile * kTile;
        add_product(kNoTranspose, kTranspose, {std::min(kTile, n_ - row), width, k}, T(-1), {a.at(row, 0), a.stride},
                    {a.at(k, 0), a.stride}, {a.at(row, k), a.stride});
      });
      if (const auto bad = factor_block(a, k, width)) return bad;
      const std::int64_t below = n_ - k - width;
      for_each_(tiles(below), [&](std::int64_t tile) {
        const std::int64_t row = k + width + tile * kTile;
        triangular(calls().trsm, kRight, kTranspose, std::min(kTile, n_ - row), width, {a.at(k, k), a.stride},
                   {a.at(row, k), a.stride});
      });
    }
    return std::nullopt;
  }

  /// x := L^-1, with zeros above the diagonal, a panel of columns at a time: each starts at the diagonal.
  void invert_factor(const Rows<const T>& l, const Rows<T>& x) const {
    for_each_(panels(n_), [&](std::int64_t panel) {
      const std::int64_t k = panel * kPanel;
      const std::int64_t width = std::min(kPanel, n_ - k);
      for (std::int64_t i = 0; i < n_; ++i) {
        std::fill_n(x.at(i, k), width, T(0));
        if (i >= k && i < k + width) *x.at(i, i) = T(1);
      }
      triangular(calls().trsm, kLeft, kNoTranspose, n_ - k, width, {l.at(k, k), l.stride}, {x.at(k, k), x.stride});
    });
  }

  /// x := x^T x for a lower triangle x, row of blocks after row of blocks: each reads those below it and itself.
  void multiply_factor(const Rows<T>& x) const {
    for (std::int64_t k = 0; k < n_; k += kPanel) {
      const std::int64_t width = std::min(kPanel, n_ - k);
      const std::int64_t below = n_ - k - width;
      for_each_(panels(k), [&](std::int64_t panel) {
        const std::int64_t column = panel * kPanel;
        triangular(calls().trmm, kLeft, kTranspose, width, kPanel, {x.at(k, k), x.stride}, {x.at(k, column), x.stride});
        add_product(kTranspose, kNoTranspose, {width, kPanel, below}, T(1), {x.at(k + width, k), x.stride},
                    {x.at(k + width, column), x.stride}, {x.at(k, column), x.stride});
      });
      const int rows = to_blas_int(width), stride = to_blas_int(x.stride);
      int info = 0;
      calls().lauum("U", &rows, x.at(k, k), &stride, &info);
      add_product(kTranspose, kNoTranspose, {width, width, below}, T(1), {x.at(k + width, k), x.stride},
                  {x.at(k + width, k), x.stride}, {x.at(k, k), x.stride});
    }
  }

  /// Copies the lower triangle to the upper one, in tiles that stay in the nearest cache.
  void mirror(const Rows<T>& x) const {
    for_each_(panels(n_), [&](std::int64_t panel) {
      const std::int64_t first = panel * kPanel, last = std::min(first + kPanel, n_);
      for (std::int64_t column = 0; column < last; column += kMirrored) {
        for (std::int64_t i = first; i < last; ++i) {
          for (std::int64_t j = column; j < std::min(column + kMirrored, i); ++j) *x.at(j, i) = *x.at(i, j);
        }
      }
    });
  }

  /// L x = b or L^T x = b, in place: `by_rows` tells that the right-hand sides are rows of `x`, else columns.
  void solve(bool transposed, const Rows<const T>& l, const Rows<T>& x, std::int64_t columns, bool by_rows) const {
    for_each_(panels(columns), [&](std::int64_t panel) {
      const std::int64_t first = panel * kPanel;
      const std::int64_t width = std::min(kPanel, columns - first);
      if (by_rows)
        triangular(calls().trsm, kRight, transposed ? kNoTranspose : kTranspose, width, n_, l,
                   {x.at(first, 0), x.stride});
      else
        triangular(calls().trsm, kLeft, transposed ? kTranspose : kNoTranspose, n_, width, l,
                   {x.at(0, first), x.stride});
    });
  }

 private:
  static constexpr std::int64_t kMirrored = 16;
  static std::int64_t tiles(std::int64_t rows) { return (rows + kTile - 1) / kTile; }
  static std::int64_t panels(std::int64_t rows) { return (rows + kPanel - 1) / kPanel; }

  struct Extents {
    std::int64_t rows, columns, depth;
  };

  static const BlasCalls<T>& calls() { return blas_calls<T>(); }

  static void add_product(int left, int right, const Extents& e, T factor, const Rows<const T>& a,
                          const Rows<const T>& b, const Rows<T>& c) {
    if (e.depth == 0) return;
    calls().gemm(kRowMajor, left, right, to_blas_int(e.rows), to_blas_int(e.columns), to_blas_int(e.depth), factor,
                 a.first, to_blas_int(a.stride), b.first, to_blas_int(b.stride), T(1), c.first, to_blas_int(c.stride));
  }

  /// Solves or multiplies with a lower triangle.
  static void triangular(decltype(BlasCalls<T>::trsm) f, int side, int transposition, std::int64_t rows,
                         std::int64_t columns, const Rows<const T>& l, const Rows<T>& x) {
    f(kRowMajor, side, kLower, transposition, kNonUnit, to_blas_int(rows), to_blas_int(columns), T(1), l.first,
      to_blas_int(l.stride), x.first, to_blas_int(x.stride));
  }

  /// The block on the diagonal by LAPACK, to which rows are columns. The products of its rows have filled its upper
  /// half.
  std::optional<BadFactor> factor_block(const Rows<T>& a, std::int64_t k, std::int64_t width) const {
    const int rows = to_blas_int(width), stride = to_blas_int(a.stride);
    int info = 0;
    calls().potrf("U", &rows, a.at(k, k), &stride, &info);
    for (std::int64_t i = k; i < k + width; ++i) std::fill(a.at(i, i) + 1, a.at(i, k) + width, T(0));
    if (info == 0) return std::nullopt;
    const std::int64_t pivot = k + info - 1;
    return BadFactor{pivot, static_cast<double>(*a.at(pivot, pivot))};
  }

  ForEach for_each_;
  std::int64_t n_;
};

/// One call on matrices of one dtype.
template <class T>
class Calling {
 public:
  Calling(const AlgebraCall& call, const AlgebraShape& shape, const void* matrix, const void* rhs, void* out)
      : call_(call),
        shape_(shape),
        matrix_(static_cast<const T*>(matrix)),
        rhs_(static_cast<const T*>(rhs)),
        out_(static_cast<T*>(out)) {}

  void run(ThreadPool& pool) const {
    const std::int64_t count = batch_count(shape_);
    if (shape_.rows == 0 && !call_.definition.body->subscripts.empty()) return;
    const ForEach on_pool = [&](std::int64_t pieces, const auto& f) {
      if (pieces > 0) pool.run(pieces, [&](std::int64_t piece, int) { f(piece); });
    };
    const ForEach on_this_thread = [](std::int64_t pieces, const auto& f) {
      for (std::int64_t k = 0; k < pieces; ++k) f(k);
    };
    if (count == 1) return run_one(on_pool, 0);
    on_pool(count, [&](std::int64_t number) { run_one(on_this_thread, number); });
  }

 private:
  void run_one(const ForEach& for_each, std::int64_t number) const {
    const AlgebraElement element = element_of(shape_, number);
    const DenseAlgebra<T> algebra(for_each, shape_.rows);
    switch (call_.definition.body->algebra) {
      case LinearAlgebraKind::Cholesky:
        return cholesky(algebra, for_each, element, number);
      case LinearAlgebraKind::CholeskyInverse:
        return invert(algebra, for_each, element);
      case LinearAlgebraKind::TriSolve:
      case LinearAlgebraKind::TriSolveTransposed:
        return solve(algebra, for_each, element);
      case LinearAlgebraKind::Eigenvalues:
      case LinearAlgebraKind::Eigenvectors:
        return run_eigen(call_, shape_, number, matrix_, out_);
      case LinearAlgebraKind::QrQ:
      case LinearAlgebraKind::QrR:
        return run_qr(call_, shape_, number, matrix_, out_);
      case LinearAlgebraKind::SingularValues:
      case LinearAlgebraKind::Svd:
        return run_svd(call_, shape_, number, matrix_, out_);
      default:
        return run_general(call_, shape_, number, matrix_, rhs_, out_);
    }
  }

  void cholesky(const DenseAlgebra<T>& algebra, const ForEach& for_each, const AlgebraElement& element,
                std::int64_t number) const {
    const Result out(*this, element);
    copy_triangle(for_each, element, out.rows);
    if (const auto bad = algebra.cholesky(out.rows)) fail_factorisation(call_, shape_, number, bad->pivot, bad->value);
    out.put_back(*this, element);
  }

  void invert(const DenseAlgebra<T>& algebra, const ForEach& for_each, const AlgebraElement& element) const {
    std::vector<T> copy;
    const Rows<const T> l = factor(for_each, element, copy);
    const Result out(*this, element);
    algebra.invert_factor(l, out.rows);
    algebra.multiply_factor(out.rows);
    algebra.mirror(out.rows);
    out.put_back(*this, element);
  }

  void solve(const DenseAlgebra<T>& algebra, const ForEach& for_each, const AlgebraElement& element) const {
    const bool transposed = call_.definition.body->algebra == LinearAlgebraKind::TriSolveTransposed;
    std::vector<T> copy;
    const Rows<const T> l = factor(for_each, element, copy);
    const std::int64_t n = shape_.rows, columns = shape_.columns;
    T* x = out_ + element.out;
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t c = 0; c < columns; ++c)
        x[i * shape_.out.row_stride + c * shape_.out.column_stride] =
            rhs_[element.rhs + i * shape_.rhs.row_stride + c * shape_.rhs.column_stride];
    }
    if (columns == 1) {
      blas_calls<T>().trsv(kRowMajor, kLower, transposed ? kTranspose : kNoTranspose, kNonUnit, to_blas_int(n), l.first,
                           to_blas_int(l.stride), x, to_blas_int(shape_.out.row_stride));
    } else if (shape_.out.row_stride == 1) {
      algebra.solve(transposed, l, {x, shape_.out.column_stride}, columns, true);
    } else if (shape_.out.column_stride == 1) {
      algebra.solve(transposed, l, {x, shape_.out.row_stride}, columns, false);
    } else {
      for (std::int64_t c = 0; c < columns; ++c)
        blas_calls<T>().trsv(kRowMajor, kLower, transposed ? kTranspose : kNoTranspose, kNonUnit, to_blas_int(n),
                             l.first, to_blas_int(l.stride), x + c * shape_.out.column_stride,
                             to_blas_int(shape_.out.row_stride));
    }
  }

  /// The result with its rows one after the other: in place, or, where it lies otherwise, in a copy.
  struct Result {
    Result(const Calling& calling, const AlgebraElement& element) {
      const std::int64_t n = calling.shape_.rows;
      in_place = calling.shape_.out.column_stride == 1 || n == 1;
      if (!in_place) copy.resize(static_cast<std::size_t>(n * n));
      rows = in_place ? Rows<T>{calling.out_ + element.out, std::max(calling.shape_.out.row_stride, n)}
                      : Rows<T>{copy.data(), n};
    }
    void put_back(const Calling& calling, const AlgebraElement& element) const {
      if (in_place) return;
      const AlgebraShape& shape = calling.shape_;
      for (std::int64_t i = 0; i < shape.rows; ++i) {
        for (std::int64_t j = 0; j < shape.rows; ++j)
          calling.out_[element.out + i * shape.out.row_stride + j * shape.out.column_stride] = *rows.at(i, j);
      }
    }
    bool in_place;
    std::vector<T> copy;
    Rows<T> rows{};
  };

  void copy_triangle(const ForEach& for_each, const AlgebraElement& element, const Rows<T>& to) const {
    const std::int64_t n = shape_.rows;
    for_each((n + kTile - 1) / kTile, [&](std::int64_t tile) {
      for (std::int64_t i = tile * kTile; i < std::min((tile + 1) * kTile, n); ++i) {
        const T* from = matrix_ + element.matrix + i * shape_.matrix.row_stride;
        for (std::int64_t j = 0; j <= i; ++j) *to.at(i, j) = from[j * shape_.matrix.column_stride];
        std::fill(to.at(i, i) + 1, to.at(i, 0) + n, T(0));
      }
    });
  }

  /// The triangle that the call reads, with its rows one after the other.
  Rows<const T> factor(const ForEach& for_each, const AlgebraElement& element, std::vector<T>& copy) const {
    const std::int64_t n = shape_.rows;
    if (shape_.matrix.column_stride == 1 || n == 1)
      return {matrix_ + element.matrix, std::max(shape_.matrix.row_stride, n)};
    copy.resize(static_cast<std::size_t>(n * n));
    copy_triangle(for_each, element, {copy.data(), n});
    return {copy.data(), n};
  }

  const AlgebraCall& call_;
  const AlgebraShape& shape_;
  const T* matrix_;
  const T* rhs_;
  T* out_;
};

}  // namespace

void run_algebra(ThreadPool& pool, const AlgebraCall& call, const AlgebraShape& shape, const void* matrix,
                 const void* rhs, void* out) {
  const OneThreadEach borrowed;
  visit_computed(call.definition.dtype, [&]<class T>(T) { Calling<T>(call, shape, matrix, rhs, out).run(pool); });
}

}  // namespace moxie
