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

template <class T>
struct Matrix {
  const T* first;  // of the tile
  int transposition, stride;
};

/// The part of an operand that a tile needs, from this row and column on.
template <class T>
Matrix<T> matrix_at(const void* tensor, const ProductMatrix& matrix, std::int64_t offset, std::int64_t row,
                    std::int64_t column, std::int64_t stride) {
  const std::int64_t first = matrix.first + offset + row * matrix.row_stride + column * matrix.column_stride;
  return {static_cast<const T*>(tensor) + first, is_transposed(matrix) ? kTranspose : kNoTranspose, to_int(stride)};
}

/// One tile of one product of the batch, by the calling thread.
template <class T>
void multiply(Gemm<T> f, const ProductCall& call, const ProductOffset& offset, const ProductTile& tile, double alpha,
              const void* left, const void* right, void* out) {
  const auto a =
      matrix_at<T>(left, call.left, offset.left, tile.row, 0, leading_dimension(call.left, call.rows, call.depth));
  const auto b = matrix_at<T>(right, call.right, offset.right, 0, tile.column,
                              leading_dimension(call.right, call.depth, call.columns));
  T* c = static_cast<T*>(out) + call.out.first + offset.out + tile.row * call.out.row_stride + tile.column;
  f(kRowMajor, a.transposition, b.transposition, to_int(tile.rows), to_int(tile.columns), to_int(call.depth),
    static_cast<T>(alpha), a.first, a.stride, b.first, b.stride, T(0), c,
    to_int(leading_dimension(call.out, call.rows, call.columns)));
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
  const std::int64_t products = batch_count(call);
  const std::vector<ProductTile> tiles = product_tiles(call.rows, call.columns, call.depth, products);
  const auto per_product = static_cast<std::int64_t>(tiles.size());
  const std::int64_t total = products * per_product;
  const std::int64_t grain = product_grain(call.rows, call.columns, call.depth, total);
  pool.run((total + grain - 1) / grain, [&](std::int64_t piece, int) {
    for (std::int64_t k = piece * grain; k < std::min((piece + 1) * grain, total); ++k) {
      const ProductOffset offset = offset_of(call, k / per_product);
      const ProductTile& tile = tiles[static_cast<std::size_t>(k % per_product)];
      if (dtype == DType::f32)
        multiply(blas().sgemm, call, offset, tile, alpha, left, right, out);
      else
        multiply(blas().dgemm, call, offset, tile, alpha, left, right, out);
    }
  });
}

}  // namespace moxie
