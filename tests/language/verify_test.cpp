#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/analysis/verify_definition.h"
#include "compiler/builder/builder.h"
#include "compiler/program/program.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

const std::string kHead = "dim S dynamic, N, R = 4\nindex s:S, n:N, r:R, t:R\ninput x[S,N], v[R], z[2*R+1], w\n";

std::string with_body(const std::string& definition) { return kHead + definition + "\n"; }

void check_accepts(const std::string& definition) {
  CAPTURE(definition);
  CHECK_NOTHROW(verify(parse(with_body(definition))));
}

template <class E>
void check_rejects(const Program& program, const std::vector<std::string>& fragments) {
  std::string message;
  try {
    verify(program);
  } catch (const E& error) {
    message = error.what();
  }
  for (const std::string& fragment : fragments) {
    CAPTURE(fragment);
    CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
  }
}

template <class E>
void check_rejects(const std::string& definition, const std::vector<std::string>& fragments) {
  CAPTURE(definition);
  check_rejects<E>(parse(with_body(definition)), fragments);
}

Program valid() { return parse(with_body("let a[r] = v[r]\noutput b[s,n] = x[s,n] + sum[r](a[r])")); }

}  // namespace

TEST_CASE("subscripts that are inside by their ranges") {
  check_accepts("let y[s,n] = x[s,n] + x[S-1-s,N-1-n]");
  check_accepts("let y[r,t] = z[r+t] + z[2*r+2] + z[2*R-r-t]");
  check_accepts("let y[r] = sum[q in r..R](v[q-r] + v[R-1-q]) + sum[q in ceil(r/2)..floor(r/2)+1](v[q])");
  check_accepts("let y[r] = sum[q in max(0, r-1)..min(R, r+2)](v[q])");
  check_accepts("let y[r] = sum[q in 3..2](v[q+100])");
}

TEST_CASE("subscripts that are inside by their guards") {
  check_accepts("let y[r] = where(r+1 < R, v[r+1], 0) + where(r >= 1, v[r-1], 0)");
  check_accepts("let y[r] = where(r == 0, 0, v[r-1]) + where(r != 3, v[r+1], 0)");
  check_accepts("let y[r] = where(r == 0 or r == 3, 0, v[r-1] + v[r+1])");
  check_accepts("let y[r,t] = where(not r > t and w > 0, v[t-r], 0) + where(r > t, v[r-t], v[t-r])");
  check_accepts("let y[r] = where(0 <= 2*r - 3 and 2*r - 3 < R, v[2*r-3], 0)");
  check_accepts("let y[s,n] = where(s+1 < S, x[s+1,n], 0)");
  check_accepts("let y[r] = where(1 == 2, v[99], 0)");
  check_accepts("let at[r]: i32 = r\nlet y[r] = where(r >= 1, v[at[r-1]], 0)");
}

TEST_CASE("subscripts that leave their tensor") {
  check_rejects<ShapeError>("let y[r] = v[r+1]", {"definition `y` (line 4)", "subscript r+1 of `v[r+1]` can leave 0..R",
                                                  "r in 0..R", "R = 4", "where(...)"});
  check_rejects<ShapeError>("let y[r] = v[r-1]", {"subscript r-1 of `v[r-1]`"});
  check_rejects<ShapeError>("let y[r,t] = z[2*r+t]", {"subscript 2*r+t"});
  check_rejects<ShapeError>("let y[s,n] = x[s+1,n]", {"subscript s+1 of `x[s+1,n]` can leave 0..S", "s in 0..S"});
  check_rejects<ShapeError>("let y[r] = sum[t](where(t > 0, v[t+1], 0))", {"subscript t+1"});
  check_rejects<ShapeError>("let y[r] = where(w > 0, v[r+1], 0)", {"subscript r+1"});
  check_rejects<ShapeError>("let y[r] = where(r > 0 or w > 0, v[r-1], 0)", {"subscript r-1"});
  check_rejects<ShapeError>("let y[r] = inverse[t,q in 0..R](v[t]*v[q])[r,r+1]",
                            {"subscript r+1 of `inverse[", "can leave 0..R"});
  check_rejects<ShapeError>("let y = x[0-1,0]", {"subscript -1"});
}

TEST_CASE("what depends on dims without values is accepted until they are known") {
  const Program program = parse("dim N, M\nindex n:N\ninput x[M]\noutput y[n] = x[n]\n");
  CHECK_NOTHROW(verify(program));
  CHECK_NOTHROW(verify(specialise(program, {{"N", 3}, {"M", 3}})));
  check_rejects<ShapeError>(specialise(program, {{"N", 3}, {"M", 2}}),
                            {"subscript n of `x[n]` can leave 0..2", "n in 0..3"});
}

