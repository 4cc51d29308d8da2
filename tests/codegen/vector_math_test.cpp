// Sweeps every lowering of a function of one argument against long double, for each type and several numbers of lanes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/expression/functions.h"
#include "runtime/cpu/host.h"
#include "tests/codegen/math_module.h"
#include "tests/codegen/math_references.h"
#include "tests/codegen/ulp.h"

using namespace moxie;
using namespace moxie::testing;

namespace {

constexpr int kSamples = 20000;

std::vector<MathKernel> swept_kernels() {
  std::vector<MathKernel> kernels;
  for (const Reference& reference : references()) kernels.push_back({reference.function, 1});
  return kernels;
}

struct Worst {
  double ulps = 0, argument = 0;
};

template <typename T>
Worst sweep(const MathModule<T>& module, const Reference& reference, double absolute) {
  const std::vector<T> arguments = samples<T>(reference, kSamples);
  const std::vector<T> values = module.run(reference.function, {arguments});
  Worst worst;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const long double expected = reference.value(arguments[i]);
    if (std::fabs(values[i] - expected) <= absolute) continue;
    const double error = ulps(values[i], expected);
    if (!(error <= worst.ulps)) worst = {error, static_cast<double>(arguments[i])};
  }
  return worst;
}

template <typename T>
void check_accuracy(int lanes, const VectorMachine& machine) {
  const std::vector<MathKernel> kernels = swept_kernels();
  const MathModule<T> module(kernels, lanes, machine);
  for (const Reference& reference : references()) {
    const auto row = std::ranges::find(llvm_ir::accuracies(), reference.function, &llvm_ir::Accuracy::function);
    REQUIRE_MESSAGE(row != llvm_ir::accuracies().end(), reference.function);
    const bool single = sizeof(T) == 4;
    const double bound = single ? row->ulp_f32 : row->ulp_f64;
    const Worst worst = sweep(module, reference, single ? 0 : row->absolute_f64);
    fmt::print("f{} x{:<3} {:16} {:8.2f} ulp of {} at {:.17g}\n", 8 * sizeof(T), lanes, reference.function, worst.ulps,
               bound, worst.argument);
    CHECK_MESSAGE(worst.ulps <= bound, reference.function << " at " << worst.argument);
  }
}

}  // namespace

TEST_CASE("f32 functions keep their bounds") {
  for (const int lanes : {1, 8, 16}) check_accuracy<float>(lanes, host_machine());
}

TEST_CASE("f64 functions keep their bounds") {
  for (const int lanes : {1, 8, 16}) check_accuracy<double>(lanes, host_machine());
}

TEST_CASE("functions keep their bounds without fused multiply-add") {
  check_accuracy<float>(8, host_machine(128));
  check_accuracy<double>(4, host_machine(128));
}
