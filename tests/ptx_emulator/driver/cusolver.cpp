// libcusolver.so.12 as far as moxie calls it. It is stricter than NVIDIA's: it ends a capture, as functions do that
// wait or allocate, and leaves NaN in workspaces and in triangles that its functions are not to return.
#include <algorithm>
#include <functional>
#include <limits>

#include "tests/ptx_emulator/driver/device.h"
#include "tests/ptx_emulator/driver/factorisations.h"

namespace {

using moxie::ptx::Columns;

using Status = int;
constexpr Status kNotInitialized = 1;
constexpr Status kInvalidValue = 3;
constexpr Status kExecutionFailed = 6;
constexpr int kUpperTriangle = 1;

struct Solver {
  void* stream = nullptr;
};

template <class T>
void check_matrix(const T* first, int stride, int rows, int columns) {
  if (rows == 0 || columns == 0) return;
  const std::uint64_t elements = static_cast<std::uint64_t>(stride) * (columns - 1) + rows;
  moxie::ptx::device_range(reinterpret_cast<std::uint64_t>(first), elements * sizeof(T), "a factorisation");
}

/// Memory of the device for `count` elements, all of which are overwritten.
template <class T>
void spoil(T* work, int count) {
  check_matrix(work, std::max(count, 1), count, 1);
  std::fill_n(work, count, std::numeric_limits<T>::quiet_NaN());
}

template <class T>
void spoil_above(const Columns<T>& a, int n) {
  for (int j = 0; j < n; ++j) {
    for (int i = 0; i < j; ++i) a(i, j) = std::numeric_limits<T>::quiet_NaN();
  }
}

/// Lengths that no function could guess.
int length_of(int m, int n) { return m == 0 || n == 0 ? 0 : 3 * m + 2 * n + 7; }

Status give_length(bool is_valid, int m, int n, int* length) {
  if (!is_valid || length == nullptr) return kInvalidValue;
  *length = length_of(m, n);
  return 0;
}

/// Runs later, with the workspace and `info`, to which `run` gives a value.
template <class T>
Status enqueue(const Solver* solver, bool is_valid, T* work, int length, int* info, std::function<int()> run) {
  if (solver->stream == nullptr) return kNotInitialized;
  if (!is_valid || info == nullptr || (length > 0 && work == nullptr)) return kInvalidValue;
  try {
    moxie::ptx::Stream& stream = *moxie::ptx::device().streams.get(solver->stream);
    if (stream.is_capturing()) return stream.invalidate_capture(), kExecutionFailed;
    moxie::ptx::enqueue_on_stream(solver->stream, [=] {
      check_matrix(info, 1, 1, 1);
      spoil(work, length);
      *info = run();
    });
    return 0;
  } catch (const moxie::ptx::Fault&) {
    return kExecutionFailed;
  }
}

bool is_square(int n, int stride) { return n >= 0 && stride >= std::max(1, n); }
bool is_tall(int m, int n, int stride) { return n >= 0 && m >= n && stride >= std::max(1, m); }

template <class T>
Status potrf(Solver* solver, int triangle, int n, T* a, int lda, T* work, int length, int* info) {
  const Columns<T> lower{a, lda, triangle == kUpperTriangle};
  return enqueue(solver, is_square(n, lda) && length >= length_of(n, n), work, length, info, [=] {
    check_matrix(a, lda, n, n);
    const int failed = moxie::ptx::factor_cholesky(lower, n);
    spoil_above(lower, n);
    return failed;
  });
}

template <class T>
Status potri(Solver* solver, int triangle, int n, T* a, int lda, T* work, int length, int* info) {
  const Columns<T> lower{a, lda, triangle == kUpperTriangle};
  return enqueue(solver, is_square(n, lda) && length >= length_of(n, n), work, length, info, [=] {
    check_matrix(a, lda, n, n);
    moxie::ptx::invert_from_cholesky(lower, n);
    spoil_above(lower, n);
    return 0;
  });
}

template <class T>
Status getrf(Solver* solver, int m, int n, T* a, int lda, T* work, int* swaps, int* info) {
  const bool is_valid = m == n && is_square(n, lda) && swaps != nullptr;
  return enqueue(solver, is_valid, work, length_of(m, n), info, [=] {
    check_matrix(a, lda, n, n);
    check_matrix(swaps, n, n, 1);
    return moxie::ptx::factor_lu<T>({a, lda}, n, swaps);
  });
}

template <class T>
Status getrs(Solver* solver, int transposed, int n, int columns, const T* a, int lda, const int* swaps, T* b, int ldb,
             int* info) {
  const bool is_valid = is_square(n, lda) && is_square(n, ldb) && columns >= 0 && swaps != nullptr;
  return enqueue<T>(solver, is_valid, nullptr, 0, info, [=] {
    check_matrix(a, lda, n, n);
    check_matrix(b, ldb, n, columns);
    moxie::ptx::solve_lu<T>({a, lda}, n, swaps, transposed != 0, {b, ldb}, columns);
    return 0;
  });
}

template <class T>
Status geqrf(Solver* solver, int m, int n, T* a, int lda, T* scales, T* work, int length, int* info) {
  const bool is_valid = is_tall(m, n, lda) && scales != nullptr && length >= length_of(m, n);
  return enqueue(solver, is_valid, work, length, info, [=] {
    check_matrix(a, lda, m, n);
    check_matrix(scales, n, n, 1);
    moxie::ptx::factor_qr<T>({a, lda}, m, n, scales);
    return 0;
  });
}

template <class T>
Status orgqr(Solver* solver, int m, int n, int k, T* a, int lda, const T* scales, T* work, int length, int* info) {
  const bool is_valid = is_tall(m, n, lda) && k == n && scales != nullptr && length >= length_of(m, n);
  return enqueue(solver, is_valid, work, length, info, [=] {
    check_matrix(a, lda, m, n);
    moxie::ptx::form_q<T>({a, lda}, m, n, scales);
    return 0;
  });
}

template <class T>
Status syevd(Solver* solver, int vectors, int triangle, int n, T* a, int lda, T* values, T* work, int length,
             int* info) {
  const bool is_valid =
      is_square(n, lda) && triangle != kUpperTriangle && values != nullptr && length >= length_of(n, n);
  return enqueue(solver, is_valid, work, length, info, [=] {
    check_matrix(a, lda, n, n);
    check_matrix(values, n, n, 1);
    moxie::ptx::decompose_symmetric<T>({a, lda}, n, values);
    if (vectors == 0) spoil_above<T>({a, lda}, n);
    return 0;
  });
}

template <class T>
Status gesvd(Solver* solver, signed char wanted_u, signed char wanted_vt, int m, int n, T* a, int lda, T* values, T* u,
             int ldu, T* vt, int ldvt, T* work, int length, int* info) {
  const bool wants = wanted_u == 'S';
  const bool is_valid = is_tall(m, n, lda) && wanted_u == wanted_vt && (wants || wanted_u == 'N') &&
                        values != nullptr && length >= length_of(m, n) &&
                        (!wants || (is_tall(m, n, ldu) && is_square(n, ldvt)));
  return enqueue(solver, is_valid, work, length, info, [=] {
    check_matrix(a, lda, m, n);
    check_matrix(values, n, n, 1);
    const moxie::ptx::Singular singular = moxie::ptx::decompose<T>({a, lda}, m, n);
    for (int j = 0; j < n; ++j) values[j] = T(singular.values[static_cast<std::size_t>(j)]);
    if (!wants) return 0;
    check_matrix(u, ldu, m, n);
    check_matrix(vt, ldvt, n, n);
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < m; ++i) u[i + std::ptrdiff_t{ldu} * j] = T(singular.u[static_cast<std::size_t>(j * m + i)]);
      for (int i = 0; i < n; ++i) vt[j + std::ptrdiff_t{ldvt} * i] = T(singular.v[static_cast<std::size_t>(j * n + i)]);
    }
    return 0;
  });
}

}  // namespace

