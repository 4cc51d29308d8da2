#include "runtime/cpu/onednn.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "compiler/support/error.h"

namespace moxie::onednn {
namespace {

using Extent = std::int64_t;  // dnnl_dim_t

/// The beginning of dnnl_version_t, as in versions 2 and 3.
struct Version {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime;
};
constexpr unsigned kSequential = 1, kOpenMp = 2;  // DNNL_RUNTIME_SEQ, DNNL_RUNTIME_OMP
constexpr unsigned kAvx2 = 0x7;                   // dnnl_cpu_isa_avx2: its bits are in all that have more
constexpr unsigned kAvx512 = 0x27;                // dnnl_cpu_isa_avx512_core
/// Elements of half a page. Of products with strides along the depth that are multiples of it, those of a few hundred
/// rows take up to 2.4 times what they take with OpenBLAS 0.3.21, and larger ones about the same; with other strides
/// 0.87 times (geometric mean of 104 products of 10^6 to 6*10^8 multiply-adds; oneDNN 2.6.3, EPYC with AVX2).
constexpr int kAliasedStride = 512;

struct Library {
  int (*sgemm)(char left, char right, Extent m, Extent n, Extent k, float alpha, const float* a, Extent lda,
               const float* b, Extent ldb, float beta, float* c, Extent ldc) = nullptr;
  const Version* version = nullptr;
  bool has_avx512 = false;
  // OpenMP's number of threads belongs to the thread that asks; null in a library that computes on one thread anyway.
  void (*set_threads)(int) = nullptr;
  int (*threads)() = nullptr;
};

template <class F>
bool resolve(void* library, F*& function, const char* name) {
  function = reinterpret_cast<F*>(dlsym(library, name));
  return function != nullptr;
}

/// Without sgemm if the library cannot be used.
Library resolve_all(void* library) {
  Library result;
  const Version* (*version)() = nullptr;
  unsigned (*vectors)() = nullptr;
  if (!resolve(library, version, "dnnl_version") || !resolve(library, vectors, "dnnl_get_effective_cpu_isa"))
    return result;
  if ((vectors() & kAvx2) != kAvx2) return result;  // sums without vectors, on a processor of another kind
  result.version = version();
  result.has_avx512 = (vectors() & kAvx512) == kAvx512;
  const bool one_thread =
      result.version->cpu_runtime == kSequential ||
      (result.version->cpu_runtime == kOpenMp && resolve(library, result.set_threads, "omp_set_num_threads") &&
       resolve(library, result.threads, "omp_get_max_threads"));
  if (one_thread) resolve(library, result.sgemm, "dnnl_sgemm");
  return result;
}

Library load() {
  for (const char* name : {"libdnnl.so.3", "libdnnl.so.2"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return resolve_all(library);
  }
  return {};
}

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

/// While this lives, OpenMP starts no threads for what the calling thread asks.
class OneThread {
 public:
  OneThread() {
    if (!library().threads) return;
    before_ = library().threads();
    if (before_ != 1) library().set_threads(1);
  }
  ~OneThread() {
    if (library().threads && before_ != 1) library().set_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_ = 1;
};

char letter(int transposition) { return transposition == cblas::kTranspose ? 'T' : 'N'; }

/// Writes the kernels of all transpositions, which takes some 20 ms, so that the first run does not have to.
void write_kernels() {
  const float one = 1;
  float product = 0;
  gemm(cblas::kNoTranspose, cblas::kNoTranspose, 1, 1, 1, 1, &one, 1, &one, 1, 0, &product, 1);
}

}  // namespace

bool prepare() {
  static const bool usable = [] {
    if (library().sgemm) write_kernels();
    return library().sgemm != nullptr;
  }();
  return usable;
}

bool suits(int left, int lda, int right, int ldb) {
  if (library().has_avx512) return true;
  const bool left_is_aliased = left == cblas::kTranspose && lda % kAliasedStride == 0;
  const bool right_is_aliased = right == cblas::kNoTranspose && ldb % kAliasedStride == 0;
  return !left_is_aliased && !right_is_aliased;
}

void gemm(int left, int right, int m, int n, int k, float alpha, const float* a, int lda, const float* b, int ldb,
          float beta, float* c, int ldc) {
  const OneThread here;
  const int status = library().sgemm(letter(left), letter(right), m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  if (status != 0)
    throw DeviceError(fmt::format("oneDNN could not multiply {}x{} by {}x{}: status {}", m, k, k, n, status));
}

std::string version() {
  if (!library().sgemm) return "";
  return fmt::format("{}.{}.{}", library().version->major, library().version->minor, library().version->patch);
}

}  // namespace moxie::onednn
