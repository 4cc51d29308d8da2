// Linear algebra on matrices of any size, on every device: where a library factors them, and where kernels do.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/algebra_checks.h"

using namespace moxie;
using test::all_dims, test::check_devices, test::check_values, test::kPositiveAlgebra, test::kPositiveMatrix;

namespace {

std::size_t count_calls(const Program& program) {
  return static_cast<std::size_t>(std::ranges::count_if(
      make_plan(program).steps, [](const PlanStep& step) { return std::holds_alternative<AlgebraCall>(step); }));
}

/// A matrix without symmetry whose largest elements lie off the diagonal, so that rows are exchanged.
const std::string kGeneral =
    "dim N dynamic, B = 3\nindex i:N, j:N, b:B\ninput x[N]: f64, Y[N,B]: f64\n"
    "let A[i,j]: f64 = sin(3*i + j*j + x[i]) + where(i == N - 1 - j, 4, 0)\n"
    "output solved[j,b]: f64 = lu_solve[i,j](A[i,j], Y[i,b])\n"
    "output back[b,j]: f64 = lu_solve_transposed[i,j](A[i,j], Y[i,b])\n"
    "output inverted[i,j]: f64 = lu_inverse[i,j](A[i,j])\n"
    "output size: f64 = determinant[i,j](A[i,j]/4)\n"
    "output log_size: f64 = log_abs_determinant[i,j](A[i,j])\n";

}  // namespace

TEST_CASE("general matrices of any size, known late or early, on every device") {
  const Program program = parse(kGeneral);
  for (const std::int64_t n : {0, 1, 2, 7, 20}) {
    CAPTURE(n);
    check_devices(program, {{"N", n}}, 1e-9);
    check_devices(specialise_all(program, {{"N", n}}), {{"N", n}}, 1e-9);
  }
  const DimValues dims = all_dims(program, {{"N", 150}});
  const TensorValues inputs = test::wave_inputs(program, dims);
  if (const auto device = test::test_device("cpu"))
    check_values(test::run_on(device, program, dims, inputs), evaluate(program, dims, inputs), 1e-8);
}

TEST_CASE("a batch of small general matrices in lanes") {
  check_devices(parse(R"(dim B dynamic, N = 4
index b:B, i:N, j:N
input x[B,N,N]: f64, y[B,N]: f64
let A[b,i,j]: f64 = x[b,i,j] + where(i == 3 - j, 3, 0)
output solved[b,j]: f64 = lu_solve[i,j](A[b,i,j], y[b,i])
output back[b,j]: f64 = lu_solve_transposed[i,j](A[b,i,j], y[b,i])
output inverted[b,i,j]: f64 = lu_inverse[i,j](A[b,i,j])
output sizes[b]: f64 = determinant[i,j](A[b,i,j])
)"),
                {{"B", 37}}, 1e-9);
}

TEST_CASE("a singular matrix has determinant 0 and no inverse: the sample is named") {
  const Program sizes = parse(
      "dim B = 2, N = 3\nindex b:B, i:N, j:N\ninput x[B,N,N]: f64\n"
      "output size[b]: f64 = determinant[i,j](x[b,i,j])\n");
  const Program inverses = parse(
      "dim B = 2, N = 3\nindex b:B, i:N, j:N\ninput x[B,N,N]: f64\n"
      "output y[b,i,j]: f64 = lu_inverse[i,j](x[b,i,j])\n");
  const TensorValues inputs = {{"x", {0, 2, 0, 1, 0, 0, 0, 0, 3, 1, 2, 3, 2, 4, 6, 0, 0, 1}}};
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CHECK(test::run_on(device, sizes, all_dims(sizes, {}), inputs).at("size") == std::vector<double>{-6, 0});
    CHECK_THROWS_WITH_AS(
        test::run_on(device, inverses, all_dims(inverses, {}), inputs),
        "y: the matrix is singular at b = 1, pivot = 1 (value 0); a pivot of its elimination is 0 or NaN", DomainError);
  }
}

