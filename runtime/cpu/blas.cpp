#include "runtime/cpu/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>

#include "compiler/support/error.h"

namespace moxie {
namespace {

// From the CBLAS standard: row-major order and the two transpositions.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;

template <class T>
using Gemm = void (*)(int order, int left, int right, int m, int n, int k, T alpha, const T* a, int lda, const T* b,
                      int ldb, T beta, T* c, int ldc);

struct Blas {
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;
  void (*set_threads)(int) = nullptr;
  int (*threads)() = nullptr;
  std::string kernels;  // what processor they are for, if the library says so
};

Blas load_blas() {
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library)
    throw DeviceError(std::string("OpenBLAS cannot be loaded: ") + dlerror() + "; install it (Debian: libopenblas0)");
  Blas blas;
  blas.sgemm = reinterpret_cast<Gemm<float>>(dlsym(library, "cblas_sgemm"));
  blas.dgemm = reinterpret_cast<Gemm<double>>(dlsym(library, "cblas_dgemm"));
  blas.set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  blas.threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  if (const auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) blas.kernels = core();
  if (!blas.sgemm || !blas.dgemm)
    throw DeviceError("the OpenBLAS found has no cblas_sgemm; install Debian's libopenblas0");
  return blas;
}

const Blas& blas() {
  static const Blas loaded = load_blas();
  return loaded;
}

int to_int(std::int64_t value) {
  if (value > INT32_MAX)
    throw DeviceError("a matrix product has an extent above 2^31, which BLAS cannot take: " + std::to_string(value));
  return static_cast<int>(value);
}

template <class T>
void multiply(Gemm<T> f, const ProductCall& call, double alpha, const void* left, const void* right, void* out) {
  const int m = to_int(call.rows);
  const int n = to_int(call.columns);
  const int k = to_int(call.depth);
  if (m == 0 || n == 0) return;
  f(kRowMajor, call.left_transposed ? kTranspose : kNoTranspose, call.right_transposed ? kTranspose : kNoTranspose, m,
    n, k, static_cast<T>(alpha), static_cast<const T*>(left), call.left_transposed ? m : std::max(k, 1),
    static_cast<const T*>(right), call.right_transposed ? std::max(k, 1) : n, T(0), static_cast<T*>(out), n);
}

/// The library's number of threads while this lives. There is one number for the whole process, and it belongs to the
/// host program, whose own products may use the same library: it is as it was when the last product ends. Products with
/// the same number run at once, others take turns.
class BorrowedThreads {
 public:
  explicit BorrowedThreads(int threads) : borrows_(threads > 0 && blas().set_threads && blas().threads) {
    if (!borrows_) return;
    std::unique_lock lock(mutex);
    free.wait(lock, [&] { return users == 0 || chosen == threads; });
    if (users++ > 0) return;
    chosen = threads;
    owners = blas().threads();
    if (owners != chosen) blas().set_threads(chosen);
  }
  ~BorrowedThreads() {
    if (!borrows_) return;
    const std::scoped_lock lock(mutex);
    if (--users > 0) return;
    if (owners != chosen) blas().set_threads(owners);
    free.notify_all();
  }
  BorrowedThreads(const BorrowedThreads&) = delete;
  BorrowedThreads& operator=(const BorrowedThreads&) = delete;

 private:
  bool borrows_;
  static inline std::mutex mutex;
  static inline std::condition_variable free;
  static inline int users = 0, chosen = 0, owners = 0;
};

}  // namespace

void prepare_blas() { blas(); }

std::string blas_kernels() { return blas().kernels; }

void gemm(DType dtype, const ProductCall& call, double alpha, const void* left, const void* right, void* out,
          int threads) {
  const BorrowedThreads borrowed(threads);
  if (dtype == DType::f32)
    multiply(blas().sgemm, call, alpha, left, right, out);
  else
    multiply(blas().dgemm, call, alpha, left, right, out);
}

}  // namespace moxie
