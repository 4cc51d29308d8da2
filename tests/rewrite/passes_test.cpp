// What the rewrite passes leave alone: cases that random Programs found.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/optimised.h"

using namespace moxie;
using test::count_calls, test::inputs_for, test::optimised;

namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("positions that singles hold are searched for in single, once extents are known") {
  const auto dtypes = [](const std::string& dims, const std::string& dtype) {
    const Program program =
        specialise(parse("dtype f32\ndim " + dims +
                         "\nindex s:S, n:N\ninput x[S,N]\nlet at[s]: f64 = argmax[n](x[s,n])\nlet far[s]: f64 = "
                         "argmin[n](x[s,n], 65536*n)\noutput y[s,n]: " +
                         dtype + " = where(f64(n - at[s]) == 0, 1, far[s])\n"),
                   {});
    const Program narrow = narrow_positions(program);
    CHECK(contains(print(narrow), "f64(n - at[s])") == (narrow.find_definition("at")->dtype == DType::f64));
    return std::pair(narrow.find_definition("at")->dtype, narrow.find_definition("far")->dtype);
  };
  CHECK(dtypes("S dynamic, N = 100", "f32") == std::pair(DType::f32, DType::f32));
  CHECK(dtypes("S dynamic, N = 1000", "f32") == std::pair(DType::f32, DType::f64));
  CHECK(dtypes("S dynamic, N dynamic", "f32") == std::pair(DType::f64, DType::f64));
  CHECK(dtypes("S dynamic, N = 100", "f64") == std::pair(DType::f64, DType::f64));
}

TEST_CASE("positions that are stored as integers are searched for in single, if singles are compared") {
  const auto narrow = [](const std::string& dims, const std::string& body) {
    const Program program = specialise(parse("dim S dynamic, " + dims +
                                             "\nindex s:S, n:N\ninput x[S,N], d[S,N]: f64, i[S,N]: i32\n"
                                             "output at[s]: i32 = " +
                                             body + "\n"),
                                       {});
    return is_call(narrow_positions(program).find_definition("at")->body, "f32");
  };
  CHECK(narrow("N = 100", "argmin[n](x[s,n]^2)"));
  CHECK(narrow("N = 100", "where(s >= 1, argmin[n](x[s,n]^2), 0)"));
  CHECK_FALSE(narrow("N = 100", "where(s >= 1, argmin[n](x[s,n]^2), 0.5)"));
  CHECK_FALSE(narrow("N = 100", "where(s >= 1, 2, 0)"));
  CHECK_FALSE(narrow("N dynamic", "argmin[n](x[s,n]^2)"));
  CHECK_FALSE(narrow("N = 100", "argmin[n](x[s,n]*d[s,n])"));
  CHECK_FALSE(narrow("N = 100", "argmin[n](i[s,n])"));
  CHECK_FALSE(narrow("N = 100", "1 + argmin[n](x[s,n]^2)"));
}

TEST_CASE("equal definitions become one with the domain that either declares") {
  const auto shared = [](const char* first, const char* second) {
    const Program program = parse(
        fmt::format("input x\nlet a {}= exp(x) - 2\nlet b {}= exp(x) - 2\noutput y = sin(a)*cos(b)\n", first, second));
    return share_definitions(program);
  };
  for (const auto& [first, second] : {std::pair(">= 0 ", ""), std::pair("", ">= 0 "), std::pair(">= 0 ", ">= 0 ")}) {
    const Program result = shared(first, second);
    CHECK(result.definitions.size() == 2);
    CHECK(result.domain_of("a") == ValueDomain::NonNegative);
  }
  CHECK(shared(">= 0 ", "> -1 ").definitions.size() == 3);
}

TEST_CASE("no pass makes a definition of what depends on the indices of a matrix within a body") {
  const Program program = specialise(parse(R"(dim S dynamic, N
index s:S
input x[N]
output y[s] = s + inverse[i in 0..N, j in 0..N](
  sum[k in 0..N](tanh(where(k >= 2, x[i], 0))*tanh(where(k >= 2, x[j], 0))) + where(i == j, 3, 0))[0,0]
)"),
                                     {{"S", 3}, {"N", 2}});
  const DimValues dims = {{"S", 3}, {"N", 2}};
  const TensorValues inputs = inputs_for(program, dims);
  const TensorValues want = evaluate(program, dims, inputs);
  for (const Pass& pass : passes()) {
    CAPTURE(pass.name);
    const TensorValues got = evaluate(pass.run(program), dims, inputs);
    for (std::size_t s = 0; s < 3; ++s) CHECK(got.at("y")[s] == doctest::Approx(want.at("y")[s]).epsilon(1e-12));
  }
}

