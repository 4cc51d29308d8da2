// Floor division and remainder of indices: what texts mean, how they print, and what is refused.
#include <doctest/doctest.h>

#include "compiler/builder/builder.h"
#include "compiler/program/placeholders.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

const std::string kHead =
    "dim N, K = 3, R dynamic\nindex n:N, m:N, k:K\ninput x[N], z[2*N], u[N,3], idx[N]: i32 >= 0\n";

Program program_of(const std::string& definition) { return parse(kHead + definition + "\n"); }
Expr body_of(const std::string& expression) { return program_of("let y[n,m] = " + expression).definitions[0].body; }

std::string printed(const std::string& expression) {
  const Program program = program_of("let y[n,m] = " + expression);
  CHECK(parse(print(program)) == program);
  return print(program.definitions[0].body, program, program.definitions[0].axes);
}

template <class E>
void check_fails(const std::string& definition, const std::vector<std::string>& fragments) {
  CAPTURE(definition);
  std::string message;
  try {
    verify(program_of(definition));
  } catch (const E& error) {
    message = error.what();
  }
  for (const std::string& fragment : fragments) CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
}

std::vector<double> values_of(const std::string& definition) {
  const TensorValues inputs = {{"x", {1, 2, 3, 4, 5, 6, 7}},
                               {"z", std::vector<double>(14, 1)},
                               {"u", std::vector<double>(21, 1)},
                               {"idx", {0, 1, 2, 3, 4, 5, 6}}};
  return evaluate(program_of(definition), {{"N", 7}, {"R", 1}}, inputs).at("y");
}

}  // namespace

TEST_CASE("a quotient is the index of a sum with one iteration") {
  CHECK(body_of("x[n/2]") == body_of("sum[q in ceil((n-1)/2)..floor(n/2)+1](x[q])"));
  CHECK(body_of("u[n/K,n%K]") == body_of("sum[q in ceil((n-2)/3)..floor(n/3)+1](u[q,n-3*q])"));
  CHECK(body_of("x[n//2]") == body_of("x[n/2]"));
  CHECK(body_of("z[2*(n/2)+n%2]") == body_of("sum[q in ceil((n-1)/2)..floor(n/2)+1](z[n])"));
  CHECK(body_of("x[(4*n+3)/2]") == body_of("x[2*n+1]"));
  CHECK(body_of("z[K*(n/K)+n%K]") == body_of("z[3*(n/3)+n%3]"));
  CHECK(body_of("n//2") == body_of("sum[q in ceil((n-1)/2)..floor(n/2)+1](q)"));
  CHECK(body_of("7%4 + 7//4") == body_of("3 + 1"));
}

TEST_CASE("quotients round down, and remainders are never negative") {
  CHECK(values_of("output y[n] = x[n/2]") == std::vector<double>{1, 1, 2, 2, 3, 3, 4});
  CHECK(values_of("output y[n] = x[n%3]") == std::vector<double>{1, 2, 3, 1, 2, 3, 1});
  CHECK(values_of("output y[n] = (n-3)//2") == std::vector<double>{-2, -1, -1, 0, 0, 1, 1});
  CHECK(values_of("output y[n] = (n-3)%2") == std::vector<double>{1, 0, 1, 0, 1, 0, 1});
  CHECK(values_of("output y[n] = x[n/2/2] - n//4") == std::vector<double>{1, 1, 1, 1, 1, 1, 1});
  CHECK(values_of("output y[n] = where(n%2 == 0 and n//3 < 2, x[n/2], -1)") ==
        std::vector<double>{1, -1, 2, -1, 3, -1, -1});
  CHECK(values_of("output y[n] = [5, 6, 7][n%3]") == std::vector<double>{5, 6, 7, 5, 6, 7, 5});
  CHECK(values_of("output y[n] = x[idx[n/2] + n%2]") == std::vector<double>{1, 2, 2, 3, 3, 4, 4});
  CHECK(
      values_of("def even(i) = i%2 == 0\ndef at(a[:], i, f) = a[i/f]\noutput y[n] = where(even(n), at(x, n, K), 0)") ==
      std::vector<double>{1, 0, 1, 0, 2, 0, 3});
}

