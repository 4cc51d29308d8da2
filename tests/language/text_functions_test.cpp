// Functions that a text defines: what calls stand for, and messages that show call and definition.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "compiler/analysis/verify_definition.h"
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "compiler/text/text_library.h"

using namespace moxie;

namespace {

const std::string kHead = "dim S, N, R\nindex s:S, n:N, r:R, t:R\ninput x[S,N], V[R,N], w\n";

Expr last_body(const std::string& text) { return parse(kHead + text).definitions.back().body; }

/// Without the lines of the text that it came from.
Program without_lines(Program program) {
  for (Definition& definition : program.definitions) definition.line = 0;
  return program;
}

/// The function's calls are the same nodes as what is written out.
void check_same(const std::string& with_functions, const std::string& written_out) {
  const Program program = parse(kHead + with_functions);
  CAPTURE(print(program));
  CHECK(program.definitions.back().body == last_body(written_out));
  CHECK(without_lines(parse(print(program))) == without_lines(program));
  verify(program);
}

std::string message_of(const std::string& text) {
  try {
    parse(text, "test.mox");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void check_message(const std::string& text, const std::vector<std::string>& fragments) {
  const std::string message = message_of(kHead + text);
  for (const std::string& fragment : fragments) {
    CAPTURE(fragment);
    CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
  }
}

}  // namespace

TEST_CASE("a call is its body with the arguments in the place of the parameters") {
  check_same("def rbf(x, z, l) = exp(-(x - z)^2/(2*l^2))\noutput y[s,r,n] = rbf(x[s,n], V[r,n], w)\n",
             "output y[s,r,n] = exp(-(x[s,n] - V[r,n])^2/(2*w^2))\n");
  check_same("def g(a) = a/(1 + a)\ndef f(a) = g(2*a) + w\noutput y[s,n] = f(x[s,n])*f(x[s,n])\n",
             "output y[s,n] = (2*x[s,n]/(1 + 2*x[s,n]) + w)*(2*x[s,n]/(1 + 2*x[s,n]) + w)\n");
  check_same("def half() = 1/2\noutput y = half()*w\n", "output y = 1/2*w\n");
  check_same("output y = clamp(w, -1, 1)\n", "output y = min(max(w, -1), 1)\n");
}

TEST_CASE("an argument that is an index may stand in subscripts, ranges and guards") {
  check_same(
      "def gap(r, t, n) = (V[r,n] - V[t,n])^2\noutput y[r,t,n] = gap(r, t, n) + where(t >= 1, gap(r, t-1, n), 0)\n",
      "output y[r,t,n] = (V[r,n] - V[t,n])^2 + where(t >= 1, (V[r,n] - V[t-1,n])^2, 0)\n");
  check_same("def before(k, n) = sum[q in 0..k+1](V[q,n])\noutput y[r,n] = before(r, n)\n",
             "output y[r,n] = sum[q in 0..r+1](V[q,n])\n");
  check_same("def at_zero(i, a) = where(i + 1 == 1, a, 0)\noutput y[s,n] = at_zero(n, x[s,n])\n",
             "output y[s,n] = where(n + 1 == 1, x[s,n], 0)\n");
}

TEST_CASE("what a body binds captures nothing of the arguments") {
  check_same("def total(a) = sum[t](a*V[t,0])\noutput y[t,n] = total(V[t,n])\n",
             "index k:R\noutput y[t,n] = sum[k](V[t,n]*V[k,0])\n");
  check_same("def twice(a) = sum[t](a + V[t,0])\noutput y[n] = sum[t](twice(twice(V[t,n])))\n",
             "index k:R, l:R\noutput y[n] = sum[t](sum[k](sum[l](V[t,n] + V[l,0]) + V[k,0]))\n");
  check_same("def pick(r) = sum[q in 0..2](q*r)\ninput q\noutput y = pick(q)\n",
             "input q\noutput y = sum[k in 0..2](k*q)\n");
}

TEST_CASE("a parameter may be a tensor of which the body gives subscripts") {
  check_same("def rbf(a[:], b[:]) = exp(-sum[n]((a[n] - b[n])^2))\noutput y[s,r] = rbf(x[s,:], V[r,:])\n",
             "output y[s,r] = exp(-sum[n]((x[s,n] - V[r,n])^2))\n");
  check_same("def rows(a[s,d], k) = sum[n](a[k,n])\ndef both(a[:,:]) = rows(a, 0) + rows(a, 1)\noutput y = both(V)\n",
             "output y = sum[n](V[0,n]) + sum[n](V[1,n])\n");
  check_same("def inner(a[:]) = sum[r](a[r])\ndef outer(a[:,:], n) = inner(a[:,n])\noutput y[n] = outer(V, n)\n",
             "output y[n] = sum[r](V[r,n])\n");
}

TEST_CASE("functions and tensors have names of their own, and texts may take those of the prelude") {
  check_same("input gelu[N]\noutput y[n] = gelu(gelu[n])\n",
             "input gelu[N]\noutput y[n] = gelu[n]*normal_cdf(gelu[n])\n");
  check_same("def silu(x) = 2*x\noutput y = silu(w)\n", "output y = 2*w\n");
  check_same("def f(x, n) = x + n\noutput y[n] = f(w, n)\n", "output y[n] = w + n\n");
}

TEST_CASE("an argument in a subscript may be any integer that a subscript may be") {
  const std::string def = "def at(v[:], i) = v[i]\n";
  check_same(def + "output y[n] = at(V[0,:], (n+1)%3)\n", "output y[n] = V[0,(n+1)%3]\n");
  check_same(def + "output y[n] = at(V[0,:], (n+1)%N)\n", "output y[n] = V[0,(n+1)%N]\n");
  check_same(def + "output y[n] = at(V[0,:], min(n+1, N-1)) + at(V[0,:], n//2)\n",
             "output y[n] = V[0,min(n+1, N-1)] + V[0,n//2]\n");
  check_message(def + "output y[n] = at(V[0,:], 2*w)\n", {"parameter `i` stands in a subscript"});
}

TEST_CASE("messages show the call and the definition") {
  check_message("def f(a, b) = a + b\nlet y = f(w)\n",
                {"test.mox:5:9: `f` takes 2 argument(s), but 1 were given", "let y = f(w)\n          ^",
                 "write f(a, b)", "test.mox:4:5: `f` is defined here"});
  check_message("def f(a) = a + b\n", {"test.mox:4:16: `b` is not declared"});
  check_message("def f(a) = f(a)\n", {"test.mox:4:12: function `f` calls itself", "do not recurse"});
  check_message("let y = f(w)\ndef f(a) = a\n", {"`f` is defined further down", "above this line"});
  check_message("def f(k) = V[k,0]\nlet y = f(w)\n",
                {"test.mox:4:14: parameter `k` stands in a subscript", "let j[i]: i32 = floor(..)",
                 "test.mox:5:9: in this call of `f`"});
  check_message("def f(a) = a\ndef f(a) = a\n", {"`f` cannot name a function: it is already a function"});
  check_message("def f(a, a) = a\n", {"two parameters are called `a`"});
  check_message("def exp(a) = a\n", {"`exp` cannot name a function"});
  check_message("def f(exp) = 1\n", {"`exp` is a word of the language"});
  check_message("def f(a[:]) = sum[n](a[n])\nlet y = f(2*w)\n",
                {"parameter `a` of `f` is a tensor, but none", "defined here"});
  check_message("def f(a[:]) = sum[n](a[n])\nlet y = f(V)\n", {"leaves 2 open here, but parameter `a` of `f` has 1"});
  check_message("def f(a[:]) = sum[n](a[n,n])\n", {"parameter `a` takes 1 subscript(s), but 2"});
  check_message("def f(a) = sum[n](a[n])\n", {"parameter `a` is a number and takes no subscripts", "write a[:]"});
  check_message("def f(a[:]) = a\n", {"parameter `a` is a tensor and needs 1 subscript(s)"});
  check_message("def f(n) = sum[n](x[0,n])\n", {"`n` is a parameter here"});
  check_message("def f a = a\n", {"`(` expected"});
  check_message("def f(a) = a )\n", {"closes nothing"});
  check_message("let y = nosuch(w)\n", {"there is no function `nosuch`"});
  check_message("let y = clmp(w, 0, 1)\n", {"did you mean `clamp`?"});
  check_message("let y = clamp(w)\n", {"`clamp` takes 3 argument(s), but 1 were given", "write clamp(x, low, high)"});
}

TEST_CASE("texts that grow without bound are refused") {
  std::string doubling = "def g0(a) = a*a\n";
  std::string adding = "def g0(a) = exp(a)\n";
  for (int k = 1; k < 40; ++k) {
    const std::string before = "g" + std::to_string(k - 1);
    const std::string head = "def g" + std::to_string(k) + "(a) = ";
    doubling += head + before + "(a)*" + before + "(a)\n";
    adding += head + before + "(a) + " + before + "(2*a)\n";
  }
  check_message(doubling, {"has more than 1000000 operations"});
  check_message(adding, {"`let`"});
  std::string chain = "def g0(a) = a\n";
  for (int k = 1; k < 400; ++k) chain += "def g" + std::to_string(k) + "(a) = g" + std::to_string(k - 1) + "(-a)\n";
  check_message(chain, {"nests more than"});
}

TEST_CASE("means, softmax, tables and pi are made of other forms") {
  check_same("output y[s] = mean[n](x[s,n])\n", "output y[s] = sum[n](x[s,n])/N\n");
  check_same("output y = mean[r,n](V[r,n]^2)\n", "output y = sum[r,n](V[r,n]^2)/((R)*N)\n");
  check_same("output y[r] = mean[t in r..r+3](where(t < R, V[t,0], 0))\n",
             "output y[r] = sum[t in r..r+3](where(t < R, V[t,0], 0))/3\n");
  check_same("output y[r] = mean[t in 0..r](V[t,0])\n", "output y[r] = sum[t in 0..r](V[t,0])/r\n");
  check_same("output y[r] = mean[t in 1..r](V[t,0])\n", "output y[r] = sum[t in 1..r](V[t,0])/sum[t in 1..r](1)\n");
  check_same("output p[s,n] = softmax[n](x[s,n])\n", "index k:N\noutput p[s,n] = exp(x[s,n] - logsumexp[k](x[s,k]))\n");
  check_same("output p[s,n] = softmax[n](where(n <= s, x[s,n], -inf))\n",
             "index k:N\noutput p[s,n] = where(n <= s, exp(x[s,n] - logsumexp[k](where(k <= s, x[s,k], -inf))), 0)\n");
  check_same("let y[s,n] = where(n <= s, x[s,n], -inf)\noutput p[s,n] = softmax[n](y[s,n])\n",
             "index k:N\nlet y[s,n] = where(n <= s, x[s,n], -inf)\n"
             "output p[s,n] = where(n <= s, exp(y[s,n] - logsumexp[k](y[s,k])), 0)\n");
  check_same("output p[s,n] = softmax[n in 0..s+1](x[s,n])\n",
             "output p[s,n] = softmax[n](where(0 <= n and n < s + 1, x[s,n], -inf))\n");
  check_same(
      "input length[N]: i32\noutput p[s,n] = softmax[n in max(length[0],1)..min(length[s],N-1)](x[s,n])\n",
      "input length[N]: i32\noutput p[s,n] = softmax[n](where(length[0] <= n and 1 <= n and n < length[s] and n < "
      "N-1, x[s,n], -inf))\n");
  check_same("output p[s,n] = log_softmax[n](2*x[s,n])\n",
             "index k:N\noutput p[s,n] = 2*x[s,n] - logsumexp[k](2*x[s,k])\n");
  check_same("output p[s] = softmax[n](x[s,n])[0]\n", "output p[s] = exp(x[s,0] - logsumexp[n](x[s,n]))\n");
  check_same("output y = 2*pi*w\n", "output y = 2*3.141592653589793*w\n");
  check_same("input pi[N], mean[N]\noutput y[n] = pi[n] + mean[n]*mean[t](w)\n",
             "input pi[N], mean[N]\noutput y[n] = pi[n] + mean[n]*(sum[t](w)/R)\n");
  check_same("index k in 0..3\noutput y[k] = [1, w, 3][k]\n",
             "index k in 0..3\noutput y[k] = where(k < 1, 1, where(k < 2, w, 3))\n");
  check_same("output y[n] = [1, 2][n]\n", "output y[n] = where((n) >= 0 and (n) < 2, where(n < 1, 1, 2), nan)\n");
  check_same("output y = [1, 2][1]*w\n", "output y = 2*w\n");
}

TEST_CASE("what other languages write is answered with what it is here") {
  check_message("let y = w ** 2\n", {"`**` is no operator", "a power is written x^2", "let y = w ** 2\n            ^"});
  check_message("let y = if w > 0 then 1 else 0\n", {"there is no `if`", "where(condition, a, b)"});
  check_message("let y = if(w > 0, 1, 0)\n", {"there is no `if`", "where(condition, a, b)"});
  check_message("let y = w > 0 ? 1 : 0\n", {"unexpected character `?`", "where(condition, a, b)"});
  check_message("let y = [1, 2]\n", {"a table of numbers needs a subscript"});
  check_message("let y = [1, 2][2]\n", {"subscript 2 leaves the table, which has 2 elements"});
  check_message("let y = [1, 2][0,1]\n", {"a table has one subscript, but 2"});
  check_message("let y[s] = softmax[n](x[s,n])\n", {"`softmax` over `n` has one subscript, but no element is chosen"});
  check_message("let y[s] = softmax[n](x[s,n])[0,1]\n", {"`softmax` over `n` has one subscript"});
  check_message("let y = mean(w)\n", {"`mean` needs its index"});
  check_message("let y[s] = y[s-1] + w\n", {"`y` is not declared", "scan t { let y[t] = where(t == 0, .., y[t-1]) }"});
}

TEST_CASE("errors have the parts of their messages") {
  const auto details = [](const std::string& lines) -> ErrorDetails {
    const std::string text = kHead + lines + "\n";
    try {
      verify_text(parse(text, "test.mox"), text, "test.mox");
    } catch (const Error& error) {
      CHECK(std::string(error.what())
                .starts_with(fmt::format("test.mox:{}:{}: {}\n", error.details().line, error.details().column,
                                         error.details().problem)));
      return error.details();
    }
    return {""};
  };
  const ErrorDetails power = details("output y = w ** 2");
  CHECK(power.file == "test.mox");
  CHECK(power.line == 4);
  CHECK(power.column == 14);
  CHECK(power.problem.starts_with("`**` is no operator"));
  CHECK(power.remedy.starts_with("a power is written x^2"));
  CHECK(power.name.empty());
  const ErrorDetails called = details("def f(u) = u + q\noutput y = f(w)");
  CHECK(called.line == 4);  // of the function, not of the call
  CHECK(called.problem == "`q` is not declared");
  const ErrorDetails verified = details("output y[s,n] = x[s, n + 1]");
  CHECK(verified.line == 4);
  CHECK(verified.remedy == "guard the access with where(...) or change the range");
}

namespace {

/// What verification says of these lines, or nothing.
std::string message_on(const std::string& lines) {
  const std::string text = kHead + lines + "\n";
  try {
    verify_text(parse(text), text, "test.mox");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what verification finds is shown in the text, with what to do") {
  const std::string outside = message_on("output y[s,n] = 2*x[s,n] + x[s, n + 1]");
  CHECK(outside.starts_with("test.mox:4:28: subscript n+1 of `x[s,n+1]` can leave 0..N"));
  CHECK(outside.find("output y[s,n] = 2*x[s,n] + x[s, n + 1]\n                             ^\n  guard the access") !=
        std::string::npos);
  CHECK(
      message_on("output y = where(w, 1, 0)").starts_with("test.mox:4:18: `w` is a number, but a condition is wanted"));
  CHECK(message_on("output y[n] = x[0,n]").empty());
}

TEST_CASE("what is wrong for some extents only is shown in the text, too") {
  for (const char* dim : {"dim K dynamic", "dim K"}) {
    const std::string text = std::string(dim) + "\nindex k:K\ninput x[K], w[3]\noutput y = sum[k](x[k]*w[k])\n";
    const Program program = parse(text);
    CHECK_NOTHROW(verify_text(with_values(program, {{"K", 3}}), text, "test.mox"));
    CHECK_THROWS_WITH_AS(
        verify_text(with_values(program, {{"K", 5}}), text, "test.mox"),
        doctest::Contains("test.mox:4:24: subscript k of `w[k]` can leave 0..3, with k in 0..K, K = 5\n"), ShapeError);
  }
}

TEST_CASE("what verification finds in a function is shown there, with the calls that lead to it") {
  const std::string next = message_on(
      "def next(a, b) = x[a, b + 1]\ndef twice(c, d) = 2*next(c, d)\n"
      "output y[s,n] = w + twice(s, n)");
  CHECK(next.starts_with("test.mox:4:18: subscript n+1 of `x[s,n+1]` can leave 0..N"));
  CHECK(next.find("def next(a, b) = x[a, b + 1]\n                   ^\n  guard the access") != std::string::npos);
  CHECK(next.find("test.mox:5:21: in this call of `next`") != std::string::npos);
  CHECK(next.find("test.mox:6:21: in this call of `twice`") != std::string::npos);
  CHECK(message_on("def step(a) = (a > 1)*2\noutput y[s,n] = step(x[s,n])")
            .starts_with("test.mox:4:18: `x[s,n] > 1` is"));
  CHECK(message_on("def f(a) = 2*a\noutput y[s,n] = f(w) + x[s, n + 1]").starts_with("test.mox:5:24: subscript"));
}

TEST_CASE("tensors and numbers that functions take may be integers that stand in subscripts") {
  const std::string declared = "input E[R,N], word[S]: i32, next[S]: i32\n";
  check_same(declared + "def row(t[:,:], k[:], s, n) = t[k[s],n]\noutput y[s,n] = row(E, word, s, n)\n",
             declared + "output y[s,n] = E[word[s],n]\n");
  check_same(declared + "def moved(t[:], k) = t[k+1]\noutput y[s,n] = moved(E[:,n], word[s])\n",
             declared + "output y[s,n] = E[word[s]+1,n]\n");
  check_same(declared + "def at(n, i) = E[i+n,n]\noutput y[s,n] = at(n, 2*word[s]-next[s]+1)\n",
             declared + "output y[s,n] = E[2*word[s]-next[s]+1+n,n]\n");
  check_message(declared + "def at(n, i) = E[i,n]\noutput y[s,n] = at(n, x[s,n]+1)\n",
                {"parameter `i` stands in a subscript"});
  check_same(declared + "def first(t[:]) = t[0]\noutput y[s] = first(E[next[s],:])\n",
             declared + "output y[s] = E[next[s],0]\n");
  check_same(
      declared + "def both(t[:], k) = t[k]\noutput y[s,n] = both(E[:,n], word[s]) + both(E[word[s],:], next[s])\n",
      declared + "output y[s,n] = E[word[s],n] + E[word[s],next[s]]\n");
  check_message("def at(t[:,:], a[:,:]) = t[a[0,0],0]\noutput y = at(x, V)\n",
                {"`V` holds numbers of dtype f32; a subscript is an integer", "declare it as integers: V: i32"});
}

TEST_CASE("a declared derivative stands beside the body, in which its parameter is constant") {
  const std::string clipped = "def f(u, b) = min(u, b)\nderivative f.u = where(u <= b, 1, 0.01)\n";
  check_same(clipped + "output y[s,n] = f(2*x[s,n], w)\n",
             "output y[s,n] = with_slope(min(stop_gradient(2*x[s,n]), w), 2*x[s,n], where(2*x[s,n] <= w, 1, 0.01))\n");
  check_same("def f(u, v) = u*v\nderivative f.v = 2\nderivative f.u = v\noutput y[n] = f(w, V[0,n])\n",
             "output y[n] = with_slope(with_slope(stop_gradient(w)*stop_gradient(V[0,n]), w, V[0,n]), V[0,n], 2)\n");
  // What has no derivative is passed as it is.
  check_same(clipped + "output y[n] = f(n, w) + f(2, w)\n", "output y[n] = min(n, w) + min(2, w)\n");
  check_same(
      "def f(c, k) = where(c, V[k,0], 0)\nderivative f.c = 1\nderivative f.k = 1\ninput j[N]: i32\n"
      "output y[n] = f(w > 0, j[n])\n",
      "input j[N]: i32\noutput y[n] = where(w > 0, V[j[n],0], 0)\n");
  // Slopes may call functions that stand below the function, and bind indices that later names are equal to.
  check_same(
      "def f(u, a[:]) = u*sum[q in 0..R](a[q])\ndef g(u) = 3*u\nderivative f.u = sum[q in 0..R](g(a[q]))\n"
      "input q\noutput y = f(q, V[:,0])\n",
      "input q\noutput y = with_slope(stop_gradient(q)*sum[r](V[r,0]), q, sum[r](3*V[r,0]))\n");
  check_same("def a.b(u.v) = u.v\nderivative a.b.u.v = 2\noutput y = a.b(w)\n",
             "output y = with_slope(stop_gradient(w), w, 2)\n");
}

TEST_CASE("messages about declared derivatives show the line and what to do") {
  const std::string f = "def f(u, a[:]) = u*a[0]\n";
  check_message(f + "derivative f = 1\n", {"test.mox:5:12: the derivative is by no parameter", "derivative f.x = "});
  check_message(f + "derivative f.v = 1\n", {"test.mox:5:12: `f` has no parameter `v`", "it has u, a"});
  check_message("def f() = 1\nderivative f.v = 1\n", {"`f` has no parameter `v`", "it has none"});
  check_message(f + "derivative f.a = 1\n", {"`a` is a tensor: derivatives are declared by numbers", "call g(a[..])"});
  check_message("derivative h.u = 1\n", {"test.mox:4:12: there is no function `h`", "def h(x) = expression"});
  check_message("def scale(u) = u\nderivative scales.u = 1\n", {"did you mean `scale`?"});
  check_message("derivative f.u = 1\n" + f, {"function `f` is defined further down", "move its derivative below"});
  check_message("derivative exp.x = 1\n", {"the derivative of `exp` belongs to the language", "def my_exp(x)"});
  check_message("derivative clamp.x = 1\n", {"the derivative of `clamp` belongs to the language"});
  check_message(f + "derivative f.u = 1\nderivative f.u = 2\n",
                {"test.mox:6:12: the derivative `f.u` is declared already", "leave one of the two out"});
  check_message(f + "let y = f(w, V[:,0])\nderivative f.u = 2\n",
                {"test.mox:6:12: `f` is called above, without this derivative", "directly below the `def` of `f`"});
  check_message(f + "def g(u, a[:]) = f(u, a)\nderivative f.u = g(1, a)\n", {"`f` is called above"});
  check_message(f + "derivative f.u = f(1, a)\n",
                {"test.mox:5:18: the derivative of `f` calls `f` itself", "a function above that both call"});
  check_message(f + "derivative f.u = q\n", {"test.mox:5:18: `q` is not declared"});
  check_message(f + "derivative f.u 2\n", {"`=` expected", "write derivative f.u = expression"});
  check_message(f + "derivative f.u = 2 3\n", {"test.mox:5:20: the end of the statement expected"});
  check_message(f + "derivative f.u = u > 0\n",
                {"test.mox:5:12: the derivative is a condition, but a number is wanted", "where(condition, 1, 0)"});
  check_message("def f(u) = u > 0\nderivative f.u = 1\n", {"test.mox:5:12: what `f` gives is a condition"});
  check_message(f + "derivative 3\n", {"a function and its parameter, as in derivative f.x = expression expected"});
  check_message("def f(u) = u\nderivative f.u = V[u,0]\nlet y = f(w)\n",
                {"test.mox:5:20: parameter `u` stands in a subscript", "test.mox:6:9: in this call of `f`"});
}
