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

struct Blas {
  BlasCalls<float> single = {};
  BlasCalls<double> in_double = {};
  void (*set_threads)(int) = nullptr;
  int (*threads)() = nullptr;
  std::string kernels;  // what processor they are for, if the library says so
};

template <class F>
void resolve(void* library, F*& function, const std::string& name) {
  function = reinterpret_cast<F*>(dlsym(library, name.c_str()));
  if (!function) throw DeviceError("the OpenBLAS found has no " + name + "; install Debian's libopenblas0");
}

/// `letter` is that of the dtype in the names.
template <class T>
void resolve_all(void* library, BlasCalls<T>& calls, const std::string& letter) {
  resolve(library, calls.gemm, "cblas_" + letter + "gemm");
  resolve(library, calls.trsm, "cblas_" + letter + "trsm");
  resolve(library, calls.trmm, "cblas_" + letter + "trmm");
  resolve(library, calls.trsv, "cblas_" + letter + "trsv");
  resolve(library, calls.potrf, letter + "potrf_");
  resolve(library, calls.lauum, letter + "lauum_");
  resolve(library, calls.getrf, letter + "getrf_");
  resolve(library, calls.getrs, letter + "getrs_");
  resolve(library, calls.getri, letter + "getri_");
}

Blas load_blas() {
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library)
    throw DeviceError(std::string("OpenBLAS cannot be loaded: ") + dlerror() + "; install it (Debian: libopenblas0)");
  Blas blas;
  resolve_all(library, blas.single, "s");
  resolve_all(library, blas.in_double, "d");
  blas.set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  blas.threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  if (const auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"))) blas.kernels = core();
  return blas;
}

const Blas& blas() {
  static const Blas loaded = load_blas();
  return loaded;
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
  return {static_cast<const T*>(tensor) + first, is_transposed(matrix) ? cblas::kTranspose : cblas::kNoTranspose,
          to_blas_int(stride)};
}

/// One tile of one product of the batch, by the calling thread.
template <class T>
void multiply(const BlasCalls<T>& calls, const ProductCall& call, const ProductOffset& offset, const ProductTile& tile,
              double alpha, const void* left, const void* right, void* out) {
  const auto a =
      matrix_at<T>(left, call.left, offset.left, tile.row, 0, leading_dimension(call.left, call.rows, call.depth));
  const auto b = matrix_at<T>(right, call.right, offset.right, 0, tile.column,
                              leading_dimension(call.right, call.depth, call.columns));
  T* c = static_cast<T*>(out) + call.out.first + offset.out + tile.row * call.out.row_stride + tile.column;
  calls.gemm(cblas::kRowMajor, a.transposition, b.transposition, to_blas_int(tile.rows), to_blas_int(tile.columns),
             to_blas_int(call.depth), static_cast<T>(alpha), a.first, a.stride, b.first, b.stride, T(0), c,
             to_blas_int(leading_dimension(call.out, call.rows, call.columns)));
}

/// Those who want one thread each, and how many threads the owner of the process had chosen before them.
struct Borrowed {
  std::mutex mutex;
  int users = 0, owners = 0;
};
Borrowed& borrowed() {
  static Borrowed one;
  return one;
}

bool can_choose_threads() { return blas().set_threads && blas().threads; }

}  // namespace

template <>
const BlasCalls<float>& blas_calls<float>() {
  return blas().single;
}
template <>
const BlasCalls<double>& blas_calls<double>() {
  return blas().in_double;
}

int to_blas_int(std::int64_t value) {
  if (value > INT32_MAX)
    throw DeviceError("a matrix has an extent above 2^31, which BLAS cannot take: " + std::to_string(value));
  return static_cast<int>(value);
}

OneThreadEach::OneThreadEach() {
  if (!can_choose_threads()) return;
  const std::scoped_lock lock(borrowed().mutex);
  if (borrowed().users++ > 0) return;
  borrowed().owners = blas().threads();
  if (borrowed().owners != 1) blas().set_threads(1);
}

OneThreadEach::~OneThreadEach() {
  if (!can_choose_threads()) return;
  const std::scoped_lock lock(borrowed().mutex);
  if (--borrowed().users == 0 && borrowed().owners != 1) blas().set_threads(borrowed().owners);
}

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
        multiply(blas().single, call, offset, tile, alpha, left, right, out);
      else
        multiply(blas().in_double, call, offset, tile, alpha, left, right, out);
    }
  });
}

}  // namespace moxie
