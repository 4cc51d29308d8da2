// Sums and extrema whose terms go where values say, on every device: against the evaluator and numpy.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "compiler/reference/evaluate.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/check_everywhere.h"

using namespace moxie;
using test::check_everywhere;
using Values = std::vector<double>;

TEST_CASE("sums and extrema by value take a step for each term, and give the same bits for any number of threads") {
  const struct {
    const char* text;
    DimValues dims;
  } cases[] = {
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput i[S]: i32, w[S,N]\n"
       "output y[v,n] = sum[s](where(i[s] == v, exp(w[s,n])*3, 0))",
       {{"S", 300}, {"V", 200}, {"N", 35}}},
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\noutput y[v] = sum[s](where(i[s] == v, w[s], 0))",
       {{"S", 500}, {"V", 170}}},
      {"dim S dynamic, V, U\nindex s:S, v:V, u:U\ninput i[S]: i32, w[S]\n"
       "output y[u,v] = sum[s](where(v == i[s] and i[S-1-s] == u, w[s], 0))",
       {{"S", 200}, {"V", 150}, {"U", 130}}},
      {"dim B dynamic, T, V, N\nindex b:B, t:T, v:V, n:N\ninput i[B,T]: i32, w[B,T,N]\n"
       "output y[n,v] = -sum[b,t](where(i[b,t]+1 == v and i[b,t] > 2, w[b,t,n]*2, 0))",
       {{"B", 20}, {"T", 30}, {"V", 100}, {"N", 3}}},
      {"dim B dynamic, T, V, N\nindex b:B, t:T, v:V, n:N\ninput i[B,T]: i32, w[B,T,N]\n"
       "output y[b,v,n] = sum[t](where(v == 2*i[b,t]-t, w[b,t,n]*sum[k in 0..V](where(i[b,t] == k, 1.5, 0)), 0))",
       {{"B", 5}, {"T", 40}, {"V", 90}, {"N", 20}}},
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput i[S]: i32, w[S,N], u[V,N], c[V]\n"
       "output y[v,n] = sum[s](where(i[s] == v, exp(w[s,n] - u[v,n])*max[k in 0..N](u[v,k]), 0)) + c[v]",
       {{"S", 90}, {"V", 100}, {"N", 20}}},
      {"dim S, V\nindex s:S, v:V, c in 0..3\ninput i[S]: i32, w[S]\n"
       "output y[v,c] = where(c == 1, sum[s](where(i[s] == v, w[s], 0)), 2)",
       {{"S", 40}, {"V", 120}}},
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput i[S]: i32, w[S,N]\n"
       "output y[v,n] = max[s](where(i[s] == v and w[s,n] > -0.5, sin(3*w[s,n]), -inf))",
       {{"S", 300}, {"V", 200}, {"N", 35}}},
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\n"
       "output y[v] = min[s](where(i[s] == v, where(w[s] < 0.3, w[s], inf), inf))",
       {{"S", 500}, {"V", 170}}},
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\n"
       "output y[v] = logsumexp[s](where(i[s] == v, 50*w[s], -inf))",
       {{"S", 500}, {"V", 170}}},
      // The first of equal ones, and of nothing but what is left out.
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\n"
       "output y[v] = argmax[s](where(i[s] == v, floor(3*w[s]), -inf))",
       {{"S", 700}, {"V", 170}}},
      {"dim S dynamic, V, T\nindex s:S, v:V, t:T\ninput i[S]: i32, w[S]\n"
       "output y[v] = argmin[s](where(w[s] > 0, where(i[s] == v, max(w[s], 0.4), inf), inf))*w[0]",
       {{"S", 700}, {"V", 170}, {"T", 2}}},
      // Positions in lanes, of what is computed.
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput i[S]: i32, w[S,N]\n"
       "output y[v,n]: i32 = argmin[s](where(i[s] == v, floor(2*w[s,n]), inf))",
       {{"S", 300}, {"V", 130}, {"N", 20}}},
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\n"  // logarithms that are NaN are the largest
       "output y[v] = argmax[s](where(i[s] == v, log(w[s] + 0.5), -inf))",
       {{"S", 300}, {"V", 130}}},
      // What is left out counts, where anything is: also as the first of equal ones.
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\noutput y[v] = max[s](where(i[s] == v, w[s], 0))",
       {{"S", 500}, {"V", 170}}},
      {"dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\n"
       "output y[v] = argmax[s](where(i[s] == v, max(floor(3*w[s]), 0), 0)) +"
       " 1000*argmin[s](where(v == i[s], w[s], 0.3)) + min[s](where(i[s] == v, w[s], 0.3))",
       {{"S", 700}, {"V", 170}}},
      {"dim B, S dynamic, V\nindex b:B, s:S, v:V\ninput i[B,S]: i32, w[B,S]\n"
       "output y[b,v] = max[s](where(i[b,s]*0 == v, w[b,s], -2)) + argmax[s](where(0*i[b,s] == v, w[b,s], 0.25))",
       {{"S", 60}, {"B", 3}, {"V", 100}}},
  };
  for (const auto& [text, dims] : cases) {
    CAPTURE(text);
    const Program program = parse(text);
    TensorValues inputs = test::random_inputs(program, dims, 5);
    for (std::size_t k = 0; k < inputs.at("i").size(); ++k)
      inputs.at("i")[k] = static_cast<double>((k * k * 7 + 3 * k) % 120) - 10;
    check_everywhere(text, dims, inputs, {{"y", evaluate(program, dims, inputs).at("y")}});
    Values first;
    for (const int threads : {1, 2, 5}) {
      DeviceOptions options;
      options.threads = threads;
      const auto device = test::test_device("cpu", options);
      if (!device) continue;
      const Values y = test::run_on(device, program, dims, inputs).at("y");
      if (first.empty()) first = y;
      CHECK(y == first);
    }
  }
}

