// Matrices in scans: one that no step changes is inverted once, others are factored in every step, by a library when
// large.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/library_matrix.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/algebra_checks.h"

using namespace moxie;
using test::all_dims, test::check_devices, test::check_values;

namespace {

/// Implicit Euler steps, with a matrix that no step changes, for some columns at once.
std::string implicit_euler(const std::string& sizes, const std::string& solve) {
  return sizes +
         "\nindex t:T, b:B, i:N, j:N\ninput x[B,N]: f64, K[N,N]: f64, f[T,N]: f64\n"
         "let A[i,j]: f64 = where(i == j, N + 2, 0) + sin(K[i,j] + K[j,i])\n"
         "scan t {\nlet before[t,b,i]: f64 = where(t == 0, x[b,i], u[t-1,b,i])\n"
         "output u[t,b,j]: f64 = " +
         solve + "[i,j](A[i,j], 3*before[t,b,i] + f[t,i])\n}\noutput y: f64 = sum[t,b,j](u[t,b,j]^2*(t + j))\n";
}

/// Each step has a matrix of its own, which depends on the state.
std::string newton_steps(const std::string& sizes, const std::string& solve) {
  return sizes +
         "\nindex t:T, i:N, j:N\ninput x[N]: f64, K[N,N]: f64\n"
         "scan t {\nlet before[t,i]: f64 = where(t == 0, x[i], u[t-1,i])\n"
         "let J[t,i,j]: f64 = where(i == j, N + before[t,i]^2, 0) + sin(K[i,j] + K[j,i])\n"
         "output u[t,j]: f64 = " +
         solve + "[i,j](J[t,i,j], before[t,i] + 1)\n}\noutput y: f64 = sum[t,j](u[t,j]^2*(t + j))\n";
}

std::string text_after(const Program& program, const std::string& pass_name) {
  std::string text;
  optimise(program, [&](const Pass& pass, const Program& result) {
    if (pass.name == pass_name) text = print(result);
  });
  return text;
}

int calls_in_scans(const Program& program) {
  int calls = 0;
  for (const PlanStep& step : make_plan(specialise_all(program, {})).steps) {
    if (std::holds_alternative<LoweredScan>(step)) calls += static_cast<int>(algebra_calls_of(step).size());
  }
  return calls;
}

}  // namespace

TEST_CASE("a matrix that no step of a scan changes is inverted before it") {
  for (const std::string solve : {"solve", "lu_solve", "lu_solve_transposed"}) {
    CAPTURE(solve);
    const Program program = specialise_all(parse(implicit_euler("dim T = 9, B = 2, N = 24", solve)), {});
    const std::string text = text_after(program, "reuse-inverses");
    CHECK(text.find(solve + "[") == std::string::npos);
    const std::size_t inverse = text.find("let u.inverse");
    REQUIRE(inverse != std::string::npos);
    CHECK(inverse < text.find("scan t"));
    CHECK(text.find("u.residual") != std::string::npos);
    Program fast = program;
    fast.precision = Precision::Fast;
    CHECK(text_after(fast, "reuse-inverses").find("u.residual") == std::string::npos);
  }
}

TEST_CASE("few solves with one matrix, or small ones, are solved as they are written") {
  for (const std::string sizes : {"dim T = 2, B = 1, N = 8", "dim T = 50, B = 3, N = 3"}) {
    const Program program = specialise_all(parse(implicit_euler(sizes, "lu_solve")), {});
    const std::string text = text_after(program, "reuse-inverses");
    CHECK(text.find("inverse") == std::string::npos);
  }
}

