#pragma once
// cuSOLVER, loaded when the first program with linear algebra is planned for a GPU: factorisations of matrices whose
// columns lie one after the other.
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/cuda/cublas.h"

namespace moxie::cuda::cusolver {

// From cusolver_common.h, cublas_api.h and cusolverDn.h.
using Status = int;  // 0: success
struct Context;      // cusolverDnContext
using Handle = Context*;
constexpr int kLower = 0, kUpper = 1;
constexpr int kNoTranspose = 0, kTranspose = 1;
constexpr int kValues = 0, kVectors = 1;

/// Functions of one dtype by the names that they have in cusolverDn.h after the letter of the dtype. Each `.._size`
/// gives the elements of workspace that the function takes.
template <class T>
struct Functions {
  Status (*potrf_size)(Handle, int triangle, int n, T* a, int lda, int* length) = nullptr;
  Status (*potrf)(Handle, int triangle, int n, T* a, int lda, T* work, int length, int* info) = nullptr;
  Status (*potri_size)(Handle, int triangle, int n, T* a, int lda, int* length) = nullptr;
  Status (*potri)(Handle, int triangle, int n, T* a, int lda, T* work, int length, int* info) = nullptr;
  Status (*getrf_size)(Handle, int m, int n, T* a, int lda, int* length) = nullptr;
  Status (*getrf)(Handle, int m, int n, T* a, int lda, T* work, int* swaps, int* info) = nullptr;
  Status (*getrs)(Handle, int transposition, int n, int columns, const T* a, int lda, const int* swaps, T* b, int ldb,
                  int* info) = nullptr;
  Status (*geqrf_size)(Handle, int m, int n, T* a, int lda, int* length) = nullptr;
  Status (*geqrf)(Handle, int m, int n, T* a, int lda, T* scales, T* work, int length, int* info) = nullptr;
  Status (*orgqr_size)(Handle, int m, int n, int k, const T* a, int lda, const T* scales, int* length) = nullptr;
  Status (*orgqr)(Handle, int m, int n, int k, T* a, int lda, const T* scales, T* work, int length,
                  int* info) = nullptr;
  Status (*syevd_size)(Handle, int vectors, int triangle, int n, const T* a, int lda, const T* values,
                       int* length) = nullptr;
  Status (*syevd)(Handle, int vectors, int triangle, int n, T* a, int lda, T* values, T* work, int length,
                  int* info) = nullptr;
  Status (*gesvd_size)(Handle, int m, int n, int* length) = nullptr;
  Status (*gesvd)(Handle, signed char u, signed char vt, int m, int n, T* a, int lda, T* values, T* u_first, int ldu,
                  T* vt_first, int ldvt, T* work, int length, T* real_work, int* info) = nullptr;
};

/// The functions of the library, for one thread at a time, with a handle for each stream.
class Library {
 public:
  /// Throws DeviceError where there is none.
  explicit Library(std::vector<std::filesystem::path> directories);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// "cuSOLVER 12.0"
  std::string version() const;
  template <class T>
  const Functions<T>& functions() const {
    if constexpr (std::is_same_v<T, float>)
      return f32_;
    else
      return f64_;
  }
  /// Throws DeviceError.
  Handle handle_of(Stream stream);
  /// Throws DeviceError that says what failed.
  void check(Status status, const std::string& what) const;

 private:
  template <class T>
  void resolve(Functions<T>& functions, char letter) const;

  SharedLibrary library_;
  Status (*create_)(Handle* handle) = nullptr;
  Status (*destroy_)(Handle handle) = nullptr;
  Status (*set_stream_)(Handle handle, Stream stream) = nullptr;
  Status (*get_property_)(int property, int* value) = nullptr;
  Functions<float> f32_;
  Functions<double> f64_;
  std::map<Stream, Handle> handles_;
};

}  // namespace moxie::cuda::cusolver

namespace moxie::cuda {

/// What GPUs compute linear algebra with: cuSOLVER, and cuBLAS for triangles.
class Solver {
 public:
  explicit Solver(SolveTriangle solve_triangle, std::vector<std::filesystem::path> directories = toolkit_directories())
      : solve_triangle_(std::move(solve_triangle)), directories_(std::move(directories)) {}

  /// Whether cuSOLVER can be loaded, which the first call tries. Where it cannot, the log says why.
  bool is_available();
  /// For one that is available.
  cusolver::Library& library() { return *library_; }
  const SolveTriangle& solve_triangle() const { return solve_triangle_; }
  /// To be held by the thread that uses the library.
  std::mutex& mutex() { return mutex_; }

 private:
  SolveTriangle solve_triangle_;
  std::vector<std::filesystem::path> directories_;
  std::mutex mutex_;
  bool is_tried_ = false;
  std::unique_ptr<cusolver::Library> library_;
};

/// "cuSOLVER 12.0". Throws DeviceError where there is none.
std::string cusolver_version(std::vector<std::filesystem::path> directories = toolkit_directories());

}  // namespace moxie::cuda
