#include <doctest/doctest.h>

#include <random>
#include <string>

#include "compiler/program/program.h"
#include "compiler/support/error.h"
#include "tests/language/sample_programs.h"

using namespace moxie;

namespace {

const std::string kHead = "dim S, N\nindex s:S, n:N, m:N, k in 1..3\ninput x[S,N], mu[N], w\n";

Expr body_of(const std::string& expression) {
  return parse(kHead + "let y[s,n] = " + expression + "\n").definitions[0].body;
}

template <class E>
void check_fails(const std::string& text, const std::vector<std::string>& fragments) {
  CAPTURE(text);
  std::string message;
  try {
    parse(text, "test.mox");
  } catch (const E& error) {
    message = error.what();
  }
  for (const std::string& fragment : fragments) {
    CAPTURE(fragment);
    CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
  }
}

template <class E>
void check_body_fails(const std::string& expression, const std::vector<std::string>& fragments) {
  check_fails<E>(kHead + "let y[s,n] = " + expression + "\n", fragments);
}

const Affine s = Symbol::axis(0);
const Affine n = Symbol::axis(1);

}  // namespace

TEST_CASE("declarations") {
  const Program program = parse(
      "dtype f64\ndim S dynamic, N, R = 14\nindex s:S, k in 0..3, j:2*N+1\ninput a[S,2*N-1]: f32 >= 0, b > 0, c, n < "
      "0, alpha[N] > -1\n"
      "let d[s]: f32 = 1\noutput d\noutput e[s, t in s..R] = 2\n",
      "dir/model.mox");
  CHECK(program.name == "model");
  CHECK(program.default_dtype == DType::f64);
  CHECK(program.dims == std::vector<DimDecl>{{"S", std::nullopt, true}, {"N", std::nullopt, false}, {"R", 14, false}});
  const Affine N = Symbol::dim("N");
  CHECK(program.indices[1] == IndexDecl{"k", Range::extent(3)});
  CHECK(program.indices[2] == IndexDecl{"j", Range::extent(N * 2 + Affine(1))});
  CHECK(program.inputs[0] ==
        InputDecl{"a", DType::f32, {Symbol::dim("S"), N * 2 - Affine(1)}, ValueDomain::NonNegative});
  CHECK(program.inputs[1] == InputDecl{"b", DType::f64, {}, ValueDomain::Positive});
  CHECK(program.inputs[2].domain == ValueDomain::Any);
  CHECK(program.inputs[3].domain == ValueDomain::Negative);
  CHECK(program.inputs[4].domain == ValueDomain::above(-1));
  CHECK(program.definitions[0].output);
  CHECK(program.definitions[0].line == 5);
  CHECK(program.definitions[0].dtype == DType::f32);
  const AxisDecl triangular{"t", Symbol::dim("R"), Range::half_open(s, Symbol::dim("R"))};
  CHECK(program.definitions[1].axes[1] == triangular);
}

TEST_CASE("domains of definitions") {
  const Program program = parse(
      "dim T\nindex t:T\ninput x[T]\nlet v[t]: f64 >= 0 = x[t]^2\noutput y > -0.5 = sum[t](v[t])\n"
      "let w[t] = x[t]\nscan t {\n  recompute p[t] < 1e-3 = where(t == 0, 0, h[t-1])\n"
      "  output h[t] > 0 = exp(p[t])\n}\n");
  CHECK(program.domain_of("v") == ValueDomain::NonNegative);
  CHECK(program.dtype_of("v") == DType::f64);
  CHECK(program.domain_of("y") == ValueDomain::above(-0.5));
  CHECK(program.domain_of("w") == ValueDomain::Any);
  CHECK(program.domain_of("p") == ValueDomain::below(1e-3));
  CHECK(program.domain_of("h") == ValueDomain::Positive);
  CHECK_THROWS_AS(program.domain_of("z"), TypeError);
}