TEST_CASE("an extent that the value of a dim makes negative is 0") {
  const Program program = specialise(parse("dim N\ninput x[N-2]\noutput y[n in 0..N-2] = x[n]\n"), {{"N", 1}});
  CHECK_NOTHROW(verify(program));
  CHECK(program.shape_of("x") == std::vector<Affine>{0});
  CHECK(program.definitions[0].axes[0] == AxisDecl{"n", 0, Range::extent(0)});
}

TEST_CASE("triangular tensors are read inside their range only") {
  const std::string upper = "let u[r, t in r..R] = v[r]*v[t]\n";
  check_accepts(upper + "let y[r] = sum[t in r..R](u[r,t]) + sum[q in 0..r+1](u[q,r])");
  check_accepts(upper + "let y[r,t] = where(r <= t, u[r,t], u[t,r])");
  check_accepts(upper + "let y[r,t] = cholesky[r,t](u[t,r])");
  check_rejects<ShapeError>(upper + "let y[r,t] = u[r,t]", {"subscript t of `u[r,t]` can leave r..R"});
  check_rejects<ShapeError>(upper + "let y[r,t] = cholesky[r,t](u[r,t])", {"can leave"});
}

TEST_CASE("axes stay in their extents") {
  Program program = valid();
  program.definitions[0].axes[0].range = Range::half_open(-1, 4);
  check_rejects<ShapeError>(program, {"definition `a` (line 4)", "the range -1..4 of axis `r` starts below 0"});
  program.definitions[0].axes[0].range = Range::extent(5);
  check_rejects<ShapeError>(program, {"the range 0..5 of axis `r` leaves its extent R"});
  program.definitions[0].axes[0].range = Range::extent(Symbol::axis(0));
  check_rejects<TypeError>(program, {"neither a declared dim nor an index in scope"});
  program.definitions[0].axes[0].range = {};
  check_rejects<ShapeError>(program, {"not bounded on both sides"});
  program.definitions[0].axes[0].range = {{{0, 0}}, {{1, 3}}};
  check_rejects<ShapeError>(program, {"divisor 0"});
  program = valid();
  program.definitions[1].axes[1].name = "s";
  check_rejects<TypeError>(program, {"axis 0 cannot be called `s`"});
  program.definitions[1].axes[1].name = "v";
  check_rejects<TypeError>(program, {"axis 1 cannot be called `v`"});
}

TEST_CASE("names, dims and shapes") {
  check_accepts("let neg[r] = -v[r]\nlet y[r] = -neg[r]");  // no text calls the function of that name
  Program program = valid();
  CHECK_NOTHROW(verify(program));
  program.inputs[0].name = "N";
  check_rejects<TypeError>(program, {"input `N`: one name names one thing"});
  program.inputs[0].name = "exp";
  check_rejects<TypeError>(program, {"input `exp`: this is a word of the language"});
  program.inputs[0].name = "2x";
  check_rejects<TypeError>(program, {"input `2x`: names consist of"});
  program = valid();
  program.inputs[3].shape = {Symbol::dim("Q")};
  check_rejects<TypeError>(program, {"axis 0 of `w`", "mentions `Q`, which is no declared dim"});
  program.inputs[3].shape = {Affine(-2)};
  check_rejects<ShapeError>(program, {"axis 0 of `w` has the negative extent -2"});
  program = valid();
  program.dims[1].value = -3;
  check_rejects<ShapeError>(program, {"dim `N` is negative: -3"});
}

TEST_CASE("the bound of a domain is finite") {
  Program program = parse("input x > 0\noutput y >= 0 = x\n");
  verify(program);
  program.definitions[0].domain = ValueDomain::above(std::numeric_limits<double>::infinity());
  check_rejects<TypeError>(program, {"`y` is declared > inf", "a finite number"});
  program.definitions[0].domain = {};
  program.inputs[0].domain = ValueDomain::above(std::nan(""));
  check_rejects<TypeError>(program, {"`x` is declared > nan", "a finite number"});
}

TEST_CASE("definitions read what stands before them") {
  Program program = valid();
  program.definitions[0].body = tensor_access("a", {Symbol::axis(0)});
  check_rejects<TypeError>(program, {"definition `a`", "reads itself"});
  program.definitions[0].body = tensor_access("b", {0, 0});
  check_rejects<TypeError>(program, {"it reads `b`, which is defined later"});
  program.definitions[0].body = tensor_access("nothing", {});
  check_rejects<TypeError>(program, {"`nothing` is neither an input nor a definition"});
  program.definitions[0].body = tensor_access("v", {});
  check_rejects<ShapeError>(program, {"`v` has 1 axes, but 0 subscripts were given"});
  program.definitions[0].body = index_value(Symbol::fresh());
  check_rejects<TypeError>(program, {"neither a declared dim nor an index in scope"});
  program.definitions[0].body = Expr();
  check_rejects<TypeError>(program, {"there is no expression"});
}