extern "C" {

Status cusolverDnCreate(Solver** solver) { return *solver = new Solver, 0; }
Status cusolverDnDestroy(Solver* solver) { return delete solver, 0; }
Status cusolverDnSetStream(Solver* solver, void* stream) { return solver->stream = stream, 0; }
Status cusolverGetProperty(int which, int* value) { return *value = which == 0 ? 12 : 0, 0; }

// The functions of one dtype, as cusolverDn.h declares them.
#define FUNCTIONS(X, T)                                                                                             \
  Status cusolverDn##X##potrf_bufferSize(Solver*, int, int n, T*, int lda, int* length) {                           \
    return give_length(is_square(n, lda), n, n, length);                                                            \
  }                                                                                                                 \
  Status cusolverDn##X##potrf(Solver* solver, int triangle, int n, T* a, int lda, T* work, int length, int* info) { \
    return potrf(solver, triangle, n, a, lda, work, length, info);                                                  \
  }                                                                                                                 \
  Status cusolverDn##X##potri_bufferSize(Solver*, int, int n, T*, int lda, int* length) {                           \
    return give_length(is_square(n, lda), n, n, length);                                                            \
  }                                                                                                                 \
  Status cusolverDn##X##potri(Solver* solver, int triangle, int n, T* a, int lda, T* work, int length, int* info) { \
    return potri(solver, triangle, n, a, lda, work, length, info);                                                  \
  }                                                                                                                 \
  Status cusolverDn##X##getrf_bufferSize(Solver*, int m, int n, T*, int lda, int* length) {                         \
    return give_length(is_tall(m, n, lda), m, n, length);                                                           \
  }                                                                                                                 \
  Status cusolverDn##X##getrf(Solver* solver, int m, int n, T* a, int lda, T* work, int* swaps, int* info) {        \
    return getrf(solver, m, n, a, lda, work, swaps, info);                                                          \
  }                                                                                                                 \
  Status cusolverDn##X##getrs(Solver* solver, int transposed, int n, int columns, const T* a, int lda,              \
                              const int* swaps, T* b, int ldb, int* info) {                                         \
    return getrs(solver, transposed, n, columns, a, lda, swaps, b, ldb, info);                                      \
  }                                                                                                                 \
  Status cusolverDn##X##geqrf_bufferSize(Solver*, int m, int n, T*, int lda, int* length) {                         \
    return give_length(is_tall(m, n, lda), m, n, length);                                                           \
  }                                                                                                                 \
  Status cusolverDn##X##geqrf(Solver* solver, int m, int n, T* a, int lda, T* scales, T* work, int length,          \
                              int* info) {                                                                          \
    return geqrf(solver, m, n, a, lda, scales, work, length, info);                                                 \
  }                                                                                                                 \
  Status cusolverDn##X##orgqr_bufferSize(Solver*, int m, int n, int, const T*, int lda, const T*, int* length) {    \
    return give_length(is_tall(m, n, lda), m, n, length);                                                           \
  }                                                                                                                 \
  Status cusolverDn##X##orgqr(Solver* solver, int m, int n, int k, T* a, int lda, const T* scales, T* work,         \
                              int length, int* info) {                                                              \
    return orgqr(solver, m, n, k, a, lda, scales, work, length, info);                                              \
  }                                                                                                                 \
  Status cusolverDn##X##syevd_bufferSize(Solver*, int, int, int n, const T*, int lda, const T*, int* length) {      \
    return give_length(is_square(n, lda), n, n, length);                                                            \
  }                                                                                                                 \
  Status cusolverDn##X##syevd(Solver* solver, int vectors, int triangle, int n, T* a, int lda, T* values, T* work,  \
                              int length, int* info) {                                                              \
    return syevd(solver, vectors, triangle, n, a, lda, values, work, length, info);                                 \
  }                                                                                                                 \
  Status cusolverDn##X##gesvd_bufferSize(Solver*, int m, int n, int* length) {                                      \
    return give_length(m >= n && n >= 0, m, n, length);                                                             \
  }                                                                                                                 \
  Status cusolverDn##X##gesvd(Solver* solver, signed char wanted_u, signed char wanted_vt, int m, int n, T* a,      \
                              int lda, T* values, T* u, int ldu, T* vt, int ldvt, T* work, int length, T*,          \
                              int* info) {                                                                          \
    return gesvd(solver, wanted_u, wanted_vt, m, n, a, lda, values, u, ldu, vt, ldvt, work, length, info);          \
  }

FUNCTIONS(S, float)
FUNCTIONS(D, double)

}  // extern "C"
