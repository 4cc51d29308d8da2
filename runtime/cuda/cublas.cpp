#include "runtime/cuda/cublas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "compiler/support/error.h"
#include "runtime/cuda/nvidia_driver.h"
#include "runtime/host_tensor.h"

namespace moxie::cuda {
namespace {

// From cublas_api.h.
using Status = int;  // 0: success
using Handle = struct CublasHandle_*;
constexpr int kNoTranspose = 0;
constexpr int kTranspose = 1;
constexpr int kLower = 0, kUpper = 1;
constexpr int kLeft = 0, kRight = 1;
constexpr int kNonUnit = 0;
constexpr int kPedanticMath = 2;                           // no TF32, no emulation
constexpr int kTensorCores = 16;                           // with sums in f32 alone
constexpr int kTypeF32 = 0, kTypeF16 = 2, kTypeBf16 = 14;  // from library_types.h
constexpr int kComputeF32 = 68;
constexpr int kDefaultAlgorithm = -1;
constexpr int kMajorVersion = 0;
constexpr int kMinorVersion = 1;

/// What NVIDIA recommends for the GPUs that want most (Hopper). Memory of our own makes products deterministic, and
/// replayable as graphs.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

template <class T>
using Gemm = Status (*)(Handle handle, int left, int right, int m, int n, int k, const T* alpha, const T* a, int lda,
                        const T* b, int ldb, const T* beta, T* c, int ldc);

template <class T>
using StridedGemm = Status (*)(Handle handle, int left, int right, int m, int n, int k, const T* alpha, const T* a,
                               int lda, long long step_a, const T* b, int ldb, long long step_b, const T* beta, T* c,
                               int ldc, long long step_c, int count);

template <class T>
using Trsm = Status (*)(Handle handle, int side, int triangle, int transposition, int unit_diagonal, int m, int n,
                        const T* alpha, const T* a, int lda, T* b, int ldb);

using AnyGemm = Status (*)(Handle handle, int left, int right, int m, int n, int k, const void* alpha, const void* a,
                           int type_a, int lda, long long step_a, const void* b, int type_b, int ldb, long long step_b,
                           const void* beta, void* c, int type_c, int ldc, long long step_c, int count, int compute,
                           int algorithm);

/// For one dtype.
template <class T>
struct Functions {
  Gemm<T> single = nullptr;
  StridedGemm<T> strided = nullptr;
  Trsm<T> trsm = nullptr;
};

struct Library {
  SharedLibrary library;
  Status (*create)(Handle* handle) = nullptr;
  Status (*destroy)(Handle handle) = nullptr;
  Status (*set_stream)(Handle handle, Stream stream) = nullptr;
  Status (*set_workspace)(Handle handle, void* memory, std::size_t bytes) = nullptr;
  Status (*set_math_mode)(Handle handle, int mode) = nullptr;
  Status (*get_property)(int property, int* value) = nullptr;
  const char* (*status_text)(Status status) = nullptr;
  Functions<float> f32;
  Functions<double> f64;
  AnyGemm any = nullptr;

  explicit Library(std::vector<std::filesystem::path> directories)
      : library({"cuBLAS",
                 {"libcublas.so.13", "libcublas.so.12", "libcublas.so"},
                 std::move(directories),
                 "Install the CUDA toolkit (12 or later; its package libcublas is enough) and set CUDA_PATH to its "
                 "folder, or use another device, such as --device cpu"}) {
    library.resolve(create, "cublasCreate_v2");
    library.resolve(destroy, "cublasDestroy_v2");
    library.resolve(set_stream, "cublasSetStream_v2");
    library.resolve(set_workspace, "cublasSetWorkspace_v2");
    library.resolve(set_math_mode, "cublasSetMathMode");
    library.resolve(get_property, "cublasGetProperty");
    library.resolve(status_text, "cublasGetStatusString");
    library.resolve(f32.single, "cublasSgemm_v2");
    library.resolve(f64.single, "cublasDgemm_v2");
    library.resolve(f32.strided, "cublasSgemmStridedBatched");
    library.resolve(f64.strided, "cublasDgemmStridedBatched");
    library.resolve(any, "cublasGemmStridedBatchedEx");
    library.resolve(f32.trsm, "cublasStrsm_v2");
    library.resolve(f64.trsm, "cublasDtrsm_v2");
  }

