#include "runtime/cpu/blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cpu/product_tiles.h"

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

/// One tile, by the calling thread.
template <class T>
void multiply(Gemm<T> f, const ProductCall& call, const ProductTile& tile, double alpha, const void* left,
              const void* right, void* out) {
  const int left_stride = to_int(call.left_transposed ? call.rows : std::max<std::int64_t>(call.depth, 1));
  const int right_stride = to_int(call.right_transposed ? std::max<std::int64_t>(call.depth, 1) : call.columns);
  const T* left_tile = static_cast<const T*>(left) + tile.row * (call.left_transposed ? 1 : left_stride);
  const T* right_tile = static_cast<const T*>(right) + tile.column * (call.right_transposed ? right_stride : 1);
  T* out_tile = static_cast<T*>(out) + tile.row * call.columns + tile.column;
  f(kRowMajor, call.left_transposed ? kTranspose : kNoTranspose, call.right_transposed ? kTranspose : kNoTranspose,
    to_int(tile.rows), to_int(tile.columns), to_int(call.depth), static_cast<T>(alpha), left_tile, left_stride,
    right_tile, right_stride, T(0), out_tile, to_int(call.columns));
}

/// While this lives, the library computes each product on the thread that asks for it. There is one number of threads
/// for the whole process, and it belongs to the host program, whose own products may use the same library: it is as it
/// was when the last product ends.
class OneThreadEach {
 public:
  OneThreadEach() {
    if (!is_possible()) return;
    const std::scoped_lock lock(mutex);
    if (users++ > 0) return;
    owners = blas().threads();
    if (owners != 1) blas().set_threads(1);
  }
  ~OneThreadEach() {
    if (!is_possible()) return;
    const std::scoped_lock lock(mutex);
    if (--users == 0 && owners != 1) blas().set_threads(owners);
  }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;

 private:
  static bool is_possible() { return blas().set_threads && blas().threads; }
  static inline std::mutex mutex;
  static inline int users = 0, owners = 0;
};

}  // namespace

void prepare_blas() { blas(); }

std::string blas_kernels() { return blas().kernels; }

void gemm(ThreadPool& pool, DType dtype, const ProductCall& call, double alpha, const void* left, const void* right,
          void* out) {
  const OneThreadEach borrowed;
  const std::vector<ProductTile> tiles = product_tiles(call.rows, call.columns, call.depth);
  pool.run(static_cast<std::int64_t>(tiles.size()), [&](std::int64_t piece, int) {
    const ProductTile& tile = tiles[static_cast<std::size_t>(piece)];
    if (dtype == DType::f32)
      multiply(blas().sgemm, call, tile, alpha, left, right, out);
    else
      multiply(blas().dgemm, call, tile, alpha, left, right, out);
  });
}

}  // namespace moxie
