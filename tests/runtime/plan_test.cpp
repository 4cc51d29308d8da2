#include "runtime/plan.h"

#include <doctest/doctest.h>

#include <string>

#include "compiler/program/program.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;

DimValues dims_of(const std::string& inputs, const Shapes& shapes) {
  return dims_from_shapes(parse("dim S dynamic, N dynamic\nindex s:S\n" + inputs + "\noutput y[s] = 1\n"), shapes);
}

void check_refused(const std::string& inputs, const Shapes& shapes, const std::string& message) {
  CAPTURE(inputs);
  try {
    dims_of(inputs, shapes);
    FAIL("accepted");
  } catch (const ShapeError& error) {
    CHECK_MESSAGE(std::string(error.what()).find(message) != std::string::npos, error.what());
  }
}

}  // namespace

TEST_CASE("shapes of the inputs tell the dims") {
  CHECK(dims_of("input x[S], z[2*N+1]", {{"x", {4}}, {"z", {7}}}) == DimValues{{"S", 4}, {"N", 3}});
}

TEST_CASE("an axis without elements only bounds its dim") {
  CHECK(dims_of("input x[S-2], z[S]", {{"x", {0}}, {"z", {1}}}) == DimValues{{"S", 1}});
  CHECK(dims_of("input x[S-2]", {{"x", {0}}}) == DimValues{{"S", 2}});
  CHECK(dims_of("input x[2*S-3]", {{"x", {0}}}) == DimValues{{"S", 1}});
  CHECK(dims_of("input x[5-2*S]", {{"x", {0}}}) == DimValues{{"S", 3}});
  CHECK(dims_of("input x[2*S]", {{"x", {0}}}) == DimValues{{"S", 0}});
}

TEST_CASE("shapes that do not fit are refused") {
  check_refused("input x[S]", {}, "input x is missing");
  check_refused("input x[S]", {{"x", {2, 3}}}, "input x has shape [2,3], but 1 axes are wanted");
  check_refused("input x[2*S+1]", {{"x", {4}}}, "axis 0 of x has 4 elements, which 2*S+1 can not be for any S");
  check_refused("input x[S], z[S]", {{"x", {4}}, {"z", {5}}},
                "axis 0 of z has 5 elements, so S = 5, but S = 4 from the tensors before it");
  check_refused("input x[S], z[N], w[S+N]", {{"x", {4}}, {"z", {5}}, {"w", {8}}},
                "input w has shape [8], but [9] is wanted");
  check_refused("input x[S-2], z[S]", {{"x", {0}}, {"z", {4}}}, "input x has shape [0], but [2] is wanted");
}

TEST_CASE("costly rows are shared out more finely") {
  const auto chunks_of_128_rows = [](const std::string& summand) {
    const Plan plan = make_plan(
        specialise(parse("dim S dynamic, N = 50, R = 14\nindex s:S, n:N, m:N, r:R, t:R\ninput x[S,N], w[R,N]\n"
                         "output g[r,n] = sum[s](" +
                         summand + ")\n"),
                   {}));
    std::int64_t chunks = 1;
    for (const PlanStep& step : plan.steps) {
      for (const LoweredKernel* kernel : kernels_of(step))
        chunks = std::max(chunks, choose_partition(*kernel, {{"S", 128}}, 16).chunks);
    }
    return chunks;
  };
  CHECK(chunks_of_128_rows("sin(x[s,n]*w[r,n])") == 2);
  CHECK(chunks_of_128_rows("sum[m,t](sin(x[s,n]*w[r,n] + x[s,m]*w[t,m]))") == 8);
}