  void check(Status status, const std::string& what) const {
    if (status != 0) throw DeviceError(fmt::format("cuBLAS: {}: {}", what, status_text(status)));
  }
  std::string version() const {
    int major = 0;
    int minor = 0;
    get_property(kMajorVersion, &major);
    get_property(kMinorVersion, &minor);
    return fmt::format("cuBLAS {}.{}", major, minor);
  }
};

/// A handle for one stream, with memory of its own.
class StreamHandle {
 public:
  StreamHandle(const Library& library, const Driver& driver) : library_(library), driver_(driver) {}
  ~StreamHandle() {
    if (handle_ != nullptr) library_.destroy(handle_);
    if (workspace_ != 0) driver_.MemFree(workspace_);
  }
  StreamHandle(const StreamHandle&) = delete;
  StreamHandle& operator=(const StreamHandle&) = delete;

  void open(Stream stream) {
    library_.check(library_.create(&handle_), "no handle can be made");
    if (const Result error = driver_.MemAlloc(&workspace_, kWorkspaceBytes); error != 0) {
      throw DeviceError(fmt::format("cuBLAS: {} bytes of device memory are wanted: {}; use smaller batches",
                                    kWorkspaceBytes, error_text(driver_, error)));
    }
    library_.check(library_.set_stream(handle_, stream), "the stream is refused");
    // Behind set_stream(), which resets it.
    library_.check(library_.set_workspace(handle_, reinterpret_cast<void*>(workspace_), kWorkspaceBytes),
                   "the workspace is refused");
    library_.check(library_.set_math_mode(handle_, kPedanticMath), "strict precision is refused");
  }
  Handle get() const { return handle_; }

 private:
  const Library& library_;
  Driver driver_;
  Handle handle_ = nullptr;
  DevicePointer workspace_ = 0;
};

int to_int(std::int64_t value) {
  if (value > INT32_MAX)
    throw DeviceError(fmt::format("a matrix product has an extent of {}, above the 2^31 that cuBLAS takes", value));
  return static_cast<int>(value);
}

template <class T>
Status multiply(const Functions<T>& gemms, Handle handle, const GemmArguments& g, const MatrixProductCall& call) {
  const T alpha = static_cast<T>(call.alpha);
  const T beta = call.adds ? 1 : 0;
  const auto matrix = [](DevicePointer pointer) { return reinterpret_cast<T*>(pointer); };
  const int first = g.first_transposed ? kTranspose : kNoTranspose;
  const int second = g.second_transposed ? kTranspose : kNoTranspose;
  if (g.count == 1) {
    return gemms.single(handle, first, second, g.m, g.n, g.k, &alpha, matrix(g.first), g.first_stride, matrix(g.second),
                        g.second_stride, &beta, matrix(g.out), g.out_stride);
  }
  return gemms.strided(handle, first, second, g.m, g.n, g.k, &alpha, matrix(g.first), g.first_stride, g.first_step,
                       matrix(g.second), g.second_stride, g.second_step, &beta, matrix(g.out), g.out_stride, g.out_step,
                       g.count);
}

/// Multiplies f16 or bf16 on tensor cores. These are off in strict precision, so this call turns them on.
Status multiply_halves(const Library& library, Handle handle, const GemmArguments& g, const MatrixProductCall& call) {
  const auto alpha = static_cast<float>(call.alpha);
  const float beta = call.adds ? 1 : 0;
  const int type = call.operands == DType::f16 ? kTypeF16 : kTypeBf16;
  const auto matrix = [](DevicePointer pointer) { return reinterpret_cast<void*>(pointer); };
  if (const Status status = library.set_math_mode(handle, kTensorCores); status != 0) return status;
  const Status status = library.any(
      handle, g.first_transposed ? kTranspose : kNoTranspose, g.second_transposed ? kTranspose : kNoTranspose, g.m, g.n,
      g.k, &alpha, matrix(g.first), type, g.first_stride, g.first_step, matrix(g.second), type, g.second_stride,
      g.second_step, &beta, matrix(g.out), kTypeF32, g.out_stride, g.out_step, g.count, kComputeF32, kDefaultAlgorithm);
  const Status reset = library.set_math_mode(handle, kPedanticMath);
  return status != 0 ? status : reset;
}

template <class T>
Status solve(const Functions<T>& functions, Handle handle, const TriangleArguments& t) {
  const T alpha = 1;
  return functions.trsm(handle, t.right ? kRight : kLeft, t.upper ? kUpper : kLower,
                        t.transposed ? kTranspose : kNoTranspose, kNonUnit, t.m, t.n, &alpha,
                        reinterpret_cast<const T*>(t.triangle), t.triangle_stride, reinterpret_cast<T*>(t.b),
                        t.b_stride);
}

class Cublas {
 public:
  Cublas(const Driver& driver, std::vector<std::filesystem::path> directories)
      : driver_(driver), directories_(std::move(directories)) {}

