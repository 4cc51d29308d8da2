// Integers, and elements read by value, on every device: against numpy, the evaluator and finite differences.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/check_everywhere.h"
#include "tests/setting.h"

using namespace moxie;
using test::check_close;
using test::check_everywhere;
using Values = std::vector<double>;

namespace {

constexpr const char* kEmbedding = R"(
dim S dynamic, V, N
index s:S, n:N
input x[V,N], idx[S]: i32 >= 0
output y[s,n] = x[idx[s],n]
)";

/// numpy: np.array([[((v*3+n)*5)%11-4+0.25*n for n in range(3)] for v in range(5)])
Values table() {
  Values values;
  for (int v = 0; v < 5; ++v)
    for (int n = 0; n < 3; ++n) values.push_back(((v * 3 + n) * 5) % 11 - 4 + 0.25 * n);
  return values;
}

/// numpy: np.array([[s-2*n+0.5 for n in range(3)] for s in range(S)])
Values cotangent(int rows) {
  Values values;
  for (int s = 0; s < rows; ++s)
    for (int n = 0; n < 3; ++n) values.push_back(s - 2 * n + 0.5);
  return values;
}

const Values kIndices = {3, 0, 4, 3, 3, 1, 0};

}  // namespace

TEST_CASE("an embedding reads rows by value, and its gradient adds to them") {
  const Values y = {-3.0, 2.25, -3.5, -4.0, 1.25, 6.5,  1.0,  6.25, 0.5,  -3.0, 2.25,
                    -3.5, -3.0, 2.25, -3.5, 0.0,  5.25, -0.5, -4.0, 1.25, 6.5};
  const Values gradient = {8.0, 4.0, 0.0, 5.5, 3.5, 1.5, 0.0, 0.0, 0.0, 8.5, 2.5, -3.5, 2.5, 0.5, -1.5};
  const DimValues dims = {{"S", 7}, {"V", 5}, {"N", 3}};
  check_everywhere(kEmbedding, dims, {{"x", table()}, {"idx", kIndices}}, {{"y", y}});
  check_everywhere(kEmbedding, dims, {{"x", table()}, {"idx", kIndices}, {"cot.y", cotangent(7)}},
                   {{"y", y}, {"grad.x", gradient}}, {"y"}, {"x"});
}

TEST_CASE("cross entropy by class index") {
  constexpr const char* kText = R"(
    dim S dynamic, K
    index s:S, k:K
    input logits[S,K], label[S]: i32 >= 0
    output loss = sum[s](logsumexp[k](logits[s,k]) - logits[s,label[s]])/S
  )";
  Values logits;
  for (int s = 0; s < 3; ++s)
    for (int k = 0; k < 4; ++k) logits.push_back(std::sin(1 + 3 * s + k));
  check_everywhere(kText, {{"S", 3}, {"K", 4}}, {{"logits", logits}, {"label", {2, 0, 3}}, {"cot.loss", {1}}},
                   {{"loss", {2.0621679783921327}},
                    {"grad.logits",
                     {0.12038753245284418, 0.12883627580628257, -0.27357163260621103, 0.024347824347084268,
                      -0.2891267635028455, 0.03611656547034151, 0.07125467377545258, 0.1817555242570514,
                      0.09584136041638802, 0.13362882273020843, 0.07502536193083192, -0.3044955450774283}}},
                   {"loss"}, {"logits"});
}

