#include "runtime/cpu/blas.h"

#include <dlfcn.h>

#include <cstdlib>
#include <mutex>
#include <string>

#include "compiler/support/error.h"
#include "runtime/cpu/host.h"

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
  resolve(library, calls.asum, "cblas_" + letter + "asum");
  resolve(library, calls.trsv, "cblas_" + letter + "trsv");
  resolve(library, calls.potrf, letter + "potrf_");
  resolve(library, calls.lauum, letter + "lauum_");
  resolve(library, calls.getrf, letter + "getrf_");
  resolve(library, calls.getrs, letter + "getrs_");
  resolve(library, calls.getri, letter + "getri_");
  resolve(library, calls.geqrf, letter + "geqrf_");
  resolve(library, calls.orgqr, letter + "orgqr_");
  resolve(library, calls.syevd, letter + "syevd_");
  resolve(library, calls.gesdd, letter + "gesdd_");
}

void* open_library(int flags) {
  void* library = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    if (!library) library = dlopen(name, flags);
  }
  return library;
}

std::string core_name(void* library) {
  const auto core = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_corename"));
  return core ? core() : "";
}

constexpr const char* kKernelsVariable = "OPENBLAS_CORETYPE";

/// The kernels to ask for in the place of those that the library has chosen; null if these will do. OpenBLAS knows
/// processors by model numbers, and takes one that is newer than itself for a Prescott, which had no AVX. (Version
/// 0.3.21 on an Emerald Rapids, sgemm of 600 x 600 matrices: 15 multiply-adds per nanosecond as Prescott, 38 as
/// Haswell, 59 as SkylakeX.)
const char* better_kernels(const std::string& chosen) {
  if (chosen != "Prescott" || std::getenv(kKernelsVariable)) return nullptr;
  if (host_supports("x86-64-v4")) return "SkylakeX";
  return host_supports("x86-64-v3") ? "Haswell" : nullptr;
}

/// Loads the library, with kernels that use the vectors of this processor. It reads its choice from the environment
/// when it is loaded and at no other time, so the variable is there for that long only. A library that the host program
/// had loaded before stays as it is.
void* load_library() {
  const bool is_loaded = open_library(RTLD_NOW | RTLD_NOLOAD) != nullptr;
  void* library = open_library(RTLD_NOW | RTLD_LOCAL);
  const char* kernels = library && !is_loaded ? better_kernels(core_name(library)) : nullptr;
  if (!kernels) return library;
  dlclose(library);
  setenv(kKernelsVariable, kernels, 1);
  library = open_library(RTLD_NOW | RTLD_LOCAL);
  unsetenv(kKernelsVariable);
  return library;
}

Blas load_blas() {
  void* library = load_library();
  if (!library)
    throw DeviceError(std::string("OpenBLAS cannot be loaded: ") + dlerror() + "; install it (Debian: libopenblas0)");
  Blas blas;
  resolve_all(library, blas.single, "s");
  resolve_all(library, blas.in_double, "d");
  blas.set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  blas.threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  blas.kernels = core_name(library);
  return blas;
}

const Blas& blas() {
  static const Blas loaded = load_blas();
  return loaded;
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
  if (!blas().set_threads || !blas().threads) return;
  set_threads_ = blas().set_threads;
  const std::scoped_lock lock(borrowed().mutex);
  if (borrowed().users++ > 0) return;
  borrowed().owners = blas().threads();
  if (borrowed().owners != 1) set_threads_(1);
}

OneThreadEach::~OneThreadEach() {
  if (!set_threads_) return;
  const std::scoped_lock lock(borrowed().mutex);
  if (--borrowed().users == 0 && borrowed().owners != 1) set_threads_(borrowed().owners);
}

void prepare_blas() { blas(); }

std::string blas_kernels() { return blas().kernels; }

}  // namespace moxie
