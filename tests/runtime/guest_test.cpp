// Moxie inside of another program leaves what belongs to the process as it is.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "compiler/program/program.h"
#include "runtime/cpu/blas.h"
#include "runtime/cpu/cpu_kernel.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/onednn.h"
#include "runtime/session.h"
#include "tests/skip.h"

using namespace moxie;

// A host program with a compiler of its own defines these too: this one would not link if moxie's definitions were as
// strong.
extern "C" {
struct jit_code_entry {
  jit_code_entry* next_entry;
  jit_code_entry* prev_entry;
  const char* symfile_addr;
  std::uint64_t symfile_size;
};
struct jit_descriptor {
  std::uint32_t version, action_flag;
  jit_code_entry *relevant_entry, *first_entry;
};
int host_registrations = 0;
// NOLINTBEGIN(bugprone-reserved-identifier): debuggers look for these names
[[gnu::noinline]] void __jit_debug_register_code() { ++host_registrations; }
jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
// NOLINTEND(bugprone-reserved-identifier)
}

namespace {

/// Large enough for a library, whose product is step 0.
constexpr const char* kProduct = R"(
dim S = 256, N = 256, K = 256
index s:S, n:N, k:K
input a[S,K], b[K,N]
output c[s,n] = sum[k](a[s,k]*b[k,n])
)";

}  // namespace

TEST_CASE("kernels are told to the debugger through the host program's list") {
  setenv("MOXIE_SYMBOLS", "gdb", 1);
  const Plan plan = make_plan(specialise(parse("dim N\nindex n:N\ninput x[N]\noutput y[n] = exp(x[n])\n"), {{"N", 8}}));
  auto kernel = CpuKernel::build(kernels_of(plan.steps.front()).front()->program, host_machine(), nullptr);
  unsetenv("MOXIE_SYMBOLS");
  CHECK(host_registrations == 1);
  CHECK(__jit_debug_descriptor.first_entry != nullptr);
  kernel.reset();
  CHECK(__jit_debug_descriptor.first_entry == nullptr);
}

TEST_CASE("OpenMP has the host program's number of threads after a product of oneDNN" * doctest::test_suite("onednn")) {
  void* library = dlopen("libgomp.so.1", RTLD_NOW);
  if (library == nullptr || !onednn::prepare()) {
    test::skip("there is no libgomp, or no oneDNN");
    return;
  }
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
  const auto threads = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
  set_threads(3);
  const std::vector<float> ones(256 * 256, 1);
  std::vector<float> product(256 * 256);
  onednn::gemm(cblas::kNoTranspose, cblas::kTranspose, 256, 256, 256, 1, ones.data(), 256, ones.data(), 256, 0,
               product.data(), 256);
  CHECK(product == std::vector<float>(256 * 256, 256));
  CHECK(threads() == 3);
}

TEST_CASE("OpenBLAS has the host program's number of threads after a product, also of several Sessions at once") {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW);
  REQUIRE(library != nullptr);
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto threads = reinterpret_cast<int (*)()>(dlsym(library, "openblas_get_num_threads"));
  set_threads(2);
  const int own = threads();
  const auto multiply = [](int count) {
    Session session(parse(kProduct), {}, open_device("cpu", {.threads = count, .cache_directory = "0"}));
    const HostTensor ones = make_host_tensor(DType::f32, {256, 256}, std::vector<double>(256 * 256, 1));
    session.set("a", ones);
    session.set("b", ones);
    for (int k = 0; k < 20; ++k) session.run();
    return to_doubles(session.get("c"))[0];
  };
  REQUIRE(products_of(make_plan(specialise(parse(kProduct), {})).steps.at(0)).size() == 1);
  CHECK(multiply(1) == 256);
  CHECK(threads() == own);
  {
    std::vector<std::jthread> callers;
    for (const int count : {1, 2, 1, 3}) callers.emplace_back([&multiply, count] { CHECK(multiply(count) == 256); });
  }
  CHECK(threads() == own);
  set_threads(1);
  CHECK(multiply(2) == 256);
  CHECK(threads() == 1);
}
