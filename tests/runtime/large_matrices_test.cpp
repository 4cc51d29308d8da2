// Linear algebra on matrices that libraries factor: LAPACK on the CPU, cuSOLVER on a GPU.
#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/runtime/algebra_checks.h"

using namespace moxie;
using test::all_dims, test::check_values, test::kPositiveAlgebra, test::kPositiveMatrix;

namespace {

std::size_t count_gpu_calls(const Program& program, const DimValues& dims) {
  const PlanTarget target{.products = Products::blas_and_solver, .gpu = GpuLimits{}, .extents = dims};
  const DimValues sizes = matrix_sizes(program, target, all_dims(program, dims));
  const Plan plan = make_plan(specialise_all(program, sizes), {}, target);
  std::size_t count = 0;
  for (const PlanStep& step : plan.steps) count += algebra_calls_of(step).size();
  return count;
}

/// The values of the evaluator, on the devices with a library. `calls` of it are in the plan of a GPU.
void check_libraries(const Program& program, const DimValues& given, std::size_t calls, double tolerance) {
  CHECK(count_gpu_calls(program, given) == calls);
  const DimValues dims = all_dims(program, given);
  const TensorValues inputs = test::wave_inputs(program, dims);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const char* name : {"cpu", "cuda"}) {
    CAPTURE(name);
    if (const auto device = test::test_device(name))
      check_values(test::run_on(device, program, dims, inputs), expected, tolerance);
  }
}

/// Its largest elements lie off the diagonal, so that rows are exchanged.
const std::string kGeneral =
    "dim N dynamic, B = 3\nindex i:N, j:N, b:B\ninput x[N]: f64, Y[N,B]: f64\n"
    "let A[i,j]: f64 = sin(3*i + j*j + x[i])/4 + where(i == N - 1 - j, 4, 0)\n"
    "output solved[j,b]: f64 = lu_solve[i,j](A[i,j], Y[i,b])\n"
    "output back[b,j]: f64 = lu_solve_transposed[i,j](A[i,j], Y[i,b])\n"
    "output inverted[i,j]: f64 = lu_inverse[i,j](A[i,j])\n"
    "output turned[j,i]: f64 = lu_inverse[i,j](A[i,j])\n"
    "output size: f64 = determinant[i,j](A[i,j]/4)\n"
    "output log_size: f64 = log_abs_determinant[i,j](A[i,j])\n";

}  // namespace

TEST_CASE("a GPU's library factors large matrices, unless there are many: its calls follow each other") {
  const Program program = parse(kPositiveMatrix + "output size: f64 = logdet[i,j](A[i,j])\n");
  CHECK(count_gpu_calls(program, {{"N", 128}}) == 0);
  CHECK(count_gpu_calls(program, {{"N", 150}}) == 1);
  const Program many = parse(
      "dim S dynamic, N = 150\nindex s:S, i:N, j:N\ninput x[S,N]: f64\n"
      "output size[s]: f64 = logdet[i,j](x[s,i]*x[s,j] + where(i == j, 2, 0))\n");
  CHECK(count_gpu_calls(many, {{"S", 1}}) == 1);
  CHECK(count_gpu_calls(many, {{"S", 100}}) == 0);
}

TEST_CASE("whether there are many matrices is known when a session runs") {
  const auto device = test::test_device("cuda");
  if (!device) return;
  Session session(parse("dim S dynamic, N = 200\nindex s:S, i:N, j:N\ninput x[S,N]\n"
                        "output root[s,i,j] = cholesky[i,j](x[s,i]*x[s,j] + where(i == j, 1, 0))\n"),
                  {}, device);
  session.set("x", make_host_tensor(DType::f32, {1, 200}, std::vector<double>(200, 0.5)));
  session.run();
  CHECK(to_doubles(session.get("root"))[0] == doctest::Approx(std::sqrt(1.25)));
  CHECK(algebra_calls_of(session.plan().steps.back()).size() == 1);
}

TEST_CASE("large positive definite matrices and their triangles") {
  check_libraries(parse(kPositiveAlgebra), {{"N", 150}}, 7, 1e-10);
  check_libraries(with_dtype(parse(kPositiveAlgebra), DType::f32), {{"N", 145}}, 7, 2e-3);
}