TEST_CASE("a graph convolution over a list of edges") {
  constexpr const char* kText = R"(
    dim I, E dynamic, N
    index i:I, e:E, n:N
    input h[I,N], from[E]: i32, into[E]: i32, w[E]
    output y[i,n] = sum[e](where(into[e] == i, w[e]*h[from[e],n], 0))
  )";
  Values h = table();
  h.resize(12);
  check_everywhere(kText, {{"I", 4}, {"E", 6}, {"N", 3}},
                   {{"h", h},
                    {"from", {0, 1, 1, 2, 3, 3}},
                    {"into", {1, 0, 2, 3, 1, 0}},
                    {"w", {.5, -1, 2, 1.5, .25, 3}},
                    {"cot.y", cotangent(4)}},
                   {{"y", {-9.0, 1.5, -10.0, -2.75, 1.1875, 2.375, 0.0, 10.5, -1.0, 6.0, -2.625, 5.25}},
                    {"grad.h", {0.75, -0.25, -1.25, 4.5, 2.5, 0.5, 5.25, 2.25, -0.75, 1.875, -4.625, -11.125}},
                    {"grad.w", {-22.875, -6.125, 3.375, 9.625, 3.125, 7.375}}},
                   {"y"}, {"h", "w"});
}

TEST_CASE("the largest elements of every row, by their ranks") {
  constexpr const char* kText = R"(
    dim S dynamic, K
    index s:S, k:K, j:K
    input x[S,K]
    let rank[s,k]: i32 = sum[j](where(x[s,j] > x[s,k] or (x[s,j] == x[s,k] and j < k), 1, 0))
    output top[s, m in 0..3] = sum[k](where(rank[s,k] == m, x[s,k], 0))
    output at[s, m in 0..3]: i32 = sum[k](where(rank[s,k] == m, k, 0))
    output read[s, m in 0..3] = x[s,at[s,m]]
  )";
  // numpy: np.sort(x)[:, ::-1][:, :3] of x = [[(s*K+k)*7 % 13 - 0.5*s for k in range(5)] for s in range(9)]
  Values x, top, at, slopes(45, 0);
  for (int s = 0; s < 9; ++s) {
    std::vector<std::pair<double, int>> row;
    for (int k = 0; k < 5; ++k) {
      x.push_back((s * 5 + k) * 7 % 13 - 0.5 * s);
      row.emplace_back(-x.back(), k);
    }
    std::ranges::sort(row);
    for (int m = 0; m < 3; ++m) {
      slopes[static_cast<std::size_t>(s * 5 + row[static_cast<std::size_t>(m)].second)] = m - 0.25 * s;
      top.push_back(-row[static_cast<std::size_t>(m)].first);
      at.push_back(row[static_cast<std::size_t>(m)].second);
    }
  }
  Values cotangents;
  for (int s = 0; s < 9; ++s)
    for (int m = 0; m < 3; ++m) cotangents.push_back(m - 0.25 * s);
  const DimValues dims = {{"S", 9}, {"K", 5}};
  check_everywhere(kText, dims, {{"x", x}}, {{"top", top}, {"at", at}, {"read", top}});
  for (const std::string output : {"top", "read"})
    check_everywhere(kText, dims, {{"x", x}, {"cot." + output, cotangents}}, {{"grad.x", slopes}}, {output}, {"x"});
}

TEST_CASE("integers are computed, rounded, compared and read by each other") {
  constexpr const char* kText = R"(
    dim S dynamic, K, N
    index s:S, k:K, n:N
    input l[S,K], x[K,N], j[S]: i32
    let best[s]: i32 = argmax[k](l[s,k])
    let half[s]: i32 = best[s]/2 + 0.25
    output nested[s,n] = x[best[j[s]],n] + x[half[s]+1,n] + x[2-half[s],0]*n
    output same[s] = where(best[s] == best[j[s]] and half[s] < 2, best[s], -1)
    output rounded[s]: i32 = 1.5*j[s] - 1
    output large: i32 = 3e9 + sum[s](j[s])
  )";
  // numpy: best = l.argmax(1) = [2, 0, 3, 1], half = np.rint(best/2 + 0.25) = [1, 0, 2, 1]
  const Values l = {0, 1, 5, 2, 9, 1, 2, 3, 0, 0, 1, 4, 0, 7, 7, 1};
  const Values x = {1, 2, 10, 20, 100, 200, 1000, 2000};
  check_everywhere(kText, {{"S", 4}, {"K", 4}, {"N", 2}}, {{"l", l}, {"x", x}, {"j", {3, 3, 0, 2}}},
                   {{"nested", {110, 230, 20, 140, 1100, 2201, 1100, 2210}},
                    {"same", {-1, -1, -1, -1}},
                    {"rounded", {4, 4, -1, 2}},
                    {"large", {2147483647}}});
}

