// Sums of products over rows that values select, computed once for each row.
#include "compiler/diff/gathered_sums.h"

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
const std::string kHead = R"(dim N, K, C, O, T
index n:N, k:K, c:C, o:O
input x[N,C], U[O,C], V[O,C], e[N,K,C], z[T,O], nbr[N,K]: i32 >= 0, tag[K]: i32 >= 0
)";

/// Elements with a loop over k and o around them.
std::string random_formula(Random& random) {
  const std::vector<std::string> terms = {
      "U[o,c]*x[n,c]",
      "V[o,c]*x[nbr[n,k],c]",
      "V[o,c]*(x[nbr[n,k],c] - x[n,c])",
      "V[o,c]*m[n,k,c]",
      "V[o,c]*e[n,k,c]",
      "x[nbr[n,k],c]*z[tag[k],o]",
      "x[n,c]*x[nbr[n,k],c]",
      "exp(x[nbr[n,k],c])",
      "(x[nbr[n,k],c] + 2)*(U[o,c] - V[o,c])",
      "where(nbr[n,k] >= 1, V[o,c]*x[nbr[n,k]-1,c], 0)",
      "where(k >= 1, e[n,k-1,c]*V[o,c], x[nbr[n,k],c])",
  };
  std::string sum = random.pick(terms);
  if (random.chance(10)) sum = "where(nbr[n,k] > 0, " + sum + ", 0)";
  for (std::int64_t more = random.between(0, 3); more > 0; --more)
    sum += random.pick(std::vector<std::string>{" + ", " - "}) + random.pick(terms);
  std::string body = "tanh(sum[c](" + sum + "))";
  if (random.chance(30)) body = "where(n >= 1, sum[c](V[o,c]*x[nbr[n-1,k],c] + U[o,c]*x[n-1,c]), " + body + ")";
  return kHead + "let m[n,k,c] = 2*x[nbr[n,k],c] - x[n,c]\noutput y[n,o] = sum[k](" + body + ")\n";
}

TensorValues random_graph(const Program& program, const DimValues& dims, Random& random) {
  TensorValues inputs = random_inputs(program, dims, static_cast<unsigned>(random.between(1, 1000)));
  for (double& value : inputs.at("nbr")) value = static_cast<double>(random.between(0, dims.at("N") - 1));
  for (double& value : inputs.at("tag")) value = static_cast<double>(random.between(0, dims.at("T") - 1));
  return inputs;
}

/// How many definitions the sum became.
std::size_t parts(const std::string& text) {
  const Program program = parse(text);
  return lift_gathered_sums(program).definitions.size() - program.definitions.size();
}

}  // namespace

TEST_CASE("messages along the edges of a graph are products of matrices, and so are their derivatives") {
  const Program program =
      parse(kHead + "output y[n,o] = max[k](sum[c](U[o,c]*x[n,c] + V[o,c]*(x[nbr[n,k],c] - x[n,c])))\n");
  const Program lifted = lift_gathered_sums(program);
  REQUIRE(lifted.definitions.size() == 3);
  CHECK(lifted.definitions[2].body->height == 1);  // max[k] of elements
  const Program gradient = differentiate(program, {"y"}, {});
  CHECK(gradient.find_definition("y.rows"));
  CHECK(gradient.find_definition("x.rows"));
  const auto multiplies_for_edges = [](const Definition& d) { return d.axes.size() > 2 && d.body->height > 0; };
  CHECK(std::ranges::none_of(gradient.definitions, multiplies_for_edges));
}

TEST_CASE("a sum stays as it is written where parts of it have not several times fewer elements") {
  const std::string head = "dim E, N, C = 16\nindex e:E, c:C\n";
  const std::string edges = head + "input h[N,C], a[C], src[E]: i32 >= 0\noutput y[e] = sum[c](a[c]*h[src[e],c])\n";
  CHECK_MESSAGE(parts(edges) == 0, "nothing says that there are more edges than nodes");
  CHECK(parts("dim E = 5000, N = 1000, C = 16\nindex e:E, c:C\n" + edges.substr(head.size())) == 1);
  CHECK(parts("dim E = 2000, N = 1000, C = 16\nindex e:E, c:C\n" + edges.substr(head.size())) == 0);
  CHECK_MESSAGE(parts("dim E = 5, N = 1, C = 16\nindex e:E, c:C\n" + edges.substr(head.size())) == 0, "too few terms");
  CHECK(parts(kHead + "output y[n,k] = sum[c](x[n,c]*x[nbr[n,k],c])\n") == 0);
  CHECK(parts(kHead + "output y[n,k] = sum[c](exp(x[nbr[n,k],c]))\n") == 0);
  CHECK_MESSAGE(parts(kHead + "output y[o,k] = sum[c](V[o,c]*z[tag[k],c])\n") == 0, "of another extent");
  CHECK_MESSAGE(parts("dim N, K\nindex n:N, k:K, c:K\ninput x[N], V[K], nbr[N,K]: i32 >= 0\n"
                      "output y[n,k] = sum[c](V[c]*x[nbr[n,c]])\n") == 0,
                "the value moves with the sum");
}

