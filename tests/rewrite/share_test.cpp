// Definitions that compute the same elements become one, in another order of axes too where readers do not lose by it.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/fuse/fuse.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/optimised.h"

using namespace moxie;

namespace {

std::size_t shared_count(const std::string& definitions, const std::string& outputs, int extent = 100) {
  const Program program =
      parse("dim N, M, K\nindex i:N, j:M, k:K\ninput x[N,K], z[K,M], w[N,M]\n" + definitions + outputs);
  const DimValues dims = {{"N", extent}, {"M", extent + 1}, {"K", extent + 2}};
  return share_definitions(specialise(program, dims)).definitions.size();
}

constexpr const char* kReaders = "output y[i,j] = tanh(a[i,j])\noutput v[j] = sum[i](tanh(b[j,i]*w[i,j]))\n";

}  // namespace

TEST_CASE("sums that differ in the order of their axes are computed once") {
  CHECK(shared_count("let a[i,j] = sum[k](x[i,k]*z[k,j])\nlet b[j,i] = sum[k](z[k,j]*x[i,k])\n", kReaders) == 3);
  CHECK(shared_count("let a[i,j] = sum[k](x[i,k]*z[k,j])\nlet b[j,i] = sum[k](z[k,j]*x[i,k]^2)\n", kReaders) == 4);
}

TEST_CASE("scores that a softmax writes out are one product, as if they had a name") {
  const auto sums_of_products = [](const std::string& scores, const std::vector<std::string>& without = {}) {
    const Program program =
        specialise(parse("dim T = 512, D = 32\nindex t:T, u:T, d:D\ninput q[T,D], k[T,D], v[T,D]\n" + scores +
                         "output y[t,d] = sum[u](p[t,u]*v[u,d])\n"),
                   {});
    const Program result = optimise(program, {}, without);
    return std::ranges::count_if(result.definitions, [](const Definition& definition) {
      bool reads = false;
      visit(definition.body, [&](const Expr& e) { reads |= e->kind == NodeKind::Access && e->tensor == "q"; });
      return reads;
    });
  };
  const std::string plain = "let p[t,u] = softmax[u](where(u <= t, sum[d](q[t,d]*k[u,d]), -inf))\n";
  const std::string named =
      "let s[t,u] = sum[d](q[t,d]*k[u,d])\nlet p[t,u] = softmax[u](where(u <= t, s[t,u], -inf))\n";
  CHECK(sums_of_products(named) == 1);
  CHECK(sums_of_products(plain) == 1);
  CHECK(sums_of_products(plain, {"lift-contractions"}) == 3);
}

TEST_CASE("a sum inside of a body reads the definition above that holds it") {
  const auto multiplies = [](const std::string& definitions) {
    const Program program = parse("dim N, M, K\nindex i:N, j:M, k:K\ninput x[N,K], z[K,M]\n" + definitions);
    const Program result = share_sums(specialise(program, {{"N", 30}, {"M", 31}, {"K", 32}}));
    verify(result);
    return std::ranges::count_if(result.definitions, [](const Definition& definition) {
      bool reads = false;
      visit(definition.body, [&](const Expr& e) { reads |= e->kind == NodeKind::Access && e->tensor == "x"; });
      return reads;
    });
  };
  const std::string held = "output a[i,j] = sum[k](x[i,k]*z[k,j])\n";
  const std::string inside = "output y[i] = sum[j](exp(sum[k](x[i,k]*z[k,j])))\n";
  CHECK(multiplies(held + inside) == 1);
  CHECK_MESSAGE(multiplies(inside + held) == 2, "a definition below is not known yet");
  CHECK(multiplies(held + "output y[i] = sum[j](exp(sum[k](x[i,k]*z[k,j]^2)))\n") == 2);
}

TEST_CASE("a kernel does not read across the axes what is quickly computed again") {
  CHECK(shared_count("let a[i,j] = x[i,0]*z[0,j]\nlet b[j,i] = x[i,0]*z[0,j]\n", kReaders) == 4);
}

TEST_CASE("a library reads the transposed matrix as it lies, however cheap its elements") {
  const std::string operands = "let a[i,j] = exp(w[i,j])\nlet b[j,i] = exp(w[i,j])\n";
  CHECK(shared_count(operands, "output y[k,i] = sum[j](a[i,j]*z[k,j])\noutput v[k,j] = sum[i](b[j,i]*x[i,k])\n", 200) ==
        3);
}

TEST_CASE("random numbers belong to the coordinates of their element") {
  const std::string drawn =
      "let a[i,j] = sum[k](randn(1)*x[i,k]*z[k,j])\nlet b[j,i] = sum[k](randn(1)*x[i,k]*z[k,j])\n";
  CHECK(shared_count(drawn, kReaders) == 4);
}