TEST_CASE("reductions within reductions within reductions are found once each") {
  const Program result = optimised(R"(dim N
index i:N, j:N
input x[N,N]
output y = sum[i](logsumexp[j](x[i,j]/0.1))
)",
                                   {{"N", 300}});
  for (const Definition& definition : result.definitions) {
    int reductions = 0;
    visit(definition.body, [&](const Expr& e) { reductions += e->kind == NodeKind::Reduce; });
    CHECK_MESSAGE(reductions <= 1, print(result));
  }
}

TEST_CASE("a sum whose end another index moves does not count as short") {
  // Summed over d last, the product of v and k would be formed for every pair of d and e.
  const Program result = optimised(R"(dim T, D, E
index t:T, d:D, e:E
input q[T,D], k[T,D], v[T,E]
output y[t,e] = sum[u in 0..t+1](v[u,e]*sum[d](q[t,d]*k[u,d]))
)",
                                   {{"T", 70}, {"D", 66}, {"E", 3}});
  for (const Definition& definition : result.definitions) {
    std::set<std::string> read;
    visit(definition.body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access) read.insert(e->tensor);
    });
    CHECK_MESSAGE(!(read.contains("v") && read.contains("k")), print(result));
  }
}

TEST_CASE("a sum that a guard protects takes the guard along or stays") {
  const Program result = optimised(R"(dim S dynamic, N = 4
index s:S, n:N
input x[S,N], z[N]
output y[n] = where(n >= 1, sum[s](x[s,n-1])*z[n], 0)
)",
                                   {{"S", 3}, {"N", 4}});
  CHECK(!contains(print(result), "sum[s](x[s,n-1]"));
}

TEST_CASE(
    "a sum by value leaves a mask on another index that asks for each of its elements, or for some that it says") {
  for (const std::string mask : {"u <= t", "u < t", "u >= t"}) {
    CAPTURE(mask);
    const Program program = specialise(parse("dim T = 200, V = 1000\nindex t:T, u:T\ninput word[T]: i32, G[V,V]\n"
                                             "output w[t,u] = softmax[u](where(" +
                                             mask + ", G[word[t],word[u]], -inf))"),
                                       {});
    const Program result = optimise(program);
    std::size_t inside = 0;
    visit(result.find_definition("w")->body, [&](const Expr& e) { inside += e->kind == NodeKind::Reduce; });
    CHECK(inside == 0);
  }
}

TEST_CASE("a sum under a condition on an index that it does not have is found once") {
  const auto sums_inside = [](const char* text, const DimValues& dims) {
    const Program result = optimised(text, dims);
    std::size_t inside = 0;
    for (const Definition& definition : result.definitions) {
      if (!definition.output) continue;
      visit(definition.body, [&](const Expr& e) { inside += e->kind == NodeKind::Reduce; });
    }
    return inside;
  };
  CHECK(sums_inside(R"(dim N dynamic
index n:N, k:N
input x[N], w[N]
output y[n] = w[n] + where(n+1 == N, sum[k](w[k]*tanh(x[k] - x[N-1])), 0)
)",
                    {{"N", 70}}) == 0);
  CHECK(sums_inside(R"(dim B = 5, A = 4, N = 70
index b:B, a:A, i:N, j:N
input x[B,A,N], t[B,N], z[B]
let act[b]: i32 = floor(3*z[b])
output y[b,a,i] = where(act[b] == a, sum[j](tanh(t[b,j] - x[b,act[b],i])), 0)
)",
                    {{"B", 5}, {"A", 4}, {"N", 70}}) == 0);
  // Both conditions together keep act[b] inside of x.
  CHECK(sums_inside(R"(dim B = 5, A = 4, N = 70
index b:B, a:A, j:N
input x[2,N], t[B,N], z[B]
let act[b]: i32 = floor(3*z[b])
output y[b,a] = where(act[b] == a and a < 2, sum[j](tanh(t[b,j] - x[act[b],j])), 0)
)",
                    {{"B", 5}, {"A", 4}, {"N", 70}}) == 1);
}

TEST_CASE("a sum takes along its part of the condition that guards it") {
  const Program result = optimised(R"(dim N
index i:N, j:N, l:N
input x[N,N], w[N,N]
output y[i,j] = w[i,j] + where(j == i and i >= 1, sum[l](x[i-1,l]), 0)
)",
                                   {{"N", 70}});
  bool sums_for_each_element = false;
  visit(result.definitions.back().body, [&](const Expr& e) { sums_for_each_element |= e->kind == NodeKind::Reduce; });
  CHECK_MESSAGE(!sums_for_each_element, print(result));
}