/// k^2 * factor modulo `size`.
std::vector<double> remainders(int count, int factor, int size) {
  std::vector<double> values;
  for (int k = 0; k < count; ++k) values.push_back(k * k * factor % size);
  return values;
}

TEST_CASE("gradients of what is read by value agree with finite differences") {
  const struct {
    const char* text;
    DimValues dims;
    TensorValues indices;
  } cases[] = {
      {"dim S dynamic, V, N\nindex s:S, n:N, m:N\ninput x[V,N], w[N,N], i[S]: i32, j[S]: i32\n"
       "output y[s,m] = tanh(sum[n](x[i[j[s]]+1,n]*w[n,m])) * x[i[s],m]",
       {{"S", 4}, {"V", 5}, {"N", 3}},
       {{"i", {0, 3, 3, 1}}, {"j", {1, 0, 1, 2}}}},
      {"dim B dynamic, T, V, N\nindex b:B, t:T, n:N\ninput x[V,N], i[B,T]: i32\n"
       "output y[b,n] = sum[t](where(i[b,t] >= 0, x[i[b,t],n]*x[i[b,t],n]*t, 0))",
       {{"B", 3}, {"T", 4}, {"V", 4}, {"N", 2}},
       {{"i", {0, 3, -1, -1, 2, 2, 0, -1, 1, 1, 1, 3}}}},
      {"dim S dynamic, V\nindex s:S\ninput x[V,V], i[S]: i32, j[S]: i32\noutput y = sum[s](exp(x[i[s],j[s]-i[s]+2]))",
       {{"S", 5}, {"V", 4}},
       {{"i", {0, 3, 3, 1, 2}}, {"j", {1, 3, 1, 2, 0}}}},
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput x[S,N], u[V,N], i[S]: i32\n"
       "output y[v,n] = sum[s](where(i[s] == v, tanh(x[s,n] - u[v,n])*v, 0))",
       {{"S", 5}, {"V", 4}, {"N", 2}},
       {{"i", {0, 3, 3, -1, 2}}}},
      // A softmax over the edges that end at a node, shifted by a maximum, and by a log-sum-exp.
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput x[V,N], a[N], i[S]: i32, j[S]: i32\n"
       "let e[s] = sum[n](a[n]*tanh(x[i[s],n] + x[j[s],n]))\n"
       "let m[v] = max[s](where(i[s] == v, e[s], -inf))\n"
       "let w[s] = exp(2*e[s] - m[i[s]])\nlet z[v] = sum[s](where(i[s] == v, w[s], 0)) + 1\n"
       "output y[v,n] = sum[s](where(i[s] == v, w[s]*x[j[s],n], 0))/z[v]",
       {{"S", 900}, {"V", 40}, {"N", 3}},
       {{"i", remainders(900, 7, 40)}, {"j", remainders(900, 11, 40)}}},
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput x[V,N], a[N], i[S]: i32, j[S]: i32\n"
       "let e[s] = sum[n](a[n]*tanh(x[i[s],n] + x[j[s],n]))\n"
       "let z[v] = logsumexp[s](where(i[s] == v, e[s], -inf))\n"
       "output y[v,n] = sum[s](where(i[s] == v, exp(e[s] - z[v])*x[j[s],n], 0))",
       {{"S", 900}, {"V", 40}, {"N", 3}},
       {{"i", remainders(900, 7, 40)}, {"j", remainders(900, 11, 40)}}},
      {"dim S dynamic, V, N\nindex s:S, v:V, n:N\ninput x[V,N], i[S]: i32, j[S]: i32\n"
       "let degree[v] = sum[s](where(i[s] == v, 1, 0))\n"
       "output y[v,n] = sum[s](where(i[s] == v, x[j[s],n]^2, 0))/max(degree[v], 1)",
       {{"S", 900}, {"V", 40}, {"N", 3}},
       {{"i", remainders(900, 7, 40)}, {"j", remainders(900, 11, 40)}}},
      {"dim S dynamic, V\nindex s:S\ninput x[V,3], i[S]: i32, j[S]: i32\n"
       "output y[s] = x[i[s],0]*cos(x[j[s],2]) - x[j[s],1]*x[i[s],2]",
       {{"S", 70}, {"V", 4}},
       {{"i", std::vector<double>(70, 3)}, {"j", std::vector<double>(70, 1)}}},
  };
  for (const auto& [text, dims, indices] : cases) {
    CAPTURE(text);
    const Program program = parse(text);
    TensorValues inputs = test::random_inputs(program, dims, 7);
    for (const auto& [name, values] : indices) inputs[name] = values;
    std::vector<std::string> wrt;
    for (const InputDecl& input : program.inputs)
      if (input.dtype != DType::i32) wrt.push_back(input.name);
    CHECK(test::worst_gradient_error(program, {"y"}, wrt, dims, inputs) < 1e-6);
    const Program gradient = differentiate(program, {"y"}, wrt);
    TensorValues all = test::random_inputs(gradient, dims, 8);
    for (const auto& [name, values] : inputs) all[name] = values;
    TensorValues expected;
    for (const std::string& name : wrt) expected["grad." + name] = evaluate(gradient, dims, all).at("grad." + name);
    check_everywhere(text, dims, all, expected, {"y"}, wrt);
  }
}

