// The factors Q and R of square and tall matrices on every device: by LAPACK, and by reflections inside of kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/algebra_checks.h"

using namespace moxie;
using test::all_dims, test::check_devices, test::check_values;

namespace {

const std::string kBoth =
    "dim N dynamic, M dynamic\nindex i:N, j:M, k:M, l:M\ninput x[N,M]: f64\n"
    "output Q[i,j]: f64 = qr_q[i,j](x[i,j] + where(i == j, 2, 0))\n"
    "output R[k,l]: f64 = qr_r[i,j](x[i,j] + where(i == j, 2, 0))[k,l]\n";

}  // namespace

TEST_CASE("factors that NumPy gives") {
  const Program program = parse(
      "dim N, M\nindex i:N, j:M, k:M, l:M\ninput x[N,M]: f64\noutput Q[i,j]: f64 = qr_q[i,j](x[i,j])\n"
      "output R[k,l]: f64 = qr_r[i,j](x[i,j])[k,l]\n");
  const TensorValues inputs = {{"x", {1, 2, -3, 0.5, 0.25, 4, 2, -1}}};
  // numpy.linalg.qr(x), with the signs of columns of Q and rows of R that make the diagonal of R positive
  const TensorValues expected = {{"Q",
                                  {0.2666666666666666, 0.44175882525195653, -0.7999999999999999, 0.08536169439912272,
                                   0.06666666666666667, 0.870014105627216, 0.5333333333333333, -0.2015886342306964}},
                                 {"R", {3.75, -0.13333333333333375, -0.0, 4.6078435544430345}}};
  const DimValues dims{{"N", 4}, {"M", 2}};
  check_values(expected, evaluate(program, dims, inputs), 1e-14);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(test::run_on(device, program, dims, inputs), expected, 1e-14);
  }
}

TEST_CASE("tall matrices of any size, known late or early, on every device") {
  const Program program = parse(kBoth);
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {3, 0}, {1, 1}, {4, 1}, {5, 5}, {19, 7}}) {
    CAPTURE(n);
    const DimValues dims{{"N", n}, {"M", m}};
    check_devices(program, dims, 1e-10);
    check_devices(specialise_all(program, dims), dims, 1e-10);
  }
  check_devices(with_dtype(parse(kBoth), DType::f32), {{"N", 12}, {"M", 9}}, 1e-4);
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{70, 63}, {80, 64}, {300, 100}}) {
    CAPTURE(n);
    const DimValues dims{{"N", n}, {"M", m}};
    const TensorValues inputs = test::wave_inputs(program, dims);
    const TensorValues expected = evaluate(program, dims, inputs);
    if (const auto device = test::test_device("cpu"))
      check_values(test::run_on(device, specialise_all(program, dims), dims, inputs), expected, 1e-9);
  }
}

TEST_CASE("a batch of small tall matrices in lanes, and of others whose axes stand the other way round") {
  const std::string rest =
      "index b:B, i:N, j:M\ninput x[B,N]: f64\n"
      "let A[j,b,i]: f64 = sin((3*j + 2)*x[b,i] + j*i) + where(i == j, 3, 0)\n"
      "output Q[j,i,b]: f64 = qr_q[i,j](A[j,b,i])\n"
      "output R[k in 0..M,b,l in 0..M]: f64 = qr_r[i,j](A[j,b,i])[k,l]\n";
  for (const std::int64_t b : {0, 1, 19}) {
    check_devices(parse("dim B dynamic, N = 6, M = 3\n" + rest), {{"B", b}}, 1e-10);
    check_devices(parse("dim B dynamic, N dynamic, M = 3\n" + rest), {{"B", b}, {"N", 11}}, 1e-10);
  }
}