TEST_CASE("domains with two bounds") {
  const std::string text = "input p >= 0 and <= 1, rho > -1 and < 1, k: u8 <= 9 and > 2, q <= 0\noutput y = p\n";
  const Program program = parse(text);
  CHECK(program.domain_of("p") == ValueDomain::between(0, 1));
  CHECK(program.domain_of("rho") == ValueDomain{ValueDomain::Bound{-1, true}, ValueDomain::Bound{1, true}});
  CHECK(program.domain_of("k") == ValueDomain{ValueDomain::Bound{2, true}, ValueDomain::Bound{9}});
  CHECK(program.domain_of("q") == ValueDomain{{}, ValueDomain::Bound{0}});
  CHECK(parse(print(program)) == program);
  const auto fails = [](const std::string& domain, const char* message) {
    CHECK_THROWS_WITH_AS(verify(parse("input p " + domain + "\noutput y = p\n")), doctest::Contains(message), Error);
  };
  fails(">= 0 and > 1", "a domain has one bound below and one above");
  fails(">= 0 and 1", "the other bound");
  fails(">= 0 and < 1 and < 2", "a domain has two bounds at most");
  fails("> 1 and < 1", "`p` is declared > 1 and < 1, but no number is both");
  fails(">= 2 and < 1", "no number is both");
  CHECK_NOTHROW(verify(parse("input p >= 1 and <= 1\noutput y = p\n")));
}

TEST_CASE("chains are one call, groups stay nested") {
  const Expr a = tensor_access("mu", {n});
  const Expr b = tensor_access("w", {});
  CHECK(body_of("mu[n] + w - mu[n]") == call("+", {a, b, -a}));
  CHECK(body_of("mu[n] + (w - mu[n])") == call("+", {a, call("+", {b, -a})}));
  CHECK(body_of("mu[n]*w*2") == call("*", {a, b, 2}));
  CHECK(body_of("mu[n]*w/2*w") == call("*", {call("/", {call("*", {a, b}), 2}), b}));
  CHECK(body_of("-w^2") == -call("pow", {b, 2}));
  CHECK(body_of("-2^2") == -call("pow", {2, 2}));
  CHECK(body_of("w^w^2") == call("pow", {b, call("pow", {b, 2})}));
  CHECK(body_of("w^-2") == call("pow", {b, Expr(-2)}));
  CHECK(body_of("where(w < 1 and w > 0 and w != 2, 1, 0)") ==
        call("where", {call("and", {call("<", {b, 1}), call(">", {b, 0}), call("!=", {b, 2})}), 1, 0}));
}

TEST_CASE("combinations of indices and integers are one number") {
  CHECK(body_of("2*s+n-1") == index_value(s * 2 + n - Affine(1)));
  CHECK(body_of("-s") == index_value(-s));
  CHECK(body_of("1/S") == call("/", {1, index_value(Symbol::dim("S"))}));
  CHECK(body_of("(s) + 1") == call("+", {index_value(s), 1}));
  CHECK(body_of("2*s*w") == call("*", {2, index_value(s), tensor_access("w", {})}));
  CHECK(body_of("s*n") == call("*", {index_value(s), index_value(n)}));
  CHECK(body_of("2*3") == call("*", {2, 3}));
}

TEST_CASE("reductions bind, subscripts are affine, ranges are half open") {
  const Symbol m = Symbol::fresh();
  const Affine N = Symbol::dim("N");
  CHECK(body_of("sum[m](mu[m])") == reduce(ReduceKind::Sum, m, Range::extent(N), tensor_access("mu", {m})));
  CHECK(body_of("max[q in n..N](mu[N-1-q])") ==
        reduce(ReduceKind::Max, m, Range::half_open(n, N), tensor_access("mu", {N - Affine(1) - m})));
  const Range range{{{1, n}, {2, s}}, {{3, s - Affine(3)}, {1, N - Affine(1)}}};
  CHECK(body_of("prod[q in max(n, ceil(s/2))..min(floor(s/3), N)](q)") ==
        reduce(ReduceKind::Product, m, range, index_value(m)));
  const Range rounded{{{3, s - Affine(2)}}, {{3, s + Affine(2)}}};  // from floor(s/3) on, below ceil(s/3)+1
  CHECK(body_of("prod[q in floor(s/3)..ceil(s/3)+1](q)") == reduce(ReduceKind::Product, m, rounded, index_value(m)));
  CHECK(body_of("x[s,2*(n+1)-3*n]") == tensor_access("x", {s, Affine(2) - n}));
  CHECK(body_of("randn(3)") == random(RandomKind::Normal, 3, {s, n}));
}