TEST_CASE("what is read in another order has the values of what was written") {
  const Program program = parse(R"(dim N, K
index i:N, j:N, k:K
input x[N,K], z[K,N]
let a[i,j] = sum[k](x[i,k]*z[k,j])
let b[j,i] = sum[k](x[i,k]*z[k,j])
output y[i] = sum[j](a[i,j]*(j + 1))
output v[i] = sum[j](b[j,i]*(j + 2) + b[i,j])
)");
  const DimValues dims = {{"N", 40}, {"K", 70}};
  TensorValues inputs;
  for (const char* name : {"x", "z"}) {
    for (int n = 0; n < 2800; ++n) inputs[name].push_back((n * 37 % 101) / 101.0);
  }
  const Program shared = share_definitions(specialise(program, dims));
  CHECK(shared.definitions.size() == 3);
  const TensorValues want = evaluate(program, dims, inputs), got = evaluate(shared, dims, inputs);
  for (const char* name : {"y", "v"}) {
    for (std::size_t n = 0; n < 40; ++n) CHECK(got.at(name)[n] == doctest::Approx(want.at(name)[n]).epsilon(1e-12));
  }
}

TEST_CASE("a sum inside the bodies of several definitions is computed once, where its elements are as many as theirs") {
  const auto definitions_of = [](const std::string& text) {
    return share_sums(specialise(parse("dim N = 30, M = 40\nindex i:N, j:M, p in 0..5, c in 0..8\n"
                                       "input x[N,M+4,8], w[5,8], u[N,M]\n" +
                                       text),
                                 {}));
  };
  const std::string sum = "sum[p,c](w[p,c]*x[i,j+p,c])";
  const Program relu =
      definitions_of("output y[i,j] = max(" + sum + ", 0)\noutput s[i] = sum[j](where(" + sum + " >= 0, u[i,j], 0))\n");
  CHECK_NOTHROW(verify(relu));
  REQUIRE(relu.definitions.size() == 3);
  CHECK(print(relu.definitions[1].body, relu, relu.definitions[1].axes) == "max(y.sum[i,j], 0)");
  CHECK(print(relu.definitions[2].body, relu, relu.definitions[2].axes) == "sum[j](where(y.sum[i,j] >= 0, u[i,j], 0))");
  CHECK_MESSAGE(definitions_of("output y[i,j] = max(" + sum + ", 0)\n").definitions.size() == 1, "one user");
  CHECK_MESSAGE(definitions_of("output y[i] = sum[j](exp(" + sum + "))\noutput v[i] = sum[j](tanh(" + sum + "))\n")
                        .definitions.size() == 2,
                "a matrix would be stored for the sums of its rows");
  CHECK_MESSAGE(definitions_of("output y[i,j] = max(sum[p](u[i,j]*w[p,0]), 0)\n"
                               "output v[i,j] = min(sum[p](u[i,j]*w[p,0]), 0)\n")
                        .definitions.size() == 2,
                "few terms are added up again");
}

namespace {

/// Attention of `groups` groups of two heads, with its gradients: heads of a group share keys and values.
Program grouped_attention(int groups, int words, int features) {
  const Program program = parse(R"(dim H, G, R = 2, T, D
index h:H, t:T, s:T, d:D
input q[H,T,D], k[G,T,D], v[G,T,D]
let z[h,t,s] = sum[d](q[h,t,d]*k[h/R,s,d])
output y[h,t,d] = sum[s](softmax[s](z[h,t,s])*v[h/R,s,d])
)");
  const DimValues dims = {{"H", 2 * groups}, {"G", groups}, {"T", words}, {"D", features}};
  return differentiate(specialise(program, dims), {"y"}, {"q", "k", "v"});
}

}  // namespace

TEST_CASE("heads that share keys by groups: one softmax for values and gradients, and six products") {
  const Program better = optimise(grouped_attention(2, 256, 64));
  CHECK(std::ranges::count_if(better.definitions, [](const Definition& definition) {
          return definition.body->kind == NodeKind::Reduce && definition.body->reduce == ReduceKind::Max;
        }) == 1);
  const auto is_product = [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); };
  CHECK(std::ranges::count_if(fuse(better).steps, is_product) == 6);
}

TEST_CASE("gradients of heads that share keys have the values of the formula") {
  const Program program = grouped_attention(1, 64, 8);
  const TensorValues inputs = test::inputs_for(program, {});
  const TensorValues want = evaluate(program, {}, inputs), got = evaluate(optimise(program), {}, inputs);
  for (const char* name : {"y", "grad.q", "grad.k", "grad.v"}) {
    for (std::size_t n = 0; n < want.at(name).size(); ++n)
      REQUIRE(got.at(name)[n] == doctest::Approx(want.at(name)[n]).epsilon(1e-9));
  }
}
