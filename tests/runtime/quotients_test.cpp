// Formulas that divide indices, on every device: against loops written by hand, and finite differences.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

Values numbers(std::size_t count) {
  Values values;
  for (std::size_t k = 0; k < count; ++k) values.push_back(static_cast<double>((k * 7) % 11) / 4 - 1);
  return values;
}

/// The gradient of `input` for the cotangent numbers(..), in both precisions on every device.
void check_everywhere(const std::string& text, const DimValues& dims, TensorValues inputs, const Values& value,
                      const std::string& input, const Values& gradient) {
  inputs["cot.y"] = numbers(value.size());
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Program program = differentiate(with_dtype(parse(text), dtype), {"y"}, {input}, true);
    CHECK(print(parse(print(program))) == print(program));
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      const TensorValues found = test::run_on(device, program, dims, inputs);
      const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
      const auto check_close = [&](const Values& got, const Values& expected) {
        REQUIRE(got.size() == expected.size());
        for (std::size_t k = 0; k < got.size(); ++k) CHECK(std::abs(got[k] - expected[k]) <= tolerance * 10);
      };
      check_close(found.at("y"), value);
      check_close(found.at("grad." + input), gradient);
    }
  }
}

}  // namespace

TEST_CASE("upsampling repeats elements, and its gradient sums over the repetitions") {
  const std::size_t rows = 19, columns = 23;
  const Values x = numbers(rows * columns), cotangent = numbers(6 * rows * columns);
  Values value, gradient(x.size());
  for (std::size_t a = 0; a < 2 * rows; ++a) {
    for (std::size_t b = 0; b < 3 * columns; ++b) {
      gradient[a / 2 * columns + b / 3] += cotangent[value.size()];
      value.push_back(x[a / 2 * columns + b / 3]);
    }
  }
  check_everywhere("dim N, M\ninput x[N,M]\noutput y[a in 0..2*N of 2*N, b in 0..3*M of 3*M] = x[a/2,b/3]\n",
                   {{"N", 19}, {"M", 23}}, {{"x", x}}, value, "x", gradient);
}

TEST_CASE("the last block may be shorter than the others") {
  const std::size_t size = 37, block = 5;
  const Values x = numbers(8);
  Values value, gradient(8);
  const Values cotangent = numbers(size);
  for (std::size_t n = 0; n < size; ++n) {
    gradient[n / block] += cotangent[n] * (static_cast<double>(n % block) + 1);
    value.push_back(x[n / block] * (static_cast<double>(n % block) + 1));
  }
  check_everywhere("dim N, K = 5\nindex n:N\ninput x[8]\noutput y[n] = x[n/K]*(n%K + 1)\n", {{"N", 37}}, {{"x", x}},
                   value, "x", gradient);
}

TEST_CASE("a pixel shuffle moves channels into space") {
  const std::size_t channels = 3, height = 4, width = 5;
  const Values x = numbers(4 * channels * height * width), cotangent = numbers(x.size());
  Values value, gradient(x.size());
  for (std::size_t c = 0; c < channels; ++c) {
    for (std::size_t a = 0; a < 2 * height; ++a) {
      for (std::size_t b = 0; b < 2 * width; ++b) {
        const std::size_t from = ((4 * c + 2 * (a % 2) + b % 2) * height + a / 2) * width + b / 2;
        gradient[from] += cotangent[value.size()];
        value.push_back(x[from]);
      }
    }
  }
  check_everywhere(
      "dim C, H, W\nindex c:C\ninput x[4*C,H,W]\n"
      "output y[c, a in 0..2*H of 2*H, b in 0..2*W of 2*W] = x[4*c+2*(a%2)+b%2,a/2,b/2]\n",
      {{"C", 3}, {"H", 4}, {"W", 5}}, {{"x", x}}, value, "x", gradient);
}

TEST_CASE("gradients of formulas that divide indices are those of finite differences") {
  const std::vector<std::pair<std::string, DimValues>> formulas = {
      {"dim C = 6, K = 2, N\nindex c:C, k:K, n:N\ninput x[C,N], w[C,K]\n"
       "output y[c,n] = sum[k](w[c,k]*x[2*(c/2)+k,n]^2)\n",
       {{"C", 6}, {"K", 2}, {"N", 5}}},
      {"dim N, K = 3\nindex n:N\ninput x[N], w[N]\n"
       "output y[n] = where(n%2 == 0, x[n/2], w[n]*x[n%K]) + where(n//3 > 0, exp(x[n-n%3-1]), 0)\n",
       {{"N", 9}, {"K", 3}}},
      {"dim N\nindex n:N, m:N\ninput x[N], w[N,N]\noutput y[n] = sum[m](tanh(w[n/2,m]*x[(n+m)/2])) + x[n/2/3]*(n//2)\n",
       {{"N", 7}}},
      {"dim N, K = 4\nindex n:N\ninput x[N], w[N]\nlet s[n] = x[n/K]*w[n]\noutput y[n] = s[n/2]*s[n]\n",
       {{"N", 9}, {"K", 4}}}};
  for (const auto& [text, dims] : formulas) {
    CAPTURE(text);
    const Program program = with_dtype(parse(text), DType::f64);
    const TensorValues inputs = test::random_inputs(program, dims, 3);
    CHECK(test::worst_gradient_error(program, {"y"}, {}, dims, inputs) < 1e-7);
    const Program gradients = differentiate(program, {"y"}, {}, true);
    const TensorValues all = test::random_inputs(gradients, dims, 3), expected = evaluate(gradients, dims, all);
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      for (const auto& [name, values] : test::run_on(device, gradients, dims, all)) {
        for (std::size_t k = 0; k < values.size(); ++k)
          CHECK(values[k] == doctest::Approx(expected.at(name)[k]).epsilon(1e-12).scale(1));
      }
    }
  }
}