TEST_CASE("dims with a value in the text multiply others as the integer does") {
  const std::string body = "sum[d](x[P*i+p,d])*w[B-1]\n";
  const std::string rest = "index i:B, p:P, d:D, q in 0..P*B\ninput x[P*B,D], w[B]\n";
  const Program named =
      parse("dim B, P = 4, D\n" + rest + "output y[q in 0..B*P of B*P] = x[q,0]\noutput z[i,p] = " + body);
  CHECK(named.shape_of("x")[0] == Affine(Symbol::dim("B")) * 4);
  CHECK(parse(print(named)) == named);
  CHECK_THROWS_WITH_AS(parse("dim B, P, D\ninput x[P*B,D]\noutput y = x[0,0]\n"),
                       doctest::Contains("or a dim that has a value in the text: dim P = 4"), TypeError);
  CHECK_THROWS_AS(parse("dim B, P dynamic = 4, D\ninput x[P*B,D]\noutput y = x[0,0]\n"), Error);
}

TEST_CASE("dims with a value in the text multiply indices in guards as they do in subscripts") {
  const std::string dilated = "dim T, P = 4\nindex t:T, p:3\ninput x[T]\noutput y[t] = ";
  const Program named = parse(dilated + "sum[p](where(t - P*p >= 0, x[t-P*p], 0))\n");
  CHECK(named == parse(dilated + "sum[p](where(t - 4*p >= 0, x[t-4*p], 0))\n"));
  CHECK(parse(dilated + "x[t]*P*P\n").definitions[0].body->kind == NodeKind::Call);
  CHECK_THROWS_AS(parse("dim T, P\nindex t:T\ninput x[T]\noutput y[t] = where(P*t < T, x[P*t], 0)\n"), TypeError);
}

TEST_CASE("positions of extrema are over one index") {
  const Symbol m = Symbol::fresh();
  const Affine N = Symbol::dim("N");
  const Expr value = tensor_access("mu", {m});
  CHECK(body_of("argmax[m](mu[m])") == reduce(ReduceKind::ArgMax, m, Range::extent(N), value));
  CHECK(body_of("argmin[m](mu[m], m)") == body_of("argmin[m](mu[m])"));
  CHECK(body_of("argmin[m](mu[m], 2*m+n)") ==
        reduce(ReduceKind::ArgMin, m, Range::extent(N), value, index_value(Affine(m) * 2 + n)));
  check_body_fails<TypeError>("argmax[m, q in 0..3](mu[m])", {"`argmax` is over one index, but 2 stand here"});
  check_body_fails<ParseError>("max[m](mu[m], m)", {"`)` expected"});
  check_body_fails<ParseError>("argmin(w)", {"`argmin` needs its index"});
}

TEST_CASE("linear algebra takes its element from the indices around it or from a suffix") {
  const Symbol r = Symbol::fresh();
  const Symbol c = Symbol::fresh();
  const Affine N = Symbol::dim("N");
  const Expr matrix = tensor_access("mu", {r}) * tensor_access("mu", {c});
  const Symbol m = Symbol::fresh();
  CHECK(body_of("sum[m](cholesky[n,m](mu[n]*mu[m]))") ==
        reduce(ReduceKind::Sum, m, Range::extent(N),
               linear_algebra(LinearAlgebraKind::Cholesky, r, c, N, matrix, Expr(), {n, m})));
  CHECK(body_of("inverse[m,q in 0..N](mu[m]*mu[q])[n,n+1]") ==
        linear_algebra(LinearAlgebraKind::Inverse, r, c, N, matrix, Expr(), {n, n + Affine(1)}));
  CHECK(body_of("solve[m,n](mu[m]*mu[n], mu[m])") ==
        linear_algebra(LinearAlgebraKind::Solve, r, c, N, matrix, tensor_access("mu", {r}), {n}));
  CHECK(body_of("logdet[m,q in 0..N](mu[m]*mu[q])") ==
        linear_algebra(LinearAlgebraKind::LogDet, r, c, N, matrix, Expr(), {}));
}

