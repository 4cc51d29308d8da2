// What the first start of a GPN layer costs in NVRTC: its forward and its backward pass, compiled for an H200 without a
// cache. The processor's time is bounded, since it does not depend on what else the machine does; the time that one
// waits is printed: run it alone for that figure.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/plan.h"
#include "tests/skip.h"

using namespace moxie;

namespace {

/// Of the processor, threads added up: three times what it takes.
constexpr double kMostSeconds = 3;

}  // namespace

TEST_CASE("a layer's kernels are compiled in a moment") {
  std::shared_ptr<const cuda::Nvrtc> nvrtc;
  try {
    nvrtc = std::make_shared<const cuda::Nvrtc>();
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return;
  }
  const Program layer = load_op("gpn.response_variance");
  const Plan plan = make_plan(
      specialise(differentiate(layer, {"mean", "variance"}, {"mu", "var", "U", "noise"}), {{"N", 512}, {"R", 14}}));
  std::vector<cuda::KernelRequest> requests;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) requests.push_back({kernel});
  }
  KernelCache cache({});
  KernelOverrides overrides({});
  cuda::KernelBuilder builder{cuda::nvrtc_compiler(nvrtc), 90, cache, overrides};
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t used = std::clock();
  const auto compiled = cuda::compile_kernels(requests, builder);
  const double seconds = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  MESSAGE(fmt::format("{} kernels in {:.2f} s; {:.2f} s of the processor", compiled.size(), waited.count(), seconds));
  CHECK(compiled.size() == requests.size());
  CHECK(seconds < kMostSeconds);
}
