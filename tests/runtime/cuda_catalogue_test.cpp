// Every kernel of the catalogue, forward and backward, as machine code: no registers spilt, nothing on the stack. All
// operations are compiled for sm_90 and each for one more architecture; CATALOGUE=all compiles all for all.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "runtime/cuda/compiled_kernel.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/resource_report.h"
#include "runtime/plan.h"
#include "tests/skip.h"

using namespace moxie;

namespace {

/// Extents of a layer as the benchmarks have them; of any other dim 16, if the formula does not fix it.
DimValues benchmark_dims(const Program& program) {
  static const std::map<std::string, std::int64_t> kExtents = {{"N", 50}, {"M", 50}, {"R", 14}, {"D", 26}, {"J", 10}};
  DimValues dims;
  for (const DimDecl& dim : program.dims) {
    const auto known = kExtents.find(dim.name);
    if (!dim.dynamic && !dim.value) dims[dim.name] = known == kExtents.end() ? 16 : known->second;
  }
  return dims;
}

std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  return outputs;
}

/// The Program with all its gradients; the Program alone where it has none.
Program with_gradients(const Op& op) {
  const Program program = load_op(op.name);
  const auto inputs = differentiable_inputs(op, program);
  try {
    return inputs.empty() ? program : differentiate(program, outputs_of(program), inputs);
  } catch (const TypeError&) {
    return program;  // such as an optimiser's step, whose integer-like outputs have no gradient
  }
}

std::shared_ptr<const cuda::Nvrtc> nvrtc_or_nothing() {
  try {
    return std::make_shared<const cuda::Nvrtc>();
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return nullptr;
  }
}

constexpr int kSampled[] = {75, 80, 86, 89, 100, 120};

/// Whether the operation at this place of the catalogue is compiled for an architecture.
bool is_compiled_for(int architecture, std::size_t place) {
  const auto sampled = std::ranges::find(kSampled, architecture);
  if (sampled == std::end(kSampled) || std::getenv("CATALOGUE") != nullptr) return true;
  return (place + static_cast<std::size_t>(sampled - kSampled)) % std::size(kSampled) == 0;
}

void check_architecture(int architecture) {
  const auto nvrtc = nvrtc_or_nothing();
  if (!nvrtc) return;
  REQUIRE(std::ranges::find(nvrtc->architectures(), architecture) != nvrtc->architectures().end());
  KernelCache cache({});
  KernelOverrides overrides({});
  cuda::KernelBuilder builder{cuda::nvrtc_compiler(nvrtc), architecture, cache, overrides};
  for (std::size_t place = 0; place < catalogue().size(); ++place) {
    if (!is_compiled_for(architecture, place)) continue;
    const Op& op = catalogue()[place];
    CAPTURE(op.name);
    const Program program = with_gradients(op);
    const Plan plan =
        make_plan(specialise(program, benchmark_dims(program)), {}, {.products = Products::blas, .gpu = GpuLimits{}});
    std::vector<cuda::KernelRequest> requests;
    for (const PlanStep& step : plan.steps) {
      for (const LoweredKernel* kernel : kernels_of(step)) requests.push_back({kernel});
    }
    for (const cuda::CompiledKernel& compiled : cuda::compile_kernels(requests, builder)) {
      for (const auto& [entry, resources] : cuda::resource_report(compiled.code.log)) {
        CAPTURE(entry);
        CAPTURE(print(compiled.schedule));
        CHECK(resources.stack_bytes == 0);
        CHECK(resources.spill_store_bytes == 0);
        CHECK(resources.registers > 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("sm_75") { check_architecture(75); }
TEST_CASE("sm_80") { check_architecture(80); }
TEST_CASE("sm_86") { check_architecture(86); }
TEST_CASE("sm_89") { check_architecture(89); }
TEST_CASE("sm_90") { check_architecture(90); }
TEST_CASE("sm_100") { check_architecture(100); }
TEST_CASE("sm_120") { check_architecture(120); }
