#include "ops/unfold.h"

#include <doctest/doctest.h>

#include "compiler/support/error.h"
#include "ops/catalogue.h"

namespace {

using namespace moxie;

TEST_CASE("formulas of one axis serve tensors of several") {
  const Program noise = unfold(load_op("probact.noise"), "N", 3);
  CHECK_NOTHROW(verify(noise));
  const Affine s = Symbol::dim("S"), a = Symbol::dim("N0"), b = Symbol::dim("N1"), c = Symbol::dim("N2");
  CHECK(noise.shape_of("sigma") == std::vector<Affine>{a, b, c});
  CHECK(noise.shape_of("y") == std::vector<Affine>{s, a, b, c});
  CHECK(print(noise).find("sigma[n0,n1,n2]*eps[s,n0,n1,n2]") != std::string::npos);
  const Program scalar = unfold(load_op("optimiser.sgd"), "P", 0);
  CHECK_NOTHROW(verify(scalar));
  CHECK(scalar.shape_of("new_param").empty());
}

TEST_CASE("formulas that mix elements have no such form") {
  for (const char* text : {"dim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n])\n",
                           "dim N\nindex n:N\ninput x[N+1]\noutput y[n] = x[n+1]\n",
                           "dim N\nindex n:N\ninput x[N]\noutput y[n] = n*x[n]\n"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(unfold(parse(text), "N", 2), doctest::Contains("N cannot stand for several axes"), TypeError);
  }
}

}  // namespace