TEST_CASE("of an index that a condition says to be a value, one row is read and not all") {
  const std::string graph =
      "dim E = 5000, N = 1000, C = 16\nindex e:E, n:N, c:C\n"
      "input h[N,C], g[N,C], src[E]: i32 >= 0, dst[E]: i32 >= 0\n";
  CHECK(parts(graph + "output y[n] = sum[e](where(dst[e] == n, exp(sum[c](h[src[e],c]*g[n,c])), 0))\n") == 0);
  CHECK(parts(graph + "output y[n] = sum[e](where(dst[e] > n, exp(sum[c](h[src[e],c]*g[n,c])), 0))\n") == 1);
}

TEST_CASE("a condition under which there are neighbours stands around what is read of them") {
  CHECK(parts(kHead + "output y[n,o] = max[k](sum[c](where(nbr[n,k] < N-1, V[o,c]*x[nbr[n,k],c], 0)))\n") == 1);
  CHECK(parts(kHead + "output y[n,o] = max[k](sum[c](where(x[n,c] > 0, V[o,c]*x[nbr[n,k],c], 0)))\n") == 0);
  CHECK(parts(kHead + "output y[n,o] = max[k](sum[c](where(nbr[n,k] < N-1, V[o,c]*x[nbr[n,k],c], 1)))\n") == 0);
}

TEST_CASE("what only a condition keeps inside its tensor stays behind it") {
  const Program program =
      parse(kHead + "output y[n,k,o] = where(n >= 1, sum[c](V[o,c]*x[nbr[n-1,k],c] + U[o,c]*x[n-1,c]), 0)\n");
  const Program lifted = lift_gathered_sums(program);
  CHECK(lifted.definitions.size() == 2);
  CHECK_NOTHROW(verify(lifted));
}

TEST_CASE("random messages have the values and the derivatives that are written") {
  int fired = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const std::string text = random_formula(random);
    CAPTURE(seed);
    CAPTURE(text);
    const Program program = parse(text);
    const DimValues dims{{"N", random.between(1, 4)}, {"K", random.between(1, 3)}, {"C", 2}, {"O", 2}, {"T", 3}};
    const TensorValues inputs = random_graph(program, dims, random);
    const Program lifted = lift_gathered_sums(program);
    verify(lifted);
    fired += lifted != program;
    CHECK(largest_difference(evaluate(program, dims, inputs).at("y"), evaluate(lifted, dims, inputs).at("y")) < 1e-12);
    const std::vector<double> cotangent = random_inputs(differentiate(program, {"y"}, {}), dims, seed).at("cot.y");
    CHECK(difference_from_written_gradient(program, dims, inputs, cotangent) < 1e-12);
  }
  CHECK(fired > 60);
}

TEST_CASE("derivatives read no element that a condition on the value kept the formula from reading") {
  const Program program = specialise(parse(R"(dim N = 4, K = 3, C = 2, O = 2
index n:N, k:K, c:C, o:O
input x[N,C], V[O,C], nbr[N,K]: i32
output y[n,o] = sum[k](tanh(sum[c](where(nbr[n,k] >= 0, V[o,c]*x[nbr[n,k],c], 0))))
output z[n] = sum[k,c](where(nbr[n,k] == -1, V[0,c], V[1,c]*x[nbr[n,k],c]))
)"),
                                     {});
  TensorValues inputs = random_inputs(program, {}, 5);
  inputs["nbr"] = {0, 1, -1, 3, -1, -1, 2, 0, 1, -1, 3, 3};
  CHECK(worst_gradient_error(program, {"y", "z"}, {"x", "V"}, {}, inputs) < 1e-7);
  CHECK(worst_tangent_error(program, {"y", "z"}, {"x", "V"}, {}, inputs) < 1e-7);
}