TEST_CASE("a remainder by any dim is a choice where it takes few values") {
  CHECK(body_of("x[(n+1)%N]") == body_of("where(n-N+1 < 0, x[n+1], x[n-N+1])"));
  CHECK(body_of("x[(n+N-1)%N]") == body_of("where(n-1 < 0, x[n+N-1], x[n-1])"));
  CHECK(body_of("x[(n+1)/N]") == body_of("where(n-N+1 < 0, x[0], x[1])"));
  CHECK(body_of("x[n%N] + n//N") == body_of("x[n] + 0"));
  CHECK(values_of("output y[n] = x[(n+2)%N]") == std::vector<double>{3, 4, 5, 6, 7, 1, 2});
  CHECK(values_of("output y[n] = sum[p in 0..3](p*x[(n+p+N-1)%N])") == std::vector<double>{5, 8, 11, 14, 17, 20, 9});
  CHECK(values_of("output y[n] = (n+2)%N") == std::vector<double>{2, 3, 4, 5, 6, 0, 1});
  CHECK(values_of("output y[n] = x[(n+3)%N]") == std::vector<double>{4, 5, 6, 7, 1, 2, 3});
  CHECK(values_of("output y[n] = x[(n+N-6)%N]") == std::vector<double>{2, 3, 4, 5, 6, 7, 1});
  check_fails<TypeError>("let y[n] = x[(n+9)%N]", {"between -8 and 8", "x[(i+1)%N]"});
}

TEST_CASE("subscripts are chosen by min, max, clamp, abs and where") {
  CHECK(body_of("x[min(n+1,N-1)]") == body_of("where(n+1 <= N-1, x[n+1], x[N-1])"));
  CHECK(body_of("x[clamp(n-1,0,N-1)]") == body_of("where(n-1 >= 0, x[n-1], x[0])"));
  CHECK(body_of("x[max(n,0)]") == body_of("x[n]"));
  CHECK(values_of("output y[n] = x[min(n+2,N-1)]") == std::vector<double>{3, 4, 5, 6, 7, 7, 7});
  CHECK(values_of("output y[n] = x[clamp(2*n-3,0,N-1)]") == std::vector<double>{1, 1, 2, 4, 6, 7, 7});
  CHECK(values_of("output y[n] = x[abs(n-2)]") == std::vector<double>{3, 2, 1, 2, 3, 4, 5});
  CHECK(values_of("output y[n] = x[N-1-abs(N-1-abs(n-2))]") == std::vector<double>{3, 2, 1, 2, 3, 4, 5});
  CHECK(values_of("output y[n] = x[where(n == 0, N-1, n-1)]") == std::vector<double>{7, 1, 2, 3, 4, 5, 6});
  CHECK(values_of("output y[n] = x[where(x[n] > 3, 0, n)]") == std::vector<double>{1, 2, 3, 1, 1, 1, 1});
  CHECK(values_of("output y[n] = x[min(n+1,5)/2]") == std::vector<double>{1, 2, 2, 3, 3, 3, 3});
  CHECK(values_of("output y[n] = x[min(n//2,1)]") == std::vector<double>{1, 1, 2, 2, 2, 2, 2});
  CHECK(values_of("def last(i) = min(i, N-1)\noutput y[n] = x[last(n+1)]") == std::vector<double>{2, 3, 4, 5, 6, 7, 7});
  const std::string blocks = "dim M, Z = 4\nindex i:Z*M\ninput u[Z*M]\noutput y[i] = u[min(i+1,";
  CHECK(parse(blocks + "Z*M-1)]\n").definitions[0].body == parse(blocks + "4*M-1)]\n").definitions[0].body);
  check_fails<ShapeError>("let y[n] = x[min(n+1,N)]", {"can leave 0..N"});
  check_fails<TypeError>("let y[n] = x[min(n/2,1)]", {"4:14", "computes no index here", "`//`"});
  check_fails<TypeError>("let y[n] = x[floor(n)]", {"4:14", "let j[s]: i32 = floor(..)"});
  std::string deep = "n";
  for (int k = 0; k < 40; ++k) deep = "abs(" + deep + "-1)";
  check_fails<ParseError>("let y[n] = x[" + deep + "]", {"written out, this has more than"});
}

TEST_CASE("subscripts are chosen by tables of integers") {
  CHECK(values_of("output y[n] = x[[4, 0, 2][n%3]]") == std::vector<double>{5, 1, 3, 5, 1, 3, 5});
  CHECK(body_of("x[(n+[0, 1, -1][2])%N]") == body_of("x[(n+N-1)%N]"));
  CHECK(values_of("output y[n] = sum[k](10^k*x[(n+[0, 1, -1][k]+N)%N])") ==
        std::vector<double>{721, 132, 243, 354, 465, 576, 617});
  // The shifts of two axes are chosen together: nine velocities are nine pieces, and more where a remainder wraps.
  const std::string step = "def cx(q) = [0,1,0,-1,0,1,-1,-1,1][q]\ndef cy(q) = [0,0,1,0,-1,1,1,-1,-1][q]\n";
  const std::string head = "dim N, M\nindex n:N, m:M, q:9\ninput f[9,N,M]\n";
  const Program moved = parse(head + step + "output g[q,n,m] = f[q,(n+cx(q)+N)%N,(m+cy(q)+M)%M]\n");
  CHECK(written_nodes(moved.definitions[0].body) < 500);
  check_fails<TypeError>("let y[n] = x[[0, 0.5, 1][n%3]]", {"4:14", "holds integers", "let j[s]: i32"});
  check_fails<TypeError>("let y[n] = x[[0, 1][n]]", {"4:14", "its own subscript stays inside"});
  check_fails<ShapeError>("let y[n] = x[[0, 1, N][n%3]]", {"can leave 0..N"});
}

