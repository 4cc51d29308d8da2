// Extrema and log-sum-exps over several indices, factored.
#include "compiler/diff/factor_reductions.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/diff/differentiate.h"
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "tests/diff/gradient_check.h"
#include "tests/property/random.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// The dims have no values, so that extents count as large however small they are when a Program is evaluated.
const std::string kInside = R"(dim B, L, K
index b:B, w:L, i:L, k:L, p:K, q:K, r:K
input unary[B,L,K], rule[K,K,K]
scan w {
  let inside[w,b,i in 0..L-w of L,p] = where(w == 0, unary[b,i,p], )"
                            R"(logsumexp[k in 0..w,q,r](rule[p,q,r] + inside[k,b,i,q] + inside[w-1-k,b,i+k+1,r]))
}
output logz[b] = logsumexp[p](inside[L-1,b,0,p])
)";

using Choices = std::vector<std::string>;

/// y[s,t] as an extremum or log-sum-exp of terms over subsets of s, t and up to four indices of its own.
std::string random_formula(Random& random) {
  const std::string kind = random.pick(Choices{"logsumexp", "max", "min"});
  const Choices names{"s", "t", "a", "b", "c", "d"};
  const auto own = static_cast<std::size_t>(random.between(2, 4));
  std::string list, terms;
  for (std::size_t k = 0; k < own; ++k) {
    const std::string range = random.chance(20) ? random.pick(Choices{" in 0..s+1", " in s..N", " in 1..N"}) : "";
    list += (k == 0 ? "" : ",") + names[2 + k] + range;
  }
  std::string inputs;
  const auto add_term = [&](const Choices& indices) {
    const std::string tensor = "x" + std::to_string(std::ranges::count(inputs, 'x'));
    std::string shape, subscripts;
    for (const std::string& index : indices) {
      shape += (shape.empty() ? "N" : ",N");
      subscripts += (subscripts.empty() ? "" : ",") + index;
    }
    inputs += (inputs.empty() ? "" : ", ") + tensor + "[" + shape + "]";
    terms += (terms.empty() ? "" : random.pick(Choices{" + ", " - "})) + tensor + "[" + subscripts + "]";
  };
  for (std::size_t k = 0; k < own; ++k) {
    Choices indices{names[2 + k]};
    for (std::size_t other = 0; other < 2 + own; ++other) {
      if (names[other] != names[2 + k] && random.chance(35)) indices.push_back(names[other]);
    }
    add_term(indices);
  }
  if (random.chance(50)) add_term({"s", "t"});
  const std::string reduction = kind + "[" + list + "](" + terms + ")";
  const std::string body = random.chance(30) ? "where(s >= 1, " + reduction + ", 0)" : reduction;
  return "dim N\nindex s:N, t:N, a:N, b:N, c:N, d:N\ninput " + inputs + "\noutput y[s,t] = " + body + "\n";
}

/// Whole numbers, many of them equal.
TensorValues small_numbers(const Program& program, const DimValues& dims, Random& random) {
  TensorValues inputs;
  for (const InputDecl& input : program.inputs) {
    std::vector<double>& values = inputs[input.name];
    for (std::size_t k = 0; k < element_count(input, dims); ++k)
      values.push_back(static_cast<double>(random.between(-2, 2)));
  }
  return inputs;
}

}  // namespace

TEST_CASE("the inside algorithm combines two children before it looks at rules") {
  const Program program = parse(kInside);
  const Program factored = factor_reductions(program, Ties::Kept);
  const Definition* part = factored.find_definition("inside.1");
  REQUIRE(part);
  CHECK(part->scan);
  CHECK(part->axes.size() == 5);
  const DimValues dims{{"B", 2}, {"L", 4}, {"K", 3}};
  const TensorValues inputs = random_inputs(program, dims, 3);
  const double difference =
      largest_difference(evaluate(program, dims, inputs).at("logz"), evaluate(factored, dims, inputs).at("logz"));
  CHECK(difference < 1e-12);
  CHECK(worst_gradient_error(program, {"logz"}, {}, dims, inputs) < 1e-7);
  CHECK(worst_tangent_error(program, {"logz"}, {}, dims, inputs) < 1e-7);
}

TEST_CASE("what saves little is as it was written") {
  const auto is_as_written = [](const std::string& text) {
    const Program program = parse(text);
    return factor_reductions(program, Ties::Free) == program;
  };
  CHECK(
      is_as_written("dim N = 4\nindex s:N, a:N, b:N\ninput x[N,N], y[N,N]\n"
                    "output z[s] = max[a,b](x[s,a] + y[a,b])\n"));
  CHECK(is_as_written("dim N\nindex s:N, a:N\ninput x[N,N], y[N]\noutput z[s] = logsumexp[a](x[s,a] + y[a])\n"));
  CHECK_FALSE(
      is_as_written("dim N\nindex s:N, a:N, b:N\ninput x[N,N], y[N,N]\n"
                    "output z[s] = max[a,b](x[s,a] + y[a,b])\n"));
}

TEST_CASE("random reductions have the values and the derivatives that are written") {
  int fired = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const std::string text = random_formula(random);
    CAPTURE(seed);
    CAPTURE(text);
    const Program program = parse(text);
    const DimValues dims{{"N", random.between(1, 4)}};
    const TensorValues inputs = small_numbers(program, dims, random);
    const Program factored = factor_reductions(program, Ties::Free);
    verify(factored);
    fired += factored != program;
    CHECK(largest_difference(evaluate(program, dims, inputs).at("y"), evaluate(factored, dims, inputs).at("y")) < 1e-9);
    const std::vector<double> cotangent = small_numbers(differentiate(program, {"y"}, {}), dims, random).at("cot.y");
    CHECK(difference_from_written_gradient(program, dims, inputs, cotangent) < 1e-9);
  }
  CHECK(fired > 40);
}
