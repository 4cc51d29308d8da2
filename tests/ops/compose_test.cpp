#include "compiler/program/compose.h"

#include <doctest/doctest.h>

#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"

namespace {

using namespace moxie;

Program surroundings() {
  return parse(
      "dim S dynamic, A = 2, B = 3\n"
      "index s:S, a:A\n"
      "input x[S,A], w[A,B], v[B,A]\n"
      "let y[s,a] = 2*x[s,a]\n");
}

Program affine_op() {
  return parse(
      "dim S dynamic, M, N\n"
      "index s:S, m:M, n:N\n"
      "input x[S,M], W[M,N]\n"
      "let scale = 1/M\n"
      "output h[s,n] = sum[m](x[s,m]*W[m,n])*scale\n",
      "affine.mox");
}

TEST_CASE("definitions are included under a prefix, with dims from the bound tensors") {
  Program program = surroundings();
  include(program, affine_op(), {"one.", {{"x", "y"}, {"W", "w"}}});
  include(program, affine_op(), {"two.", {{"x", "one.h"}, {"W", "v"}}, {}, {{"h", "result"}}});
  CHECK_NOTHROW(verify(program));
  CHECK(program.find_definition("one.scale") != nullptr);
  CHECK_FALSE(program.find_definition("one.h")->output);
  CHECK(program.find_definition("result")->output);
  CHECK(program.shape_of("one.h") == std::vector<Affine>{Symbol::dim("S"), Symbol::dim("B")});
  CHECK(parse(print(program)).definitions.size() == program.definitions.size());

  const TensorValues values =
      evaluate(program, {{"S", 1}}, {{"x", {1, 2}}, {"w", {1, 0, 1, 0, 1, 1}}, {"v", {1, 0, 0, 1, 1, 1}}});
  CHECK(values.at("one.h") == std::vector<double>{1, 2, 3});
  CHECK(values.at("result")[0] == doctest::Approx(4.0 / 3));
  CHECK(values.at("result")[1] == doctest::Approx(5.0 / 3));
}

TEST_CASE("a dim that no input shows is bound by name") {
  const Program op = parse("dim K\nindex k:K\noutput ones[k] = 1\n", "ones.mox");
  Program program = surroundings();
  CHECK_THROWS_WITH_AS(include(program, op, {"p.", {}}), doctest::Contains("no input shows its dim 'K'"), ShapeError);
  include(program, op, {"p.", {}, {{"K", Symbol::dim("B")}}});
  CHECK(program.shape_of("p.ones") == std::vector<Affine>{Symbol::dim("B")});
}

TEST_CASE("a dim that indices are divided by keeps its value") {
  const Program divides = parse("dim K = 2, N = 4\nindex n:N\ninput x[N]\noutput y[n] = x[n/K]\n", "half.mox");
  const Program grows = parse("dim K = 2\nindex k:K\noutput ones[k] = 1\n", "ones.mox");
  Program program = surroundings();
  CHECK_THROWS_WITH_AS(include(program, divides, {"p.", {{"x", "y"}}, {{"K", 3}}}),
                       doctest::Contains("K is 2 and cannot be bound to 3"), ShapeError);
  CHECK_NOTHROW(include(program, grows, {"q.", {}, {{"K", 3}}}));
}

TEST_CASE("a definition can be bound as an input is, and what only it needed is left out") {
  const Program op = parse(
      "dim S dynamic, M, N\n"
      "index s:S, m:M, n:N\n"
      "input x[S,M], W[M,N], b[N]\n"
      "let a[s,n] = sum[m](x[s,m]*W[m,n])\n"
      "let size = sum[n](b[n]^2)\n"
      "output h[s,n] = a[s,n] + size\n",
      "affine.mox");
  Program program = parse("dim S dynamic, A = 2\nindex s:S, a:A\ninput x[S,A], b[A]\nlet y[s,a] = 2*x[s,a]\n");
  include(program, op, {"p.", {{"a", "y"}, {"b", "b"}}, {}, {{"h", "result"}}});
  CHECK_NOTHROW(verify(program));
  CHECK(program.find_definition("p.a") == nullptr);
  CHECK(evaluate(program, {{"S", 1}}, {{"x", {1, 2}}, {"b", {1, 1}}}).at("result") == std::vector<double>{4, 6});
  CHECK_THROWS_WITH_AS(include(program, op, {"q.", {{"a", "y"}, {"size", "y"}}}),
                       doctest::Contains("input 'size' of 'affine' has shape []"), ShapeError);
}

TEST_CASE("a declared domain stays with its definition") {
  Program program = surroundings();
  const Program op = parse(
      "dim S dynamic, M\nindex s:S, m:M\ninput x[S,M]\nlet v[s,m] >= 0 = x[s,m]^2\n"
      "output r[s,m] > 0 = 1 + v[s,m]\n",
      "op.mox");
  include(program, op, {"one.", {{"x", "y"}}});
  CHECK(program.domain_of("one.v") == ValueDomain::NonNegative);
  CHECK(program.domain_of("one.r") == ValueDomain::Positive);
}

TEST_CASE("random streams of included operations differ") {
  const Program op = parse("dim S dynamic\nindex s:S\noutput noise[s] = randn(0) + randn(1)\n", "noise.mox");
  Program program = surroundings();
  include(program, op, {"p.", {}, {{"S", Symbol::dim("S")}}});
  include(program, op, {"q.", {}, {{"S", Symbol::dim("S")}}});
  CHECK_FALSE(program.find_definition("p.noise")->body == program.find_definition("q.noise")->body);
  CHECK(program.find_definition("q.noise")->body->args[0]->stream == 2);
}

TEST_CASE("what cannot be included is refused with the reason") {
  Program program = surroundings();
  const auto refuses = [&](const Inclusion& how, const char* reason) {
    CAPTURE(reason);
    CHECK_THROWS_WITH_AS(include(program, affine_op(), how), doctest::Contains(reason), Error);
    CHECK(program == surroundings());
  };
  refuses({"p.", {{"x", "y"}}}, "its input 'W' is not bound to a tensor");
  refuses({"p.", {{"x", "y"}, {"W", "nothing"}}}, "has no tensor 'nothing'");
  refuses({"p.", {{"x", "y"}, {"W", "v"}}}, "[M,N], here [A,A], but tensor 'v' that is bound to it has [B,A]");
  refuses({"p.", {{"x", "y"}, {"W", "w"}, {"Z", "w"}}}, "has no input 'Z'");
  refuses({"p.", {{"x", "y"}, {"W", "w"}}, {{"K", 2}}}, "has no dim 'K'");
  refuses({"p.", {{"x", "y"}, {"W", "w"}}, {}, {{"z", "z"}}}, "defines no 'z'");
  refuses({"p.", {{"x", "y"}, {"W", "w"}}, {}, {{"h", "y"}}}, "'y' exists already");
}

}  // namespace
