// libcublas.so.13 as far as matrix products and triangular solves go: columns one after the other, sums in the order of
// the subscript. Stored column by column, as cuBLAS does.
#include <algorithm>
#include <cmath>
#include <memory>

#include "runtime/elements.h"
#include "tests/ptx_emulator/driver/device.h"

namespace {

using Status = int;
constexpr Status kNotInitialized = 1;
constexpr Status kInvalidValue = 7;
constexpr Status kExecutionFailed = 13;
constexpr int kNoTranspose = 0;
constexpr std::uint64_t kWorkspaceAlignment = 256;

struct Library {
  void* stream = nullptr;
  int mode = 0;
};

/// A batch of matrices, each `leading` elements from column to column and `step` from one to the next.
template <class T>
struct Matrices {
  T* first;
  int leading;
  long long step;

  /// Checks that all of it is memory of the device.
  T* at(long long number, int rows, int columns) const {
    T* begin = first + number * step;
    if (rows > 0 && columns > 0) {
      const std::uint64_t elements = static_cast<std::uint64_t>(leading) * (columns - 1) + rows;
      moxie::ptx::device_range(reinterpret_cast<std::uint64_t>(begin), elements * sizeof(T), "a matrix product");
    }
    return begin;
  }
};

template <class T, class Operand = T>
struct Product {
  bool left_transposed, right_transposed;
  int m, n, k;
  T alpha, beta;
  Matrices<const Operand> a, b;
  Matrices<T> c;
  int count;

  bool is_valid() const {
    return m >= 0 && n >= 0 && k >= 0 && count >= 0 && a.leading >= std::max(1, left_transposed ? k : m) &&
           b.leading >= std::max(1, right_transposed ? n : k) && c.leading >= std::max(1, m);
  }

  void run() const {
    for (int number = 0; number < count; ++number) multiply(number);
  }

 private:
  void multiply(int number) const {
    const Operand* left = left_transposed ? a.at(number, k, m) : a.at(number, m, k);
    const Operand* right = right_transposed ? b.at(number, n, k) : b.at(number, k, n);
    T* out = c.at(number, m, n);
    const auto element = [](const Operand* matrix, int leading, bool transposed, int row, int column) -> T {
      return transposed ? matrix[column + std::ptrdiff_t{leading} * row]
                        : matrix[row + std::ptrdiff_t{leading} * column];
    };
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) {
        T sum = 0;
        for (int q = 0; q < k; ++q)
          sum = std::fma(element(left, a.leading, left_transposed, i, q),
                         element(right, b.leading, right_transposed, q, j), sum);
        T& result = out[i + std::ptrdiff_t{c.leading} * j];
        result = beta == 0 ? alpha * sum : std::fma(alpha, sum, beta * result);
      }
    }
  }
};

template <class Call>
Status enqueue(const Library* library, const Call& call) {
  if (!call.is_valid()) return kInvalidValue;
  try {
    moxie::ptx::enqueue_on_stream(library->stream, [call] { call.run(); });
    return 0;
  } catch (const moxie::ptx::Fault&) {
    return kExecutionFailed;
  }
}

/// op(A) x = b, or x op(A) = b, in place.
template <class T>
struct TriangularSolve {
  bool right, upper, transposed;
  int m, n;
  T alpha;
  Matrices<const T> a;
  Matrices<T> b;

  int order() const { return right ? n : m; }
  bool is_valid() const { return m >= 0 && n >= 0 && a.leading >= std::max(1, order()) && b.leading >= std::max(1, m); }

  void run() const {
    const T* triangle = a.at(0, order(), order());
    T* values = b.at(0, m, n);
    // x op(A) = b is op(A)^T x^T = b^T.
    const bool flipped = transposed != right, is_lower = upper == flipped;
    const auto element = [&](int i, int j) {
      return double(flipped ? triangle[j + std::ptrdiff_t{a.leading} * i]
                            : triangle[i + std::ptrdiff_t{a.leading} * j]);
    };
    for (int side = 0; side < (right ? m : n); ++side) {
      const auto x = [&](int i) -> T& {
        return right ? values[side + std::ptrdiff_t{b.leading} * i] : values[i + std::ptrdiff_t{b.leading} * side];
      };
      for (int done = 0; done < order(); ++done) {
        const int i = is_lower ? done : order() - 1 - done;
        double sum = double(alpha) * x(i);
        for (int k = is_lower ? 0 : i + 1; k < (is_lower ? i : order()); ++k) sum -= element(i, k) * x(k);
        x(i) = T(sum / element(i, i));
      }
    }
  }
};

/// `count` products whose operands lie `step` elements apart.
template <class T, class Operand = T>
Status multiply(const Library* library, int left, int right, int m, int n, int k, const T* alpha,
                Matrices<const Operand> a, Matrices<const Operand> b, const T* beta, Matrices<T> c, int count) {
  return enqueue(library, Product<T, Operand>{left != kNoTranspose, right != kNoTranspose, m, n, k, *alpha, *beta, a, b,
                                              c, count});
}

