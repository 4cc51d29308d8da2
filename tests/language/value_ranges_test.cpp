// Interval analysis: what is proved, and that what the function table says of ranges and growth is true.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "compiler/analysis/finite_values.h"
#include "compiler/analysis/value_ranges.h"
#include "compiler/expression/functions.h"
#include "compiler/program/program.h"

using namespace moxie;

namespace {

/// Whether the ranges are the same but for the room that roundings take.
bool is_close(const Interval& a, const Interval& b) {
  const auto near = [](double x, double y) { return x == y || std::abs(x - y) <= 1e-3 * std::abs(y); };
  return near(a.low, b.low) && near(a.high, b.high) && is_positive(a) == is_positive(b) &&
         is_negative(a) == is_negative(b);
}

Interval below(double high) { return {-Interval::kInf, high, false, true}; }

/// Arguments of every size inside the interval.
std::vector<double> samples(const Interval& domain) {
  std::vector<double> result;
  for (const double size : {1e-10, 1e-3, 0.2, 0.5, 0.9, 0.999, 1.0, 1.5, 2.0, 7.0, 40.0, 87.0, 300.0, 1e6}) {
    for (const double x : {size, -size}) {
      if (contains(domain, x)) result.push_back(x);
    }
  }
  std::ranges::sort(result);
  return result;
}

}  // namespace

TEST_CASE("ranges are proved from what is declared, of inputs and of definitions") {
  const Program program = parse(R"(dim T, N
index t:T, n:N
input a, b > 0, c < 0, m[N,N], p >= 0 and <= 1, byte: u8
let free = a
let promised >= 0 = a
let strict > 0 = a
let below < -2 = a
let half > -1 = a
let proved >= 0 = exp(a)
let diagonal[n] >= 0 = m[n,n]
let rounded: i32 = sqrt(a)
scan t {
  let h[t] > 0 = where(t == 0, a, h[t-1] + a)
}
output y = a
)");
  const auto check = [&](const std::string& text, const Interval& expected) {
    const Program with_body = parse(print(program) + "output z[n] = " + text + "\n");
    const Interval range = range_of(with_body.definitions.back().body, with_body);
    INFO(text, ": from ", range.low, " to ", range.high);
    CHECK(is_close(range, expected));
  };
  check("free", Interval::all());
  check("promised", Interval::at_least(0));
  check("strict", Interval::above(0));
  check("below", below(-2));
  check("half", Interval::at_least(-1));
  check("proved", Interval::above(0));
  check("b + promised", Interval::above(0));
  check("c*strict", below(0));
  check("c*c", Interval::above(0));
  check("diagonal[n]", Interval::at_least(0));
  check("h[0]", Interval::above(0));
  check("n*1.0 + N", Interval::at_least(0));
  check("n + 1", Interval::at_least(1));
  check("n - 1", Interval::at_least(-1));
  check("byte/255", Interval::between(0, 1));
  check("rounded", Interval::between(-2147483648.0, 2147483647));  // NaN is stored as the smallest
  check("where(a > 0, strict, promised)", Interval::at_least(0));
  check("where(a > 0, strict, c)", Interval::all());
  // A range through arithmetic
  check("1 - p", Interval::between(0, 1));
  check("p*(1 - p)", Interval::between(0, 1));
  check("2*p - 1", Interval::between(-1, 1));
  check("1/(1 + p)", Interval::between(0.5, 1));
  check("1/b", Interval::above(0));
  check("1/p", Interval::at_least(1));
  check("1/(2*p - 1)", Interval::all());
  check("a/0", Interval::all());
  check("min(a, 3) - max(a, -2)", Interval{-Interval::kInf, 5});
  check("max(min(a, 3), -2)", Interval::between(-2, 3));
  check("abs(max(min(a, 3), -2))", Interval::between(0, 3));
  check("(p - 3)^2", Interval::between(4, 9));
  check("(p - 3)^3", Interval::between(-27, -8));
  check("(p + 1)^-2", Interval::between(0.25, 1));
  check("a^-2", Interval::above(0));
  check("p^0.5", Interval::between(0, 1));
  check("b^a", Interval::above(0));
  // Through functions
  check("exp(c)", Interval{0, 1, true});
  check("log(1 + p)", Interval::between(0, std::log(2)));
  check("sqrt(1 - tanh(a)^2)", Interval::between(0, 1));
  check("acos(2*p - 1)", Interval::between(0, 3.1416));
  check("floor(p)", Interval::between(0, 1));
  check("sigmoid(p)", Interval::between(0.5, 0.7311));
  check("rsqrt(4 + p)", Interval::between(0.4472, 0.5));
  // Through reductions
  check("sum[j in 0..8](p)", Interval::between(0, 8));
  check("sum[j in 0..N](p)", Interval::at_least(0));
  check("max[j in 0..4](m[0,0]*0 + p)", Interval::between(0, 1));  // or NaN
  check("max[j in 0..4](p + j*0.0)", Interval::between(0, 1));
  check("prod[j in 0..N](p + j*0.0)", Interval::at_least(0));
}

