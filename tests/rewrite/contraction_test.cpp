// Orders in which products of several tensors are summed.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/expression/contraction_path.h"
#include "compiler/fuse/fuse.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/algebra/scope.h"
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

/// The matrix products that a library computes.
std::ptrdiff_t count_products(const Program& source) {
  const FusedProgram fused = fuse(optimise(specialise(source, {})));
  return std::ranges::count_if(fused.steps,
                               [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); });
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
  CHECK(count_products(parse(kKronecker)) == 3);
  CHECK(count_products(differentiate(parse(kKronecker), {"Y"}, {"W0", "W1", "W2", "X"})) >= 9);
}

TEST_CASE("pairs of features below each other are products in a band, and their gradient one of the whole box") {
  const Program pairs = parse(R"(dim B = 1024, F = 128, K = 16
index b:B, f:F, g:F, k:K
input x[B,F], V[F,K]
output y[b] = sum[f, g in f+1..F](sum[k](V[f,k]*V[g,k])*x[b,f]*x[b,g])
)");
  CHECK(count_products(pairs) == 1);
  CHECK(count_products(differentiate(pairs, {"y"}, {"x", "V"})) >= 3);
}

TEST_CASE("what goes to the elements that values say is multiplied in the cheapest order") {
  // The gradient of a convolution on points, of which each has K neighbours.
  const Program program = parse(R"(dim N = 1000, K = 16, P = 15, C = 32, O = 32
index n:N, m:N, k:K, p:P, c:C, o:O
input nbr[N,K]: i32 >= 0, h[N,K,P], w[P,C,O], z[N,O]
output y[n,c] = sum[o,k,p,m](where(nbr[m,k] == n, h[m,k,p]*w[p,c,o]*z[m,o], 0))
)");
  const std::string text = print(order_axes(order_contractions(normalise_bodies(program))));
  CHECK_MESSAGE(text.find("where(nbr[m,k] == n, sum[p](") != text.npos, text);
  // Rows along c are added one by one.
  CHECK_MESSAGE(text.find(",c] = sum[o](") != text.npos, text);
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

TEST_CASE("pairs that share a factor are no triangle where their sum has a cheaper order") {
  const Program pooled = parse(R"(dim B = 64, C = 64, R = 16, O = 100
index b:B, c:C, d:C, r:R, o:O
input x[B,C], u[C,R], v[C,R], w[R,O]
output y[b,o] = sum[c,d,r](x[b,c]*u[c,r]*x[b,d]*v[d,r]*w[r,o])
)");
  const std::string text = print(optimise(differentiate(pooled, {"y"}, {"w"})));
  CHECK_MESSAGE(text.find("where") == text.npos, text);
  // A third factor for each pair leaves nothing but the triangle.
  const std::string whole = print(optimise(parse(R"(dim B = 64, C = 64
index b:B, c:C, d:C
input x[B,C], u[C,C]
output y[b] = sum[c,d](exp(-(x[b,c] - x[b,d])^2)*u[c,d])
)")));
  CHECK_MESSAGE(whole.find("where") != whole.npos, whole);
}

TEST_CASE("an intermediate result has one unknown extent more than any tensor where that saves most of the work") {
  const Program pooled = parse(R"(dim B dynamic, P dynamic, C dynamic, R dynamic, O dynamic, G dynamic
index b:B, p:P, c:C, d:C, r:R, o:O, g:G
input x[B,P,C], u[G,C,R], v[G,C,R], m[G,R,O], w[G,P]
output y[b,o] = sum[p,c,d,r,g](w[g,p]*x[b,p,c]*u[g,c,r]*x[b,p,d]*v[g,d,r]*m[g,r,o])
)");
  const Program better = order_contractions(normalise_bodies(pooled));
  CHECK(better.definitions.size() >= 3);
  for (const Definition& definition : better.definitions) CHECK(definition.axes.size() <= 4);
  const DimValues dims = {{"B", 2}, {"P", 3}, {"C", 4}, {"R", 2}, {"O", 3}, {"G", 2}};
  std::mt19937 random(5);
  const TensorValues inputs = random_inputs(pooled, dims, random);
  const auto expected = evaluate(pooled, dims, inputs).at("y"), found = evaluate(better, dims, inputs).at("y");
  for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k] == doctest::Approx(expected[k]).epsilon(1e-10));
}

TEST_CASE("what one factor alone depends on is summed over before it meets the others") {
  const Program program = ordered(R"(dim N = 300
index a:N, d:N, e:N
input x[N,N], y[N,N]
output v[e] = sum[a,d](x[a,d]*y[d,e])
)");
  REQUIRE(program.definitions.size() == 2);
  CHECK(program.definitions[0].axes.size() == 1);
  // The product of a matrix and a vector has no other order, whichever of its indices stands first.
  CHECK(ordered(R"(dim N = 3000
index a:N, d:N
input x[N,N], y[N]
output v = sum[a,d](x[a,d]*y[d])
)")
            .definitions.size() == 1);
}

TEST_CASE("a sum over an index that nothing depends on counts its iterations") {
  for (const char* repeated : {"dim N = 300, R = 7", "dim N = 300, R dynamic"}) {
    const Program program = specialise(
        parse(repeated +
              std::string("\nindex i:N, j:N, k:N, r:R\ninput x[N], y[N,N], z[N]\n"
                          "output f[i,j] = sum[r,k](cos(x[k])*y[i,j])\noutput g[j] = sum[r,i,k](y[i,k]*z[j]*x[k])\n")),
        {});
    const DimValues dims = {{"N", 300}, {"R", 7}};
    std::mt19937 random(1);
    const TensorValues inputs = random_inputs(program, dims, random);
    const TensorValues want = evaluate(program, dims, inputs),
                       got = evaluate(order_contractions(program), dims, inputs);
    for (const char* name : {"f", "g"}) {
      for (std::size_t k = 0; k < want.at(name).size(); k += 97)
        CHECK(got.at(name)[k] == doctest::Approx(want.at(name)[k]).epsilon(1e-9));
    }
  }
}

TEST_CASE("a sum inside a sum is no product of its own where the whole has a cheaper order") {
  const FusedProgram fused = fuse(optimise(specialise(parse(R"(dim N = 300
index a:N, b:N, c:N, d:N, e:N
input x[N,N], y[N,N], z[N,N]
output g[c,d] = sum[a,b](sum[e](y[d,e]*z[b,e])*x[a,b])
)"),
                                                      {})));
  CHECK(
      std::ranges::none_of(fused.steps, [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); }));
}