TEST_CASE("what other languages call something is said in this one's words") {
  check_body_fails<TypeError>("dot(x[s,:], mu)", {"there is no function `dot`", "sum[n](x[s,n]*w[n])"});
  check_body_fails<TypeError>("std[m](x[s,m])", {"`std` is not declared", "sqrt(variance[n](x[s,n]))"});
  check_body_fails<ParseError>("mean(x[s,:])", {"`mean` needs its index", "mean[index](...)"});
  check_body_fails<ParseError>("x[s,n] if w > 0 else 0", {"found `if`", "where(condition, a, b)"});
  check_body_fails<ParseError>("if (w > 0) x[s,n]", {"there is no `if`", "where(condition, a, b)"});
  check_body_fails<ParseError>("x[s,n] @ mu", {"unexpected character `@`", "sum[n](x[s,n]*w[n])"});
  check_body_fails<TypeError>("sum[m,mu[s]](x[s,m])", {"an index is wanted here", "x[s,mu[..]]"});
  check_body_fails<TypeError>("xyzzy(w)", {"the functions are where exp"});
}

TEST_CASE("a message shows place, line, caret and hint") {
  std::string message;
  try {
    parse("dim N\nindex n:N\ninput lambda[N]\nlet y[n] = 2*lamda[n]\n", "f.mox");
  } catch (const TypeError& error) {
    message = error.what();
  }
  CHECK(message ==
        "f.mox:4:14: `lamda` is not declared\n  let y[n] = 2*lamda[n]\n               ^\n  did you mean `lambda`?");
}

TEST_CASE("malformed text") {
  check_fails<ParseError>("lot y = 1", {"test.mox:1:1", "a statement expected, but found `lot`", "did you mean `let`"});
  check_fails<ParseError>("dim", {"1:4", "the name of a dim expected, but found the end of the line"});
  check_fails<ParseError>("dim N M", {"the end of the statement expected, but found `M`"});
  check_fails<ParseError>("dim N = 99999999999999999999", {"does not fit 64 bits"});
  check_fails<ParseError>("dim N = -1", {"the number of elements expected, but found `-`"});
  check_fails<ParseError>("dim N\ndtype f64", {"2:7", "must be the first statement"});
  check_fails<ParseError>("dtype f128", {"`f16` or `bf16` expected, but found `f128`"});
  check_fails<ParseError>("index n", {"`:` or `in` expected", "n:N or n in 0..N"});
  check_fails<ParseError>("input x > inf", {"this is no number", "> 0"});
  check_fails<ParseError>("dim N\ninput x >= N", {"this is no number", ">= 0"});
  check_fails<ParseError>("input x\nlet y >= x = 1", {"this is no number", ">= 0"});
  check_fails<ParseError>("let y", {"`=` expected", "let y[i,j] = expression"});
  check_fails<ParseError>("output y", {"`=` expected"});
  check_fails<ParseError>("let y = (1 + 2\nlet z = 3", {"1:9", "this `(` is never closed"});
  check_fails<ParseError>("let y = 1)", {"1:10", "this `)` closes nothing"});
  check_fails<ParseError>("let y = (1]", {"`]` where `)` was expected"});
  check_fails<ParseError>("let y = {1}", {"braces have no meaning"});
  check_fails<ParseError>("let y = 3x", {"1:10", "a number runs into a name", "2*x"});
  check_fails<ParseError>("let y = 1e", {"no digits in its exponent"});
  check_fails<ParseError>("let y = 1e999", {"does not fit double precision"});
  check_fails<ParseError>("let y = 1 && 2", {"unexpected character `&`", "write `and`"});
  check_fails<ParseError>(std::string("let y = 1\0 + 2", 14), {"unexpected character byte 0x00"});
  check_fails<ParseError>("let y = \u00e9", {"unexpected character `\u00e9`"});
  check_fails<ParseError>("let y = \xc3", {"unexpected character byte 0xc3"});
  check_fails<ParseError>("let y = 1 \u2212 2",
                          {"1:11", "\n  let y = 1 \u2212 2\n            ^", "the minus of a keyboard"});
  check_fails<ParseError>("let y = 1 \u2264 2", {"unexpected character `\u2264`", "write `<=`"});
  check_fails<ParseError>("let y = 1_000", {"numbers are written without `_`"});
  check_fails<ParseError>("input n\nlet y = where(n = 2, 1, 0)",
                          {"2:17", "but found `=`", "a comparison is written `==`"});
  check_fails<ParseError>("// a note\nlet y = 1", {"1:1", "a comment starts with `#`"});
  check_fails<ParseError>("let y = 1\n  + 2", {"2:3", "inside brackets, a statement goes on in the next line"});
  check_fails<TypeError>("let y = where(true, 1, 0)", {"`true` is not declared", "conditions are comparisons"});
  check_fails<TypeError>("let y = 2*PI", {"`PI` is not declared", "write pi"});
  check_fails<ParseError>("let y = 1 < 2 < 3", {"1:15", "comparisons do not chain", "a < b and b < c"});
  check_fails<ParseError>("let y = ", {"an expression expected, but found the end of the line"});
  check_fails<ParseError>("let y = 2 + * 3", {"an expression expected, but found `*`"});
  check_fails<ParseError>("let y = sum(1)", {"`sum` needs its index", "sum[index](...)"});
  check_fails<ParseError>("let y = exp + 1", {"`exp` is a word of the language", "exp(x)"});
  check_fails<ParseError>("index k in 0", {"`..` expected"});
  check_fails<ParseError>("index k in 0..floor(3/0)", {"divisor of a bound must be positive"});
  check_fails<ParseError>("dim N\nindex k in 0..9223372036854775807*9223372036854775807",
                          {"test.mox:2:", "overflows 64 bits"});
  check_fails<ParseError>("let y = randn(x)", {"the number of a random stream expected"});
}