TEST_CASE("random numbers have at most four coordinates") {
  check_rejects<TypeError>("let y[r] = randn(0)[r,0,0,0,1]",
                           {"`randn(0)[r,0,0,0,1]` is drawn over 5 axes; a random number has at most 4 coordinates"});
}

TEST_CASE("conditions and numbers are not mixed") {
  check_rejects<TypeError>("let y[r] = v[r] > 0", {"`v[r] > 0` is a condition, but a number is wanted"});
  check_rejects<TypeError>("let y[r] = exp(v[r] > 0)", {"is a condition"});
  check_rejects<TypeError>("let y[r] = sum[t](v[t] > 0)", {"`v[t] > 0` is a condition"});
  check_rejects<TypeError>("let y[r] = where(v[r], 1, 0)", {"`v[r]` is a number, but a condition is wanted"});
  check_rejects<TypeError>("let y[r] = where(v[r] > 0 and 1, 1, 0)", {"`1` is a number, but a condition is wanted"});
  check_rejects<TypeError>("let y[r] = where(not v[r], 1, 0)", {"a condition is wanted"});
}

TEST_CASE("an access that is inside its tensor for some values of a dynamic dim is refused for the others") {
  const Program program = specialise(parse("dim R, K dynamic\ninput x[R]\noutput y = x[K-2]\n"), {{"R", 3}});
  CHECK(!is_right_for_all_dims(program));
  CHECK_NOTHROW(verify_for(program, {{"K", 2}}));
  CHECK_NOTHROW(verify_for(program, {{"K", 4}}));
  CHECK_THROWS_AS(verify_for(program, {{"K", 1}}), ShapeError);
  CHECK_THROWS_AS(verify_for(program, {{"K", 5}}), ShapeError);
  const Program guarded =
      specialise(parse("dim R, K dynamic\ninput x[R]\noutput y = where(K >= 2 and K-2 < R, x[K-2], 0)\n"), {{"R", 3}});
  CHECK(is_right_for_all_dims(guarded));
  CHECK(is_right_for_all_dims(parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = x[s]\n")));
}

TEST_CASE("conditions are taken from left to right") {
  const auto values = [](const std::string& body) {
    const Program program = parse("dim N\nindex j:N, k:N\ninput e[N]\n" + body);
    CHECK(parse(print(program)) == program);
    verify(program);
    return evaluate(program, {{"N", 5}}, {{"e", {1, 2, 1, 2, 2}}}).at("y");
  };
  CHECK(values("output y[j] = where(j >= 2 and e[j] != e[j-2], 7, 0)\n") == std::vector<double>{0, 0, 0, 0, 7});
  CHECK(values("output y[j] = where(j < 2 or e[j] != e[j-2], 7, 0)\n") == std::vector<double>{7, 7, 0, 0, 7});
  CHECK(values("output y[j] = where(j >= 1 and e[j-1] > 1 and j < N-1 and e[j+1] > 1, 7, 0)\n") ==
        std::vector<double>{0, 0, 7, 0, 0});
  CHECK(values("output y[j] = where(not (j < 1 or e[j-1] > 1), 7, 0)\n") == std::vector<double>{0, 7, 0, 7, 0});
  CHECK(values("output y = sum[j](where(j >= 1 and max[k](e[j-1]*k) > 4, 1, 0))\n") == std::vector<double>{2});
  CHECK(values("output y[j] = where(j > 0, where(e[j-1] > 1 and e[j] > 1, 7, 0), 0)\n") ==
        std::vector<double>{0, 0, 0, 0, 7});
  // What stands under one condition of a choice of them is read under those before the choice, too.
  CHECK(values("output y[j] = sum[k](where(j-k >= 0 and (k < 2 or e[j-2] > 1), 1, 0))\n") ==
        std::vector<double>{1, 2, 2, 4, 2});
  CHECK_THROWS_AS(values("output y[j] = where(e[j-2] > 1 and j >= 2, 7, 0)\n"), ShapeError);
  CHECK_THROWS_AS(values("output y[j] = where(j >= 1 and e[j-2] > 1, 7, 0)\n"), ShapeError);
  CHECK_THROWS_AS(values("output y[j] = where(j >= 2 or e[j-2] > 1, 7, 0)\n"), ShapeError);
  CHECK(
      print(
          parse("dim N\nindex j:N\ninput e[N]\noutput y[j] = where(j > 0, where(e[j-1] > 1 and e[j] > 1, 7, 0), 0)\n"))
          .find("where(e[j-1] > 1 and e[j] > 1, 7, 0)") != std::string::npos);

  Program program;
  const Dim n = program.dim("N");
  const Index j(n);
  const auto e = program.input("e", {n});
  CHECK_NOTHROW(program.output("y", {j}, where(j >= 2 && e(j - 2) > 0, 1, 0)));
}
