// NVRTC and its resource report. Passes where no NVRTC is installed, with a line that says so.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/resource_report.h"
#include "runtime/temporary_folder.h"
#include "tests/setting.h"
#include "tests/skip.h"

using namespace moxie;
using namespace moxie::cuda;

namespace {

constexpr const char* kText = R"(
extern "C" __global__ void reversed(float* a) {
  __shared__ float copy[64];
  copy[threadIdx.x] = a[threadIdx.x];
  __syncthreads();
  a[threadIdx.x] = copy[63 - threadIdx.x];
}
extern "C" __global__ void spread(float* a, long long n) {
  float q[100];
  for (int i = 0; i < 100; ++i) q[i] = 0;
  for (int i = 0; i < 100; ++i) q[(int)a[i]] += 1;
  a[0] = q[n];
}
)";

std::optional<Nvrtc> installed() {
  try {
    return std::optional<Nvrtc>(std::in_place);
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return {};
  }
}

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("libraries are looked for wherever toolkits and the packages of pip put them") {
  const TemporaryFolder folder;
  const std::filesystem::path packages = folder.path() / "lib" / "python3.11" / "site-packages";
  std::filesystem::create_directories(packages / "nvidia" / "cuda_nvrtc" / "lib");
  const test::Setting toolkit("CUDA_PATH", "/opt/toolkit"), environment("VIRTUAL_ENV", folder.path().c_str());
  const auto found = toolkit_directories();
  for (const std::filesystem::path& expected :
       {std::filesystem::path(), std::filesystem::path("/opt/toolkit/lib64"), std::filesystem::path("/opt/toolkit/lib"),
        std::filesystem::path("/opt/toolkit/targets/x86_64-linux/lib"), std::filesystem::path("/usr/local/cuda/lib64"),
        packages / "nvidia" / "cuda_nvrtc" / "lib"}) {
    CAPTURE(expected.string());
    CHECK(std::ranges::find(found, expected) != found.end());
  }
}

TEST_CASE("a kernel becomes machine code of every architecture, with its resources" * doctest::test_suite("nvrtc")) {
  const auto nvrtc = installed();
  if (!nvrtc) return;
  for (const int architecture : {75, 80, 86, 89, 90, 100, 120}) {
    CAPTURE(architecture);
    const CacheEntry entry = nvrtc->compile(kText, architecture);
    CHECK(
        entry.object.starts_with("\x7f"
                                 "ELF"));
    CHECK(entry.source == kText);
    auto report = resource_report(entry.log);
    REQUIRE(report.size() == 2);
    CHECK(report["reversed"].registers > 0);
    CHECK(report["reversed"].shared_bytes == 256);
    CHECK(report["reversed"].stack_bytes == 0);
    CHECK(report["spread"].stack_bytes == 400);
    CHECK(report["spread"].spill_store_bytes == 0);
  }
}

TEST_CASE("a GPU newer than NVRTC gets PTX, and one of the same generation the machine code of the last one known" *
          doctest::test_suite("nvrtc")) {
  const auto nvrtc = installed();
  if (!nvrtc) return;
  CHECK(contains(nvrtc->compile(kText, 999).object, ".target sm_"));
  CHECK(nvrtc->compile(kText, nvrtc->architectures().back() + 1)
            .object.starts_with("\x7f"
                                "ELF"));
}

TEST_CASE("several threads compile at once, and every compilation counts" * doctest::test_suite("nvrtc")) {
  const auto nvrtc = installed();
  if (!nvrtc) return;
  const std::int64_t before = nvrtc_compilations();
  std::vector<CacheEntry> entries(4);
  {
    std::vector<std::jthread> threads;
    for (CacheEntry& entry : entries) threads.emplace_back([&] { entry = nvrtc->compile(kText, 90); });
  }
  CHECK(nvrtc_compilations() == before + 4);
  for (const CacheEntry& entry : entries) CHECK(entry.object == entries[0].object);
}

TEST_CASE("NVRTC says what is wrong, where, and what to do" * doctest::test_suite("nvrtc")) {
  const auto nvrtc = installed();
  if (!nvrtc) return;
  const std::string bad = message_of([&] { nvrtc->compile("__global__ void k() { x = 1; }", 90); });
  CHECK(contains(bad, nvrtc->version() + " refused a kernel for sm_90"));
  CHECK(contains(bad, "kernel.cu(1): error: identifier \"x\" is undefined"));
  const std::string old = message_of([&] { nvrtc->compile(kText, 35); });
  CHECK(contains(old, "no longer compiles for this GPU, sm_35: it knows sm_"));
  CHECK(contains(old, "--device cpu"));
}

TEST_CASE("a missing NVRTC is named with the places that were searched and the remedy") {
  const std::string missing = message_of([] { Nvrtc({"/nowhere/lib64"}); });
  CHECK(contains(missing, "NVRTC, NVIDIA's run-time compiler, could not be loaded"));
  CHECK(contains(missing, "no libnvrtc.so.13 or libnvrtc.so.12 or libnvrtc.so in /nowhere/lib64"));
  CHECK(contains(missing, "Install the CUDA toolkit"));
}

TEST_CASE("the resource report reads the assembler's lines") {
  const auto report = resource_report(
      "kernel.cu(3): warning: something\n"
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'layer' for 'sm_90'\n"
      "ptxas info    : Function properties for layer\n"
      "ptxas         .     1024 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 8 bytes cumulative stack size, 4352 bytes smem, 368 bytes "
      "cmem[0]\n"
      "ptxas info    : Compiling entry function 'layer_combine' for 'sm_90'\n"
      "ptxas info    : Function properties for layer_combine\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers");
  CHECK(report.at("layer") == KernelResources{255, 4352, 1024, 16, 24});
  CHECK(report.at("layer_combine") == KernelResources{8, 0, 0, 0, 0});
  CHECK(resource_report("").empty());
  CHECK(resource_report("no such lines\nregisters").empty());
}
