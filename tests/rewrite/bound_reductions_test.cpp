// Conditions on the index of a reduction that become bounds of its range: where they do, where they must not, and that
// values are the same on every device.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const DimValues kDims = {{"N", 80}, {"K", 2}};
constexpr const char* kHead = R"(dtype f64
dim N = 80, K = 2
index i:N, j:N
input a[N,N], b[N] > 0, c[N]
)";

Program program_of(const std::string& lines) { return parse(kHead + lines + "\n"); }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// The text that the passes make of one output.
std::string optimised(const std::string& lines) { return print(optimise(specialise(program_of(lines), {}))); }

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= 1e-12 * std::max(1., std::abs(b));
}

void check_on_devices(const Program& program, const TensorValues& inputs) {
  const TensorValues wanted = evaluate(program, kDims, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues values = test::run_on(device, program, kDims, inputs);
    for (const Definition& definition : program.definitions) {
      if (!definition.output) continue;
      CAPTURE(definition.name);
      for (std::size_t k = 0; k < wanted.at(definition.name).size(); ++k) {
        CAPTURE(k);
        CHECK(same(values.at(definition.name)[k], wanted.at(definition.name)[k]));
      }
    }
  }
}

TensorValues inputs_of(const Program& program) {
  TensorValues inputs = test::wave_inputs(program, kDims);
  for (double& value : inputs.at("b")) value = 0.5 + std::abs(value);
  return inputs;
}

}  // namespace

TEST_CASE("a condition on the index of a reduction becomes a bound of its range") {
  CHECK(contains(optimised("output y[i] = sum[j](where(j <= i, exp(a[i,j]), 0))"), "sum[i1 in 0..i+1](exp(a[i,i1]))"));
  CHECK(contains(optimised("output y[i] = max[j](where(j > i, a[i,j], -inf))"), "max[i1 in i+1..80](a[i,i1])"));
  CHECK(contains(optimised("output y[i] = min[j](where(j > i, inf, a[i,j]))"), "min[i1 in 0..i+1](a[i,i1])"));
  CHECK(contains(optimised("output y[i] = prod[j](where(i <= j and j < i+3, a[i,j], 1))"),
                 "prod[i1 in i..min(80, i+3)](a[i,i1])"));
  CHECK(contains(optimised("output y[i] = sum[j](where(j >= i-K, where(j <= i+K, a[i,j]*c[j], 0), 0))"),
                 "sum[i1 in max(0, i-2)..min(80, i+3)]("));
  CHECK(contains(optimised("output y[i] = sum[j](where(i == j, a[i,j], where(j < i, c[j], 0)))"), "in 0..i+1]"));
  CHECK(!contains(optimised("output y[i] = logsumexp[j](where(j <= i, a[i,j], -inf))"), "where"));
}

TEST_CASE("a condition that admits one index leaves no loop") {
  CHECK(contains(optimised("output y[i] = sum[j](where(j == i, a[i,j]*c[j], 0))"), "y[i] = c[i]*a[i,i]"));
}

TEST_CASE("masks that a definition holds bound the reductions that read it") {
  const std::string masked = "let p[i,j] = where(j <= i, a[i,j], -inf)\noutput q[i,j] = p[i,j]\n";
  CHECK(contains(optimised(masked + "output y[i] = max[j](p[i,j])"), "max[i1 in 0..i+1]("));
}

TEST_CASE("a condition around the body of a definition becomes the range of an axis, where nothing else is read") {
  const auto is_bounded = [](const std::string& outputs) {
    const std::string masked = "input at[N]: i32 >= 0\nlet p[i,j] = where(j <= i and j >= i-3, a[i,j]*c[j], 0)\n";
    const std::string text = print(bound_axes(specialise(program_of(masked + outputs), {})));
    return contains(text, "let p[i,j in max(0, i-3)..i+1] = a[i,j]*c[j]");
  };
  const std::string in_band = "output y[i] = sum[j in max(i-3, 0)..i+1](p[i,j])\n";
  CHECK(is_bounded(in_band));
  CHECK(is_bounded(in_band + "output z[i] = where(i >= 2, p[i,i-2], 0)"));
  CHECK(!is_bounded(in_band + "output z[i] = where(i >= 4, p[i,i-4], 0)"));
  CHECK(!is_bounded(in_band + "output z[i] = p[i,at[i]]"));  // nothing is known of what a tensor names
}

TEST_CASE("a definition has no more than the band of its elements that others read") {
  const auto is_band = [](const std::string& outputs) {
    const Program program = program_of("let p[i,j] = exp(a[i,j])\n" + outputs);
    return contains(print(bound_axes(specialise(program, {}))), "let p[i,j in max(0, i-3)..i+1] = exp(a[i,j])");
  };
  const std::string in_band = "output y[i] = sum[j in max(i-3, 0)..i+1](p[i,j])\n";
  const std::string across = "output z[j] = sum[i in j..min(j+4, N)](p[i,j])\n";
  CHECK(is_band(in_band));
  CHECK(is_band(in_band + across));
  CHECK(!is_band(in_band + "output z[j] = sum[i in j..min(j+5, N)](p[i,j])\n"));
  CHECK(!is_band("output y[i] = sum[j in 0..i+1](p[i,j])\n"));
}

TEST_CASE("the gradient of a sliding window visits nothing outside of it") {
  const Program window = program_of(
      "let z[i] = logsumexp[j in max(i-2, 0)..i+1](sum[k in 0..N](a[i,k]*a[j,k]))\n"
      "output y[i] = sum[j in max(i-2, 0)..i+1](exp(sum[k in 0..N](a[i,k]*a[j,k]) - z[i])*b[j])");
  const Program gradient = specialise(differentiate(window, {"y"}, {"a", "b"}), {});
  CHECK(!contains(print(optimise(gradient)), "where"));
  check_on_devices(gradient, inputs_of(gradient));
}