TEST_CASE("large matrices without symmetry") {
  check_libraries(parse(kGeneral), {{"N", 180}}, 6, 1e-9);
  check_libraries(with_dtype(parse(kGeneral), DType::f32), {{"N", 181}}, 6, 2e-3);
}

TEST_CASE("batches of large matrices, in tensors whose axes stand in any order") {
  // The evaluator factors a matrix again wherever the sample changes: the reference has the batch outermost.
  const auto program_with = [](const std::string& axes) {
    const std::string element = "[" + axes + "]: f64 = ";
    return parse("dim B = 2, N = 300\nindex b:B, i:N, j:N\ninput x[B,N]: f64, y[B,N]: f64\nlet A" + element +
                 "x[b,i]*x[b,j] + where(i == j, 3 + b, 0)\noutput root" + element + "cholesky[i,j](A[" + axes +
                 "])\noutput inverted" + element + "inverse[i,j](A[" + axes + "])\noutput general" + element +
                 "lu_inverse[i,j](A[" + axes + "] + where(i == N - 1 - j, 5, 0))\n");
  };
  const Program reference = program_with("b,i,j");
  const DimValues dims = all_dims(reference, {});
  const TensorValues inputs = test::wave_inputs(reference, dims);
  const TensorValues expected = evaluate(reference, dims, inputs);
  const std::map<std::string, std::array<std::size_t, 3>> strides = {// of b, i and j
                                                                     {"b,i,j", {300 * 300, 300, 1}},
                                                                     {"b,j,i", {300 * 300, 1, 300}},
                                                                     {"i,b,j", {300, 600, 1}},
                                                                     {"i,j,b", {1, 600, 2}}};
  for (const char* name : {"cpu", "cuda"}) {
    const auto device = test::test_device(name);
    if (!device) continue;
    CAPTURE(name);
    for (const auto& [axes, stride] : strides) {
      CAPTURE(axes);
      const TensorValues found = test::run_on(device, program_with(axes), dims, inputs);
      for (const auto& [output, values] : found) {
        TensorValues in_order = {{output, {}}};
        for (std::size_t e = 0; e < values.size(); ++e)
          in_order[output].push_back(values[e / 90000 * stride[0] + e / 300 % 300 * stride[1] + e % 300 * stride[2]]);
        check_values(in_order, expected, 1e-9);
      }
    }
  }
}

TEST_CASE("right-hand sides of a batch of large matrices") {
  check_libraries(parse(R"(dim B = 2, K = 3, N = 300
index b:B, k:K, i:N, j:N
input x[B,N]: f64, y[B,N,K]: f64
let A[j,b,i]: f64 = x[b,i]*x[b,j] + where(i == j, 3, 0)
let L[b,i,j]: f64 = cholesky[i,j](A[i,b,j])
output solved[b,j]: f64 = solve[i,j](A[i,b,j], y[b,i,1])
output half[b,k,j]: f64 = tri_solve[i,j](L[b,i,j], y[b,i,k])
output other[b,k,j]: f64 = tri_solve_transposed[i,j](L[b,i,j], y[b,i,k])
output general[b,k,j]: f64 = lu_solve[i,j](A[i,b,j], y[b,i,k])
output sizes[b]: f64 = logdet[i,j](A[i,b,j])
)"),
                  {}, 6, 1e-9);
}

TEST_CASE("gradients through large matrices") {
  const Program program = parse(kPositiveMatrix +
                                "let S[j,b]: f64 = solve[i,j](A[i,j], Y[i,b])\n"
                                "output evidence: f64 = sum[i,b](Y[i,b]*S[i,b]) + logdet[i,j](A[i,j])\n");
  check_libraries(differentiate(program, {"evidence"}, {"x", "Y"}), {{"N", 160}}, 6, 1e-9);
}

TEST_CASE("a scan factors a large matrix in every step") {
  check_libraries(parse(R"(dim T = 3, N = 200
index t:T, i:N, j:N
input x[T,N]: f64
scan t {
  let p[t,i]: f64 = where(t == 0, x[0,i], v[t-1,i])
  output v[t,j]: f64 = solve[i,j](where(i == j, 4, 0) + cos(p[t,i]*p[t,j])/N, x[t,i])
}
)"),
                  {}, 3, 1e-9);
}

