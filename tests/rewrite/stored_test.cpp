// Which sums and elements rewritten Programs keep in memory.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "compiler/rewrite/passes.h"
#include "tests/rewrite/optimised.h"

using namespace moxie;
using test::count_calls, test::optimised;

namespace {

constexpr const char* kPairs = R"(dim N, M, D
index n:N, m:M, d:D
input x[N,D], y[M,D], b[M]
let r2[n,m] = sum[d]((x[n,d] - y[m,d])^2)
output f[n] = sum[m](exp(-r2[n,m])*b[m])
output g[m] = sum[n](exp(-r2[n,m]))
output all = sum[n,m](sqrt(1 + r2[n,m]))
)";

/// Without a check of values, for sizes at which that takes long.
Program optimised_only(const char* text, const DimValues& dims) { return optimise(specialise(parse(text), dims)); }

bool has(const Program& program, const std::string& name) { return program.find_definition(name) != nullptr; }

}  // namespace

TEST_CASE("the summands of a triangle's sums are computed once a pair") {
  const Program result = optimised(R"(dim S dynamic, N = 9, R = 14
index s:S, n:N, m:N, r:R, t:R
input x[S,N], w[R]
let row[s,n] = sum[m in n+1..N](sum[r,t](w[r]*w[t]*tanh(x[s,n]*w[r] - x[s,m]*w[t])))
let column[s,n] = sum[m in 0..n](sum[r,t](w[r]*tanh(x[s,m]*w[r] - x[s,n]*w[t])))
output y[s,n] = row[s,n] + column[s,n]
output z[s,n,m] = x[s,n]*x[s,m]
)",
                                   {{"S", 3}, {"N", 9}, {"R", 14}});
  const auto over_pairs =
      std::ranges::count_if(result.definitions, [](const Definition& d) { return !d.output && d.axes.size() == 3; });
  CHECK(over_pairs == 2);
}

TEST_CASE("a sum along rows keeps a sum per column first") {
  const DimValues dims = {{"S", 3}, {"C", 2}, {"H", 2}, {"W", 16}};
  const auto text = [](const char* summand) {
    return fmt::format(
        "dim S dynamic, C, H, W\nindex s:S, c:C, i:H, j:W\ninput x[S,C,H,W], w[W], t[S,W,C]\n"
        "output y[c] = sum[s,i,j]({})\n",
        summand);
  };
  const auto definitions = [&](const char* summand) { return optimised(text(summand).c_str(), dims).definitions; };
  const auto split = definitions("x[s,c,i,j]*(x[s,c,i,j] - w[j])");
  const auto columns = std::ranges::find_if(split, [](const Definition& d) { return d.name.ends_with(".columns"); });
  REQUIRE(columns != split.end());
  CHECK(columns->axes.size() == 2);
  CHECK(definitions("x[s,c,i,j]*t[s,j,c]").size() == 1);      // the rows of t run along c
  CHECK(definitions("exp(x[s,0,i,j]*(c + 1))").size() == 1);  // every element of y reads the same rows
}

TEST_CASE("what short steps of a scan need not wait for is computed before it") {
  const auto in_scans = [](const Program& program, std::string_view function) {
    Program scans = program;
    std::erase_if(scans.definitions, [](const Definition& definition) { return !definition.scan; });
    return count_calls(scans, function);
  };
  const char* short_steps = R"(dim T, C
index t:T, c:C
input x[T,C], w[T]
scan t {
  output y[t,c] = where(t == 0, 0, y[t-1,c]*exp(w[t] - w[t-1])) + sin(x[t,c]) + tanh(where(t < 1, 0, y[t-1,c])*w[t])
}
)";
  const Program result = optimised(short_steps, {{"T", 40}, {"C", 3}});
  CHECK(in_scans(result, "exp") + in_scans(result, "sin") == 0);
  CHECK(in_scans(result, "tanh") == 1);
  CHECK(count_calls(result, "exp") == 1);
  // Where a step fills lanes, its own loop does.
  CHECK(in_scans(optimised(short_steps, {{"T", 40}, {"C", 64}}), "sin") == 1);
}

TEST_CASE("an operand of a batch of products lies as the factors that have its own axes do") {
  const Program program = parse(R"(dim N dynamic, K, D
index n:N, k:K, i:D, j:D
input w[N,K], y[N,K,D], x[K,N,D]
output A[k,i,j] = sum[n](w[n,k]*y[n,k,i]*x[k,n,j])
)");
  const Program result = optimise(specialise(program, {{"N", 4096}, {"K", 8}, {"D", 64}}));
  const auto operand = std::ranges::find(result.definitions, "A.operand", &Definition::name);
  REQUIRE(operand != result.definitions.end());
  REQUIRE(operand->axes.size() == 3);
  CHECK(operand->axes.back().extent == Affine(64));
}

