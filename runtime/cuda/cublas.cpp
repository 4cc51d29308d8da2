#include "runtime/cuda/cublas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "compiler/support/error.h"
#include "runtime/cuda/nvidia_driver.h"

namespace moxie::cuda {
namespace {

// From cublas_api.h.
using Status = int;  // 0: success
using Handle = struct CublasHandle_*;
constexpr int kNoTranspose = 0;
constexpr int kTranspose = 1;
constexpr int kPedanticMath = 2;  // no TF32, no emulation
constexpr int kMajorVersion = 0;
constexpr int kMinorVersion = 1;

/// What NVIDIA recommends for the GPUs that want most (Hopper). Memory of our own makes products deterministic, and
/// replayable as graphs.
constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

template <class T>
using Gemm = Status (*)(Handle handle, int left, int right, int m, int n, int k, const T* alpha, const T* a, int lda,
                        const T* b, int ldb, const T* beta, T* c, int ldc);

struct Library {
  SharedLibrary library;
  Status (*create)(Handle* handle) = nullptr;
  Status (*destroy)(Handle handle) = nullptr;
  Status (*set_stream)(Handle handle, Stream stream) = nullptr;
  Status (*set_workspace)(Handle handle, void* memory, std::size_t bytes) = nullptr;
  Status (*set_math_mode)(Handle handle, int mode) = nullptr;
  Status (*get_property)(int property, int* value) = nullptr;
  const char* (*status_text)(Status status) = nullptr;
  Gemm<float> sgemm = nullptr;
  Gemm<double> dgemm = nullptr;

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
    library.resolve(sgemm, "cublasSgemm_v2");
    library.resolve(dgemm, "cublasDgemm_v2");
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
Status multiply(Gemm<T> gemm, Handle handle, const MatrixProductCall& call) {
  const GemmArguments g = gemm_arguments(call);
  const T alpha = static_cast<T>(call.alpha);
  const T beta = 0;
  const auto matrix = [](DevicePointer pointer) { return reinterpret_cast<T*>(pointer); };
  return gemm(handle, g.first_transposed ? kTranspose : kNoTranspose, g.second_transposed ? kTranspose : kNoTranspose,
              g.m, g.n, g.k, &alpha, matrix(g.first), g.first_stride, matrix(g.second), g.second_stride, &beta,
              matrix(g.out), g.out_stride);
}

class Multiplier {
 public:
  Multiplier(const Driver& driver, std::vector<std::filesystem::path> directories)
      : driver_(driver), directories_(std::move(directories)) {}

  void operator()(const MatrixProductCall& call, Stream stream) {
    if (call.rows == 0 || call.columns == 0) return;
    const std::scoped_lock lock(mutex_);
    if (!library_) library_ = std::make_unique<const Library>(directories_);
    const Handle handle = handle_of(stream);
    const Status status =
        call.dtype == DType::f32 ? multiply(library_->sgemm, handle, call) : multiply(library_->dgemm, handle, call);
    if (status == 0) return;
    throw DeviceError(fmt::format("{}: a product of [{},{}] and [{},{}] in {} failed: {}", library_->version(),
                                  call.rows, call.depth, call.depth, call.columns, to_string(call.dtype),
                                  library_->status_text(status)));
  }

 private:
  Handle handle_of(Stream stream) {
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

GemmArguments gemm_arguments(const MatrixProductCall& call) {
  const int rows = to_int(call.rows);
  const int columns = to_int(call.columns);
  const int depth = to_int(call.depth);
  const int depth_stride = std::max(depth, 1);
  return {call.right_transposed,
          call.left_transposed,
          columns,
          rows,
          depth,
          call.right,
          call.left,
          call.out,
          call.right_transposed ? depth_stride : columns,
          call.left_transposed ? rows : depth_stride,
          columns};
}

Multiply cublas_multiply(const Driver& driver, std::vector<std::filesystem::path> directories) {
  const auto multiplier = std::make_shared<Multiplier>(driver, std::move(directories));
  return [multiplier](const MatrixProductCall& call, Stream stream) { (*multiplier)(call, stream); };
}

std::string cublas_version(std::vector<std::filesystem::path> directories) {
  return Library(std::move(directories)).version();
}

}  // namespace moxie::cuda