namespace {

constexpr const char* kTucker = R"(dim A, B, C, I, J, K
index a:A, b:B, c:C, i:I, j:J, k:K
input G[A,B,C], U[I,A], V[J,B], W[K,C]
output X[i,j,k] = sum[a,b,c](G[a,b,c]*U[i,a]*V[j,b]*W[k,c])
)";
const DimValues kTuckerDims = {{"A", 16}, {"B", 16}, {"C", 16}, {"I", 64}, {"J", 64}, {"K", 64}};

constexpr const char* kMttkrp = R"(dim I, J, K, L
index i:I, j:J, k:K, l:L
input B[I,K,L], C[L,J], D[K,J]
output A[i,j] = sum[k,l](B[i,k,l]*C[l,j]*D[k,j])
)";

Program with_all_gradients(const std::string& text, const std::string& output, const DimValues& dims) {
  return specialise(differentiate(parse(text), {output}, {}), dims);
}

/// Multiply-adds of all sums, each of them once for every element of its definition.
double work_of(const Program& program) {
  double work = 0;
  for (const Definition& definition : program.definitions) {
    rewrite_top_down(definition.body, Scope::of(definition), [&](const Expr& e, const Scope& scope) {
      double iterations = 1;
      for (const auto& [symbol, range] : scope.open) iterations *= assumed_extent(range);
      if (e->kind == NodeKind::Reduce) work += iterations * assumed_extent(open(e).range);
      return std::optional<Expr>();
    });
  }
  return work;
}

/// Two sums of products of the same few matrices, of which the second may hold the first.
std::string random_chains(std::mt19937& random) {
  std::string text =
      "dim P = 40, Q = 36, R = 44, S = 40\nindex p:P, q:Q, r:R, s:S\ninput a[P,Q], b[Q,R], c[R,S], d[P,S]\n";
  const std::vector<std::string> first = {"let t[p,r] = sum[q](a[p,q]*b[q,r])", "let t[r,p] = sum[q](b[q,r]*a[p,q])",
                                          "let t[q,s] = sum[r](b[q,r]*c[r,s])", "let t[s,p] = sum[q](a[p,q]*d[p,s])",
                                          "let t[p,s] = sum[q,r](a[p,q]*b[q,r]*c[r,s])"};
  const std::vector<std::string> second = {
      "y[p,s] = sum[q,r](a[p,q]*b[q,r]*c[r,s]*d[p,s])", "y[p] = sum[q,r,s](c[r,s]*b[q,r]*a[p,q]*d[p,s])",
      "y[s,r] = sum[p,q](a[p,q]*b[q,r]*d[p,s]*c[r,s])", "y[q,p] = sum[r,s](2*c[r,s]*b[q,r]*d[p,s]*a[p,q])"};
  return text + first[random() % first.size()] + "\noutput z = sum[p](a[p,0]) + t[" + "0,0" + "]\noutput " +
         second[random() % second.size()] + "\n";
}

}  // namespace