TEST_CASE("deep nesting is an error, not a crash") {
  const std::string many(100000, '(');
  check_fails<ParseError>("let y = " + many + "1" + std::string(100000, ')'), {"nests more than 200 levels deep"});
  std::string quotients = "let y = 1";
  std::string minuses = "let y = ";
  std::string powers = "let y = 1";
  std::string negations = "let y = where(";
  for (int k = 0; k < 100000; ++k) {
    quotients += "/2";
    minuses += "- ";
    powers += "^2";
    negations += "not ";
  }
  for (const std::string& text : {quotients, minuses + "1", powers, negations + "1<2,1,0)",
                                  "index k in 0.." + many + "1" + std::string(100000, ')')}) {
    CHECK_THROWS_AS(parse(text), ParseError);
  }
  std::string sum = "let y = 1";
  for (int k = 0; k < 10000; ++k) sum += " + 2";
  CHECK(parse(sum).definitions[0].body->args.size() == 10001);
}

TEST_CASE("names that mean something else, or nothing") {
  check_fails<TypeError>("dim N, N", {"`N` cannot name a dim: it is already a dim", "one name names one thing"});
  check_fails<TypeError>("dim N\ninput N", {"`N` cannot name an input: it is already a dim"});
  check_fails<TypeError>("let exp = 1", {"`exp` cannot name a definition: it is already a word of the language"});
  check_fails<TypeError>("let y = 1\noutput y = 2", {"`y` cannot name an output: it is already a definition"});
  check_fails<TypeError>("index n:N", {"dim `N` is not declared", "dim N"});
  check_fails<TypeError>("input a\nindex n:a", {"`a` is an input, but only dims may stand here"});
  check_body_fails<TypeError>("z", {"test.mox:4:14", "`z` is not declared", "declare it in a line above"});
  check_body_fails<TypeError>("y[s,n]", {"`y` is not declared"});
  check_body_fails<TypeError>("m", {"index `m` is not bound here", "sum[m](...)"});
  check_body_fails<TypeError>("x[s,m]", {"index `m` is not bound here"});
  check_body_fails<TypeError>("x[s,mu]", {"`mu` holds numbers of dtype f32; a subscript is an integer"});
  check_body_fails<TypeError>("x[s,s*n]", {"a product of two indices, or dims without values, is not affine"});
  check_body_fails<TypeError>("where(any[k](x[s,n]), 1, 0)", {"`any` takes a condition", "any[i](x[i] != 0)"});
  check_body_fails<TypeError>("x[s,argmax[k in 0..3](w)]",
                              {"4:18", "stands in a subscript", "let j[s]: i32 = argmax[..](..)"});
  check_body_fails<TypeError>("x[s,floor(w)]", {"4:18", "stands in a subscript", "let j[s]: i32 = floor(..)"});
  check_body_fails<ParseError>("x[s,n^2]", {"`]` expected, but found `^`", "affine"});
  check_body_fails<TypeError>("s[0]", {"`s` is a number, not a tensor"});
  check_body_fails<TypeError>("mu(n)", {"`mu` is a tensor and cannot be called", "mu[...]"});
  check_body_fails<TypeError>("sqr(w)", {"there is no function `sqr`", "did you mean `sqrt`"});
  check_body_fails<TypeError>("foobar(w)", {"there is no function `foobar`", "the functions are", "lgamma"});
  check_body_fails<TypeError>("exp(w, w)", {"`exp` takes 1 argument(s), but 2 were given"});
  check_body_fails<TypeError>("max(w)", {"`max` takes two or more arguments, but 1", "max[index]"});
  check_body_fails<TypeError>("sum[q](w)", {"index `q` is not declared", "index q:N", "[q in 0..N]"});
  check_body_fails<TypeError>("sum[n](w)", {"index `n` is already in scope here and would be shadowed"});
  check_body_fails<TypeError>("sum[m](sum[m](w))", {"index `m` is already in scope"});
  check_body_fails<TypeError>("sum[mu in 0..N](w)", {"`mu` cannot name an index: it is already an input"});
  check_fails<TypeError>(kHead + "let y[s,s] = 1", {"index `s` is already in scope"});
}