TEST_CASE("long rows and many of them, in lanes of either axis") {
  for (const auto& [rows, columns] : {std::pair(37, 1), std::pair(5, 130), std::pair(70, 33)}) {
    const DimValues dims = {{"S", rows}, {"V", 11}, {"N", columns}};
    Values x(static_cast<std::size_t>(11 * columns)), indices(static_cast<std::size_t>(rows)), y;
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<double>(k % 97) - 40;
    for (std::size_t k = 0; k < indices.size(); ++k) indices[k] = static_cast<double>(k * k % 11);
    for (const double i : indices)
      for (int n = 0; n < columns; ++n) y.push_back(x[static_cast<std::size_t>(i * columns + n)]);
    check_everywhere(kEmbedding, dims, {{"x", x}, {"idx", indices}}, {{"y", y}});
  }
}

TEST_CASE("a value outside is reported where it is checked, and harmless where not") {
  constexpr const char* kText = R"(
    dim S dynamic, V, N
    index s:S, n:N
    input x[V,N], idx[S]: i32
    output y[s,n] = x[idx[s]+1,n]
  )";
  const DimValues dims = {{"S", 4}, {"V", 3}, {"N", 2}};
  const TensorValues inputs = {{"x", {1, 2, 3, 4, 5, 6}}, {"idx", {0, 5, -7, 2147483647}}};
  CHECK_THROWS_WITH_AS(evaluate(parse(kText), dims, inputs),
                       doctest::Contains("definition y at [1,0] reads x[6,0], outside its shape [3,2]"), ShapeError);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    if (device->name() == "interp") {
      CHECK_THROWS_WITH_AS(
          test::run_on(device, parse(kText), dims, inputs),
          doctest::Contains("along axis 0, which has the extent 3, in `v1: index = subscript 0 of x: v0 + 1`"),
          DataError);
      continue;
    }
    check_close(test::run_on(device, parse(kText), dims, inputs).at("y"), {3, 4, 5, 6, 1, 2, 5, 6}, 1e-12);
    const test::Setting check("MOXIE_CHECK", "bounds");
    CHECK_THROWS_WITH(test::run_on(device, parse(kText), dims, inputs),
                      doctest::Contains("x: subscript 0, which is read from a tensor, lies outside"));
  }
}

