// Eigenvalues and eigenvectors of symmetric matrices on every device: by LAPACK, and by rotations inside of kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/tangents.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/algebra_checks.h"

using namespace moxie;
using test::all_dims, test::check_devices, test::check_values;

namespace {

/// Only the lower triangle is read: above it stands a NaN.
const std::string kBoth =
    "dim N dynamic\nindex i:N, j:N\ninput x[N,N]: f64\n"
    "let A[i,j]: f64 = where(i >= j, x[i,j], sqrt(-1 - j))\n"
    "output values[j]: f64 = eigenvalues[i,j](A[i,j])\n"
    "output vectors[i,j]: f64 = eigenvectors[i,j](A[i,j])\n";

/// The largest of |A v - w v| and |V^T V - 1|.
double worst_residual(const std::vector<double>& a, const std::vector<double>& values,
                      const std::vector<double>& vectors) {
  const std::size_t n = values.size();
  double worst = 0;
  for (std::size_t t = 0; t < n; ++t) {
    for (std::size_t r = 0; r < n; ++r) {
      double residual = -values[t] * vectors[r * n + t], product = r == t ? -1 : 0;
      for (std::size_t k = 0; k < n; ++k) {
        residual += a[std::max(r, k) * n + std::min(r, k)] * vectors[k * n + t];
        product += vectors[k * n + r] * vectors[k * n + t];
      }
      worst = std::max({worst, std::abs(residual), std::abs(product)});
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("eigenvalues and eigenvectors that NumPy gives") {
  const Program program = parse(kBoth);
  const TensorValues inputs = {{"x", {4, 1, -2, 0.5, 1, -3, 0.25, 2, -2, 0.25, 1, 1.5, 0.5, 2, 1.5, 2}}};
  // numpy.linalg.eigh(x), columns with the sign of the rule
  const TensorValues expected = {
      {"values", {-3.780789621923802, -0.8160975660325269, 3.520182732748072, 5.076704455208257}},
      {"vectors",
       {-0.09789215732710776, 0.4012316073889584, 0.1665203728133744, 0.8953777349275627, 0.9422314947618838,
        -0.1104178263676332, 0.30116163652961886, 0.09648514176718687, 0.0102327801964657, 0.8055075876882377,
        0.40258817896630505, -0.43471320953327486, -0.3201753051409194, -0.42187513203434474, 0.848230742355811,
        -0.0037087290859026205}}};
  const DimValues dims{{"N", 4}};
  check_values(expected, evaluate(program, dims, inputs), 1e-14);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(test::run_on(device, program, dims, inputs), expected, 1e-13);
    check_values(test::run_on(device, specialise_all(program, dims), dims, inputs), expected, 1e-13);
  }
}

TEST_CASE("symmetric matrices of any size, known late or early, on every device") {
  const Program program = parse(kBoth);
  for (const std::int64_t n : {0, 1, 2, 3, 8, 21}) {
    CAPTURE(n);
    check_devices(program, {{"N", n}}, 1e-9);
    check_devices(specialise_all(program, {{"N", n}}), {{"N", n}}, 1e-9);
  }
  check_devices(with_dtype(parse(kBoth), DType::f32), {{"N", 9}}, 1e-3);
  for (const std::int64_t n : {11, 12, 13, 63, 150}) {
    CAPTURE(n);
    const DimValues dims{{"N", n}};
    const Program early = specialise_all(program, dims);
    const TensorValues inputs = test::wave_inputs(program, dims);
    const TensorValues expected = evaluate(program, dims, inputs);
    const auto device = test::test_device("cpu");
    if (!device) return;
    check_values(test::run_on(device, early, dims, inputs), expected, 1e-7);
  }
}

TEST_CASE("a batch of small symmetric matrices in lanes, and of large ones whose axes stand the other way round") {
  const std::string rest =
      "index b:B, i:N, j:N\ninput x[B,N]: f64\n"
      "let A[j,b,i]: f64 = sin(x[b,i]*x[b,j]*9) + where(i == j, i + 1, 0)\n"
      "output values[t in 0..N,b]: f64 = eigenvalues[i,j](A[i,b,j])[t]\n"
      "output vectors[j,b,i]: f64 = eigenvectors[i,j](A[i,b,j])\n";
  for (const std::int64_t b : {0, 1, 19}) check_devices(parse("dim B dynamic, N = 5\n" + rest), {{"B", b}}, 1e-9);
  const Program large = parse("dim B dynamic, N = 31\n" + rest);
  const DimValues dims = all_dims(large, {{"B", 3}});
  const TensorValues inputs = test::wave_inputs(large, dims);
  if (const auto device = test::test_device("cpu"))
    check_values(test::run_on(device, large, dims, inputs), evaluate(large, dims, inputs), 1e-7);
}

TEST_CASE("equal eigenvalues, zeros and eigenvalues far apart have orthonormal eigenvectors") {
  const auto matrix = [](std::size_t n, const auto& at) {
    std::vector<double> x(n * n);
    for (std::size_t k = 0; k < n * n; ++k) {
      const std::size_t row = k / n, column = k % n;
      x[k] = at(static_cast<double>(row), static_cast<double>(column));
    }
    return x;
  };
  for (const std::size_t n : {1, 2, 5, 12, 70}) {
    CAPTURE(n);
    const DimValues dims{{"N", static_cast<std::int64_t>(n)}};
    const Program program = parse(kBoth);
    for (const std::vector<double>&x :
         {matrix(n, [](double, double) { return 0.0; }), matrix(n, [](double, double) { return 1.0; }),
          matrix(n, [](double i, double j) { return i == j ? -2.0 : 0.0; }),
          matrix(n, [&](double i, double j) { return (i == j ? 1.0 : 0.0) - 2 / static_cast<double>(n); }),
          matrix(n, [&](double i, double j) { return i + j == static_cast<double>(n) - 1 ? 1.0 : 0.0; }),
          matrix(n, [](double i, double j) { return std::exp2(-i - j) * (i == j ? 2.0 : 1.0); })}) {
      for (const auto& device : test::test_devices()) {
        if (n > 20 && device->name() == "cuda-emu") continue;
        CAPTURE(device->name());
        for (const Program& early : {program, specialise_all(program, dims)}) {
          const TensorValues found = test::run_on(device, early, dims, {{"x", x}});
          CHECK(std::ranges::is_sorted(found.at("values")));
          CHECK(worst_residual(x, found.at("values"), found.at("vectors")) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("components of the same magnitude in theory do not leave the sign to rounding") {
  const Program program = parse(kBoth);
  const double half = std::sqrt(0.5);
  for (const auto& device : test::test_devices()) {
    const TensorValues found = test::run_on(device, program, {{"N", 2}}, {{"x", {0.1, 0, 0.3, 0.1}}});
    check_values(found, {{"values", {-0.2, 0.4}}, {"vectors", {half, half, -half, half}}}, 1e-14);
  }
}

TEST_CASE("eigenvalues of a matrix that holds a NaN or an infinity end the run with the sample") {
  const Program program = parse(
      "dim B = 3, N dynamic\nindex b:B, i:N, j:N\ninput x[B,N]: f64\n"
      "output w[b,j]: f64 = eigenvalues[i,j](where(i == j, x[b,i], 0.5))\n");
  for (const std::int64_t n : {1, 2, 6, 70}) {
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
      const DimValues dims = all_dims(program, {{"N", n}});
      TensorValues inputs = {{"x", std::vector<double>(static_cast<std::size_t>(3 * n), 2.0)}};
      inputs["x"][static_cast<std::size_t>(2 * n - 1)] = bad;
      for (const auto& device : test::test_devices()) {
        if (n > 20 && device->name().starts_with("cuda") && (device->name() == "cuda-emu" || !std::isnan(bad)))
          continue;
        CAPTURE(device->name());
        CHECK_THROWS_WITH_AS(test::run_on(device, specialise_all(program, dims), dims, inputs),
                             "w: the eigenvalues of the matrix are not found at b = 1 (value nan); an element of it is "
                             "NaN or infinite",
                             DomainError);
      }
    }
  }
}

TEST_CASE("LAPACK takes single matrices earlier than batches, which have lanes") {
  const auto calls = [](const std::string& text, std::int64_t n) {
    const Program program = specialise_all(parse("dim N dynamic, B = 9\nindex i:N, j:N, b:B\n" + text), {{"N", n}});
    return std::ranges::any_of(make_plan(program).steps,
                               [](const PlanStep& step) { return std::holds_alternative<AlgebraCall>(step); });
  };
  const std::string one = "input x[N,N]\noutput V[i,j] = eigenvectors[i,j](x[i,j])\n";
  const std::string several = "input x[B,N,N]\noutput V[b,i,j] = eigenvectors[i,j](x[b,i,j])\n";
  CHECK(!calls(one, 11));
  CHECK(calls(one, 12));
  CHECK(!calls(several, 27));
  CHECK(calls(several, 28));
}

TEST_CASE("eigenvalues and eigenvectors of one matrix are computed once in a kernel") {
  const auto kernels = [](const Program& program) {
    return make_plan(specialise_all(program, {{"N", 7}})).steps.size();
  };
  CHECK(kernels(parse("dim N dynamic\nindex i:N, j:N\ninput x[N,N]: f64\n"
                      "output w[j]: f64 = eigenvalues[i,j](x[i,j])\n"
                      "output V[i,j]: f64 = eigenvectors[i,j](x[i,j])\n")) == 1);
}

TEST_CASE("gradients and second derivatives of eigenvalues and eigenvectors") {
  const std::string text =
      "dim N dynamic\nindex i:N, j:N, k:N\ninput x[N,N]: f64, c[N]: f64\n"
      "let V[i,j]: f64 = eigenvectors[i,j](x[i,j] + where(i == j, 3*i, 0))\n"
      "let w[j]: f64 = eigenvalues[i,j](x[i,j] + where(i == j, 3*i, 0))\n"
      "output y: f64 = sum[j](sin(w[j])*c[j]) + sum[i,j](c[i]*cos(j + V[i,j]))\n";
  const Program program = parse(text);
  const Program gradient = differentiate(program, {"y"}, {"x"});
  check_devices(gradient, {{"N", 6}}, 1e-8);
  const DimValues dims = all_dims(gradient, {{"N", 70}});
  const TensorValues inputs = test::wave_inputs(gradient, dims);
  if (const auto device = test::test_device("cpu"))
    check_values(test::run_on(device, gradient, dims, inputs), evaluate(gradient, dims, inputs), 1e-8);
  const DimValues few = all_dims(gradient, {{"N", 4}});
  CHECK(test::worst_gradient_error(gradient, {"grad.x"}, {"x"}, few, test::random_inputs(gradient, few, 3)) < 1e-6);
  CHECK(test::worst_tangent_error(gradient, {"grad.x"}, {"x"}, few, test::random_inputs(gradient, few, 4)) < 1e-6);
}

TEST_CASE("equal eigenvalues add nothing to the derivative of their eigenvectors") {
  const Program program = differentiate(parse("dim N = 2\nindex i:N, j:N\ninput x[N,N]: f64\n"
                                              "output V[i,j]: f64 = eigenvectors[i,j](x[i,j])\n"),
                                        {"V"}, {"x"});
  for (const auto& device : test::test_devices()) {
    const TensorValues found =
        test::run_on(device, program, {{"N", 2}}, {{"x", {2, 0, 0, 2}}, {"cot.V", {1, 2, 3, 4}}});
    CHECK(found.at("grad.x") == std::vector<double>{0, 0, 0, 0});
  }
}