TEST_CASE("shapes and matrices that do not fit") {
  check_body_fails<ShapeError>("x[s]", {"test.mox:4:14", "`x` has the shape [S,N], but 1 subscript(s) were given"});
  check_body_fails<ShapeError>("x", {"`x` has the shape [S,N] and needs subscripts"});
  check_body_fails<ShapeError>("inverse[s,n](1)", {"the matrix is not square: `s` has S values, `n` has N"});
  check_body_fails<TypeError>("inverse[m,n](1)",
                              {"index `m` is not bound here, so no element is chosen", "inverse[r,t](...)[i,k]"});
  check_body_fails<TypeError>("inverse[n,n](1)", {"row and column of a matrix need different indices"});
  check_body_fails<TypeError>("inverse[n,m](1)[n,n]", {"index `n` is already in scope"});
  check_body_fails<ShapeError>("inverse[m,q in 0..N](1)[n]", {"`inverse` gives 2 subscript(s) per element, but 1"});
  check_body_fails<TypeError>("logdet[n,m](1)", {"index `n` is already in scope"});
  check_body_fails<ShapeError>("logdet[k,m](1)", {"index of a matrix must run from 0"});
  check_body_fails<ParseError>("logdet[m](1)", {"`,` expected", "row and column"});
  check_body_fails<ParseError>("solve[m,n](1)", {"`,` expected", "solve[r,t](A, b)"});
  check_body_fails<TypeError>("solve[m,n](1, mu[n])",
                              {"the right-hand side is a vector over `m` and must not mention `n`"});
  check_fails<ShapeError>(kHead + "let y[k] = 1", {"index `k` does not start at 0 and cannot be an axis"});
  check_fails<ShapeError>(kHead + "let y[s, q in 0..s+1] = 1",
                          {"the extent of axis `q` cannot be seen", "q in ... of N"});
  check_fails<ShapeError>("dim W\nindex k in 0..floor(W/2)+1\noutput y[k] = 1",
                          {"the extent of axis `k` cannot be seen", "k of N"});
}

TEST_CASE("no mutation of a valid text crashes the parser, the printer or the verifier") {
#ifdef __SANITIZE_ADDRESS__
  constexpr int kMutations = 10000;  // one takes fifty times as long
#else
  constexpr int kMutations = 200000;
#endif
  const std::string fragments[] = {
      "(",  ")", "[", "]", "..",     "in",   "sum[",   "inverse[", "^", "-", "*",  "9223372036854775807",
      "\n", "s", "0", ",", "where(", "max(", "floor(", "/",        ":", "=", "of", "\xff",
      "N"};
  std::mt19937 random(12345);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
  };
  int accepted = 0;
  for (int round = 0; round < kMutations; ++round) {
    std::string text(kSamplePrograms[below(kSamplePrograms.size())]);
    for (std::size_t edits = 1 + below(3); edits > 0; --edits) {
      const std::size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(below(128));
          break;
        case 1:
          text.erase(at, 1 + below(8));
          break;
        case 2:
          text.insert(at, fragments[below(std::size(fragments))]);
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(20)));
      }
    }
    try {
      const Program program = parse(text);
      const std::string printed = print(program);
      const Program again = parse(printed);
      if (without_lines(again) != without_lines(program) || print(again) != printed)
        FAIL("does not round-trip: " << text);
      ++accepted;
      verify(program);
    } catch (const InternalError& error) {
      FAIL(error.what() << "\n" << text);
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): most changed texts are refused, as they should be
    }
  }
  CHECK(accepted > kMutations / 100);
}
