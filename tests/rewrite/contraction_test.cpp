// Orders in which products of several tensors are summed.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/fuse/fuse.h"
#include "compiler/ir/evaluate.h"
#include "compiler/rewrite/contraction_path.h"
#include "compiler/rewrite/passes.h"

using namespace moxie;

namespace {

Contraction random_contraction(std::mt19937& random, std::size_t factors) {
  const std::size_t indices = 6;
  Contraction contraction;
  IndexSet all = 0;
  for (std::size_t k = 0; k < factors; ++k) {
    contraction.factors.push_back(random() % ((1U << indices) - 1) + 1);
    all |= contraction.factors.back();
  }
  contraction.result = all & random();
  for (std::size_t k = 0; k < indices; ++k) contraction.extents.push_back(static_cast<double>(random() % 30 + 1));
  return contraction;
}

/// What a path costs when one follows it, counted anew.
double cost_of(const Contraction& contraction, const ContractionPath& path) {
  const std::vector<IndexSet> operands = operands_of(contraction, path);
  double cost = 0;
  for (std::size_t k = 0; k < path.steps.size(); ++k) {
    const auto [first, second] = path.steps[k];
    cost += elements_over(operands[first] | operands[second], contraction.extents);
    if (k + 1 < path.steps.size())
      cost += 4 * elements_over(operands[contraction.factors.size() + k], contraction.extents);
  }
  return cost;
}

/// Any two operands at each step.
ContractionPath random_path(std::mt19937& random, std::size_t factors) {
  std::vector<std::size_t> left(factors);
  std::iota(left.begin(), left.end(), 0);
  ContractionPath path;
  while (left.size() > 1) {
    std::ranges::shuffle(left, random);
    path.steps.emplace_back(left[left.size() - 1], left[left.size() - 2]);
    left.resize(left.size() - 2);
    left.push_back(factors + path.steps.size() - 1);
  }
  return path;
}

Program ordered(const std::string& text, const DimValues& dims = {}) {
  return order_contractions(normalise_bodies(specialise(parse(text), dims)));
}

TensorValues random_inputs(const Program& program, const DimValues& dims, std::mt19937& random) {
  TensorValues inputs;
  for (const InputDecl& input : program.inputs) {
    std::int64_t count = 1;
    for (const Affine& extent : input.shape)
      count *= extent.evaluate([&](Symbol dim) { return dims.find(dim.name())->second; });
    for (std::int64_t k = 0; k < count; ++k)
      inputs[input.name].push_back(std::uniform_real_distribution<>(-1, 1)(random));
  }
  return inputs;
}

/// Letters as indices: "ab,bc" to "a[i,j]*b[j,k]" and so on, with the result's letters in order.
std::string random_einsum(std::mt19937& random) {
  const std::string letters = "pqrst";
  std::string text = "dim P dynamic, Q dynamic, R dynamic, S dynamic, T dynamic\nindex p:P, q:Q, r:R, s:S, t:T\n";
  std::string product, result, summed, all;
  const std::size_t factors = random() % 3 + 3;
  for (std::size_t k = 0; k < factors; ++k) {
    std::string subscripts, shape;
    for (const char letter : letters) {
      if (random() % 5 > 1) continue;
      subscripts += (subscripts.empty() ? "" : ",") + std::string(1, letter);
      shape += (shape.empty() ? "" : ",") + std::string(1, static_cast<char>(letter - 'a' + 'A'));
      if (all.find(letter) == std::string::npos) all += letter;
    }
    const std::string name = "x" + std::to_string(k);
    text += "input " + name + (shape.empty() ? "" : "[" + shape + "]") + "\n";
    product += (k == 0 ? "" : "*") + name + (subscripts.empty() ? "" : "[" + subscripts + "]");
  }
  for (const char letter : all) {
    std::string& side = random() % 2 == 0 ? result : summed;
    side += (side.empty() ? "" : ",") + std::string(1, letter);
  }
  const std::string sum = summed.empty() ? product : "sum[" + summed + "](" + product + ")";
  return text + "output y" + (result.empty() ? "" : "[" + result + "]") + " = " + sum + "\n";
}

constexpr const char* kKronecker = R"(dim M dynamic, D = 32, N = 16
index m:M, d0:D, d1:D, d2:D, n0:N, n1:N, n2:N
input W0[D,N], W1[D,N], W2[D,N], X[M,N,N,N]
output Y[m,d0,d1,d2] = sum[n0,n1,n2](W0[d0,n0]*W1[d1,n1]*W2[d2,n2]*X[m,n0,n1,n2])
)";

}  // namespace