TEST_CASE("elements of integer tensors are chosen, too") {
  CHECK(body_of("x[min(idx[n],1)]") == body_of("where(idx[n] <= 1, x[idx[n]], x[1])"));
  CHECK(values_of("output y[n] = x[min(idx[n]+1,4)]") == std::vector<double>{2, 3, 4, 5, 5, 5, 5});
  CHECK(values_of("output y[n] = x[max(2*idx[n]-9,0)]") == std::vector<double>{1, 1, 1, 1, 1, 2, 4});
  CHECK(values_of("output y[n] = x[clamp(idx[n]-2,0,3)]") == std::vector<double>{1, 1, 1, 2, 3, 4, 4});
  CHECK(values_of("output y[n] = x[abs(idx[n]-2)]") == std::vector<double>{3, 2, 1, 2, 3, 4, 5});
  CHECK(values_of("output y[n] = x[where(x[n] > 3, idx[0], idx[n])+1]") == std::vector<double>{2, 3, 4, 2, 2, 2, 2});
  CHECK(values_of("output y[n] = x[idx[min(idx[n]+1,N-1)]]") == std::vector<double>{2, 3, 4, 5, 6, 7, 7});
  CHECK(values_of("output y[n] = sum[k](u[min(idx[n],3),k])") == std::vector<double>(7, 3));
  CHECK(values_of("def last(i) = min(i, N-1)\noutput y[n] = x[last(idx[n]+1)]") ==
        std::vector<double>{2, 3, 4, 5, 6, 7, 7});
  check_fails<TypeError>("let y[n] = x[min(idx[n],3)/2]", {"4:29", "let half[s]: i32 = idx[s]//2"});
  check_fails<TypeError>("let y[n] = x[min(n,x[n])]", {"`x` holds numbers of dtype f32"});
}

TEST_CASE("a function takes remainders by any dim of the indices that it is called with") {
  const std::string head = "dim N\nindex i:N\ninput x[N]\n";
  const Program called = parse(head + "def next(v[:], j) = v[(j+1)%N]\noutput y[i] = next(x, i)\n");
  CHECK(print(called) == print(parse(head + "output y[i] = x[(i+1)%N]\n")));
}

TEST_CASE("quotients print as they are written") {
  for (const std::string text :
       {"x[n/2]", "u[n/3,n%3]", "x[(n+1)/3]", "z[m+(n%4)]", "x[(n/2)/3]", "x[idx[n/2]]", "n//2", "n%2", "(n+m)%3",
        "(n//2)%3", "2*(n%2)", "n%2*x[m]", "sum[k](u[n/3,k])", "exp(x[n/2]) + m%2"})
    CHECK(printed(text) == text);
  CHECK(printed("where(n%2 == 1, x[n-1], x[n/2])") ==
        "sum[i1 in ceil((n-1)/2)..floor(n/2)+1](where(n-2*i1 == 1, x[n-1], x[i1]))");
  CHECK(printed("sum[k](sum[q in ceil((n-1)/2)..floor(n/2)+1](x[q] + k))") ==
        "sum[k,i1 in ceil((n-1)/2)..floor(n/2)+1](x[i1] + k)");
}

TEST_CASE("the C++ form divides indices like the text") {
  const Program text = program_of("let y[n,m] = u[n/3,n%3] + where(n%2 == 0, n//2, m)");
  Program program("text");
  const Dim N = program.dim("N");
  program.dim("K", 3);
  program.dim("R", dynamic);
  const Index n(N, "n"), m(N, "m");
  const Tensor u = program.input("u", {N, Expr(3)});
  program.let("y", {n, m}, u(quotient(n, 3), remainder(n, 3)) + where(equal(remainder(n, 2), 0), quotient(n, 2), m));
  CHECK(program.definitions[0].body == text.definitions[0].body);
  const Tensor x = program.input("x", {N});
  program.let("w", {n}, x(min(n + 1, N - 1)));
  CHECK(program.definitions[1].body == program_of("let w[n] = x[min(n+1,N-1)]").definitions[0].body);
  CHECK_THROWS_AS(quotient(n, 0), TypeError);
  CHECK_THROWS_AS(remainder(exp(n), 2), TypeError);
}

