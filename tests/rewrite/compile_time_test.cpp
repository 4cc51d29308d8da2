// No Program of n definitions takes more than about n log n to compile. Times are of this process's processor, so that
// other programs on the machine do not count.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <ctime>

#include "compiler/analysis/value_ranges.h"
#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "runtime/plan.h"

using namespace moxie;

namespace {

constexpr double kMaxSeconds = 4;

template <class Work>
double cpu_seconds(const Work& work) {
  const std::clock_t start = std::clock();
  work();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// Compiles the Program and its gradient, as far as all devices have in common.
void check_compile_time(const std::string& text, const DimValues& dims) {
  const Program program = specialise(parse(text), dims);
  CHECK(cpu_seconds([&] { make_plan(program); }) < kMaxSeconds);
  const std::string output = program.definitions.back().name;
  const Program gradient = differentiate(program, {output}, {"x0"});
  CHECK(cpu_seconds([&] { make_plan(gradient); }) < kMaxSeconds);
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

TEST_CASE("the range of a chain of definitions, each of which reads the one before twice") {
  const Program program = parse(chain("input x0 >= 0, r >= 0\n", 200, [](const auto& x, const auto& before) {
    return fmt::format("{} = r*{} + {}", x, before, before);
  }));
  Interval range;
  CHECK(cpu_seconds([&] { range = range_of(program.definitions.back().body, program); }) < kMaxSeconds);
  CHECK(range == Interval::at_least(0));
}

TEST_CASE("a chain of definitions, each of which reads the one before twice") {
  check_compile_time(chain("dim S dynamic\nindex s:S\ninput x0[S], r\n", 200,
                           [](const auto& x, const auto& before) {
                             return fmt::format("{0}[s] = tanh({1}[s]) + r*{1}[s]", x, before);
                           }),
                     {});
}

TEST_CASE("a chain of sums") {
  check_compile_time(chain("dim S, D = 4\nindex s:S, t:S, d:D\ninput x0[S,D], r\n", 200,
                           [](const auto& x, const auto& before) {
                             return fmt::format("{0}[s,d] = sum[t](exp({1}[t,0]*{1}[s,0])*{1}[t,d])*r", x, before);
                           }),
                     {{"S", 8}});
}

TEST_CASE("a chain of conditions, each of which needs the one before in both branches") {
  check_compile_time(chain("dim S dynamic\nindex s:S\ninput x0[S], r\n", 200,
                           [](const auto& x, const auto& before) {
                             return fmt::format("{0}[s] = where({1}[s] > 0, {1}[s] + 1, r*{1}[s])", x, before);
                           }),
                     {});
}

TEST_CASE("sweeps of a stencil in two dimensions, short and long") {
  for (const int size : {8, 100}) {
    check_compile_time(
        chain("dim N\nindex i:N, j:N\ninput x0[N,N]\n", 20,
              [](const auto& x, const auto& before) {
                return fmt::format(
                    "{0}[i,j] = where(i >= 1 and i < N-1 and j >= 1 and j < N-1, 0.2*({1}[i,j] + {1}[i,j-1] "
                    "+ {1}[i,j+1] + {1}[i-1,j] + {1}[i+1,j]), {1}[i,j])",
                    x, before);
              }),
        {{"N", size}});
  }
}

TEST_CASE("sweeps of a stencil as a scan that is unrolled") {
  check_compile_time(R"(dim N, T = 20
index t:T, i:N
input x0[N], alpha
scan t {
  let u[t,i] = where(t == 0, x0[i], v[t-1,i])
  let v[t,i] = u[t,i] + alpha*(where(i >= 1, u[t,i-1], 0) - 2*u[t,i] + where(i+1 < N, u[t,i+1], 0))
}
output y[i] = v[T-1,i]
)",
                     {{"N", 100}});
}

TEST_CASE("the normal forms of an expression that grows, as a body does with all that a kernel reads in place") {
  const Program program = parse("input x\noutput y = x\n");
  const Algebra algebra(program);
  const Expr x = program.definitions.back().body;
  const double seconds = cpu_seconds([&] {
    Expr body = x;
    for (int k = 0; k < 3000; ++k) body = algebra.normalise(call("sin", {body + x}));
  });
  CHECK(seconds < kMaxSeconds);
}