TEST_CASE("implicit steps and their gradients on every device") {
  for (const std::string solve : {"solve", "lu_solve", "lu_solve_transposed"}) {
    CAPTURE(solve);
    const Program program = parse(implicit_euler("dim T = 9, B = 2, N dynamic", solve));
    const Program gradient = differentiate(program, {"y"}, {"x", "K", "f"});
    const DimValues dims = all_dims(program, {{"N", 7}});
    check_devices(program, dims, 1e-12);
    check_devices(specialise_all(gradient, dims), dims, 1e-11);
    CHECK(test::worst_gradient_error(program, {"y"}, {"x", "K", "f"}, dims, test::random_inputs(program, dims, 3)) <
          1e-6);
    const DimValues large = all_dims(program, {{"N", 70}});
    const TensorValues inputs = test::wave_inputs(gradient, large);
    if (const auto device = test::test_device("cpu")) {
      check_values(test::run_on(device, gradient, large, inputs), evaluate(gradient, large, inputs), 1e-10);
      check_values(test::run_on(device, specialise_all(gradient, large), large, inputs),
                   evaluate(gradient, large, inputs), 1e-10);
    }
  }
}

TEST_CASE("a step of a scan holds the library calls of its own matrix") {
  for (const std::string solve : {"solve", "lu_solve", "lu_solve_transposed"}) {
    CAPTURE(solve);
    const Program program = parse(newton_steps("dim T = 5, N dynamic", solve));
    const Program gradient = differentiate(program, {"y"}, {"x", "K"});
    CHECK(calls_in_scans(program) > 0);
    const std::int64_t least = solve == "solve" ? kLibraryRows : kRowsOfOne;
    CHECK(calls_in_scans(specialise_all(program, {{"N", least}})) > 0);
    CHECK(calls_in_scans(specialise_all(program, {{"N", least - 1}})) == 0);
    for (const std::int64_t n : {0, 1, 6, 66}) {
      const DimValues dims = all_dims(program, {{"N", n}});
      const TensorValues inputs = test::wave_inputs(gradient, dims);
      const TensorValues expected = evaluate(gradient, dims, inputs);
      for (const auto& device : test::test_devices()) {
        if (n > 20 && device->name() == "cuda-emu") continue;
        CAPTURE(device->name());
        check_values(test::run_on(device, gradient, dims, inputs), expected, 1e-10);
        check_values(test::run_on(device, specialise_all(gradient, dims), dims, inputs), expected, 1e-10);
      }
    }
    const DimValues few = all_dims(program, {{"N", 4}});
    CHECK(test::worst_gradient_error(program, {"y"}, {"x", "K"}, few, test::random_inputs(program, few, 3)) < 1e-6);
  }
}

TEST_CASE("eigenvalues, singular values and factors of a step, backwards too, on every device") {
  const std::string head =
      "dim T = 4, B = 2, N dynamic\nindex t:T, b:B, i:N, j:N, k:N\ninput x[B,N]: f64, K[N,N]: f64\n";
  const std::string matrix = "let J[t,b,i,j]: f64 = where(i == j, N + i + h[t,b,i], 0) + sin(K[i,j] + K[j,i])\n";
  for (const std::string body :
       {"eigenvalues[i,j](J[t,b,i,j])", "singular_values[i,j](J[t,b,i,j])", "sum[i](lu_inverse[i,j](J[t,b,i,j]))",
        "sum[i](qr_q[i,j](J[t,b,i,j]))", "sum[i](svd_u[i,j](J[t,b,i,j])^2)",
        "tri_solve[i,j](cholesky[i,j](J[t,b,i,j]), x[b,i])"}) {
    CAPTURE(body);
    const std::string expression = body.starts_with("tri") ? "tri_solve[i,j](L[t,b,i,j], x[b,i])" : body;
    const std::string factor =
        body.starts_with("tri") ? "let L[t,b,i,j]: f64 = cholesky[i,j](J[t,b,i,j])\n" : std::string();
    const Program forwards = parse(head + "scan t {\nlet h[t,b,i]: f64 = where(t == 0, x[b,i], u[t-1,b,i])\n" + matrix +
                                   factor + "output u[t,b,j]: f64 = 0.1*" + expression + "\n}\n");
    const Program backwards =
        parse(head + "scan t backwards {\nlet h[t,b,i]: f64 = where(t == T-1, x[b,i], u[t+1,b,i])\n" + matrix + factor +
              "output u[t,b,j]: f64 = 0.1*" + expression + "\n}\n");
    for (const auto& [program, sizes] : {std::pair{forwards, std::vector{5, 65}}, {backwards, {5}}}) {
      CHECK(calls_in_scans(program) > 0);
      for (const std::int64_t n : sizes) {
        const DimValues dims = all_dims(program, {{"N", n}});
        const TensorValues inputs = test::wave_inputs(program, dims);
        const TensorValues expected = evaluate(program, dims, inputs);
        for (const auto& device : test::test_devices()) {
          // Emulators take long; the singular vectors come with their values.
          const bool is_covered = device->name() == "cuda-emu" || body.starts_with("singular_values");
          if (n > 20 && device->name().starts_with("cuda") && is_covered) continue;
          CAPTURE(device->name());
          check_values(test::run_on(device, program, dims, inputs), expected, 1e-9);
        }
      }
    }
  }
}