TEST_CASE("one factor serves all that is asked of a large matrix") {
  const Program program = parse(kPositiveMatrix +
                                "output size: f64 = logdet[i,j](A[i,j])\n"
                                "output several[j,b]: f64 = solve[i,j](A[i,j], Y[i,b])\n");
  CHECK(count_calls(program) == 3);
  CHECK(count_calls(specialise_all(program, {{"N", 63}})) == 0);
  CHECK(count_calls(specialise_all(program, {{"N", 64}})) == 3);
}

TEST_CASE("matrices of any size, known late or early, on every device") {
  const Program program = parse(kPositiveAlgebra);
  for (const std::int64_t n : {0, 1, 2, 7, 66}) {
    CAPTURE(n);
    check_devices(program, {{"N", n}}, 1e-10);
  }
  check_devices(specialise_all(program, {{"N", 65}}), {{"N", 65}}, 1e-10);
  check_devices(with_dtype(parse(kPositiveAlgebra), DType::f32), {{"N", 33}}, 1e-4);
}

TEST_CASE("matrices of several panels and tiles, whole and a part of one, and every number of threads: the same bits") {
  const Program program = parse(kPositiveAlgebra);
  for (const std::int64_t n : {128, 300}) {
    CAPTURE(n);
    const DimValues dims = all_dims(program, {{"N", n}});
    const TensorValues inputs = test::wave_inputs(program, dims);
    std::optional<TensorValues> first;
    for (const int threads : {1, 2, 3}) {
      const auto device = test::test_device("cpu", {.threads = threads});
      if (!device) return;
      const TensorValues found = test::run_on(device, program, dims, inputs);
      if (!first) check_values(found, evaluate(program, dims, inputs), 1e-9);
      if (first) CHECK(found == *first);
      first = found;
    }
  }
}

TEST_CASE("a batch of large matrices, in the triangle of a tensor whose axes stand the other way round") {
  const Program program = parse(R"(dim B dynamic, N = 70
index b:B, i:N, j:N
input x[B,N]: f64, y[B,N]: f64
let A[j,b,i]: f64 = x[b,i]*x[b,j] + where(i == j, 3, 0)
output root[b,j,i]: f64 = cholesky[i,j](A[j,b,i])
output solved[j,b]: f64 = solve[i,j](A[i,b,j], y[b,i])
output sizes[b]: f64 = logdet[i,j](A[i,b,j])
)");
  for (const std::int64_t b : {0, 1, 4}) check_devices(program, {{"B", b}}, 1e-10);
}

TEST_CASE("gradients and second derivatives through large matrices") {
  const Program program = parse(kPositiveMatrix +
                                "let S[j,b]: f64 = solve[i,j](A[i,j], Y[i,b])\n"
                                "output evidence: f64 = sum[i,b](Y[i,b]*S[i,b]) + logdet[i,j](A[i,j])\n");
  const Program gradient = differentiate(program, {"evidence"}, {"x", "Y"});
  check_devices(gradient, {{"N", 9}}, 1e-9);
  const DimValues dims = all_dims(gradient, {{"N", 70}});
  const TensorValues inputs = test::wave_inputs(gradient, dims);
  for (const char* name : {"cpu", "interp"}) {
    if (const auto device = test::test_device(name))
      check_values(test::run_on(device, gradient, dims, inputs), evaluate(gradient, dims, inputs), 1e-9);
  }
  const DimValues few = all_dims(gradient, {{"N", 4}});
  CHECK(test::worst_gradient_error(gradient, {"grad.x"}, {"x"}, few, test::random_inputs(gradient, few, 3)) < 1e-6);
}

TEST_CASE("a large matrix that is not positive definite is named, with its sample and pivot") {
  const Program program = parse(R"(dim B = 3, N dynamic
index b:B, i:N, j:N
input x[B,N]: f64
output size[b]: f64 = logdet[i,j](where(i == j, x[b,i], 0))
)");
  const DimValues dims = all_dims(program, {{"N", 80}});
  TensorValues inputs = {{"x", std::vector<double>(240, 2.0)}};
  inputs["x"][80 + 70] = -1;
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CHECK_THROWS_WITH_AS(test::run_on(device, program, dims, inputs),
                         "size.factor: the matrix is not positive definite at b = 1, pivot = 70 (value -1); add to its "
                         "diagonal (noise or jitter), or compute it in f64",
                         DomainError);
  }
}