TEST_CASE("integers that singles do not hold are compared as they are, also where a condition guards them") {
  const TensorValues inputs = {{"i", {16777216, 16777217, 16777217, 16777218}}, {"w", {1, 2, 3, 4}}};
  check_everywhere(
      "dim S\nindex s:S\ninput i[S]: i32, w[S]\n"
      "output y[s] = where(s >= 1, where(i[s-1] == i[s], w[s], 0), 5)\n"
      "output z[s] = where(where(s >= 1, i[s-1], 16777217) == i[s], 1, 0)\n",
      {{"S", 4}}, inputs, {{"y", {5, 0, 3, 0}}, {"z", {0, 0, 1, 0}}});
}

TEST_CASE("integers that are computed name elements of integers, which name rows") {
  // numpy: code = np.argmin(x, 1); up = parent[code]; y = 10*up + code
  constexpr const char* kCodes = R"(
    dim P, N
    index p:P, k:N
    input x[P,N], parent[N]: i32 >= 0, w[N]
    let code[p]: i32 = argmin[k](x[p,k])
    let up[p]: i32 = parent[code[p]]
    output y[p] = w[up[p]] + code[p]
  )";
  for (const int n : {20, 64}) {
    CAPTURE(n);
    Values x, parent, w, y;
    for (int k = 0; k < n; ++k) {
      parent.push_back((7 * k + 3) % n);
      w.push_back(10 * k);
    }
    for (int p = 0; p < 16; ++p) {
      const int code = (5 * p + 2) % n;
      for (int k = 0; k < n; ++k) x.push_back(k == code ? -1 : k % 3);
      y.push_back(10 * parent[static_cast<std::size_t>(code)] + code);
    }
    check_everywhere(kCodes, {{"P", 16}, {"N", n}}, {{"x", x}, {"parent", parent}, {"w", w}}, {{"y", y}});
  }
  check_everywhere(R"(
    dim P, N
    index p:P
    input x[P] >= 0, next[N]: i32 >= 0, w[N]
    let k[p]: i32 = floor(x[p])
    let m[p]: i32 = next[k[p]] + 1
    output y[p] = w[m[p]]
  )",
                   {{"P", 4}, {"N", 5}}, {{"x", {0.5, 1, 3.75, 2}}, {"next", {3, 2, 1, 0, 4}}, {"w", {1, 2, 3, 4, 5}}},
                   {{"y", {5, 4, 2, 3}}});
}

TEST_CASE("conditions keep values inside") {
  constexpr const char* kText = R"(
    dim S dynamic, V, N
    index s:S, n:N
    input x[V,N], w[N], idx[S]: i32
    output y[s,n] = where(idx[s] >= 0 and idx[s] < V, 2*x[idx[s],n], -1)
    output z[s] = where(idx[s] >= 0 and idx[s] < V, sum[n](x[idx[s],n]*w[n]), 0)
  )";
  const test::Setting check("MOXIE_CHECK", "bounds");
  check_everywhere(kText, {{"S", 4}, {"V", 3}, {"N", 2}},
                   {{"x", {1, 2, 3, 4, 5, 6}}, {"w", {1, 10}}, {"idx", {2, -1, 3, 0}}},
                   {{"y", {10, 12, -1, -1, -1, -1, 2, 4}}, {"z", {65, 0, 0, 21}}});
}

TEST_CASE("what a gradient reads at a value, it reads where the value is a position, also in checked runs") {
  const std::string text = R"(
    dim N, E, D
    index n:N, e:E, d:D
    input x[E,D], W[D], dst[E]: i32
    let mx[n,d] = max[e](where(dst[e] == n, x[e,d], 0))
    output y[n] = sum[d](mx[n,d]*W[d])
  )";
  const Program gradient = differentiate(parse(text), {"y"}, {"x", "W"});
  const TensorValues inputs = {
      {"x", {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3}}, {"W", {2, 3}}, {"dst", {0, -1, 2, 0, 3, 2}}, {"cot.y", {1, 1, 1}}};
  const test::Setting check("MOXIE_CHECK", "bounds");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues found = test::run_on(device, gradient, {{"N", 3}, {"E", 6}, {"D", 2}}, inputs);
    check_close(found.at("grad.x"), {0, 0, 0, 0, 2, 3, 2, 3, 0, 0, 0, 0}, 1e-6);
    check_close(found.at("grad.W"), {12, 14}, 1e-6);
  }
}