TEST_CASE("what is as large as a sum that must be kept is kept too, where loops would compute it again") {
  const Program result = optimised(R"(dim S dynamic, N = 20
index s:S, n:N, m:N, k:N
input x[S,N], W[N,N]
let c[s,n,m] = sum[k](W[n,k]*x[s,k]*W[m,k])
let e[s,n,m] = exp(tanh(c[s,n,m]))
output y[s,k] = sum[n,m](W[n,k]*W[m,k]*e[s,n,m])
)",
                                   {{"S", 3}, {"N", 20}});
  CHECK(result.find_definition("e"));
}

TEST_CASE("what one reader must find in memory is computed again by no other") {
  const Program result = optimised(R"(dim S dynamic, N = 20, R = 5
index s:S, n:N, r:R
input x[S,N], w[R]
let e[s,n] = exp(tanh(x[s,n]))
output y[s,n] = 1 + e[s,n]
output z[s,r,n] = w[r]*e[s,n]
)",
                                   {{"S", 3}, {"N", 20}, {"R", 5}});
  CHECK(count_calls(result, "exp") == 1);
}

TEST_CASE("cheap elements of pairs are computed by each of the sums that read them") {
  CHECK(!has(optimised(kPairs, {{"N", 70}, {"M", 80}, {"D", 3}}), "r2"));
  CHECK_MESSAGE(has(optimised(kPairs, {{"N", 70}, {"M", 80}, {"D", 8}}), "r2"), "a cache holds them");
  CHECK(!has(optimised_only(kPairs, {{"N", 700}, {"M", 800}, {"D", 8}}), "r2"));
  CHECK_MESSAGE(has(optimised_only(kPairs, {{"N", 700}, {"M", 800}, {"D", 60}}), "r2"), "costly elements are stored");
}

TEST_CASE("elements that a library multiplies, a condition moves or an output gives stay in memory") {
  CHECK(has(optimised_only(R"(dim N = 300, M = 200, E = 90
index n:N, m:M, e:E
input x[N], y[M], b[M,E]
let k[n,m] = exp(-(x[n] - y[m])^2)
output f[n,e] = sum[m](k[n,m]*b[m,e])
output g[m] = sum[n](k[n,m])
)",
                           {}),
            "k"));
  CHECK(has(optimised(R"(dim N
index n:N, m:N, d in 0..2
input x[N,2]
let k[n,m] = exp(-sum[d]((x[n,d] - 2*x[m,d])^2))
output f[n] = sum[m](k[n,m]*where(m < N - 1, k[n,m+1], 0))
)",
                      {{"N", 200}}),
            "k"));
  CHECK(has(optimised_only(R"(dim N = 100000, K = 20, D = 6
index n:N, k:K, i:D, j:D
input x[N,D], Q[K,D,D]
let z[n,k,i] = sum[j](Q[k,i,j]*x[n,j])
let u[n,k,i] = sum[j](Q[k,j,i]*z[n,k,j])
output v[k,i] = sum[n](u[n,k,i]*z[n,k,i])
)",
                           {}),
            "z"));
}

TEST_CASE("a sum over all pairs keeps a sum per row where others sum along these rows") {
  const std::string pairs = kPairs;
  const std::string both = "dim N dynamic, M dynamic, D" + pairs.substr(pairs.find('\n'));
  CHECK(has(optimised(both.c_str(), {{"N", 70}, {"M", 80}, {"D", 3}}), "all.rows"));
  CHECK(!has(optimised(R"(dim N dynamic, M dynamic
index n:N, m:M
input x[N], y[M]
output all = sum[n,m](sqrt(1 + (x[n] - y[m])^2))
)",
                       {{"N", 70}, {"M", 80}}),
             "all.rows"));
}

TEST_CASE("a chain whose definitions a sum and the next one read is computed once") {
  constexpr int kLength = 60;
  std::string text = "dim N dynamic, M\nindex i:N, j:M\ninput x[N,M], w[M]\nlet y0[i,j] = tanh(x[i,j]*w[j])\n";
  for (int k = 1; k < kLength; ++k) {
    text += fmt::format("let s{0}[j] = sum[i](y{1}[i,j]^2)\n", k, k - 1);
    text += fmt::format("let y{0}[i,j] = tanh(y{1}[i,j]*w[j] - s{0}[j])\n", k, k - 1);
  }
  text += fmt::format("output e = sum[i,j](y{}[i,j])\n", kLength - 1);
  const Program result = optimised(text.c_str(), {{"N", 5}, {"M", 3}});
  CHECK(count_calls(result, "tanh") < 12 * kLength);  // written out from its beginning, half of kLength for each
}