TEST_CASE("subscripts with quotients are proved inside their tensors") {
  CHECK_NOTHROW(verify(program_of("let y[n] = u[n/3,n%3] + x[(2*n+1)/2] + z[2*n+n%2]")));
  CHECK_NOTHROW(
      verify(program_of("let y[c in 0..32] = sum[k in 0..8](randu(0)*where(8*(c//8) + k < N, x[8*(c/8)+k], 0))")));
  CHECK_NOTHROW(verify(program_of("let y[n] = where(n%2 == 1, x[n-1], 0)")));
  check_fails<ShapeError>("let y[m in 0..2*N of 2*N] = x[m/2+1]",
                          {"subscript (m/2)+1 of `x[(m/2)+1]` can leave 0..N", "with m in 0..2*N"});
  check_fails<ShapeError>("let y[m in 0..9] = u[0,m%4]", {"subscript m%4 of `u[0,m%4]` can leave 0..3"});
}

TEST_CASE("numbers are divided, too") {
  CHECK(body_of("x[n]//2") == body_of("floor(x[n]/2)"));
  CHECK(body_of("x[n]%x[0]") == body_of("x[n] - x[0]*floor(x[n]/x[0])"));
  CHECK(body_of("n%x[0]") == body_of("n - x[0]*floor(n/x[0])"));
  CHECK(values_of("output y[n]: i32 = (3*idx[n] + 1)%5") == std::vector<double>{1, 4, 2, 0, 3, 1, 4});
  CHECK(values_of("output y[n] = -x[n]//2") == std::vector<double>{-1, -1, -2, -2, -3, -3, -4});
  CHECK(values_of("output y[n] = -x[n]%2") == std::vector<double>{1, 0, 1, 0, 1, 0, 1});
}

TEST_CASE("bools at quotients and choices are conditions") {
  const std::string head = "input on[N]: bool\n";
  CHECK(program_of(head + "let y[n] = where(on[n%3], x[n], 0)") ==
        program_of(head + "let y[n] = where(on[n%3] != 0, x[n], 0)"));
  CHECK(program_of(head + "let y[n] = where(any[k](on[k]), x[n], 0)") ==
        program_of(head + "let y[n] = where(any[k](on[k] != 0), x[n], 0)"));
  CHECK(program_of(head + "let y[n] = where(not on[min(n+1,N-1)], x[n], 0)") ==
        program_of(head + "let y[n] = where(not on[min(n+1,N-1)] != 0, x[n], 0)"));
}

TEST_CASE("products in parentheses are integers where a choice among indices is divided") {
  const std::string size = "index p:K\n";
  CHECK(program_of(size + "let y[n,p] = x[clamp(((2*n+1)*K-2)//(2*K)+p,0,N-1)]") ==
        program_of(size + "let y[n,p] = x[clamp((6*n+1)//6+p,0,N-1)]"));
}

TEST_CASE("shapes and extents divide dims that have values in the text") {
  const Program program = parse(
      "dim N, K = 12, G = 5\nindex g:K//G, k:K/3\ninput a[N,K/4], b[K%G]\n"
      "output y[k in 0..K/6 of K] = sum[g](a[0,g]) + b[k]\n");
  CHECK(program.shape_of("a") == std::vector<Affine>{Affine(Symbol::dim("N")), Affine(3)});
  CHECK(program.shape_of("b") == std::vector<Affine>{Affine(2)});
  CHECK(program.indices[0].range == Range::extent(Affine(2)));
  CHECK(program.indices[1].range == Range::extent(Affine(4)));
  check_fails<TypeError>("input w[K/2]", {"4:10", "3 is no multiple of 2", "K//G"});
  check_fails<TypeError>("input w[K//N]", {"4:12", "a positive integer", "dim G = 32"});
  check_fails<TypeError>("input w[K/0]", {"4:11", "a positive integer"});
}

TEST_CASE("divisors are positive integers that the text tells") {
  const std::vector<std::string> advice = {"divided by a positive integer that the text tells", "dim K = 4"};
  check_fails<TypeError>("let y[n] = x[n/0]", {"4:16", advice[0], advice[1]});
  check_fails<TypeError>("let y[n] = x[n%-2]", {"4:16", advice[0]});
  check_fails<TypeError>("let y[n,m] = x[n/m]", {"4:18", advice[0]});
  check_fails<TypeError>("let y[n] = x[n/R]", {"4:16", advice[0]});
  check_fails<TypeError>("let y[n,m] = z[N*n]",
                         {"4:17", "a product of two indices, or dims without values, is not affine"});
  check_fails<TypeError>("let y[n] = n%R", {"4:14", advice[0]});
  check_fails<TypeError>("let y[n] = x[idx[n]/2]", {"4:20", "cannot be divided", "let half[s]: i32"});
  check_fails<TypeError>("let y[q in 0..N/2] = 1", {"4:16", "no quotient may stand here", "floor(i/2)+1"});
  check_fails<TypeError>("input w[N/2]", {"4:10", "no quotient may stand here"});
  check_fails<TypeError>("let y[n] = randu(3)[n/2]", {"no quotient may stand here"});
}
