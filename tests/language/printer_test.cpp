#include <doctest/doctest.h>

#include <limits>

#include "compiler/program/program.h"
#include "tests/language/sample_programs.h"

using namespace moxie;

namespace {

/// A program of one definition over axes i, j (of N) with the given body.
Program around(const Expr& body) {
  Program program = parse("dim N\nindex i:N, j:N, k:N\ninput x[N]\noutput y[i,j] = 0\n");
  program.definitions[0].body = body;
  return program;
}

std::string body_text(const Expr& body) {
  const Program program = around(body);
  return print(body, program, program.definitions[0].axes);
}

void check_round_trip(const Program& program) {
  const std::string text = print(program);
  CAPTURE(text);
  const Program again = parse(text);
  CHECK(without_lines(again) == without_lines(program));
  CHECK(print(again) == text);
}

const Affine i = Symbol::axis(0);
const Affine j = Symbol::axis(1);
const Affine N = Symbol::dim("N");
Expr x(const Affine& subscript) { return tensor_access("x", {subscript}); }

}  // namespace

TEST_CASE("every sample program prints as text that reads back as itself") {
  for (const std::string_view text : kSamplePrograms) {
    const Program program = parse(text);
    check_round_trip(program);
    verify(program);
  }
}

TEST_CASE("a program prints line by line") {
  const Program program = parse(
      "dtype f64\ndim S dynamic, N=3\nindex s:S, k in 1..N\ninput x[S,N]: f32 > 0, b\nlet y[s]=x[s,0]-b\noutput y\n",
      "models/tiny.mox");
  CHECK(print(program) ==
        "# tiny\ndtype f64\ndim S dynamic, N = 3\nindex s:S, k in 1..N\ninput x[S,N]: f32 > 0, b\n"
        "output y[s] = x[s,0] - b\n");
}

TEST_CASE("long lists of declarations continue in further statements") {
  Program program;
  for (int k = 0; k < 40; ++k)
    program.inputs.push_back({"weight" + std::to_string(k), DType::f32, {}, ValueDomain::Any});
  check_round_trip(program);
  CHECK(print(program).find("\ninput ") != std::string::npos);
}

TEST_CASE("operators print with the fewest parentheses that keep the nodes") {
  const Expr a = x(i);
  const Expr b = x(j);
  CHECK(body_text(a - b + a) == "x[i] - x[j] + x[i]");
  CHECK(body_text(a - (b - a)) == "x[i] - (x[j] - x[i])");
  CHECK(body_text(call("+", {a, a + b})) == "x[i] + (x[i] + x[j])");
  CHECK(body_text(call("*", {call("*", {a, b}), a})) == "(x[i]*x[j])*x[i]");
  CHECK(body_text(a / b / a) == "x[i]/x[j]/x[i]");
  CHECK(body_text(a / (b * a)) == "x[i]/(x[j]*x[i])");
  CHECK(body_text(call("*", {a / b, a})) == "x[i]/x[j]*x[i]");
  CHECK(body_text(-(a * b)) == "-(x[i]*x[j])");
  CHECK(body_text((-a) * b) == "-x[i]*x[j]");
  CHECK(body_text(call("pow", {call("pow", {a, b}), Expr(2)})) == "(x[i]^x[j])^2");
  CHECK(body_text(call("pow", {a, call("pow", {b, Expr(-2)})})) == "x[i]^x[j]^(-2)");
  CHECK(body_text(-call("pow", {Expr(2), a})) == "-2^x[i]");
  CHECK(body_text(call("or", {call("and", {call("<", {a, b}), call("not", {call(">", {a, b})})}),
                              call("==", {a, 0})})) == "x[i] < x[j] and not x[i] > x[j] or x[i] == 0");
}

TEST_CASE("trees that text would fold or reassociate keep their shape") {
  const Expr vi = index_value(i);
  const Expr vj = index_value(j);
  const std::vector<Expr> bodies = {
      vi + vj,
      vi - vj,
      vi + Expr(3),
      Expr(3) + vi,
      vi * Expr(2),
      Expr(-2) * vi,
      vi * vj,
      -vi,
      -(-vi),
      -Expr(2),
      -Expr(-2),
      -index_value(i * 2),
      index_value(i * 2 - j + N - Affine(1)),
      index_value(-i),
      index_value(Affine(3) - i),
      Expr(1) + index_value(i * 2),
      x(i) - index_value(i * 2),
      x(i) * index_value(i * 2),
      index_value(i * 2) / Expr(3),
      call("pow", {vi, 2}),
      call("pow", {index_value(i + j), Expr(-1)}),
      call("+", {vi, -vi}),
      call("+", {-vi, Expr(1)}),
      call("*", {Expr(2), Expr(3)}) + vi,
      call("*", {Expr(2), Expr(3), vi}),
      call("*", {vi, Expr(-1)}),
      call("exp", {index_value(i + j)}),
      call("==", {index_value(i * 2 + j), Expr(3)}),
      call("<", {vi, index_value(N)}),
      Expr(1) / index_value(N),
      call("+", {Expr(1), call("+", {Expr(2), vi})}),
      call("+", {x(i), Expr(-2)}),
      call("+", {x(i), -Expr(-2)}),
      call("+", {x(i), -Expr(2)}),
  };
  for (const Expr& body : bodies) check_round_trip(around(body));
}

