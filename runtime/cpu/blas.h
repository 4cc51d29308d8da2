#pragma once
// OpenBLAS, loaded when the first matrix product is prepared.
#include <cstdint>
#include <string>

namespace moxie {

/// Values of arguments, from the CBLAS standard.
namespace cblas {
inline constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112, kLower = 122, kNonUnit = 131, kLeft = 141,
                     kRight = 142;
}

/// The functions of BLAS and LAPACK that blocked algorithms are made of, as they are in C and Fortran.
template <class T>
struct BlasCalls {
  void (*gemm)(int order, int left, int right, int m, int n, int k, T alpha, const T* a, int lda, const T* b, int ldb,
               T beta, T* c, int ldc);
  void (*trsm)(int order, int side, int triangle, int transposition, int diagonal, int m, int n, T alpha, const T* a,
               int lda, T* b, int ldb);
  void (*trmm)(int order, int side, int triangle, int transposition, int diagonal, int m, int n, T alpha, const T* a,
               int lda, T* b, int ldb);
  T (*asum)(int n, const T* x, int step);
  void (*trsv)(int order, int triangle, int transposition, int diagonal, int n, const T* a, int lda, T* x, int step);
  void (*potrf)(const char* triangle, const int* n, T* a, const int* lda, int* info);
  void (*lauum)(const char* triangle, const int* n, T* a, const int* lda, int* info);
  void (*getrf)(const int* m, const int* n, T* a, const int* lda, int* swaps, int* info);
  void (*getrs)(const char* transposition, const int* n, const int* columns, const T* a, const int* lda,
                const int* swaps, T* b, const int* ldb, int* info);
  void (*geqrf)(const int* m, const int* n, T* a, const int* lda, T* scales, T* work, const int* length, int* info);
  void (*orgqr)(const int* m, const int* n, const int* reflections, T* a, const int* lda, const T* scales, T* work,
                const int* length, int* info);
  void (*syevd)(const char* vectors, const char* triangle, const int* n, T* a, const int* lda, T* values, T* work,
                const int* length, int* integers, const int* integers_length, int* info);
  void (*gesdd)(const char* vectors, const int* m, const int* n, T* a, const int* lda, T* values, T* u, const int* ldu,
                T* vt, const int* ldvt, T* work, const int* length, int* integers, int* info);
  void (*getri)(const int* n, T* a, const int* lda, const int* swaps, T* work, const int* length, int* info);
};
template <class T>
const BlasCalls<T>& blas_calls();

/// An extent or a stride as BLAS takes it. Throws DeviceError for one above 2^31.
int to_blas_int(std::int64_t value);

/// While this lives, the library computes on the thread that asks for it. There is one number of threads for the whole
/// process, and it belongs to the host program, whose own products may use the same library: it is as it was when the
/// last of these ends.
class OneThreadEach {
 public:
  OneThreadEach();
  ~OneThreadEach();
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;

 private:
  void (*set_threads_)(int) = nullptr;  // of the library; none where it has no number of threads to choose
};

/// Loads the library, so that a run does not have to.
void prepare_blas();
/// The processor that the library's kernels are for, as it names it: "SkylakeX"; empty if it does not say.
std::string blas_kernels();

}  // namespace moxie
