// A static batch of a few vectors is compiled as a long one is: tables of what it shares, half of what is symmetric.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "compiler/diff/differentiate.h"
#include "compiler/fuse/fuse.h"
#include "compiler/program/program.h"
#include "compiler/rewrite/passes.h"

using namespace moxie;

namespace {

/// Mean response to all pairs of 14 points, of which the batch changes one factor, and its gradients.
Program optimised(int batch,
                  const std::string& kernel = "exp(-(mu[s,n] - (V[r,n] + V[t,n])/2)^2 - (V[r,n] - V[t,n])^2)") {
  const Program program = parse(fmt::format(R"(dim S = {}, N = 50, R = 14
index s:S, n:N, r:R, t:R
input mu[S,N], V[R,N], M[R,R,N]
output y[s,n] = sum[r,t](M[r,t,n]*{})
)",
                                            batch, kernel));
  return optimise(specialise(differentiate(program, {"y"}, {"mu", "M"}), {}));
}

bool has(const Program& program, const std::string& suffix) {
  return std::ranges::any_of(program.definitions, [&](const Definition& d) { return d.name.ends_with(suffix); });
}

}  // namespace

TEST_CASE("what a short batch shares is computed once, and half of a symmetric gradient") {
  for (const int batch : {16, 32, 63, 64, 65}) {
    CAPTURE(batch);
    const Program program = optimised(batch);
    CHECK(has(program, ".table"));
    CHECK(has(program, ".half"));
  }
}

TEST_CASE("a handful of samples, and sums of cheap terms, are computed as they are written") {
  CHECK_FALSE(has(optimised(2), ".half"));
  CHECK_FALSE(has(optimised(32, "(mu[s,n] + V[r,n] + V[t,n])"), ".half"));
}

TEST_CASE("all of a short batch is one loop of one kernel, whichever of its axes is longer") {
  for (const int batch : {16, 32, 63, 64}) {
    CAPTURE(batch);
    const FusedProgram fused = fuse(optimised(batch));
    const auto computes_both = [](const Kernel& kernel) {
      const auto names = [&](const std::string& name) {
        return std::ranges::any_of(kernel.roots,
                                   [&](const KernelRoot& root) { return root.definition.name.starts_with(name); });
      };
      return names("grad.mu") && names("grad.M");
    };
    CHECK(std::ranges::any_of(fused.steps, [&](const Step& step) {
      const auto* kernel = std::get_if<Kernel>(&step);
      return kernel && computes_both(*kernel);
    }));
  }
}
