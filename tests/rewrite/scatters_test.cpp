// Sums and extrema whose terms go where values say.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/scatter.h"
#include "tests/rewrite/optimised.h"

using namespace moxie;
using test::inputs_for;

TEST_CASE(
    "terms that go where values say leave the sum of other terms around them, however many axes have no extents") {
  const Program program = specialise(parse(R"(dim N dynamic, E dynamic, H dynamic, F dynamic
index n:N, e:E, h:H, f:F
input i[E]: i32, j[E]: i32, a[N,H], b[H,F], w[E,H], x[N,H,F]
output y[n,h,f] = a[n,h]*b[h,f] + sum[e](where(i[e] == n, w[e,h]*x[j[e],h,f], 0))
)"),
                                     {});
  const Program result = optimise(program);
  CAPTURE(print(result));
  CHECK(
      std::ranges::any_of(result.definitions, [&](const Definition& d) { return scatter_of(result, d).has_value(); }));
}

TEST_CASE("sums by value take a step for each term, whatever these read of the element that they go to") {
  const auto is_scatter = [](const std::string& body) {
    const Program program = specialise(parse("dim S = 90, V = 400, T = 12\nindex s:S, v:V, t:T, c in 0..3\n"
                                             "input i[S]: i32, j[T]: i32, w[S], u[V], x[V,3], g[T]\noutput " +
                                             body + "\n"),
                                       {});
    const Program result = optimise(program);
    return std::ranges::any_of(result.definitions,
                               [&](const Definition& d) { return scatter_of(result, d).has_value(); });
  };
  CHECK(is_scatter("y[v] = sum[s](where(i[s] == v, exp(w[s] - u[v]), 0))"));
  CHECK(is_scatter("y[v] = sum[s](where(i[s] == v, w[s]*v, 0))"));
  CHECK(is_scatter("y[v,c] = where(c == 2, sum[s](where(i[s] == v, cos(x[i[s],2]), 0)), 0)"));
  CHECK(is_scatter("y[v] = u[v] + sum[t](where(j[t] == v, g[t], 0))*w[0]"));  // few terms, but many elements
  CHECK(is_scatter(
      "y[v,c] = where(c >= 1, sum[s](where(i[s] == v, x[i[s],c-1]*w[s], 0)), 0)"));  // reads inside by c alone
  CHECK(is_scatter("y[v] = max[s](where(i[s] == v, cos(w[s]), -inf))"));
  CHECK(is_scatter("y[v] = logsumexp[s](where(i[s] == v, w[s], -inf))"));
  CHECK(is_scatter("y[v] = argmin[s](where(i[s] == v, w[s], inf))"));
  CHECK(is_scatter("y[v] = argmin[s](where(i[s] == v, sin(w[s]), inf))"));
  CHECK(is_scatter("y[v]: i32 = argmin[s](where(i[s] == v, w[s], inf))"));
  CHECK(is_scatter("y[v]: i32 = sum[s](where(i[s] == v, 1, 0))"));
  CHECK(is_scatter("y[v] = sum[c](x[v,c]*sum[s](where(i[s] == v, w[s]*x[i[s],c], 0)))"));     // before x multiplies it
  CHECK(is_scatter("y[t] = sum[v](g[t]*u[v]*sum[s](where(i[s] == v, w[s]*exp(u[v]), 0)))"));  // before u multiplies it
  CHECK(is_scatter("y[v] = max[s](where(i[s] == v, w[s], 0))"));     // 0 counts where there are others
  CHECK(is_scatter("y[v] = argmax[s](where(i[s] == v, w[s], 0))"));  // and the first of these
  CHECK(is_scatter("y[v] = argmax[s](f32(where(i[s] == v, w[s], 0.1)))"));
  CHECK_FALSE(is_scatter("y[c] = w[c] + sum[t](where(j[t] == c, g[t], 0))"));
  CHECK_FALSE(is_scatter("y[v] = sum[s in 0..min(v+1, 90)](where(i[s] == v, w[s], 0))"));  // the range moves
}

TEST_CASE("what every step of a scan would look up again is stored before it, for all that read it") {
  const auto stores = [](const std::string& weight) {
    const Program program = specialise(
        parse("dim N = 500, E = 5000, T = 20\nindex t:T, n:N, e:E\n"
              "input i[E]: i32, j[E]: i32, w[E] > 0, degree[N] > 0\nlet p[e] = " +
              weight +
              "\nscan t {\n  let r[t,n] = sum[e](where(j[e] == n, p[e]*where(t == 0, 1, r[t-1,i[e]]), 0))\n}\n"
              "output y[n] = r[T-1,n]\noutput z[e] = p[e] + w[e]\n"),
        {});
    return optimise(program).find_definition("p") != nullptr;
  };
  CHECK(stores("w[e]/degree[i[e]]"));
  CHECK_FALSE(stores("2*w[e]"));
}

TEST_CASE("sums by value step through what settles their elements alone") {
  const Program weights =
      specialise(parse("dim B = 64, E = 640, D = 32\nindex b:B, e:E, d:D\n"
                       "input o[B+1]: i32, x[E,D], g[B,D]\n"
                       "output y[e] = sum[d,b](where(o[b] <= e and e < o[b+1], x[e,d]*g[b,d], 0))\n"),
                 {});
  const auto sum = scatter_of(weights, weights.definitions.front());
  REQUIRE(sum.has_value());
  CHECK(sum->loops.size() == 1);
  CHECK(sum->term->kind == NodeKind::Reduce);
}

TEST_CASE("a term that a value sends to its element has no sum over the range that it is from") {
  const Program program = specialise(parse(R"(dim B = 64, E = 640, D = 32, V = 1000
index b:B, e:E, d:D
input o[B+1]: i32, w[E]: i32, x[V,D]
output y[b] = sum[d](sum[e in o[b]..o[b+1]](x[w[e],d])^2)
)"),
                                     {});
  const Program result = optimise(differentiate(program, {"y"}, {"x"}));
  const auto sum = scatter_of(result, *result.find_definition("grad.x"));
  REQUIRE_MESSAGE(sum.has_value(), print(result));
  CHECK_MESSAGE(sum->term->height == 0, print(result));
}

TEST_CASE("costly parts of terms that values send to their elements are computed before") {
  const Program program = specialise(parse(R"(dim S = 90, V = 40, C = 5
index s:S, v:V, c:C
input i[S]: i32, w[S], u[V], x[S,C]
output y[v,c] = sum[s](where(i[s] == v, w[s]*tanh(exp(u[i[s]]))*x[s,c], 0))
)"),
                                     {});
  const Program result = optimise(program);
  CAPTURE(print(result));
  const Definition* term = result.find_definition("y.term");
  REQUIRE(term);
  CHECK(term->axes.size() == 1);
  CHECK(scatter_of(result, *result.find_definition("y")).has_value());
  // Terms that go nowhere read nothing, either.
  TensorValues inputs = inputs_for(program, {});
  for (std::size_t s = 0; s < 90; ++s) inputs["i"][s] = static_cast<double>(s % 43) - 2;
  const std::vector<double> want = evaluate(program, {}, inputs).at("y"), got = evaluate(result, {}, inputs).at("y");
  for (std::size_t k = 0; k < want.size(); ++k) CHECK(got[k] == doctest::Approx(want[k]).epsilon(1e-12));
}
