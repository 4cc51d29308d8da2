// Sums over what an equation between indices selects.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"

using namespace moxie;

namespace {

int count_sums(const Expr& expr) {
  int sums = 0;
  visit(expr, [&](const Expr& e) { sums += e->kind == NodeKind::Reduce && e->reduce == ReduceKind::Sum ? 1 : 0; });
  return sums;
}

Expr body_after(const std::string& text) { return solve_conditions(parse(text)).definitions.back().body; }

std::string term(int coefficient, const char* index) {
  return coefficient == 0 ? "" : " + " + std::to_string(coefficient) + "*" + index;
}

/// An affine expression in the axis and the indices of the sum.
std::string random_affine(std::mt19937& random) {
  const auto coefficient = [&] { return static_cast<int>(random() % 5) - 2; };
  return std::to_string(static_cast<int>(random() % 9) - 4) + term(coefficient(), "i") + term(coefficient(), "p") +
         term(coefficient(), "q") + term(coefficient(), "u");
}

/// Three nested sums, some ranges with ends that outer indices move, of what one equation or two, and perhaps other
/// conditions, select.
std::string random_sum(std::mt19937& random) {
  const char* const second[] = {"q in 0..6", "q in p..p+4", "q in ceil((i-p)/2)..floor((i-p+1)/2)+1", "q in 0..p+1"};
  const char* const third[] = {"u in 0..5", "u in max(0,q-2)..4", "u in ceil((q-p)/3)..floor((q-p)/3)+1"};
  std::string condition = random_affine(random) + " == " + random_affine(random);
  if (random() % 2 == 0) condition += " and " + random_affine(random) + " >= " + random_affine(random);
  if (random() % 3 == 0) condition += " and " + random_affine(random) + " == 0";
  if (random() % 3 == 0) condition += " and x[i] > 0";
  const char* const inner = random() % 2 == 0 ? "1 + p + 7*q + 41*u" : "sin(p + 2*q)*x[i] + u";
  return "dtype f64\ndim N = 9\nindex i:N, p in 0..7\ninput x[N]\noutput y[i] = sum[p," +
         std::string(second[random() % 4]) + "," + third[random() % 3] + "](where(" + condition + ", " + inner +
         ", 0))\n";
}

}  // namespace

TEST_CASE("a sum over pairs of which one index gives the other is a sum over one") {
  CHECK(count_sums(body_after("dim N\nindex i:N, p:N, q in 0..2*N\ninput a[N], b[2*N]\n"
                              "output y[i] = sum[p,q](where(q == i + p, a[p]*b[q], 0))\n")) == 1);
  // A transposed convolution takes the elements that fit, not all of which some do.
  const Expr body = body_after(
      "index p in 0..4\ninput x[14], k[4]\noutput y[i in 0..28 of 28] = "
      "sum[p](where((i+1-p)%2 == 0 and i+1 >= p and i+1-p < 28, x[(i+1-p)/2]*k[p], 0))\n");
  CHECK(body == parse("input x[14], k[4]\noutput y[i in 0..28 of 28] = "
                      "sum[u in max(ceil((i-2)/2), 0)..min(floor((i+1)/2)+1, 14)](x[u]*k[i+1-2*u])\n")
                    .definitions[0]
                    .body);
}

TEST_CASE("what no index solves stays") {
  for (const char* sum : {"sum[p,q](where(2*p == 3*q + i, a[p]*a[q], 0))",    // no integer for each of the others
                          "sum[p,q](where(p == q or i == q, a[p]*a[q], 0))",  // either of them
                          "sum[p,q](where(a[p] == a[q], 1, 0))",              // values
                          "sum[p,q](where(p == q, a[p], 1))", "max[p](where(p == i, a[p], 0))"}) {
    const std::string text = "dim N\nindex i:N, p:N, q:N\ninput a[N]\noutput y[i] = " + std::string(sum) + "\n";
    CAPTURE(text);
    CHECK(solve_conditions(parse(text)) == parse(text));
  }
}