TEST_CASE("extrema by value of nothing read nothing") {
  const Program program = parse(
      "dim S dynamic, V\nindex s:S, v:V\ninput i[S]: i32, w[S]\noutput y[v] = max[s](where(i[s] == v, w[s], 0))\n"
      "output at[v] = argmax[s](where(i[s] == v, w[s], 0))\n");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues found = test::run_on(device, program, {{"S", 0}, {"V", 5000}}, {{"i", {}}, {"w", {}}});
    CHECK(found.at("y") == Values(5000, -HUGE_VAL));
    CHECK(found.at("at") == Values(5000, HUGE_VAL));
  }
}

TEST_CASE("infinite factors of a sum by value stay as they are written") {
  const Program program = parse(
      "dtype f64\ndim S, V\nindex s:S, v:V\ninput x[S], w[S], idx[S]: i32\n"
      "output y[v] = sum[s](w[s]*where(idx[s] == v, x[s], 0))\n"
      "output z[v] = sum[s](where(idx[s] == v, w[s]*x[s], 0))\n");
  const DimValues dims = {{"S", 3}, {"V", 2}};
  const TensorValues inputs = {
      {"x", {1, 2, 3}}, {"w", {std::numeric_limits<double>::infinity(), 5, 7}}, {"idx", {0, 1, 1}}};
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues got = test::run_on(device, program, dims, inputs);
    CHECK(std::isinf(got.at("y")[0]));
    CHECK(std::isnan(got.at("y")[1]));  // infinity times the zero of the other branch
    CHECK(std::isinf(got.at("z")[0]));
    CHECK(got.at("z")[1] == 31);
  }
}

TEST_CASE("what is added by value is symmetric in two axes, of which one is the vector loop") {
  // numpy: np.einsum("ijk,nk,ni,nj->n", u, w[el], a, a), and its gradient np.einsum("nk,ni,nj,n->ijk", w[el], a, a,
  // cot)
  constexpr const char* kText = R"(
    dim N dynamic, I = 4, K = 2, E = 3
    index n:N, i:I, j:I, k:K
    input a[N,I], u[I,I,K], w[E,K], el[N]: i32 >= 0
    output y[n] = sum[i,j](sum[k](u[i,j,k]*w[el[n],k])*a[n,i]*a[n,j])
  )";
  const Values el = {2, 0, 2};
  Values a, u, w, y(3, 0.0), gradient(32, 0.0);
  for (int k = 0; k < 12; ++k) a.push_back(k % 5 - 1.5);
  for (int k = 0; k < 32; ++k) u.push_back(k * 3 % 7 - 2);
  for (int k = 0; k < 6; ++k) w.push_back(k - 2.5);
  for (std::size_t n = 0; n < 3; ++n) {
    for (std::size_t at = 0; at < 32; ++at) {
      const double rest = w[2 * static_cast<std::size_t>(el[n]) + at % 2] * a[4 * n + at / 8] * a[4 * n + at / 2 % 4];
      y[n] += u[at] * rest;
      gradient[at] += rest * static_cast<double>(n + 1);
    }
  }
  check_everywhere(kText, {{"N", 3}, {"I", 4}, {"K", 2}, {"E", 3}},
                   {{"a", a}, {"u", u}, {"w", w}, {"el", el}, {"cot.y", {1, 2, 3}}}, {{"y", y}, {"grad.u", gradient}},
                   {"y"}, {"u"});
}

TEST_CASE("votes over a range that moves with another axis, along which terms differ") {
  for (const char* range : {"0..n", "n..N", "max(n-2,0)..n+1"}) {
    for (const char* term : {"q[n]", "q[m]", "1"}) {
      for (const char* dynamic : {"", " dynamic"}) {
        const std::string text = fmt::format(
            "dim N{0}, K = 20\nindex n:N, m:N, k:K\ninput q[N], c[N]: i32 >= 0\n"
            "output o[n,k] = sum[m in {1}](where(c[m] == k, {2}, 0))\n",
            dynamic, range, term);
        CAPTURE(text);
        const DimValues dims = {{"N", 33}, {"K", 20}};
        const Program program = parse(text);
        TensorValues inputs = test::random_inputs(program, dims, 7);
        for (std::size_t m = 0; m < 33; ++m) inputs.at("c")[m] = static_cast<double>(m * m % 23);
        check_everywhere(text, dims, inputs, {{"o", evaluate(program, dims, inputs).at("o")}});
      }
    }
  }
}
