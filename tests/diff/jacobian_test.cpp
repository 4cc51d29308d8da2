// Jacobians by either mode, and products with Hessians.
#include "compiler/diff/jacobian.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

const DimValues kSizes = {{"S", 3}, {"N", 4}, {"K", 2}};
const std::string kDims = "dim S dynamic, N, K\nindex s:S, n:N, m:N, k:K\n";

/// Statements with inputs x[S,N] and w[N], and outputs y and z.
const char* const kFormulas[] = {
    "output y[s] = sum[n](w[n]*x[s,n]^2)\noutput z = sum[s](y[s])*w[0]",
    "output y[s,n] = exp(x[s,n] - logsumexp[m](x[s,m]))\noutput z[n] = w[n]^2",
    "let h[s,k] = tanh(sum[n](x[s,n]*w[n]) + k)\noutput y[s] = max[n](x[s,n]*w[n]) + h[s,1]\noutput z = prod[n](w[n])",
    "let u[s,n in 0..s+1 of N] = x[s,n]*w[n]\noutput y[s] = sum[n in 0..s+1](u[s,n])\noutput z[s,n in 0..s+1 of N] = "
    "u[s,n]^2",
    "scan s {\nlet b[s,n] = where(s == 0, w[n], y[s-1,n])\noutput y[s,n] = sin(x[s,n] + b[s,n])\n}\n"
    "output z[n] = sum[s](y[s,n])",
    "let A[n,m] = sum[s](x[s,n]*x[s,m]) + where(n == m, 3, 0)\noutput y[m] = solve[n,m](A[n,m], w[n])\n"
    "output z = logdet[n,m](A[n,m])",
};

Program program_of(const std::string& statements) {
  return with_dtype(parse(kDims + "input x[S,N], w[N]\n" + statements + "\n"), DType::f64);
}

/// d y[e] / d x[k] by central differences, e fastest last.
std::vector<double> measured(const Program& program, const TensorValues& inputs, const std::string& y,
                             const std::string& x) {
  constexpr double kStep = 1e-6;
  const std::size_t columns = inputs.at(x).size();
  std::vector<double> result;
  for (std::size_t k = 0; k < columns; ++k) {
    TensorValues moved = inputs;
    moved.at(x)[k] += kStep;
    const std::vector<double> above = evaluate(program, kSizes, moved).at(y);
    moved.at(x)[k] -= 2 * kStep;
    const std::vector<double> below = evaluate(program, kSizes, moved).at(y);
    result.resize(above.size() * columns);
    for (std::size_t e = 0; e < above.size(); ++e) result[e * columns + k] = (above[e] - below[e]) / (2 * kStep);
  }
  return result;
}

void check_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).scale(1).epsilon(tolerance));
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("Jacobians of both modes are differences") {
  for (const char* text : kFormulas) {
    const Program program = program_of(text);
    const TensorValues inputs = random_inputs(program, kSizes, 5);
    for (const JacobianMode mode : {JacobianMode::Forward, JacobianMode::Reverse}) {
      const Program all = jacobian(program, {"y", "z"}, {}, mode);
      INFO(text, print(all));
      REQUIRE_NOTHROW(verify(all));
      CHECK(all.inputs == program.inputs);
      const TensorValues values = evaluate(all, kSizes, inputs);
      for (const std::string y : {"y", "z"}) {
        for (const std::string x : {"x", "w"})
          check_near(values.at("jac." + y + "." + x), measured(program, inputs, y, x), 1e-7);
      }
    }
  }
}

TEST_CASE("Jacobians on every device") {
  for (const auto& device : test_devices()) {
    for (const char* text : kFormulas) {
      for (const JacobianMode mode : {JacobianMode::Forward, JacobianMode::Reverse}) {
        const Program all = jacobian(program_of(text), {"y", "z"}, {}, mode);
        const TensorValues inputs = random_inputs(all, kSizes, 5);
        const TensorValues expected = evaluate(all, kSizes, inputs), got = run_on(device, all, kSizes, inputs);
        INFO(device->name(), "\n", text);
        for (const char* name : {"jac.y.x", "jac.y.w", "jac.z.x", "jac.z.w"})
          check_near(got.at(name), expected.at(name), 1e-10);
      }
    }
  }
}

TEST_CASE("a Jacobian has zeros where an element does not depend on another, however steep it is") {
  const Program program =
      parse("dim N = 3\nindex n:N\ninput x[N]\nlet u[n] = sqrt(x[n])\noutput y[n] = u[n]^3*log(x[n] + 1)\n");
  for (const JacobianMode mode : {JacobianMode::Forward, JacobianMode::Reverse}) {
    const std::vector<double> got = evaluate(jacobian(program, {"y"}, {}, mode), {}, {{"x", {1, 0, 4}}}).at("jac.y.x");
    for (const std::size_t k : {1, 2, 3, 5, 6, 7}) CHECK(got[k] == 0);
    CHECK(got[8] == doctest::Approx(3 * std::log(5) + 8.0 / 5));
  }
}