TEST_CASE("a branch has the range that its condition shows") {
  const auto check = [](const std::string& text, const Interval& expected) {
    const Program program = parse("input a, b, c < 0\noutput y = " + text + "\n");
    const Interval range = range_of(program.definitions.back().body, program);
    INFO(text, ": from ", range.low, " to ", range.high);
    CHECK(is_close(range, expected));
  };
  check("where(a <= 0.1, 1, a)", Interval::at_least(0.1));
  check("where(0.1 < a, a, 1)", Interval::at_least(0.1));
  check("where(a >= 0, a, 1)", Interval::at_least(0));
  check("where(a > 0, a, 1)", Interval::above(0));
  check("where(0 > a, 1, a)", Interval::at_least(0));
  check("where(a < c, a, c)", below(0));
  check("where(a >= c, -1, a)", below(0));
  check("where(a <= 0.1, a, 1)", Interval::at_most(1));
  check("where(a > -0.1, a, 1)", Interval::at_least(-0.1));
  check("where(a > b, a, 1)", Interval::all());
}

TEST_CASE("the table is right about the values of its functions, where they grow and where they are finite") {
  for (const ScalarFunction& row : scalar_functions()) {
    if (row.arity != 1) continue;
    INFO(row.name);
    double before = std::nan("");
    for (const double x : samples(row.domain)) {
      const double y = row.reference(std::array{x});
      INFO("at ", x);
      CHECK((contains(row.values, y) || (y == 0 && row.values.low == 0)));  // a value may vanish
      if (row.growth == Growth::Rises || row.growth == Growth::RisesInSteps) CHECK_FALSE(y < before);
      if (row.growth == Growth::Falls) CHECK_FALSE(y > before);
      before = y;
    }
    for (const double x : samples(row.finite.value_or(row.domain)))
      CHECK(std::isfinite(static_cast<float>(row.reference(std::array{x}))));
  }
}

TEST_CASE("numbers computed in f32 lie in the intervals that arithmetic gives") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> number(-3, 3);
  const auto interval = [&] {
    const float a = number(random), b = number(random);
    return Interval::between(std::min(a, b), std::max(a, b));
  };
  for (int k = 0; k < 2000; ++k) {
    const Interval a = interval(), b = interval();
    std::uniform_real_distribution<float> in_a(a.low, a.high), in_b(b.low, b.high);
    const float x = in_a(random), y = in_b(random);
    CHECK(contains(a + b, x + y));
    CHECK(contains(a * b, x * y));
    CHECK(contains(-a, -x));
    CHECK(contains(smaller(a, b), std::min(x, y)));
    CHECK(contains(larger(a, b), std::max(x, y)));
    CHECK(contains(reciprocal(a), 1 / x));
    CHECK(contains(hull(a, b), x));
    if (contains(b, x)) CHECK(contains(common(a, b), x));
  }
  CHECK(common(Interval::between(0, 1), Interval::between(2, 3)) == Interval::between(0, 1));
  CHECK_FALSE(lies_within(Interval::between(0, 1), Interval::between(2, 3)));
  CHECK_FALSE(lies_within(Interval::between(0, 1), Interval::open(0, 1)));
  CHECK(lies_within(Interval::open(0, 1), Interval::between(0, 1)));
}

TEST_CASE("ranges show which values are finite") {
  const auto is_finite_number = [](const std::string& text) {
    const Program program = parse("input a, p >= 0 and <= 1, r > -1 and < 1, k: i32\noutput y = " + text + "\n");
    return FiniteValues(program).holds(program.definitions.back().body);
  };
  CHECK(is_finite_number("sqrt(1 - p^2)"));
  CHECK(is_finite_number("log(1.5 - p)"));
  CHECK(is_finite_number("exp(40*p)"));
  CHECK(is_finite_number("1/(2 - p)"));
  CHECK(is_finite_number("acos(r)"));
  CHECK(is_finite_number("k*2.0"));
  CHECK(is_finite_number("(p - 2)^2"));
  CHECK_FALSE(is_finite_number("sqrt(0.5 - p)"));
  CHECK_FALSE(is_finite_number("log(1 - p)"));
  CHECK_FALSE(is_finite_number("exp(90*p)"));
  CHECK_FALSE(is_finite_number("1/(1 - p)"));
  CHECK_FALSE(is_finite_number("erfinv(p)"));
  CHECK_FALSE(is_finite_number("tanh(a)"));
}
