// Forward mode: tangents against differences and against the reverse mode, for every operation of the language.
#include "compiler/diff/tangents.h"

#include <doctest/doctest.h>

#include <cmath>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/expression/functions.h"
#include "compiler/support/error.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

const std::string kDims = "dim S dynamic, N = 4, K = 3\nindex s:S, n:N, m:N, j:N, k:K, i:S\n";
const DimValues kSizes = {{"S", 5}, {"N", 4}, {"K", 3}};
const std::string kMatrix = "input x[S,N,N], b[S,N]\nlet A[s,n,m] = sum[j](x[s,n,j]*x[s,m,j]) + where(n == m, 2, 0)\n";

/// Statements, of which y is the output.
const char* const kFormulas[] = {
    "input x[S,N], w[N]\noutput y[s] = 2 - x[s,0] + sum[n](w[n]*x[s,n]^2)/(3 + sin(x[s,1]))",
    "input x[S+2,N], w[3]\noutput y[s,n] = sum[t in 0..3](x[s+t,n]*w[t])*(s + 1)",
    "input x[2*N+K], w[K], c[S]\noutput y[s,n] = c[s]*sum[k](x[2*n+k]*w[k])",
    "input x[S,N]\noutput y[s] = max[n](x[s,n]) - 2*min[n](x[s,n]^2) + max(x[s,0], x[s,1], 0.1)",
    "input x[S,N,K]\noutput y[s] = max[n](max[k](x[s,n,k]*x[s,0,k]))",
    "input x[S,N]\noutput y[s] = prod[n](1.5 + x[s,n])*prod[n](x[s,n])",
    "input x[S,N], w[N]\noutput y[s] = logsumexp[n](w[n]*x[s,n]) + sum[n](n*argmax[m](x[s,m])*w[n])",
    "input x[S,N]\noutput y[s,n] = exp(x[s,n] - logsumexp[m](x[s,m]))",
    "input x[S,N], w[N]\nlet u[s,n in 1..N of N] = x[s,n-1]*w[n]\noutput y[s] = sum[n in 1..N](u[s,n]^2)",
    "input x[S,N], w[N]\noutput y[s,n] = where(n >= 1 and x[s,n] > 0, x[s,n]*w[n-1], w[n])",
    "input x[S,N], idx[S]: i32 >= 0\noutput y[s] = x[idx[s],2]*x[s,idx[s]] + idx[s]*x[s,0]",
    "input x[S,N], w[N]\noutput y[n] = x[0,n/2]*w[n%2]",
    "input x[S,N]\noutput y[s] = sum[n in 0..min(s+1, N)](x[s,n]*x[0,n])",
    "input x[S,N]\noutput y[s] = x[s,0]*randn(2) + f32(x[s,1])*f64(x[s,2])",
    "input x[S,N]\noutput y[s] = x[s,0]*argmin[n](x[s,n]) + floor(3*x[s,1])*x[s,2]",
    R"(input x[S,N], h[N]
scan s {
  let before[s,n] = where(s == 0, h[n], z[s-1,n])
  let z[s,n] = tanh(x[s,n] + sum[m](before[s,m]*h[m])) + max[m](before[s,m]*x[s,m])
  output y[s,n] = z[s,n]*before[s,n]
})",
    R"(input x[S,N], h[N]
scan s backwards {
  recompute later[s,n] = where(s == S-1, h[n], y[s+1,n])
  recompute inner[s,n] = sum[m](later[s,m]*x[s,n])
  output y[s,n] = sin(inner[s,n] + x[s,n])
})",
    R"(input x[S,N]
let L[s,i] = where(s == i, 2, 0.1*x[s,0]*x[i,1])
scan s {
  output y[s] = (x[s,2] - sum[i in 0..s](L[s,i]*y[i]))/L[s,s]
})",
};

const char* const kAlgebra[] = {
    "output y[s,n,m] = inverse[n,m](A[s,n,m])",
    "output y[n,s,m] = cholesky[n,m](A[s,n,m])",
    "output y[s] = logdet[n,m](A[s,n,m])*b[s,0]",
    "output y[s,m] = solve[n,m](A[s,n,m], b[s,n])",
    "output y[m] = solve[n,m](A[0,n,m], 1)",
    "output y[s,m] = tri_solve[n,m](x[s,n,m] + where(n == m, 3, 0), b[s,n])",
    "output y[s,m] = tri_solve_transposed[n,m](x[s,n,m] + where(n == m, 3, 0), b[s,n])",
    "output y[s] = sum[j](inverse[n,m](A[s,n,m])[j,0]*b[s,j])",
    "output y[s,m] = eigenvalues[n,m](A[s,n,m])",
    "output y[s,n,m] = eigenvectors[n,m](A[s,n,m])*b[s,n]",
    "output y[s,m] = singular_values[n,m](x[s,n,m])*b[s,m]",
    "output y[s,n,m] = svd_u[n,m](x[s,n,m])*b[s,n]",
    R"(scan s {
  let before[s,n,m] = where(s == 0, A[0,n,m], P[s-1,n,m])
  let P[s,n,m] = inverse[n,m](A[s,n,m] + before[s,n,m])
  output y[s,m] = solve[n,m](P[s,n,m] + A[s,n,m], b[s,n])
})",
};

Program program_of(const std::string& text) { return with_dtype(parse(kDims + text + "\n"), DType::f64); }

/// Some integers, and small numbers.
TensorValues inputs_of(const Program& program) {
  TensorValues inputs = random_inputs(program, kSizes, 3);
  for (const InputDecl& input : program.inputs) {
    if (input.dtype != DType::i32) continue;
    for (std::size_t k = 0; k < inputs[input.name].size(); ++k) inputs[input.name][k] = static_cast<double>(k * 7 % 4);
  }
  return inputs;
}

