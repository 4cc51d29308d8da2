// The command check.
#include <doctest/doctest.h>

#include "tests/cli/process.h"

using namespace moxie;
using moxie::test::contains;
using moxie::test::Outcome;
using moxie::test::Workshop;

TEST_CASE("check accepts a right formula and prints a row per tensor") {
  const Workshop shop;
  const Outcome outcome = shop.moxie({"check", "gpn.response_mean", "--dim", "N=2,R=3"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err, outcome.out);
  CHECK(contains(outcome.out, "N=2 R=3 S=7"));
  for (const char* name : {"mean ", "grad.mu ", "grad.noise "}) CHECK(contains(outcome.out, name));
}

TEST_CASE("check fails where a gradient is not the derivative") {
  const Workshop shop;
  // The floor jumps where differences look and is flat where the derivative does.
  shop.write("jump.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = floor(1e7*x[n])\n");
  const Outcome outcome = shop.moxie({"check", "jump.mox"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.out, "beyond tolerance"));
}

TEST_CASE("check compares no differences with gradients that stop_gradient cuts") {
  const Workshop shop;
  shop.write("held.mox",
             "dim N\nindex n:N\ninput x[N], z[N]\nlet u[n] = x[n]^2\noutput y[n] = stop_gradient(u[n])*z[n] + x[n]\n");
  const Outcome outcome = shop.moxie({"check", "held.mox"});
  CHECK_MESSAGE(outcome.code == 0, outcome.out);
  CHECK(contains(outcome.out, "no differences: stop_gradient"));
}

TEST_CASE("integers that check draws stand inside every axis that an element is read along") {
  const Workshop shop;
  shop.write("table.mox", R"(dim A, B, N
index n:N
input x[A,2,B], row[N]: i32 >= 0, column[N]: i32 >= 0
output y[n] = x[row[n],0,column[n]]
)");
  CHECK(shop.moxie({"check", "table.mox", "--dim", "A=2,B=3,N=40"}).code == 0);
}

TEST_CASE("integers that check draws stand inside what definitions of them are read from") {
  const Workshop shop;
  shop.write("tree.mox", R"(dim P, N, L
index p:P, n:N
input x[P,N], parent[N]: i32, jump[L]: i32, W[L]
let code[p]: i32 = argmin[n](x[p,n])
let up[p]: i32 = where(x[p,0] > 0, parent[code[p]], 0)
let at[p]: i32 = jump[up[p]]
output y[p] = W[at[p]]
)");
  CHECK(shop.moxie({"check", "tree.mox", "--dim", "P=40,N=30,L=2"}).code == 0);
}

TEST_CASE("check takes formulas of which all outputs are integers") {
  const Workshop shop;
  shop.write("place.mox", "dim N\nindex n:N\ninput x[N]\noutput place: i32 = argmax[n](x[n])\n");
  for (const std::vector<std::string>& wrt : {std::vector<std::string>{}, {"--wrt", "x"}}) {
    std::vector<std::string> words = {"check", "place.mox", "--dim", "N=5"};
    words.insert(words.end(), wrt.begin(), wrt.end());
    const Outcome outcome = shop.moxie(words);
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
  }
}

TEST_CASE("check compares no differences with declared derivatives") {
  const Workshop shop;
  shop.write("declared.mox",
             "dim N\nindex n:N\ninput x[N], z[N]\ndef q(u) = floor(4*u)/4\nderivative q.u = 1\n"
             "output y[n] = q(x[n])*z[n]\n");
  const Outcome outcome = shop.moxie({"check", "declared.mox"});
  CHECK_MESSAGE(outcome.code == 0, outcome.out);
  CHECK(contains(outcome.out, "no differences: a declared derivative stands for them"));
  const std::string of_z = outcome.out.substr(outcome.out.find("grad.z"));
  CHECK(!contains(of_z.substr(0, of_z.find('\n')), "no differences"));
}

TEST_CASE("check looks closer where kinks lie within a difference, and tells them from wrong gradients") {
  const Workshop shop;
  shop.write("kinks.mox", "dtype f64\ndim N\nindex n:N\ninput x[N]\noutput y[n] = abs(sin(3e4*x[n]))\n");
  const Outcome outcome = shop.moxie({"check", "kinks.mox"});
  CHECK_MESSAGE(outcome.code == 0, outcome.out);
  // Differences stay exact beside an output that would swallow their digits.
  shop.write("huge.mox",
             "dtype f64\ndim N\nindex n:N\ninput x[N], z[N]\noutput y[n] = x[n]^2\noutput w[n] = 1e30*z[n]\n");
  const Outcome huge = shop.moxie({"check", "huge.mox"});
  CHECK_MESSAGE(huge.code == 0, huge.out);
  shop.write("overflow.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = tanh(x[n]*1e300)\n");
  const Outcome overflow = shop.moxie({"check", "overflow.mox"});
  CHECK_MESSAGE(overflow.code == 0, overflow.out);
  CHECK(contains(overflow.out, "without f32"));
  // The largest number that derivatives mention is that of the dtype they are computed in.
  shop.write("logsumexp.mox", "dim N\nindex n:N\ninput x[N]\noutput y = logsumexp[n](x[n])\n");
  const Outcome logsumexp = shop.moxie({"check", "logsumexp.mox"});
  CHECK_MESSAGE(logsumexp.code == 0, logsumexp.out);
  CHECK(contains(logsumexp.out, "cpu f32"));
  // What is declared in single precision is held to it, and what multiplies rounding errors to what it makes of them.
  shop.write("single.mox",
             "dtype f64\ndim N\nindex n:N\ninput x[N]\nlet a[n]: f32 = exp(x[n])\noutput y[n] = a[n]/3\n");
  CHECK(shop.moxie({"check", "single.mox"}).code == 0);
  shop.write("steep.mox", "dtype f64\ndim N\nindex n:N\ninput x[N]\noutput y[n] = sin(1e6*x[n])\n");
  const Outcome steep = shop.moxie({"check", "steep.mox"});
  CHECK_MESSAGE(steep.code == 0, steep.out);
}

TEST_CASE("check takes formulas whose definitions hold infinities, such as masked scores") {
  const Workshop shop;
  shop.write("masked.mox",
             "dim T\nindex t:T, u:T\ninput x[T,T]\nlet s[t,u] = where(u <= t, x[t,u], -inf)\n"
             "let m[t] = max[u](s[t,u])\noutput y[t] = sum[u](exp(s[t,u] - m[t]))\n");
  const Outcome outcome = shop.moxie({"check", "masked.mox"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
}

TEST_CASE("check ends with an error where a formula has too many iterations to be evaluated") {
  const Workshop shop;
  shop.write("long.mox", "input x\noutput y = sum[k in 0..66666666666666](where(k < 5, x, 0))\n");
  const Outcome outcome = shop.moxie({"check", "long.mox"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "definition y: evaluating it element by element takes too many operations"));
}

TEST_CASE("check draws inputs between their bounds") {
  const Workshop shop;
  shop.write(
      "bounds.mox",
      "dim N\nindex n:N\ninput p[N] > 0 and < 1, rho > -1 and < 1, y[N]: i32 >= 0 and <= 1, u[N] >= -3 and <= -2.5\n"
      "output loss = -sum[n](y[n]*log(p[n]) + (1 - y[n])*log(1 - p[n]))\n"
      "output z[n] = sqrt(1 - rho^2)*log(-2 - u[n])\n");
  const Outcome outcome = shop.moxie({"check", "bounds.mox"});
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
}

TEST_CASE("check refuses a formula without outputs") {
  const Workshop shop;
  shop.write("none.mox", "dim N\nindex n:N\ninput x[N]\nlet y[n] = exp(x[n])\n");
  for (const char* command : {"check", "bench"}) {
    const Outcome outcome = shop.moxie({command, "none.mox", "--dim", "N=3"});
    CHECK(outcome.code == 1);
    CHECK(contains(outcome.err, "none has no outputs: write `output` in the place of `let`"));
  }
}

TEST_CASE("check says when no input suits the formula") {
  const Workshop shop;
  shop.write("never.mox", "dim N\nindex n:N\ninput x[N]\noutput y[n] = sqrt(-1 - x[n]^2)\n");
  const Outcome outcome = shop.moxie({"check", "never.mox"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "none of 20 random inputs lies in the formula's domain"));
}
