// Conditions that the ranges of indices and the conditions around them decide.
#include <doctest/doctest.h>

#include <string>

#include "compiler/program/program.h"
#include "compiler/rewrite/passes.h"

using namespace moxie;

TEST_CASE("conditions that follow from ranges and from conditions around them are gone") {
  const auto left = [](const std::string& body) {
    const Program program =
        specialise(parse("dim N dynamic, M = 8\nindex n:N, m:M\ninput x[N], a\noutput y[n,m] = " + body + "\n"), {});
    return print(drop_known_conditions(program).definitions[0].body, program, program.definitions[0].axes);
  };
  CHECK(left("where(n > 0, where(n >= 1, x[n-1], 3), 0)") == "where(n > 0, x[n-1], 0)");
  CHECK(left("where(n > 0, where(n == 0, 3, x[n-1]), 0)") == "where(n > 0, x[n-1], 0)");
  CHECK(left("where(m < 3, where(m < M, x[n], 1)*where(m > 3, a, 2), 0)") == "where(m < 3, x[n]*2, 0)");
  CHECK(left("where(m < 3 or m > 5, 1, where(m != 4 or n >= 0, x[n], a))") == "where(m < 3 or m > 5, 1, x[n])");
  CHECK(left("where(m < 3 and (m < 4 and x[n] > 0), where(not (m < 5), 1, a), 2)") ==
        "where(m < 3 and x[n] > 0, a, 2)");
  CHECK(left("where(where(m >= 0 and n > 0, x[n-1], a) < x[n], 1, 2)") ==
        "where(where(n > 0, x[n-1], a) < x[n], 1, 2)");
  CHECK(left("where(n > m, sum[k in m..n](where(k < n, x[k], 0)), 0)") == "where(n > m, sum[i1 in m..n](x[i1]), 0)");
  CHECK(left("where(x[n] > a, where(x[n] > a, 1, 2), 3)") == "where(x[n] > a, where(x[n] > a, 1, 2), 3)");
  // What stands behind an `and` reads only what exists without the conditions before it.
  CHECK(left("where(n > 0 and where(n > 0, x[n-1], a) < x[n], 1, 2)") ==
        "where(n > 0 and where(n > 0, x[n-1], a) < x[n], 1, 2)");
}