/// The checks of a kernel in a scan do not know the step.
TEST_CASE("a matrix that a step cannot factor ends the run with the step") {
  const Program program = parse(
      "dim T = 4, N dynamic\nindex t:T, i:N, j:N\ninput x[N]: f64\n"
      "scan t {\nlet h[t,i]: f64 = where(t == 0, x[i], u[t-1,i])\n"
      "output u[t,j]: f64 = lu_solve[i,j](where(i == j, where(t == 2, 0, 1), 0)*where(h[t,i] < 1e9, 1, 2), "
      "h[t,i])\n}\n");
  for (const std::int64_t n : {3, 70}) {
    const DimValues dims = all_dims(program, {{"N", n}});
    const TensorValues inputs = {{"x", std::vector<double>(static_cast<std::size_t>(n), 1)}};
    for (const auto& device : test::test_devices()) {
      const bool in_kernels = device->name().starts_with("cuda");
      if (n > 20 && device->name() == "cuda-emu") continue;  // its kernels take long to compile
      CAPTURE(device->name());
      CHECK_THROWS_WITH_AS(test::run_on(device, program, dims, inputs),
                           doctest::Contains(in_kernels ? "u: the matrix is singular at pivot = 0"
                                                        : "u: the matrix is singular at t = 2, pivot = 0"),
                           DomainError);
    }
  }
}

TEST_CASE("a solution by a reused inverse has the residual of a stable solve") {
  // A Hilbert matrix of 8 rows has the condition 1.5e10.
  const Program program = parse(
      "dim B = 40, N = 8\nindex b:B, i:N, j:N\ninput x[B,N]: f64\n"
      "output u[b,j]: f64 = lu_solve[i,j](1/(i + j + 1), x[b,i])\n");
  REQUIRE(text_after(specialise_all(program, {}), "reuse-inverses").find("inverse") != std::string::npos);
  const DimValues dims = all_dims(program, {});
  const TensorValues inputs = test::random_inputs(program, dims, 5);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const std::vector<double> u = test::run_on(device, program, dims, inputs).at("u");
    double worst = 0;
    for (std::size_t b = 0; b < 40; ++b) {
      double largest = 0, residual = 0;
      for (std::size_t i = 0; i < 8; ++i) {
        double image = 0;
        for (std::size_t j = 0; j < 8; ++j) {
          image += u[b * 8 + j] / static_cast<double>(i + j + 1);
          largest = std::max(largest, std::abs(u[b * 8 + j]));
        }
        residual = std::max(residual, std::abs(image - inputs.at("x")[b * 8 + i]));
      }
      worst = std::max(worst, residual / largest);
    }
    CHECK(worst < 1e-14);  // of the inverse alone 1e-10
  }
}