TEST_CASE("numbers print shortest and read back to the bit") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double value : {0.0, -0.0, 0.1, 1.0 / 3, 1e16, 1e300, 5e-324, -1.7976931348623157e308, 123456789.0, kInf,
                             -kInf, std::numeric_limits<double>::quiet_NaN()}) {
    check_round_trip(around(constant(value)));
    check_round_trip(around(x(i) - constant(value)));
  }
  CHECK(body_text(0.1) == "0.1");
  CHECK(body_text(3) == "3");
  // 0/0 has a sign on most processors, which means nothing.
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  CHECK(body_text(-kNan) == "nan");
  CHECK(constant(-kNan) == constant(kNan));
}

TEST_CASE("bound indices take declared names, else new ones that collide with nothing") {
  const Symbol u = Symbol::fresh();
  const Symbol v = Symbol::fresh();
  const Expr inner = reduce(ReduceKind::Max, v, Range::half_open(u, N), x(Affine(v)));
  CHECK(body_text(reduce(ReduceKind::Sum, u, Range::extent(N), inner)) == "sum[k](max[i1 in k..N](x[i1]))");
  const Expr twice =
      reduce(ReduceKind::Sum, u, Range::extent(N), reduce(ReduceKind::Sum, v, Range::extent(N), x(u) * x(v)));
  CHECK(body_text(twice) == "sum[k,i1 in 0..N](x[k]*x[i1])");
  check_round_trip(around(twice));
  Program program = around(twice);
  program.inputs.push_back({"i1", DType::f32, {}, ValueDomain::Any});
  CHECK(print(program).find("sum[k,i2 in 0..N]") != std::string::npos);
}

TEST_CASE("ranges with divided bounds round-trip") {
  const Symbol u = Symbol::fresh();
  const Range range{{{2, i - Affine(1)}, {1, 0}, {3, i * 2}}, {{2, i}, {1, N - Affine(1)}, {4, Affine(7)}}};
  const Expr body = reduce(ReduceKind::Sum, u, range, index_value(Affine(u)));
  CHECK(body_text(body) == "sum[i1 in max(ceil((i-1)/2), 0, ceil(2*i/3))..min(floor(i/2)+1, N, floor(7/4)+1)](i1)");
  check_round_trip(around(body));
}

TEST_CASE("linear algebra prints short where the element has the names around it, else with an explicit element") {
  const Symbol r = Symbol::fresh();
  const Symbol c = Symbol::fresh();
  const auto inverse = [&](const Expr& matrix, std::vector<Affine> element) {
    return linear_algebra(LinearAlgebraKind::Inverse, r, c, N, matrix, Expr(), std::move(element));
  };
  CHECK(body_text(inverse(x(r) * x(c), {i, j})) == "inverse[i,j](x[i]*x[j])");
  CHECK(body_text(inverse(x(r) * x(c), {j, j})) == "inverse[k,i1 in 0..N](x[k]*x[i1])[j,j]");
  CHECK(body_text(inverse(x(r) * x(i), {i, j})) == "inverse[k,i1 in 0..N](x[k]*x[i])[i,j]");
  const Expr solve = linear_algebra(LinearAlgebraKind::Solve, r, c, N, x(r) * x(c), x(r), {j});
  CHECK(body_text(solve) == "solve[k,j](x[k]*x[j], x[k])");
  const Expr solve_at = linear_algebra(LinearAlgebraKind::TriSolve, r, c, N, x(r) * x(c), x(r) * x(j), {j});
  CHECK(body_text(solve_at) == "tri_solve[k,i1 in 0..N](x[k]*x[i1], x[k]*x[j])[j]");
  for (const Expr& body : {inverse(x(r) * x(c), {j, i}), inverse(x(r) * x(c), {j, j}), inverse(x(r) * x(i), {i, j}),
                           solve, solve_at, inverse(inverse(x(r) * x(c), {r, c}), {i, j})}) {
    check_round_trip(around(body));
  }
}

TEST_CASE("random draws at all axes print without coordinates") {
  CHECK(body_text(random(RandomKind::Normal, 3, {i, j})) == "randn(3)");
  CHECK(body_text(random(RandomKind::Uniform, 3, {i, j + Affine(1)})) == "randu(3)[i,j+1]");
  for (const Expr& body :
       {random(RandomKind::Normal, 3, {i, j}), random(RandomKind::Normal, 3, {}), random(RandomKind::Normal, 0, {j})}) {
    check_round_trip(around(body));
  }
}

TEST_CASE("an axis whose storage its range does not tell prints it") {
  Program program = parse("dim N\ninput x[N]\noutput y[i in 0..N] = x[i]\n");
  program.definitions[0].axes[0].extent = N * 2;
  CHECK(print(program).find("y[i in 0..N of 2*N]") != std::string::npos);
  check_round_trip(program);
}
