// No Program of n definitions takes more than about n log n to compile. Times are of this process's processor, so that
// other programs on the machine do not count.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>

#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/signs.h"

using namespace moxie;

namespace {

constexpr double kMaxSeconds = 2;

template <class Work>
double cpu_seconds(const Work& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// x1 from x0, x2 from x1, ...; `step` gets the name to define and the name to read.
template <class Step>
std::string chain(const std::string& head, int length, const Step& step) {
  std::string text = head;
  for (int k = 1; k <= length; ++k)
    text += (k == length ? "output " : "let ") + step(fmt::format("x{}", k), fmt::format("x{}", k - 1)) + "\n";
  return text;
}

}  // namespace

TEST_CASE("the sign of a chain of definitions, each of which reads the one before twice") {
  const Program program = parse(chain("input x0 >= 0, r >= 0\n", 200, [](const auto& x, const auto& before) {
    return fmt::format("{} = r*{} + {}", x, before, before);
  }));
  Sign sign = Sign::Unknown;
  CHECK(cpu_seconds([&] { sign = sign_of(program.definitions.back().body, program); }) < kMaxSeconds);
  CHECK(sign == Sign::NonNegative);
}