template <class T>
Status solve(const Library* library, int side, int triangle, int transposition, int unit, int m, int n, const T* alpha,
             Matrices<const T> a, Matrices<T> b) {
  if (unit != 0) return kInvalidValue;
  return enqueue(library,
                 TriangularSolve<T>{side != 0, triangle != 0, transposition != kNoTranspose, m, n, *alpha, a, b});
}

}  // namespace

extern "C" {

Status cublasCreate_v2(Library** library) {
  *library = new Library;
  return 0;
}
Status cublasDestroy_v2(Library* library) {
  delete library;
  return 0;
}
Status cublasSetStream_v2(Library* library, void* stream) {
  library->stream = stream;
  return 0;
}
Status cublasSetWorkspace_v2(Library* library, void* memory, std::size_t) {
  if (library->stream == nullptr) return kNotInitialized;
  return reinterpret_cast<std::uint64_t>(memory) % kWorkspaceAlignment == 0 ? 0 : kInvalidValue;
}
Status cublasSetMathMode(Library* library, int mode) {
  library->mode = mode;
  return 0;
}
Status cublasGetProperty(int which, int* value) { return *value = which == 0 ? 13 : 0, 0; }
const char* cublasGetStatusString(Status status) {
  return status == kInvalidValue ? "CUBLAS_STATUS_INVALID_VALUE" : "CUBLAS_STATUS_EXECUTION_FAILED";
}

Status cublasSgemm_v2(Library* library, int left, int right, int m, int n, int k, const float* alpha, const float* a,
                      int lda, const float* b, int ldb, const float* beta, float* c, int ldc) {
  return multiply<float>(library, left, right, m, n, k, alpha, {a, lda, 0}, {b, ldb, 0}, beta, {c, ldc, 0}, 1);
}
/// Of f16 or bf16, added up in f32, where the mode admits that and no sums of less.
Status cublasGemmStridedBatchedEx(Library* library, int left, int right, int m, int n, int k, const void* alpha,
                                  const void* a, int type_a, int lda, long long step_a, const void* b, int type_b,
                                  int ldb, long long step_b, const void* beta, void* c, int type_c, int ldc,
                                  long long step_c, int count, int compute, int algorithm) {
  constexpr int kF32 = 0, kF16 = 2, kBf16 = 14, kComputeF32 = 68, kSumsInF32 = 16;
  const bool is_known = type_a == type_b && type_c == kF32 && compute == kComputeF32 && algorithm == -1;
  if (!is_known || library->mode != kSumsInF32) return kInvalidValue;
  const auto multiply_of = [&]<class Operand>(Operand) {
    return multiply<float, Operand>(library, left, right, m, n, k, static_cast<const float*>(alpha),
                                    {static_cast<const Operand*>(a), lda, step_a},
                                    {static_cast<const Operand*>(b), ldb, step_b}, static_cast<const float*>(beta),
                                    {static_cast<float*>(c), ldc, step_c}, count);
  };
  if (type_a == kF16) return multiply_of(moxie::Float16());
  return type_a == kBf16 ? multiply_of(moxie::BFloat16()) : kInvalidValue;
}
Status cublasDgemm_v2(Library* library, int left, int right, int m, int n, int k, const double* alpha, const double* a,
                      int lda, const double* b, int ldb, const double* beta, double* c, int ldc) {
  return multiply<double>(library, left, right, m, n, k, alpha, {a, lda, 0}, {b, ldb, 0}, beta, {c, ldc, 0}, 1);
}
Status cublasSgemmStridedBatched(Library* library, int left, int right, int m, int n, int k, const float* alpha,
                                 const float* a, int lda, long long step_a, const float* b, int ldb, long long step_b,
                                 const float* beta, float* c, int ldc, long long step_c, int count) {
  return multiply<float>(library, left, right, m, n, k, alpha, {a, lda, step_a}, {b, ldb, step_b}, beta,
                         {c, ldc, step_c}, count);
}
Status cublasDgemmStridedBatched(Library* library, int left, int right, int m, int n, int k, const double* alpha,
                                 const double* a, int lda, long long step_a, const double* b, int ldb, long long step_b,
                                 const double* beta, double* c, int ldc, long long step_c, int count) {
  return multiply<double>(library, left, right, m, n, k, alpha, {a, lda, step_a}, {b, ldb, step_b}, beta,
                          {c, ldc, step_c}, count);
}

Status cublasStrsm_v2(Library* library, int side, int triangle, int transposition, int unit, int m, int n,
                      const float* alpha, const float* a, int lda, float* b, int ldb) {
  return solve<float>(library, side, triangle, transposition, unit, m, n, alpha, {a, lda, 0}, {b, ldb, 0});
}
Status cublasDtrsm_v2(Library* library, int side, int triangle, int transposition, int unit, int m, int n,
                      const double* alpha, const double* a, int lda, double* b, int ldb) {
  return solve<double>(library, side, triangle, transposition, unit, m, n, alpha, {a, lda, 0}, {b, ldb, 0});
}

}  // extern "C"