/// y = f(x, ..) with arguments inside the domain of f.
void check_function(const ScalarFunction& row) {
  Program program(std::string(row.name), DType::f64);
  const Dim size = program.dim("P", 6);
  const Index p(size);
  std::vector<Expr> args;
  TensorValues inputs;
  for (int a = 0; a < std::max(row.arity, row.arity < 0 ? 3 : 1); ++a) {
    const std::string name = "x" + std::to_string(a);
    args.push_back(program.input(name, {size})(p));
    const double low = std::max(row.domain.low, -2.0), high = std::min(row.domain.high, 2.0);
    for (int k = 0; k < 6; ++k) inputs[name].push_back(low + (high - low) * (0.07 + 0.137 * k + 0.031 * a));
  }
  if (row.name == "where") args[0] = call(">", {args[0], 0});
  program.output("y", {p}, call(row, args));
  CAPTURE(row.name);
  CHECK(worst_tangent_error(program, {"y"}, {}, {{"P", 6}}, inputs) < 1e-6);
}

}  // namespace

TEST_CASE("tangents of every function") {
  for (const ScalarFunction& row : scalar_functions()) {
    const bool has_derivative = row.derivative && row.name != "stop_gradient" &&
                                row.name != "with_slope" &&       // which declares others
                                row.name != "squared_deviation";  // which has that of all elements together
    if (has_derivative) check_function(row);
  }
}

TEST_CASE("tangents of every kind of node are differences, and transposed gradients") {
  for (const std::string text : kFormulas) {
    const Program program = program_of(text);
    CAPTURE(text);
    CAPTURE(print(tangents(program, {"y"}, {})));
    CHECK(worst_tangent_error(program, {"y"}, {}, kSizes, inputs_of(program)) < 1e-6);
  }
}

TEST_CASE("tangents of linear algebra") {
  for (const char* text : kAlgebra) {
    const Program program = program_of(kMatrix + text);
    for (const std::vector<std::string>& wrt : {std::vector<std::string>{}, {"x"}, {"b"}}) {
      CAPTURE(text);
      CHECK(worst_tangent_error(program, {"y"}, wrt, kSizes, inputs_of(program)) < 1e-6);
    }
  }
}

TEST_CASE("tangents on every device") {
  for (const auto& device : test_devices()) {
    for (const char* const* list : {kFormulas, kAlgebra}) {
      const std::size_t size = list == kFormulas ? std::size(kFormulas) : std::size(kAlgebra);
      for (std::size_t k = 0; k < size; k += device->name() == "cuda-emu" ? 4 : 1) {
        const std::string text = (list == kAlgebra ? kMatrix : "") + list[k];
        INFO(device->name(), "\n", text);
        const Program forward = tangents(program_of(text), {"y"}, {});
        const TensorValues inputs = inputs_of(forward);
        const std::vector<double> expected = evaluate(forward, kSizes, inputs).at("tan.y");
        const std::vector<double> got = run_on(device, forward, kSizes, inputs).at("tan.y");
        for (std::size_t e = 0; e < got.size(); ++e)
          CHECK(got[e] ==
                doctest::Approx(expected[e]).scale(1).epsilon(text.find("f32(") < text.size() ? 1e-5 : 1e-10));
      }
    }
  }
}

TEST_CASE("what the tangent program holds") {
  const Program program = parse(
      "dim N\nindex n:N, m:N\ninput x[N], w[N]\nlet u[n] = w[n]^2\nlet idle[n] = x[n]\nlet v[n] = sin(x[n])*u[n]\n"
      "output y[n] = sum[m](v[m]) + x[n]\noutput z[n] = stop_gradient(x[n])\n");
  const Program forward = tangents(program, {"y"}, {"x"});
  CHECK(forward.find_input("tan.x"));
  CHECK(!forward.find_input("tan.w"));
  CHECK(forward.find_definition("tan.y")->output);
  CHECK(forward.find_definition("y")->output);
  for (const char* absent : {"tan.u", "tan.idle", "tan.z"}) CHECK(!forward.find_definition(absent));
  CHECK(print(forward).find("let tan.v[n] = u[n]*cos(x[n])*tan.x[n]\n") != std::string::npos);
  CHECK(!tangents(program, {"y"}, {"x"}, false).find_definition("y")->output);

  const Program zero = tangents(program, {"z"}, {"x"});
  CHECK(zero.find_definition("tan.z")->body->is_constant(0));
  CHECK(tangents(forward, {"y"}, {"x"}).find_input("tan.x_2"));
}

TEST_CASE("forward over reverse gives products with the Hessian") {
  const Program program = program_of("input x[N], w[N]\noutput y = prod[n](x[n])*exp(sum[n](w[n]*x[n]))");
  const Program gradient = differentiate(program, {"y"}, {});
  CHECK(worst_tangent_error(gradient, {"grad.x", "grad.w"}, {"x", "w"}, kSizes, inputs_of(gradient)) < 1e-6);
}

TEST_CASE("what tangents refuse") {
  const Program program = parse("dim N\nindex n:N\ninput x[N], idx[N]: i32\noutput y[n] = x[n]\n");
  CHECK_THROWS_WITH_AS(tangents(program, {"z"}, {}), doctest::Contains("it has no definition 'z'; it has y"),
                       TypeError);
  CHECK_THROWS_WITH_AS(tangents(program, {"y"}, {"q"}), doctest::Contains("it has no input 'q'"), TypeError);
  CHECK_THROWS_WITH_AS(tangents(program, {"y"}, {"idx"}), doctest::Contains("holds integers"), TypeError);
  CHECK_THROWS_WITH_AS(tangents(program, {"y", "y"}, {}), doctest::Contains("asked for twice"), TypeError);
}
