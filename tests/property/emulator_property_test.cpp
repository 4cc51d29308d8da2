// Random Programs compute on the emulated GPU what evaluate() computes, without a race, a wrong subscript or a missing barrier.
#include <doctest/doctest.h>

#include "tests/property/check.h"
#include "tests/property/device_run.h"

using namespace moxie;
using namespace moxie::test;

namespace {

std::shared_ptr<Device> emulator() {
  DeviceOptions options;
  options.cache_directory = "0";
  return open_device("cuda-emu", options);
}

using MakeReference = std::optional<Reference> (*)(const Sample&, double, double);

/// Two runs of one Session give the same bits: the second is the replay of a graph.
Finding agrees(const Sample& sample, MakeReference make) {
  const auto want = make(in_double(sample), 1e-12, 1e-8);
  if (!want) return std::nullopt;
  Session session(want->program, hidden_dims(want->program, sample.dims), emulator());
  const auto got = run(session, want->program, sample.dims, want->inputs);
  if (auto finding = difference(want->program, got, want->values, kTolerance)) return finding;
  return run(session, want->program, sample.dims, want->inputs) == got ? Finding() : Finding("a second run gives other bits than the first");
}

Finding single_agrees(const Sample& sample) {
  const auto want = reference(sample, 1e-5, 1e-4);
  if (!want) return std::nullopt;
  return difference(want->program, run(emulator(), want->program, sample.dims, want->inputs), want->values, kSingleTolerance);
}

}  // namespace

TEST_CASE("the emulated GPU agrees with evaluate") {
  check_property(25, [](const Sample& sample) { return agrees(sample, reference); });
}

TEST_CASE("the emulated GPU agrees with evaluate on gradients") {
  check_property(10, [](const Sample& sample) { return agrees(sample, gradient_reference); });
}

TEST_CASE("the emulated GPU in single is close to evaluate") { check_property(15, single_agrees); }