TEST_CASE("what a definition holds of a contraction is not computed again") {
  // Reverse mode by hand, over G*U and G*U*V: two contractions with the matrix of each step, and the steps themselves.
  const double forward = 16.0 * 16 * 16 * 64 + 16.0 * 16 * 64 * 64 + 16.0 * 64 * 64 * 64;
  const Program ordered_program = optimise(with_all_gradients(kTucker, "X", kTuckerDims));
  CHECK(work_of(ordered_program) <= 3.5 * forward);
  const Definition* gradient = ordered_program.find_definition("grad.U");
  REQUIRE(gradient != nullptr);
  CHECK_FALSE(reads(*gradient, "cot.X"));
}

TEST_CASE("contractions have the same values whatever they read of each other") {
  std::mt19937 random(4);
  int shared = 0;
  for (int round = 0; round < 15; ++round) {
    const std::string text = random_chains(random);
    CAPTURE(text);
    const Program program = normalise_bodies(specialise(parse(text), {}));
    const Program better = order_contractions(program);
    shared += reads(*better.find_definition("y"), "t") ? 1 : 0;
    const TensorValues inputs = random_inputs(program, {}, random);
    const auto expected = evaluate(program, {}, inputs).at("y");
    const auto found = evaluate(better, {}, inputs).at("y");
    REQUIRE(found.size() == expected.size());
    for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k] == doctest::Approx(expected[k]).epsilon(1e-10));
  }
  CHECK(shared > 2);
}

TEST_CASE("definitions that hold products lie as a library writes them, with operands as they lie") {
  const DimValues dims = {{"I", 100}, {"J", 32}, {"K", 100}, {"L", 100}};
  const FusedProgram fused = fuse(optimise(with_all_gradients(kMttkrp, "A", dims)));
  int products = 0;
  for (const Step& step : fused.steps) {
    const auto* product = std::get_if<MatrixProduct>(&step);
    if (!product) continue;
    ++products;
    CHECK(product->batch.empty());
  }
  CHECK(products == 3);
  // B is read as it lies.
  for (const Definition& definition : fused.program.definitions)
    CHECK_FALSE((definition.body->kind == NodeKind::Access && definition.body->tensor == "B"));
}

TEST_CASE("an order of axes that no product gains by stays") {
  const auto stays = [](const std::string& text) {
    const Program program = normalise_bodies(specialise(parse(text), {}));
    return order_axes(program) == program;
  };
  // As it is, one product; of an output the caller chose the order; of a scan the first axis is the step.
  CHECK(stays(R"(dim N = 200
index i:N, j:N, k:N
input a[N,N], b[N,N]
let c[i,j] = sum[k](a[i,k]*b[k,j])
output y[i] = sum[j](c[i,j]^2)
)"));
  CHECK(stays(R"(dim I = 100, J = 32, K = 100, L = 100
index i:I, j:J, k:K, l:L
input B[I,K,L], C[L,J]
output y[i,j,k] = sum[l](B[i,k,l]*C[l,j])
)"));
}

TEST_CASE("operands that are made for a product have their axes in the order that it needs") {
  const auto products = [](const std::string& formula, const DimValues& dims) {
    const Program program = specialise(parse("dim A, B, T\nindex a:A, b:A, c:B, d:B, t:T\n" + formula), dims);
    const Program better = optimise(program);
    if (dims.at("A") < 40) {  // few enough to be evaluated
      std::mt19937 random(5);
      const TensorValues inputs = random_inputs(program, {}, random);
      const auto expected = evaluate(program, {}, inputs).at("z"), found = evaluate(better, {}, inputs).at("z");
      for (std::size_t k = 0; k < found.size(); ++k) CHECK(found[k] == doctest::Approx(expected[k]).epsilon(1e-10));
    }
    return std::ranges::count_if(fuse(better).steps,
                                 [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); });
  };
  const DimValues large = {{"A", 96}, {"B", 30}, {"T", 900}}, small = {{"A", 20}, {"B", 25}, {"T", 30}};
  const std::string opposite = "input x[A,B,B], y[A,B,B]\noutput z[a,b] = sum[c,d](x[a,c,d]*y[b,d,c])\n";
  const std::string steps_but_one = "input x[T,A], y[T,A]\noutput z[a,b] = sum[t in 1..T](x[t,a]*y[t-1,b])\n";
  const std::string batch_of_steps =
      "input x[T,A,B], y[T,A,B]\noutput z[a,b] = sum[t in 1..T, c](x[t,a,c]*y[t-1,b,c])\n";
  for (const DimValues& dims : {large, small}) {
    CHECK(products(opposite, dims) == 1);
    CHECK(products(batch_of_steps, dims) == 1);
  }
  CHECK(products(steps_but_one, large) == 1);
}