TEST_CASE("columns that depend on each other end the run with the sample and the column") {
  const Program program = parse(
      "dim B = 3, N dynamic\nindex b:B, i:N, j in 0..2\ninput x[B,N,2]: f64\n"
      "output Q[b,i,j]: f64 = qr_q[i,j](x[b,i,j])\n");
  for (const auto& [bad, text] : {std::pair<double, std::string>{0, "0"},
                                  {std::nan(""), "nan"},
                                  {std::numeric_limits<double>::infinity(), "nan"}}) {
    const DimValues dims = all_dims(program, {{"N", 4}});
    TensorValues inputs = {{"x", std::vector<double>(24)}};
    for (std::size_t k = 0; k < 24; ++k)
      inputs["x"][k] = k % 2 == 0 ? 1 : k >= 8 && k < 16 ? bad : static_cast<double>(k);
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      for (const Program& one : {program, specialise_all(program, dims)}) {
        CHECK_THROWS_WITH_AS(test::run_on(device, one, dims, inputs),
                             ("Q: the columns of the matrix depend on each other at b = 1, pivot = 1 (value " + text +
                              "); a diagonal element of R is 0, NaN or infinite")
                                 .c_str(),
                             DomainError);
      }
    }
  }
}

TEST_CASE("a matrix with more columns than rows is refused when its size is known") {
  const std::string rest = "index i:N, j:M\ninput x[N,M]\noutput Q[i,j] = qr_q[i,j](x[i,j])\n";
  const char* text = "qr_q takes a matrix with at least as many rows as columns, and this one has 2 rows and 3 columns";
  CHECK_THROWS_WITH_AS(verify(parse("input x[2,3]\noutput y = qr_q[i in 0..2,j in 0..3](x[i,j])[0,0]\n")),
                       doctest::Contains(text), ShapeError);
  const Program late = parse("dim N dynamic, M dynamic\n" + rest);
  CHECK_THROWS_WITH_AS(evaluate(late, {{"N", 2}, {"M", 3}}, {{"x", std::vector<double>(6)}}), doctest::Contains(text),
                       ShapeError);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CHECK_THROWS_WITH_AS(test::run_on(device, late, {{"N", 2}, {"M", 3}}, {{"x", std::vector<double>(6)}}),
                         doctest::Contains(text), ShapeError);
  }
}

TEST_CASE("gradients and second derivatives of Q and R") {
  const Program program =
      parse(kBoth + "output y: f64 = sum[i,j](sin(Q[i,j] + i)*cos(j)) + sum[k,l](R[k,l]*sin(k + l + R[k,l]))\n");
  const Program gradient = differentiate(program, {"y"}, {"x"});
  const DimValues dims{{"N", 5}, {"M", 3}};
  check_devices(gradient, dims, 1e-9);
  check_devices(specialise_all(gradient, dims), dims, 1e-9);
  const TensorValues inputs = test::random_inputs(program, dims, 3);
  CHECK(test::worst_gradient_error(program, {"y"}, {"x"}, dims, inputs) < 1e-7);
  CHECK(test::worst_tangent_error(program, {"Q", "R"}, {"x"}, dims, inputs) < 1e-7);
  const TensorValues more = test::random_inputs(gradient, dims, 4);
  CHECK(test::worst_gradient_error(gradient, {"grad.x"}, {"x"}, dims, more) < 1e-6);
}

TEST_CASE("text of tall matrices is parsed and printed") {
  const Program program = parse(kBoth + "output first[k]: f64 = qr_q[i,j](x[i,j])[k,0]\n");
  CHECK(parse(print(program)) == program);
}

TEST_CASE("least squares by QR solve the normal equations") {
  const Program program = parse(
      "dim N = 7, M = 3\nindex i:N, j:M, k:M, l:M\ninput A[N,M]: f64, b[N]: f64\n"
      "let Q[i,j]: f64 = qr_q[i,j](A[i,j] + where(i == j, 1, 0))\n"
      "let R[k,l]: f64 = qr_r[i,j](A[i,j] + where(i == j, 1, 0))[k,l]\n"
      "output x[l]: f64 = tri_solve_transposed[k,l](R[l,k], sum[i](Q[i,k]*b[i]))\n"
      "output y[l]: f64 = solve[k,l](sum[i]((A[i,k] + where(i == k, 1, 0))*(A[i,l] + where(i == l, 1, 0))), "
      "sum[i]((A[i,k] + where(i == k, 1, 0))*b[i]))\n");
  const DimValues dims = all_dims(program, {});
  const TensorValues inputs = test::random_inputs(program, dims, 5);
  for (const auto& device : test::test_devices()) {
    const TensorValues found = test::run_on(device, program, dims, inputs);
    check_values({{"x", found.at("x")}}, {{"x", found.at("y")}}, 1e-12);
  }
  CHECK(test::worst_gradient_error(program, {"x"}, {"A", "b"}, dims, inputs) < 1e-7);
}