TEST_CASE("what an integer of a tensor selects is read") {
  const std::string head =
      "dim N, Z\nindex z:Z, i:N, j:N, r in 0..3, m in 0..16\n"
      "input row[Z]: i32 >= 0, col[Z]: i32, a[N], b[N,N], c[N,3], k[16]\n";
  const auto body = [&](const std::string& definition) { return body_after(head + definition + "\n"); };
  const auto written = [&](const std::string& definition) {
    return parse(head + definition + "\n").definitions[0].body;
  };
  CHECK(body("output y[z] = sum[i](where(row[z] == i, a[i], 0))") ==
        written("output y[z] = where(row[z] >= 0 and row[z] <= N-1, a[row[z]], 0)"));
  CHECK(count_sums(body("output y[z] = sum[i in 2..N](where(i == N-1-row[z] and a[i] > 0, i*a[i], 0))")) == 0);
  CHECK(count_sums(body("output y[z] = sum[i,j](where(row[z] == i and col[z] == j, b[i,j], 0))")) == 0);
  CHECK(count_sums(body("output y[r] = sum[z,i](where(row[z] == i, a[i]*c[i,r], 0))")) == 1);
  CHECK(count_sums(body("output y = sum[i,z](where(row[z] == i, a[i], 0))")) == 1);
  CHECK(count_sums(body("output y[z] = sum[i](where(row[z] == i, sum[j](b[i,j]*b[col[z],j]), 0))")) == 1);
  // The derivative of sums over the edges of a graph, by what they read at one end.
  CHECK(count_sums(body("output y[j] = sum[i,z](where(col[z] == j, where(row[z] == i, a[i], 0), 0))")) == 1);
  CHECK(count_sums(body("output y = sum[i,j](-sum[z](where(row[z] == i and col[z] == j, b[i,j], 0)))")) == 1);
  // Each as cheap as it is, but not all pairs of them.
  CHECK(count_sums(body("output y[z] = sum[m,r](where(row[z] == m and col[z] == r, k[m]*c[m,r], 0))")) == 0);
  CHECK(count_sums(body("output y[j] = sum[i](where(i > j, sum[z](where(row[z] == i, a[i], 0)), 0))")) == 1);
  // Of all pairs, few are in a range by data, and not in lanes.
  CHECK(count_sums(body("output y[i] = sum[z,m](where(row[z] <= i and i < col[z] and row[z] == m, k[m], 0))")) == 1);
}

TEST_CASE("sums over what an integer selects that stay") {
  const std::string head =
      "dim N, Z\nindex z:Z, i:N, j:N, m in 0..16\ninput row[Z]: i32 >= 0, at[N]: i32, a[N], b[N,N], k[16], s[Z]\n"
      "let triangle[i, j in 0..i+1 of N] = b[i,j]\nlet rank[z]: i32 = sum[i](where(a[i] > s[z], 1, 0))\n";
  for (const char* definition :
       {"y[i] = sum[z](where(row[z] == i, s[z], 0))",                      // no index of the sum is given
        "y[z] = sum[m](where(row[z] == m, k[m], 0))",                      // as cheap as it is
        "y[z] = sum[i](where(at[i] == i, a[i], 0))",                       // by what it gives
        "y[z] = sum[i](where(s[z] == i, a[i], 0))",                        // numbers need not be whole
        "y[z] = sum[i](where(2*i == row[z], a[i], 0))",                    // no integer for every element
        "y[z] = sum[i](where(row[z] == i, sum[j](b[i,j]), 0))",            // would be computed for every z
        "y[z] = sum[i](where(row[z] == i, triangle[N-1,i], 0))",           // an axis that is not read by value
        "y[z] = sum[i](where(rank[z] == i, a[i], 0))",                     // a count
        "y[z] = sum[i](where(z >= 1, where(row[z-1] == i, a[i], 0), 0))",  // read behind a condition alone
        "y[z] = sum[i](where(s[z] > 0, where(at[row[z]] == i, a[i], 0), 0))"}) {
    const std::string text = head + "output " + definition + "\n";
    CAPTURE(text);
    CHECK(solve_conditions(parse(text)) == parse(text));
  }
}

TEST_CASE("sums that read what an integer selects have the same values and derivatives") {
  const Program program = differentiate(
      parse("dtype f64\ndim N = 20, Z = 9\nindex z:Z, i:N, j:N\ninput row[Z]: i32, col[Z]: i32, a[N], b[N,N]\n"
            "output y[i] = sum[z](where(row[z] == i, a[col[z]]*sum[j](where(col[z] == j and a[j] > 0, b[j,i], 0)), "
            "0))\n"),
      {"y"}, {"a", "b"});
  const Program better = solve_conditions(program);
  verify(better);
  CHECK(better != program);
  std::mt19937 random(3);
  TensorValues inputs = {{"row", {0, 5, 19, 5, -1, 20, 7, 7, 3}}, {"col", {1, 1, 19, 0, 2, 3, 11, 11, 5}}};
  for (const auto& [name, size] : {std::pair{"a", 20}, {"b", 400}, {"cot.y", 20}}) {
    for (int k = 0; k < size; ++k) inputs[name].push_back(static_cast<double>(random() % 17) - 8);
  }
  CHECK(evaluate(better, {}, inputs) == evaluate(program, {}, inputs));
}

TEST_CASE("sums without the indices that equations give have the same values") {
  std::mt19937 random(1);
  int changed = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = random_sum(random);
    CAPTURE(text);
    const Program program = parse(text);
    const Program better = solve_conditions(program);
    verify(better);
    changed += better != program ? 1 : 0;
    const TensorValues inputs = {{"x", {0.5, -1, 2, 0.25, -3, 1, 4, -0.5, 1.5}}};
    const auto expected = evaluate(program, {}, inputs).at("y");
    const auto found = evaluate(better, {}, inputs).at("y");
    for (std::size_t k = 0; k < expected.size(); ++k) {
      CAPTURE(k);
      REQUIRE(found[k] == doctest::Approx(expected[k]).epsilon(1e-12));
    }
  }
  CHECK(changed > 1000);
}
