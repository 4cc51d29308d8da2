// Random Programs compute on the GPU what evaluate() computes; on the emulated one also without a race, a wrong
// subscript or a missing barrier.
#include <doctest/doctest.h>

#include "tests/devices.h"
#include "tests/property/check.h"
#include "tests/property/device_run.h"

using namespace moxie;
using namespace moxie::test;

namespace {

using OnDevice = std::function<Finding(const Sample&, const std::shared_ptr<Device>&)>;

void check_on_gpus(unsigned count, const OnDevice& finding) {
  for (const char* name : {"cuda-emu", "cuda"}) {
    CAPTURE(name);
    const auto device = test_device(name);
    if (device) check_property(count, [&](const Sample& sample) { return finding(sample, device); });
  }
}

using MakeReference = std::optional<Reference> (*)(const Sample&, double, double);

/// Two runs of one Session give the same bits: the second is the replay of a graph.
Finding agrees(const Sample& sample, const std::shared_ptr<Device>& device, MakeReference make) {
  const auto want = make(in_double(sample), 1e-12, 1e-8);
  if (!want) return std::nullopt;
  Session session(want->program, hidden_dims(want->program, sample.dims), device);
  const auto got = run(session, want->program, sample.dims, want->inputs);
  if (auto finding = difference(want->program, got, want->values, kTolerance)) return finding;
  return run(session, want->program, sample.dims, want->inputs) == got
             ? Finding()
             : Finding("a second run gives other bits than the first");
}

Finding single_agrees(const Sample& sample, const std::shared_ptr<Device>& device) {
  const auto want = reference(sample, 1e-5, 1e-4);
  if (!want) return std::nullopt;
  return difference(want->program, run(device, want->program, sample.dims, want->inputs), want->values,
                    kSingleTolerance);
}

}  // namespace

TEST_CASE("the GPU agrees with evaluate") {
  check_on_gpus(25, [](const Sample& sample, const auto& device) { return agrees(sample, device, reference); });
}

TEST_CASE("the GPU agrees with evaluate on gradients") {
  check_on_gpus(10,
                [](const Sample& sample, const auto& device) { return agrees(sample, device, gradient_reference); });
}

TEST_CASE("the GPU in single is close to evaluate") { check_on_gpus(15, single_agrees); }

TEST_CASE("the GPU reads inputs of 16 bits as they are stored") {
  check_on_gpus(
      10, [](const Sample& sample, const auto& device) { return single_agrees(with_half_inputs(sample), device); });
}