TEST_CASE("the mode with fewer elements is the default") {
  const Program program = program_of("let h[s] = sin(sum[n](w[n]*x[s,n]))\noutput y[s] = h[s]^2 + sum[n](x[s,n]*h[s])");
  const auto is_forward = [&](const std::vector<std::string>& wrt, const DimValues& dims) {
    const Program automatic = jacobian(program, {"y"}, wrt, JacobianMode::Automatic, dims);
    const bool forward = automatic.find_definition("tan.h") != nullptr;
    CHECK(automatic == jacobian(program, {"y"}, wrt, forward ? JacobianMode::Forward : JacobianMode::Reverse));
    return forward;
  };
  CHECK(is_forward({"w"}, {{"S", 100}, {"N", 3}}));
  CHECK(!is_forward({"w"}, {{"S", 3}, {"N", 100}}));
  CHECK(!is_forward({"x"}, {}));
}

TEST_CASE("products with the Hessian") {
  const Program program = program_of("output y = sum[s](exp(sum[n](x[s,n]*w[n])))");
  const Program products = hessian_products(program, {"y"}, {});
  verify(products);
  CHECK(count_of(print(products), "output hvp.") == 2);
  TensorValues inputs = random_inputs(products, kSizes, 5);
  const TensorValues values = evaluate(products, kSizes, inputs);
  TensorValues sides[2];
  for (int side = 0; side < 2; ++side) {
    TensorValues moved = inputs;
    for (const std::string x : {"x", "w"}) {
      for (std::size_t k = 0; k < moved.at(x).size(); ++k)
        moved.at(x)[k] += (side ? -1e-6 : 1e-6) * inputs.at("tan." + x)[k];
    }
    sides[side] = evaluate(products, kSizes, moved);
  }
  for (const std::string x : {"x", "w"}) {
    for (std::size_t k = 0; k < values.at("hvp." + x).size(); ++k) {
      const double slope = (sides[0].at("grad." + x)[k] - sides[1].at("grad." + x)[k]) / 2e-6;
      CHECK(values.at("hvp." + x)[k] == doctest::Approx(slope).scale(1).epsilon(1e-7));
    }
  }
}

TEST_CASE("what Jacobians refuse") {
  const Program program = parse("dim N\nindex n:N\ninput x[N], idx[N]: i32\noutput y[n] = x[n]\n");
  CHECK_THROWS_WITH_AS(jacobian(program, {"z"}, {}), doctest::Contains("it has no definition 'z'; it has y"),
                       TypeError);
  CHECK_THROWS_WITH_AS(jacobian(program, {"y"}, {"idx"}), doctest::Contains("holds integers"), TypeError);
  CHECK_THROWS_WITH_AS(hessian_products(program, {"y"}, {"q"}), doctest::Contains("it has no input 'q'"), TypeError);
}

TEST_CASE("what an element moves alone is neither summed over nor stored for the others") {
  const std::string layers =
      "input U[K,K], V[N,K]\nlet h[s,k] = tanh(sum[n](x[s,n]*V[n,k]))\nlet g[s,k] = sin(sum[j in "
      "0..K](h[s,j]*U[j,k]))\n"
      "output y[s,k] = g[s,k]^2";
  const Program program = program_of(layers);
  for (const std::string x : {"V", "x"}) {
    for (const JacobianMode mode : {JacobianMode::Forward, JacobianMode::Reverse}) {
      const Program all = jacobian(program, {"y"}, {x}, mode);
      INFO(print(all));
      const TensorValues inputs = random_inputs(all, kSizes, 5);
      check_near(evaluate(all, kSizes, inputs).at("jac.y." + x), measured(program, inputs, "y", x), 1e-7);
      const Definition* jac = all.find_definition("jac.y." + x);
      std::size_t sums = 0, reads_of_samples = 0;
      for (const Definition& definition : all.definitions) {
        if (definition.body->kind == NodeKind::Reduce) ++sums;
        const auto samples = std::ranges::count(definition.axes, Affine(Symbol::dim("S")), &AxisDecl::extent);
        if (&definition != jac) reads_of_samples += samples > 1 ? 1 : 0;
      }
      CHECK(sums <= 4);
      if (x == "x") CHECK(reads_of_samples <= 3);
    }
  }
}