TEST_CASE("a table over an index whose range another index moves covers all of its values") {
  const Program result = optimised(R"(dim S dynamic, N = 4
index s:S, n:N
input x[N], z[S]
output y[s,n] = sum[i in 0..n+1](tanh(x[i])*z[s])
)",
                                   {{"S", 3}, {"N", 4}});
  CHECK(contains(print(result), "tanh(x["));
}

TEST_CASE("a loop that gives each of its iterations elements of its own repeats nothing that they are made of") {
  const Program result = optimised(R"(dim N = 64
index a:N, b:N, u in 0..3
input x[2*N,2*N]
output y[a,b,u] = sum[i in 2*a..2*a+2](cos(u*i)*sum[j in 2*b..2*b+2](x[i,j]*cos(u*j)))
)",
                                   {{"N", 64}});
  for (const Definition& definition : result.definitions) {
    bool has_cosines = false;
    visit(definition.body, [&](const Expr& e) { has_cosines |= is_call(e, "cos"); });
    CHECK_MESSAGE(has_cosines == (definition.axes.size() == 2), print(result));
  }
}

TEST_CASE("a factor stays in a sum that may be empty if its element may not exist") {
  optimised(R"(dim N = 5
index n:N
input x[N], y[N]
output z[n] = sum[i in 0..n](x[n-1]*y[i])
)",
            {{"N", 5}});
}

TEST_CASE("a factor whose element exists leaves the sum") {
  const Program result = optimised(R"(dim N = 5
index n:N
input x[N], y[N]
output z[n] = sum[i in 0..n](x[n]*y[i])
)",
                                   {{"N", 5}});
  CHECK(contains(print(result), "x[n]*sum[i1 in 0..n](y[i1])"));
}

TEST_CASE("a sum of less than no rounds is zero") {
  optimised(R"(dim N = 5
index n:N
input w
output z[n] = sum[i in 0..n-2](w)
)",
            {{"N", 5}});
}

TEST_CASE("a sum in double that reads no tensor stays in double") {
  const Program result = optimised(R"(dtype f64
dim S dynamic
index s:S
output z = sum[s](exp(-s))^2
)",
                                   {{"S", 3}});
  for (const Definition& definition : result.definitions) CHECK(definition.dtype == DType::f64);
}

TEST_CASE("the axis that takes the place of i and n is not called in") {
  const Program result = optimised(R"(dim S dynamic
index i in 0..4, n in 0..4
input x[S]
let y[i,n] = sum[s in 0..S](tanh(x[s]*(i + n)))
output z = y[1,2] + y[3,3]
)",
                                   {{"S", 70}});
  CHECK(contains(print(result), "diagonals"));
}

TEST_CASE("no axis takes the place of two without elements") {
  optimised(R"(dim S dynamic, N
index s:S, i:N, n:N
input x[S]
output z[i,n] = sum[s](tanh(x[s]*(i + n)))
)",
            {{"S", 3}, {"N", 0}});
}

TEST_CASE("a short recurrence of single elements is unrolled, forwards and backwards") {
  for (const char* direction : {"", " backwards"}) {
    const std::string before = *direction ? "t == T-1, 1, h[t+1,s]" : "t == 0, 1, h[t-1,s]";
    const std::string text = "dim S dynamic, T = 4\nindex s:S, t:T\ninput x[S], z[T]\nscan t" + std::string(direction) +
                             " {\n  let h[t,s] = z[t]*where(" + before +
                             ")*x[s]\n}\noutput y[s] = sum[t](z[t]*h[t,s])\n";
    const Program result = optimised(text.c_str(), {{"S", 3}, {"T", 4}});
    CHECK(result.definitions.size() == 1);
  }
}

TEST_CASE("a recurrence whose steps somebody wants stays a scan") {
  const Program result = optimised(R"(dim S dynamic, T = 4
index s:S, t:T
input x[S], z[T]
scan t {
  output h[t,s] = z[t]*where(t == 0, 1, h[t-1,s])*x[s]
}
)",
                                   {{"S", 3}, {"T", 4}});
  CHECK(result.definitions[0].scan.has_value());
}

TEST_CASE(
    "what one reader must find in memory is computed again by no other, also if it costs something only once others "
    "are in it") {
  const Program result = optimised(R"(dim S dynamic, N = 20
index s:S, n:N, m:N
input x[S,N] > 0, y[S,N]
let root[s,n,m in n+1..N] = sqrt(x[s,n]*x[s,m])
let total[s,n,m in n+1..N] = root[s,n,m] + y[s,n]
output square[s,n,m in n+1..N] = total[s,n,m]^2
output all[s,n,m] = where(n < m, total[s,n,m], 0)
)",
                                   {{"S", 3}, {"N", 20}});
  CHECK(count_calls(result, "sqrt") == 1);
}