TEST_CASE("QR, eigenvalues and singular values of large matrices") {
  const std::string head = "index i:N, j:M, k:M, t:M\ninput x[N,3]: f64\n";
  const std::string matrix = "let A[i,j]: f64 = sin(x[i,0]*(j + 1)) + where(i == j, j + 2, 0)\n";
  check_libraries(parse("dim N = 260, M = 120\n" + head + matrix +
                        "output Q[i,j]: f64 = qr_q[i,j](A[i,j])\noutput turned[j,i]: f64 = qr_q[i,j](A[i,j])\n"
                        "output R[k,t]: f64 = qr_r[i,j](A[i,j])[k,t]\n"),
                  {}, 3, 1e-9);
  check_libraries(parse("dim N = 90\nindex i:N, j:N\ninput x[N,3]: f64\n"
                        "let A[i,j]: f64 = x[i,0]*x[j,0]/4 + where(i == j, i, 0)\n"
                        "output w[j]: f64 = eigenvalues[i,j](A[i,j])\n"
                        "output V[i,j]: f64 = eigenvectors[i,j](A[i,j])\n"),
                  {}, 2, 1e-9);
  check_libraries(parse("dim N = 450, M = 200\n" + head + matrix +
                        "output s[j]: f64 = singular_values[i,j](A[i,j])\n"
                        "output U[i,j]: f64 = svd_u[i,j](A[i,j])\noutput V[k,t]: f64 = svd_v[i,j](A[i,j])[k,t]\n"),
                  {}, 2, 1e-8);
}

TEST_CASE("a session goes on after a large matrix without factors, which is named with its sample and pivot") {
  const Program program = parse(R"(dim B = 2, N = 300
index b:B, i:N, j:N
input x[B,N]
output size[b] = logdet[i,j](where(i == j, x[b,i], 0))
)");
  const DimValues dims = all_dims(program, {});
  const std::vector<std::int64_t> shape = {2, 300};
  std::vector<double> values(600, 2.0);
  for (const char* name : {"cpu", "cuda"}) {
    const auto device = test::test_device(name);
    if (!device) continue;
    CAPTURE(name);
    Session session(program, {}, device);
    for (const bool is_good : {true, false, true, false}) {
      values[300 + 70] = is_good ? 2 : -1;
      session.set("x", make_host_tensor(DType::f32, shape, values));
      const auto run = [&] {
        session.run();
        return to_doubles(session.get("size"));
      };
      if (is_good)
        CHECK(run()[1] == doctest::Approx(300 * std::log(2.0)));
      else
        CHECK_THROWS_WITH_AS(run(),
                             "size.factor: the matrix is not positive definite at b = 1, pivot = 70 (value -1); add to "
                             "its diagonal (noise or jitter), or compute it in f64",
                             DomainError);
    }
  }
}

TEST_CASE("large matrices that are singular, or not finite, are named") {
  const std::string head = "dim N = 300\nindex i:N, j:N, t:N\ninput x[N,N]: f64\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"output y[i,j]: f64 = lu_inverse[i,j](x[i,j])\n",
       "y: the matrix is singular at pivot = 4 (value 0); a pivot of its elimination is 0 or NaN"},
      {"output y[i,j]: f64 = qr_q[i,j](x[i,j])\n",
       "y: the columns of the matrix depend on each other at pivot = 4 (value 0); a diagonal element of R is 0, NaN or "
       "infinite"},
      {"output y[t]: f64 = eigenvalues[i,j](where(i == 4 and j == 4, 1/x[i,j], x[i,j]))[t]\n",
       "y: the eigenvalues of the matrix are not found (value nan); an element of it is NaN or infinite"},
  };
  std::vector<double> values(300 * 300, 0.0);
  for (std::size_t i = 0; i < 300; ++i) values[i * 301] = i == 4 ? 0 : 1;
  for (const auto& [text, message] : cases) {
    const Program program = parse(head + text);
    for (const char* name : {"cpu", "cuda"}) {
      CAPTURE(name);
      if (const auto device = test::test_device(name))
        CHECK_THROWS_WITH_AS(test::run_on(device, program, all_dims(program, {}), {{"x", values}}), message.c_str(),
                             DomainError);
    }
  }
}
