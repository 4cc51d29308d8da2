// The direct evaluator: order, laziness, bounds, linear algebra and random bits.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "compiler/arithmetic/philox.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

std::vector<double> run(const std::string& text, const DimValues& dims, const TensorValues& inputs,
                        const std::string& name) {
  return evaluate(parse(text), dims, inputs).at(name);
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the published answers") {
  // Random123 1.14, kat_vectors.
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox4x32_10({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("sums, guards and index arithmetic") {
  const std::string text =
      "dim N\nindex i:N, j:N\ninput x[N]\nlet c[i] = sum[j in 0..i+1](x[j])\noutput y[i] = c[i] + where(i >= 1, "
      "x[i-1], 10*i)\n";
  CHECK(run(text, {{"N", 3}}, {{"x", {1, 2, 3}}}, "y") == std::vector<double>{1, 4, 8});
}

TEST_CASE("sums of indices and numbers beyond 2^53 do not overflow") {
  const std::vector<double> y =
      evaluate(parse("index i in 0..3\noutput y[i] = where(i+9223372036854775807 >= 0, i, -1)\n"), {}, {}).at("y");
  CHECK(y == std::vector<double>{0, 1, 2});
}

TEST_CASE("invariants are not mixed up between rounds of nested reductions") {
  const std::string text =
      "dim N\nindex i:N, j:N, k:N\ninput x[N,N]\noutput y[i] = sum[j](sum[k](x[i,k]*x[j,k])*sum[k](x[j,k] + i)) + "
      "sum[k](x[i,k])\n";
  const std::vector<double> x{1, 2, 3, 4};
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i) {
    double sum = x[2 * i] + x[2 * i + 1];
    for (int j = 0; j < 2; ++j) {
      sum += (x[2 * i] * x[2 * j] + x[2 * i + 1] * x[2 * j + 1]) * (x[2 * j] + x[2 * j + 1] + 2 * i);
    }
    expected.push_back(sum);
  }
  CHECK(run(text, {{"N", 2}}, {{"x", x}}, "y") == expected);
}

TEST_CASE("reductions over nothing") {
  const std::string text =
      "dim N\nindex i:N\ninput x[N]\noutput a = sum[i](x[i])\noutput b = prod[i](x[i])\noutput c = max[i](x[i])\n"
      "output d = logsumexp[i](x[i])\n";
  const TensorValues results = evaluate(parse(text), {{"N", 0}}, {{"x", {}}});
  CHECK(results.at("a")[0] == 0);
  CHECK(results.at("b")[0] == 1);
  CHECK(results.at("c")[0] == -std::numeric_limits<double>::infinity());
  CHECK(results.at("d")[0] == -std::numeric_limits<double>::infinity());
}

TEST_CASE("positions of extrema") {
  const auto places = [](const std::vector<double>& x) {
    const std::string text =
        "dim N\nindex i:N\ninput x[N]\noutput y = argmax[i](x[i])\noutput z = argmin[i](x[i])\n"
        "output w = argmax[i](x[i], -i)\n";
    const TensorValues results = evaluate(parse(text), {{"N", static_cast<std::int64_t>(x.size())}}, {{"x", x}});
    return std::vector{results.at("y")[0], results.at("z")[0], results.at("w")[0]};
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  CHECK(places({1, 3, 1, 3}) == std::vector<double>{1, 0, -3});
  CHECK(places({-kInf, -kInf}) == std::vector<double>{0, 0, -1});
  CHECK(places({kInf, kInf}) == std::vector<double>{0, 0, -1});
  CHECK(places({5, kNaN, kInf, kNaN}) == std::vector<double>{1, 1, -3});
  CHECK(places({}) == std::vector<double>{kInf, kInf, kInf});
}

TEST_CASE("logsumexp does not overflow") {
  const std::string text = "dim N\nindex i:N\ninput x[N]\noutput y = logsumexp[i](x[i])\n";
  CHECK(run(text, {{"N", 2}}, {{"x", {1000, 1000}}}, "y")[0] == doctest::Approx(1000 + std::log(2)));
}

TEST_CASE("linear algebra") {
  const std::string text =
      "dim N = 2\nindex r:N, t:N\ninput A[N,N], b[N]\noutput L[r,t] = cholesky[r,t](A[r,t])\noutput X[r,t] = "
      "inverse[r,t](A[r,t])\n"
      "output d = logdet[r,t](A[r,t])\noutput x[t] = solve[r,t](A[r,t], b[r])\noutput u[t] = tri_solve[r,t](A[r,t], "
      "b[r])\n"
      "output v[t] = tri_solve_transposed[r,t](A[r,t], b[r])\n";
  const double ignored = 99;  // above the diagonal
  const TensorValues results = evaluate(parse(text), {}, {{"A", {4, ignored, 2, 5}}, {"b", {8, 9}}});
  const auto close = [&](const char* name, const std::vector<double>& expected) {
    for (std::size_t k = 0; k < expected.size(); ++k) CHECK(results.at(name)[k] == doctest::Approx(expected[k]));
  };
  close("L", {2, 0, 1, 2});
  close("X", {5. / 16, -2. / 16, -2. / 16, 4. / 16});
  close("d", {std::log(16)});
  close("x", {22. / 16, 20. / 16});
  close("u", {2, 1});
  close("v", {1.1, 1.8});
}

TEST_CASE("a matrix that is not positive definite is reported with its place and pivot") {
  const std::string text = "dim S, N = 2\nindex s:S, r:N, t:N\ninput A[S,N,N]\noutput y[s] = logdet[r,t](A[s,r,t])\n";
  const TensorValues inputs{{"A", {1, 0, 0, 1, 1, 2, 2, 1}}};
  CHECK_THROWS_WITH_AS(evaluate(parse(text), {{"S", 2}}, inputs),
                       "logdet in definition y at [1]: the matrix is not positive definite (pivot 1 is -3)",
                       DeviceError);
}

TEST_CASE("a matrix whose eigenvalues are not found is reported with its place") {
  const std::string text =
      "dim S, N = 1\nindex s:S, r:N, t:N\ninput A[S,N,N]\noutput y[s,t] = eigenvalues[r,t](A[s,r,t])\n";
  CHECK_THROWS_WITH_AS(evaluate(parse(text), {{"S", 2}}, {{"A", {1, std::nan("")}}}),
                       "eigenvalues in definition y at [1,0]: the eigenvalues of the matrix are not found (an element "
                       "of it is NaN or infinite)",
                       DeviceError);
}

TEST_CASE("random numbers depend on seed, step, stream and coordinates only") {
  const std::string text = "dim N\nindex i:N\noutput u[i] = randu(1)\noutput n[i] = randn(1)\noutput w[i] = randu(2)\n";
  const Program program = parse(text);
  const TensorValues first = evaluate(program, {{"N", 2000}}, {}, 5, 1);
  CHECK(evaluate(program, {{"N", 2000}}, {}, 5, 1) == first);
  CHECK(evaluate(program, {{"N", 2000}}, {}, 6, 1).at("u") != first.at("u"));
  CHECK(evaluate(program, {{"N", 2000}}, {}, 5, 2).at("u") != first.at("u"));
  CHECK(first.at("w") != first.at("u"));
  const auto mean = [](const std::vector<double>& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  CHECK(std::abs(mean(first.at("u")) - 0.5) < 0.03);
  CHECK(std::abs(mean(first.at("n"))) < 0.1);
}

TEST_CASE("four elements along the last axis share a block of random words") {
  const TensorValues drawn = evaluate(
      parse("dim M, N\nindex m:M, n:N\noutput u[m,n] = randu(1)\noutput z[m,n] = randn(1)\noutput one = randn(1)\n"),
      {{"M", 3}, {"N", 9}}, {}, 5, 1);
  const auto words = [](std::uint32_t m, std::uint32_t block) {
    return philox4x32_10({m, block, 0, 0}, philox_key(5, 1, 1));
  };
  for (std::size_t k = 0; k < 4; ++k) CHECK(drawn.at("u")[2 * 9 + 4 + k] == (words(2, 1)[k] + 0.5) / 4294967296.0);
  CHECK(drawn.at("u")[8] == (words(0, 2)[0] + 0.5) / 4294967296.0);
  // Cosine and sine of one angle have one radius.
  const auto at = [&](std::size_t k) { return drawn.at("z")[9 + k]; };
  for (const std::size_t pair : {0, 2, 4, 6}) {
    const double u = (words(1, static_cast<std::uint32_t>(pair / 4))[pair % 4] + 0.5) / 4294967296.0;
    const double v = (words(1, static_cast<std::uint32_t>(pair / 4))[pair % 4 + 1] + 0.5) / 4294967296.0;
    CHECK(at(pair) == doctest::Approx(std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v)).epsilon(1e-12));
    CHECK(at(pair + 1) ==
          doctest::Approx(std::sqrt(-2 * std::log(u)) * std::sin(2 * std::numbers::pi * v)).epsilon(1e-12));
  }
  CHECK(drawn.at("one")[0] == normal_from_words(words(0, 0)[0], words(0, 0)[1]));
}

TEST_CASE("normal numbers that share words are independent") {
  const std::size_t count = 40000;
  const std::vector<double> z =
      evaluate(parse("dim N\nindex n:N\noutput z[n] = randn(1)\n"), {{"N", count}}, {}, 5, 1).at("z");
  for (std::size_t lag = 0; lag < 4; ++lag) {
    double product = 0, squares = 0;
    for (std::size_t k = 0; k + lag < count; ++k) {
      product += z[k] * z[k + lag] / count;
      squares += z[k] * z[k] * z[k + lag] * z[k + lag] / count;
    }
    CHECK(std::abs(product - (lag == 0 ? 1 : 0)) < 0.03);
    CHECK(std::abs(squares - (lag == 0 ? 3 : 1)) < 0.12);
  }
}

TEST_CASE("an evaluation ends where its budget of operations does") {
  EvaluationBudget budget{1000};
  const Program few = parse("index i in 0..9\noutput y[i] = sum[k in 0..10](i*k)\n");
  CHECK(evaluate(few, {}, {}, 0, 0, {}, &budget).at("y")[2] == 90);
  CHECK(budget.operations < 1000 - 9 * 10);
  const Program many = parse("output y = sum[k in 0..100000000000000](1)\n");
  CHECK_THROWS_WITH_AS(
      evaluate(many, {}, {}, 0, 0, {}, &budget),
      "definition y: evaluating it element by element takes too many operations; choose smaller dims or ranges",
      BudgetError);
  CHECK(budget.operations == 0);
}

TEST_CASE("wrong inputs are refused") {
  const Program program = parse("dim N\nindex i:N\ninput x[N]\noutput y[i] = x[i]\n");
  CHECK_THROWS_WITH_AS(evaluate(program, {{"N", 2}}, {}), "input x is missing", ShapeError);
  CHECK_THROWS_WITH_AS(evaluate(program, {{"N", 2}}, {{"x", {1}}}), "input x has 1 elements, but its shape [2] needs 2",
                       ShapeError);
  CHECK_THROWS_WITH_AS(evaluate(program, {}, {{"x", {1}}}), "dim N has no value", ShapeError);
  Program outside = program;
  outside.definitions[0].body = tensor_access("x", {Affine(Symbol::axis(0)) + Affine(1)});
  CHECK_THROWS_WITH_AS(evaluate(outside, {{"N", 2}}, {{"x", {1, 2}}}),
                       "definition y at [1] reads x[2], outside its shape [2]", ShapeError);
  Program wide = program;
  wide.definitions[0].body = random(RandomKind::Uniform, 0, {0, 0, 0, 0, 0});
  CHECK_THROWS_AS(evaluate(wide, {{"N", 2}}, {{"x", {1, 2}}}), CompileError);
}