TEST_CASE("an empty log-sum-exp of something that does not depend on its index stays minus infinity") {
  for (const std::int64_t count : {0, 1, 3}) {
    optimised(R"(dim S dynamic, N = 2
index s:S, k:S, n:N
input x[N]
output y[n] = logsumexp[s](x[n])
output z[n] = sum[s](exp(x[n] - max[k](x[n])))
)",
              {{"S", count}, {"N", 2}});
  }
}

TEST_CASE("reductions over ranges that end before they begin have the values of none") {
  const Program result = optimised(R"(dim N = 2, M = 0
index n:N, m:M
input x[N]
output a[n] = sum[i in 5..N](x[n]/(i - i))
output b[n] = prod[m](x[n]) + max[m](x[n]) + exp(logsumexp[m](x[n]))
output c[n] = min[i in 3..1](x[n] + i)
)",
                                   {{"N", 2}, {"M", 0}});
  CHECK(!contains(print(result), "sum["));
}

TEST_CASE("a scan joins the unrolled one that it follows as a whole, whichever of its definitions reads it") {
  const Program result = optimised(R"(dim N, T = 4
index t:T, n:N
input x0[N]
scan t {
  let x[t,n] = where(t == 0, x0[n], y[t-1,n])
  let y[t,n] = tanh(x[t,n])
}
scan t backwards {
  let b[t,n] = where(t+1 < T, a[t+1,n], 1)
  let a[t,n] = b[t,n]*(1 - y[t,n]^2)
}
output z[n] = a[0,n]
)",
                                   {{"N", 3}, {"T", 4}});
  CHECK(!contains(print(result), "scan"));
}

TEST_CASE("steps that no condition admits are not read") {
  const Program result = optimised(R"(dim N, T = 4
index t:T, n:N
input x[N]
scan t {
  let up[t,n] = where(t >= 1 and n >= 1, r[t-1,n-1], 2)
  let left[t,n] = where(n < N-1, where(t >= 2 or t == 1, r[t-1,n+1], 3), 4)
  let under[t,n] = where(n < t, r[t-1,n], 5)
  let r[t,n] = x[n] + up[t,n]*left[t,n]/under[t,n]
}
output y[n] = r[T-1,n]
)",
                                   {{"N", 3}, {"T", 4}});
  CHECK(!contains(print(result), "scan"));
}

TEST_CASE("the terms of all steps of an unrolled scan stand in one order") {
  const Program program = optimised(
      "dim N = 6, T = 13\nindex t:T, i:N\ninput x[N], a, b\n"
      "scan t {\nlet u[t,i] = where(t == 0, x[i], w[t-1,i])\n"
      "let v[t,i] = where(i >= 1 and i < N-1, a*u[t,i+1] - 2*u[t,i] + b*u[t,i-1], u[t,i])\n"
      "let w[t,i] = where(i >= 1 and i < N-1, u[t,i] + a*v[t,i+1]*u[t,i-1] - b*v[t,i-1], v[t,i])\n}\n"
      "output y[i] = w[T-1,i]\n",
      {{"N", 6}, {"T", 13}});
  std::set<std::string> steps;
  for (const Definition& definition : program.definitions) {
    // Those of the first step read the input; the last is the output.
    if (definition.name.starts_with("v_") && definition.name != "v_0")
      steps.insert(std::regex_replace(print(definition.body, program, definition.axes), std::regex("_[0-9]+"), ""));
  }
  CHECK_MESSAGE(steps.size() == 1, fmt::format("{}", fmt::join(steps, "\n")));
}

TEST_CASE("a copy in single precision does not part the definitions of a scan") {
  optimised(R"(dim S dynamic, T dynamic, N = 4
index s:S, t:T, n:N, m:N, k:N
input x[S,N,N], v[N,N]
let w[n,m]: f64 = sum[k](f64(v[n,k])*v[k,m])
scan t {
  let a[t,s,n,m] = sum[k](where(t >= 1, b[t-1,s,k,m], x[s,k,m]))
  let b[t,s,n,m] = tanh(a[t,s,n,m]*w[n,m])
}
output y[s,n,m] = b[T-1,s,n,m]
)",
            {{"S", 3}, {"T", 3}, {"N", 4}});
}