  void multiply_matrices(const MatrixProductCall& call, Stream stream) {
    if (call.shape.rows == 0 || call.shape.columns == 0) return;
    const std::scoped_lock lock(mutex_);
    const Handle handle = handle_of(stream);
    for (const GemmArguments& g : gemm_arguments(call)) {
      const Status status = multiply_one(handle, call, g);
      if (status == 0) continue;
      const ProductCall& of = call.shape;
      throw DeviceError(fmt::format("{}: {} products of [{},{}] and [{},{}] in {} failed: {}", library_->version(),
                                    g.count, of.rows, of.depth, of.depth, of.columns, to_string(call.operands),
                                    library_->status_text(status)));
    }
  }

  void solve_triangle(DType dtype, const TriangleArguments& t, Stream stream) {
    if (t.m == 0 || t.n == 0) return;
    const std::scoped_lock lock(mutex_);
    const Handle handle = handle_of(stream);
    const Status status = dtype == DType::f32 ? solve(library_->f32, handle, t) : solve(library_->f64, handle, t);
    if (status == 0) return;
    throw DeviceError(fmt::format("{}: a triangular solve of [{},{}] in {} failed: {}", library_->version(), t.m, t.n,
                                  to_string(dtype), library_->status_text(status)));
  }

 private:
  Status multiply_one(Handle handle, const MatrixProductCall& call, const GemmArguments& g) const {
    if (is_half(call.operands)) return multiply_halves(*library_, handle, g, call);
    return call.dtype == DType::f32 ? multiply(library_->f32, handle, g, call)
                                    : multiply(library_->f64, handle, g, call);
  }

  Handle handle_of(Stream stream) {
    if (!library_) library_ = std::make_unique<const Library>(directories_);
    auto& known = handles_[stream];
    if (!known) {
      auto handle = std::make_unique<StreamHandle>(*library_, driver_);
      handle->open(stream);
      known = std::move(handle);
    }
    return known->get();
  }

  Driver driver_;
  std::vector<std::filesystem::path> directories_;
  std::mutex mutex_;
  std::unique_ptr<const Library> library_;
  std::map<Stream, std::unique_ptr<StreamHandle>> handles_;
};

}  // namespace

std::vector<GemmArguments> gemm_arguments(const MatrixProductCall& call) {
  ProductCall shape = call.shape;
  ProductBatch together;
  if (!shape.batch.empty()) {
    const auto longest = std::ranges::max_element(shape.batch, {}, &ProductBatch::count);
    together = *longest;
    shape.batch.erase(longest);
  }
  if (together.count == 0) return {};
  const auto stride = [](const ProductMatrix& matrix, std::int64_t rows, std::int64_t columns) {
    return to_int(leading_dimension(matrix, rows, columns));
  };
  const auto address = [](DevicePointer tensor, const ProductMatrix& matrix, std::int64_t offset, DType dtype) {
    return tensor + static_cast<DevicePointer>(matrix.first + offset) * size_of(dtype);
  };
  std::vector<GemmArguments> calls;
  for (std::int64_t number = 0; number < batch_count(shape); ++number) {
    const ProductOffset offset = offset_of(shape, number);
    calls.push_back({is_transposed(shape.right), is_transposed(shape.left), to_int(shape.columns), to_int(shape.rows),
                     to_int(shape.depth), address(call.right, shape.right, offset.right, call.operands),
                     address(call.left, shape.left, offset.left, call.operands),
                     address(call.out, shape.out, offset.out, call.dtype),
                     stride(shape.right, shape.depth, shape.columns), stride(shape.left, shape.rows, shape.depth),
                     stride(shape.out, shape.rows, shape.columns), to_int(together.count), together.right,
                     together.left, together.out});
  }
  return calls;
}

CublasCalls cublas_calls(const Driver& driver, std::vector<std::filesystem::path> directories) {
  const auto cublas = std::make_shared<Cublas>(driver, std::move(directories));
  return {
      [cublas](const MatrixProductCall& call, Stream stream) { cublas->multiply_matrices(call, stream); },
      [cublas](DType dtype, const TriangleArguments& t, Stream stream) { cublas->solve_triangle(dtype, t, stream); }};
}

std::string cublas_version(std::vector<std::filesystem::path> directories) {
  return Library(std::move(directories)).version();
}

}  // namespace moxie::cuda