TEST_CASE("no order is cheaper than the cheapest") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const Contraction contraction = random_contraction(random, 2 + static_cast<std::size_t>(round) % 5);
    const auto best = cheapest_path(contraction, HUGE_VAL);
    REQUIRE(best);
    CHECK(best->cost == doctest::Approx(cost_of(contraction, *best)));
    for (int k = 0; k < 30; ++k)
      CHECK(best->cost <= cost_of(contraction, random_path(random, contraction.factors.size())) * (1 + 1e-12));
  }
}

TEST_CASE("no intermediate result exceeds the room, and none is had where there is none") {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    const Contraction contraction = random_contraction(random, round % 2 == 0 ? 6 : kMaxExactFactors + 3);
    const double room = 500;
    const auto path = cheapest_path(contraction, room);
    if (!path) continue;
    CHECK(path->steps.size() + 1 == contraction.factors.size());
    const std::vector<IndexSet> operands = operands_of(contraction, *path);
    for (std::size_t k = contraction.factors.size(); k + 1 < operands.size(); ++k)
      CHECK(elements_over(operands[k], contraction.extents) <= room);
    CHECK(operands.back() ==
          (contraction.result &
           std::accumulate(contraction.factors.begin(), contraction.factors.end(), IndexSet{0}, std::bit_or<>())));
    CHECK(path->cost == doctest::Approx(cost_of(contraction, *path)));
  }
}

TEST_CASE("contractions have the same values in the cheapest order") {
  std::mt19937 random(3);
  const DimValues dims = {{"P", 2}, {"Q", 3}, {"R", 4}, {"S", 3}, {"T", 2}};
  int changed = 0;
  for (int round = 0; round < 400; ++round) {
    const std::string text = random_einsum(random);
    CAPTURE(text);
    const Program program = normalise_bodies(parse(text));
    const Program better = order_contractions(program);
    changed += better != program ? 1 : 0;
    const TensorValues inputs = random_inputs(program, dims, random);
    const auto expected = evaluate(program, dims, inputs).at("y");
    const auto found = evaluate(better, dims, inputs).at("y");
    REQUIRE(found.size() == expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k] == doctest::Approx(expected[k]).epsilon(1e-10));
  }
  CHECK(changed > 20);
}

TEST_CASE("a Kronecker product in one sum is three matrix products, with its gradients a dozen") {
  const Program program = ordered(kKronecker);
  CHECK(program.definitions.size() == 3);
  const auto products = [](const Program& source) {
    const FusedProgram fused = fuse(optimise(specialise(source, {})));
    return std::ranges::count_if(fused.steps,
                                 [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); });
  };
  CHECK(products(parse(kKronecker)) == 3);
  CHECK(products(differentiate(parse(kKronecker), {"Y"}, {"W0", "W1", "W2", "X"})) >= 9);
}

TEST_CASE("the order of a contraction stays where nothing is gained, and where intermediate results are too large") {
  CHECK(ordered(R"(dim S dynamic, N = 64, R = 16
index s:S, n:N, r:R, t:R
input psi[S,R,N], kappa[R,R,N]
output v[s,n] = sum[r,t](psi[s,r,n]*psi[s,t,n]*kappa[r,t,n])
)")
            .definitions.size() == 1);
  CHECK(ordered(R"(dim I, J
index i:I, j:J, k:J
input x[I,J], y[J], z[I]
output v = sum[i,j](x[i,j]*y[j]*z[i])
)",
                {{"I", 3000}, {"J", 3000}})
            .definitions.size() == 1);
}
