// What conditions say of the reads below them stays known, wherever passes move these.
#include <doctest/doctest.h>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"

using namespace moxie;

namespace {

/// Optimising changes no value of the Program, nor of its gradient by all inputs.
void check_values(const std::string& text, const TensorValues& inputs) {
  const Program program = differentiate(parse(text), {"y"}, {});
  const TensorValues expected = evaluate(program, {}, inputs);
  const TensorValues found = evaluate(optimise(program), {}, inputs);
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    const std::vector<double>& want = expected.at(definition.name);
    for (std::size_t k = 0; k < want.size(); ++k)
      CHECK(found.at(definition.name)[k] == doctest::Approx(want[k]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("nested choices forget no condition around them") {
  std::string body = "where(t == 0, 0, x[t-1])";
  for (int level = 0; level < 8; ++level) body = "where(c == " + std::to_string(level % 3) + ", 0, " + body + ")";
  CHECK_NOTHROW(verify(parse("dim T\nindex t:T, c in 0..5\ninput x[T]\noutput y[t,c] = " + body + "\n")));
}

TEST_CASE("what reads its own scan is no table before it, even where nothing is read") {
  const Program program = parse(R"(dim S dynamic, N dynamic
index s:S, n:N
input x[N]
scan t {
  output h[t in 0..N] = x[t] + sum[i1 in 0..2](where(i1 < 0, h[i1], 0))
}
)");
  CHECK_NOTHROW(optimise(program));
}

TEST_CASE("the operands of linear algebra are computed where they are asked for") {
  const std::string head = R"(dim T = 3, N = 2
index t:T, i:N, j:N, k:N, u:T
input P[T,N,N], b[T,N]
let A[t,i,j] = P[t,i,j] + P[t,j,i] + where(i == j, 10, 0)
)";
  const TensorValues inputs = {
      {"P", {1, 2, 3, 4, 5, 6, 7, 8, -5, 1, -1, -5}}, {"b", {1, 2, 3, 4, 5, 6}}, {"cot.y", {1, 2, 3, 4, 5, 6}}};
  SUBCASE("a matrix of the next step") {
    check_values(
        head + "output y[t,j] = where(t < T-1, lu_solve[i,j](A[t+1,i,j] + where(i == j, 5, 0) + i, b[t,i]), 0)\n",
        inputs);
  }
  SUBCASE("a matrix that has no factors where nobody asks") {
    check_values(head + "output y[t,j] = where(t < T-1 and b[t,0] > 1, solve[i,j](A[t,i,j], b[t,i]), 0)\n", inputs);
  }
  SUBCASE("a right-hand side of the next step") {
    check_values(head + "output y[t,j] = where(t == T-1, 0, solve[i,j](A[0,i,j], b[t+1,i]))\n", inputs);
  }
  SUBCASE("between the ends of a loop") {
    check_values(head + "output y[t,j] = sum[u in 0..t](tri_solve[i,j](A[t-u-1,i,j], b[u,i]))\n", inputs);
  }
  SUBCASE("a condition on an index that the operands do not have") {
    check_values(
        head + "output y[t,j] = sum[u](where(t < u, qr_r[i,k](A[t+1,i,k] + where(i == k, 3, 0) + k)[0,j], 0))\n",
        inputs);
  }
  SUBCASE("sorted rows") { check_values(head + "output y[t,j] = where(t > 0, sort[i](b[t-1,i])[j], 0)\n", inputs); }
}