TEST_CASE("a triangle of products is one product of the whole box, however often it is read") {
  const std::string text = print(optimise(specialise(parse(R"(dim N = 256, D = 64
index i:N, j:N, d:D
input q[N,D], k[N,D]
output p[i,j] = softmax[j](where(j <= i, sum[d](q[i,d]*k[j,d]), -inf))
)"),
                                                     {})));
  const auto product = text.find("[i,j] = sum[d](k[j,d]*q[i,d])");
  CHECK(product != std::string::npos);
  CHECK(text.find("sum[d]", product + 10) == std::string::npos);
}

TEST_CASE("a condition whose other branch is not the identity, or that may be multiplied by infinity, stays") {
  CHECK(!contains(optimised("output y[i] = sum[j](where(j <= i, a[i,j], 1))"), "i+1]"));
  CHECK(!contains(optimised("output y[i] = max[j](where(j <= i, a[i,j], 0))"), "i+1]"));
  CHECK(!contains(optimised("output y[i] = sum[j](where(j <= i, 1, 0)*a[i,j])"), "i+1]"));
  CHECK(!contains(optimised("output y[i] = sum[j](exp(where(j <= i, a[i,j], -inf) - c[i]))"), "i+1]"));
  // b is declared to be finite, and fast precision takes all for finite.
  CHECK(contains(optimised("output y[i] = sum[j](where(j <= i, a[i,j], 0)*b[j])"), "i+1]"));
  CHECK(contains(print(optimise(specialise(parse("precision fast\n" + std::string(kHead) +
                                                 "output y[i] = sum[j](exp(where(j <= i, a[i,j], -inf) - c[i]))\n"),
                                           {}))),
                 "i+1]"));
}

TEST_CASE("bounds from conditions have the values of the conditions on every device, gradients too") {
  const Program program = program_of(R"(output rows[i] = sum[j](where(j <= i, exp(a[i,j])*c[j], 0))
output band[i] = sum[j](where(j >= i-K and j <= i+K, a[i,j]*c[j], 0))
output strict[i] = sum[j](where(j < i, a[i,j], 0)*b[j])
output top[i] = max[j](where(j < i, a[i,j], -inf))
output soft[i] = logsumexp[j](where(2*j <= i, a[i,j], -inf))
output attended[i] = sum[j](softmax[j](where(j <= i, a[i,j], -inf))*c[j])
output diagonal[i] = sum[j](where(i == j, exp(c[i]), where(j < i, a[i,j], 0))*b[j]))");
  check_on_devices(program, inputs_of(program));
  const Program gradients =
      differentiate(program, {"rows", "band", "strict", "soft", "attended", "diagonal"}, {"a", "b", "c"});
  check_on_devices(gradients, inputs_of(gradients));
}

TEST_CASE("what a condition leaves out is not read: its infinities and NaN reach nothing") {
  const Program program = program_of(R"(output rows[i] = sum[j](where(j <= i, a[i,j], 0))
output top[i] = max[j](where(j <= i, a[i,j], -inf))
output soft[i] = logsumexp[j](where(j <= i, a[i,j], -inf))
output masked[i] = sum[j](where(j <= i, 1, 0)*a[i,j]))");
  TensorValues inputs = inputs_of(program);
  for (std::size_t i = 0; i < 80; ++i) {
    for (std::size_t j = i + 1; j < 80; ++j) inputs.at("a")[80 * i + j] = j % 2 == 0 ? kInf : std::nan("");
  }
  check_on_devices(program, inputs);
  const TensorValues values = evaluate(program, kDims, inputs);
  CHECK(std::isfinite(values.at("rows")[3]));
  CHECK(std::isnan(values.at("masked")[3]));
}

TEST_CASE("a contraction that leaves one element out is a sum before and a sum after it, other sums keep the mask") {
  const std::string split = optimised("output y[k in 0..N,i] = sum[j](where(i != j, a[i,j]*a[k,j], 0))");
  CHECK(contains(split, "[i,j] = sum[i1 in 0..j](a[i,i1]*a[j,i1])"));
  CHECK(contains(split, "[i,j] = sum[i1 in j+1..80](a[i,i1]*a[j,i1])"));
  CHECK(!contains(split, "where"));
  CHECK(contains(optimised("output y[i] = sum[j](where(i != j, a[i,j]*c[j], 0))"), "where"));
  CHECK(contains(optimised("output y[k in 0..N,i] = sum[j](where(i != j, exp(a[i,j] + a[k,j]), 0))"), "where"));
  CHECK(contains(optimised("output y[k in 0..N,i] = sum[j](where(i != j, a[i,j]*a[k,j], c[j]))"), "where"));
}

TEST_CASE("sums around an element have the values of the condition on every device, wherever the element is") {
  const Program program = program_of(R"(output inside[k in 0..N,i] = sum[j](where(not j == i, a[i,j]*a[k,j], 0))
output moved[k in 0..N,i] = sum[j](where(j != i+70, a[i,j]*a[k,j], 0))
output mirrored[k in 0..N,i] = sum[j](where(30-i != j, a[i,j]*a[k,j], 0)))");
  TensorValues inputs = inputs_of(program);
  for (std::size_t i = 0; i < 80; ++i) inputs.at("a")[81 * i] = i % 2 == 0 ? kInf : std::nan("");
  const Program gradients = differentiate(program, {"inside", "moved", "mirrored"}, {"a"});
  check_on_devices(gradients, inputs_of(gradients));
  check_on_devices(program, inputs);
}