TEST_CASE("what a condition scales is computed once, whether the condition holds or not") {
  // The derivative of a leaky rectifier, as it is taken branch by branch.
  const auto text = [](const char* condition) {
    return fmt::format(
        "dim N = 4\nindex n:N, m:N\ninput x[N], g[N]\n"
        "output y[n] = where({0}, tanh(g[n]), 0) + 0.25*where(not ({0}), tanh(g[n]), 0)\n",
        condition);
  };
  const Program result = optimised(text("x[n] > 0.5").c_str(), {{"N", 4}});
  CHECK(contains(print(result), "where(x[n] > 0.5, 1, 0.25)*tanh(g[n])"));
  CHECK(contains(print(optimised(text("n > 1").c_str(), {{"N", 4}})), "not n > 1"));  // ranges take these apart
}

TEST_CASE("parts of bodies keep indices in front of the ranges that they move") {
  const Program program = parse(R"(dim L, D, P = 2
index i:L, j:L, d:D
input x[L,D]
let norm[i] = sum[d](x[i,d]^2)
let cosine[i,j] = sum[d](x[i,d]*x[j,d])/sqrt(max(norm[i], 1e-12)*max(norm[j], 1e-12))
output near = sum[i, j in i+1..L](where(j - i <= P, cosine[i,j], 0))
output far = sum[i, j in i+1..L](where(j - i >= P+1, cosine[i,j], 0))
)");
  const Program gradient = differentiate(program, {"near", "far"}, {"x"});
  CHECK_NOTHROW(verify(optimise(specialise(gradient, {{"L", 100}, {"D", 100}}))));
}

TEST_CASE("elements of all pairs that are computed where they are read have one form for first and second points") {
  const Program program = specialise(parse(R"(dim N = 2000, D = 3
index i:N, j:N, d:D, e:D
input x[N,D], g[N,D]
output y[i,d] = sum[j](exp(-sum[e]((x[i,e] - x[j,e])^2))*(g[j,d] + x[i,d] - x[j,d]))
)"),
                                     {});
  std::set<Expr, decltype([](const Expr& a, const Expr& b) { return a.get() < b.get(); })> kernels;
  const Program gradient = optimise(differentiate(program, {"y"}, {"x"}));
  for (const Definition& definition : gradient.definitions) {
    visit(definition.body, [&](const Expr& e) {
      if (is_call(e, "exp")) kernels.insert(e);
    });
  }
  CHECK(kernels.size() == 1);
}

TEST_CASE("the gradient of a padded convolution's weights keeps no product of all pairs of positions") {
  const Program program = specialise(parse(R"(dim N dynamic
index n:N, c:3, f:64, i:112, j:112, p:7, q:7
input x[N,3,224,224], k[64,3,7,7]
output y[n,f,i,j] = sum[c,p,q](where(2*i+p-3 >= 0 and 2*i+p-3 < 224 and 2*j+q-3 >= 0 and 2*j+q-3 < 224,
  x[n,c,2*i+p-3,2*j+q-3]*k[f,c,p,q], 0))
)"),
                                     {});
  const Program gradient = differentiate(program, {"y"}, {"k"});
  const double largest = largest_tensor(gradient);
  for (const Definition& definition : optimise(gradient).definitions) {
    CAPTURE(definition.name);
    CHECK(assumed_size(definition.axes) <= 8 * largest);
  }
}

TEST_CASE("the gradient of every second element is one definition") {
  const Program haar = specialise(parse("dim B = 16, N = 64\nindex b:B, i:N, j:N\ninput x[B,2*N,2*N]\n"
                                        "output low[b,i,j] = (x[b,2*i,2*j] + x[b,2*i+1,2*j+1])/2\n"
                                        "output high[b,i,j] = (x[b,2*i+1,2*j] - x[b,2*i,2*j+1])/2\n"),
                                  {});
  const Program result = optimise(differentiate(haar, {"low", "high"}, {"x"}));
  CHECK(std::ranges::all_of(result.definitions, &Definition::output));
}

TEST_CASE("a costly element that many positions of a frame read is computed once") {
  // One signal: cosine knows all axes of y and all sums around it.
  const Program result = optimised(R"(dim N = 256, T = 13, W = 64, K = 8
index i:N, t:T, w:W, k:K
input a[T,K]
let cosine[k,w] = cos(0.1*k*w)
output y[i] = sum[k,t](where(i >= 16*t and i-16*t < W, a[t,k]*cosine[k,i-16*t], 0))
)",
                                   {{"N", 256}, {"T", 13}, {"W", 64}, {"K", 8}});
  for (const Definition& definition : result.definitions) {
    bool has_cosines = false;
    visit(definition.body, [&](const Expr& e) { has_cosines |= is_call(e, "cos"); });
    CHECK_MESSAGE(has_cosines == (definition.name == "cosine"), print(result));
  }
}