TEST_CASE("conditions on a value are only looked at where the value itself is inside") {
  // The gradient by p[n] has the conditions d[n+1] == v and q[d[n+1]] > 0 inside of n+1 < N.
  const char* text = R"(
    dim N dynamic
    index n:N, m:N
    input p[N], q[N], d[N]: i32 >= 0
    output o[n] = sum[m in 1..N](where(d[m] == n and q[n] > 0, p[m-1], 0))
  )";
  const test::Setting check("MOXIE_CHECK", "bounds");
  check_everywhere(
      text, {{"N", 5}},
      {{"p", {1, 2, 3, 4, 5}}, {"q", {1, -1, 1, 1, 1}}, {"d", {4, 1, 2, 0, 2}}, {"cot.o", {3, 5, 7, 1, 9}}},
      {{"o", {3, 0, 6, 0, 0}}, {"grad.p", {0, 7, 3, 7, 0}}, {"grad.q", {0, 0, 0, 0, 0}}}, {"o"}, {"p", "q"});
}

TEST_CASE("the C++ form says the same") {
  Program p("embedding");
  const Dim S = p.dim("S", dynamic), V = p.dim("V"), N = p.dim("N");
  const Index s(S, "s"), n(N, "n");
  const Tensor x = p.input("x", {V, N});
  const Tensor idx = p.input("idx", {S}, ValueDomain::NonNegative, DType::i32);
  p.output("y", {s, n}, x(idx(s), n));
  Program text = parse(kEmbedding);
  CHECK(p.definitions[0].body == text.definitions[0].body);
  CHECK(p.inputs == text.inputs);
  CHECK_THROWS_WITH_AS(p.output("z", {s}, x(x(idx(s), 0), 0)), doctest::Contains("holds numbers of dtype f32"),
                       TypeError);
}

TEST_CASE("what is no integer is refused") {
  CHECK_THROWS_WITH_AS(parse("dim S\nindex s:S\ninput x[S], i[S]\noutput y[s] = x[i[s]]"),
                       doctest::Contains("`i` holds numbers of dtype f32; a subscript is an integer"), TypeError);
  CHECK_THROWS_WITH_AS(verify(parse("dim S\nindex s:S\ninput i[S]: i32 > 0.5\noutput y[s] = i[s]")),
                       doctest::Contains("the bound of integers is one"), TypeError);
  CHECK_THROWS_AS(parse("dtype i32\ninput x\noutput y = x"), TypeError);
  CHECK_THROWS_WITH_AS(make_host_tensor(DType::i32, {2}, Values{1, 2.5}), doctest::Contains("element 1 is 2.5"),
                       DataError);
  CHECK_THROWS_AS(make_host_tensor(DType::i32, {1}, Values{3e9}), DataError);
  CHECK_THROWS_WITH_AS(differentiate(parse(kEmbedding), {"y"}, {"idx"}), doctest::Contains("holds integers"),
                       TypeError);
  const auto device = test::test_device("interp");
  if (!device) return;
  Session session(parse(kEmbedding), {{"V", 5}, {"N", 3}}, device);
  CHECK_THROWS_WITH_AS(session.set("idx", make_host_tensor(DType::f32, {2}, Values{1, 0.5})),
                       doctest::Contains("input idx: element 1 is 0.5"), DataError);
  CHECK_THROWS_WITH_AS(session.set("idx", make_host_tensor(DType::f64, {2}, Values{1, -1})),
                       doctest::Contains("idx[1] = -1, but idx is declared >= 0"), DataError);
}
