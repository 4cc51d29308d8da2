// Tables of what loops around it do not change.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/passes.h"
#include "tests/rewrite/optimised.h"

using namespace moxie;
using test::optimised;

namespace {

std::ptrdiff_t tables_of(const Program& program) {
  return std::ranges::count_if(optimise(program).definitions, [](const Definition& definition) {
    return definition.name.find(".table") != std::string::npos;
  });
}

}  // namespace

TEST_CASE("what a guard protects is not hoisted out of it, but for a function of one element") {
  const auto definitions_of = [](const std::string& body) {
    const std::string text =
        "dim S dynamic, M = 5, N = 40\nindex s:S, m:M, n:N\ninput x[M,N], w[M,N], z[S]\n"
        "output y[s,m,n] = where(n >= 1, " +
        body + ", 0)\n";
    return optimised(text.c_str(), {{"S", 3}, {"M", 5}, {"N", 40}}).definitions.size();
  };
  CHECK(definitions_of("tanh(x[m,n-1] + w[m,n-1])*z[s]") == 1);
  CHECK(definitions_of("tanh(x[m,n-1] + n)*z[s]") == 1);
  CHECK(definitions_of("tanh(x[m,n-1])*z[s]") == 2);
  CHECK(definitions_of("tanh(x[m,n-1])*z[s] + tanh(x[m,n])") == 2);
}

TEST_CASE("without known extents a table has no more elements than a tensor that it is made of") {
  const auto tables = [](const std::string& body) {
    return tables_of(
        parse("dim A dynamic, C dynamic, M dynamic\nindex a:A, c:C, m:M\ninput p[A,C], u[A], v[C], "
              "w[C,M], z[A,C,M]\noutput y[a,m] = sum[c](" +
              body + ")\n"));
  };
  CHECK(tables("tanh(p[a,c])*exp(z[a,c,m])") == 1);
  CHECK_MESSAGE(tables("tanh(u[a] + v[c])*exp(z[a,c,m])") == 0, "of all pairs of the elements of two rows");
  CHECK_MESSAGE(tables("abs(p[a,c])*exp(z[a,c,m])") == 0, "as cheap as loading it");
  CHECK_MESSAGE(tables_of(parse("dim S dynamic, N = 40\nindex s:S, n:N\ninput x[S,N]\n"
                                "output y[s,n] = softmax[n](x[s,n])\n")) == 0,
                "the sum of a row is computed once for it");
  const Program product = parse(R"(dim A dynamic, M dynamic
index a:A, c:A, m:M
input T[A,M]
output V[c] = prod[a](1 + 0.1*tanh(sum[m](T[a,m]*T[c,m])))
)");
  CHECK_MESSAGE(tables_of(differentiate(product, {"V"}, {"T"})) > 0,
                "slopes, once for each pair and not for each m too");
}
