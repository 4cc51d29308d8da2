// variance[k](e): stable where squares minus squared means are not, with exact derivatives of every order, on every
// device.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// How far element k of row s lies from the row's mean.
double deviation(std::size_t s, std::size_t k) {
  const auto size = static_cast<double>(s + 1);
  return k % 2 == 0 ? size : -size;
}

/// Rows of `size` whole numbers around 4096, whose mean is 4096 and whose squares f32 cannot hold.
std::vector<double> rows(std::size_t count, std::size_t size) {
  std::vector<double> values;
  for (std::size_t s = 0; s < count; ++s) {
    for (std::size_t k = 0; k < size; ++k) values.push_back(4096 + deviation(s, k));
  }
  return values;
}

}  // namespace

TEST_CASE("a variance in single precision has no cancellation, and its gradient is exact, on every device") {
  const Program program =
      differentiate(parse("dim S dynamic, K\nindex s:S, k:K\ninput x[S,K]\noutput m[s] = mean[k](x[s,k])\n"
                          "output v[s] = variance[k](x[s,k])\n"),
                    {"v"}, {"x"});
  const std::size_t S = 3, K = 1024;  // its reciprocal is exact: GPUs may multiply by it and add in one step
  const TensorValues inputs = {{"x", rows(S, K)}, {"cot.v", {1, 10, 100}}};
  for (const auto& device : test_devices()) {
    INFO(device->name());
    const TensorValues got = run_on(device, program, {{"S", S}, {"K", K}}, inputs);
    for (std::size_t s = 0; s < S; ++s) {
      CHECK(got.at("m")[s] == 4096);
      CHECK(got.at("v")[s] == doctest::Approx(deviation(s, 0) * deviation(s, 0)).epsilon(1e-6));
      for (const std::size_t k : {std::size_t{0}, std::size_t{1}, K - 1}) {
        CHECK(got.at("grad.x")[s * K + k] ==
              doctest::Approx(2 * deviation(s, k) / static_cast<double>(K) * std::pow(10, s)).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("derivatives of variances are differences: over ranges, several indices, ranges by data, and twice") {
  const DimValues dims = {{"S", 4}, {"K", 5}, {"P", 3}};
  const std::string head = "dim S, K, P\nindex s:S, k:K, p:P\ninput x[S,K], w[K]\n";
  for (const std::string body : {"output y[s] = variance[k](x[s,k]*w[k])", "output y = variance[s,k](x[s,k]^2)",
                                 "output y[s] = variance[k in 0..s+1](x[s,k]) + mean[k](w[k])",
                                 "output y[k] = (x[0,k] - mean[s](x[s,k]))*rsqrt(variance[s](x[s,k]) + 0.25)*w[k]",
                                 "output y = variance[s, k in 0..s+2](sin(x[s,k]))"}) {
    CAPTURE(body);
    const Program program = with_dtype(parse(head + body + "\n"), DType::f64);
    const TensorValues inputs = random_inputs(program, dims, 7);
    CHECK(worst_gradient_error(program, {"y"}, {}, dims, inputs) < 1e-7);
    CHECK(worst_tangent_error(program, {"y"}, {}, dims, inputs) < 1e-7);
    const Program twice = differentiate(program, {"y"}, {"x"}, true);
    CHECK(worst_gradient_error(twice, {"grad.x"}, {"x"}, dims, random_inputs(twice, dims, 8)) < 1e-7);
    const Program text = parse(head + body + "\n");
    CHECK(parse(print(text)) == text);
  }
}

TEST_CASE("a variance without iterations is NaN, of one element 0, and the same for any number of threads") {
  const std::string text =
      "dim S, K\nindex s:S, k:K, i:S\ninput x[S,K], first[S]: i32\noutput v[s] = variance[k in 0..s](x[s,k])\n"
      "output d[s] = variance[k in 0..first[s]](x[s,k])\noutput a = variance[i,k](x[i,k])\n";
  const std::size_t S = 40, K = 3000;
  std::vector<double> x;
  for (std::size_t n = 0; n < S * K; ++n) x.push_back(std::round(1e4 * std::sin(0.37 * static_cast<double>(n))) / 16);
  std::vector<double> first(S, 0);
  first[1] = 1;
  first[2] = 2;
  std::optional<std::vector<double>> before;
  for (const int threads : {1, 2, 3}) {
    const auto device = test_device("cpu", {.threads = threads});
    if (!device) return;
    const TensorValues got = run_on(device, parse(text), {{"S", S}, {"K", K}}, {{"x", x}, {"first", first}});
    for (const char* name : {"v", "d"}) {
      CHECK(std::isnan(got.at(name)[0]));
      CHECK(got.at(name)[1] == 0);
      CHECK(got.at(name)[2] > 0);
    }
    if (before) CHECK(got.at("a") == *before);
    before = got.at("a");
  }
}
