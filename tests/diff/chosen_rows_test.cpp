// Rows that a choice among integers selects, read as one.
#include "compiler/diff/chosen_rows.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <string>
#include <vector>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/property/random.h"

using namespace moxie;
using namespace moxie::test;

namespace {

const std::string kHead = R"(dim N, K, C
index n:N, k:K, c:C
input x[N,C], z[K,N,C], w[N,K], at[N,K]: i32, far[K]: i32, p[N,K]
)";

int reads_of(const Program& program, const std::string& definition, const std::string& tensor) {
  int reads = 0;
  visit(program.find_definition(definition)->body,
        [&](const Expr& e) { reads += e->kind == NodeKind::Access && e->tensor == tensor; });
  return reads;
}

/// How many integers get a name.
std::size_t tables(const std::string& text) {
  const Program program = parse(kHead + text);
  const Program named = name_chosen_rows(program, Choosers::IntegersAndQuotients);
  verify(named);
  return named.definitions.size() - program.definitions.size();
}

TensorValues some_inputs(const Program& program, const DimValues& dims, Random& random) {
  TensorValues inputs = random_inputs(program, dims, static_cast<unsigned>(random.between(1, 1000)));
  for (const char* integers : {"at", "far"}) {
    for (double& value : inputs.at(integers)) value = static_cast<double>(random.between(-3, dims.at("N") + 3));
  }
  return inputs;
}

std::string random_row(Random& random) {
  return random.pick(std::vector<std::string>{
      "clamp(at[n,k],0,N-1)",
      "clamp(at[n,k]+1,0,N-1)",
      "clamp(n+far[k],0,N-1)",
      "clamp(far[k],0,N-1)",
      "min(max(2*at[n,k]-n,0),N-1)",
      "where(p[n,k] > 0.2, clamp(at[n,k],0,N-1), n)",
      "where(n >= 1, clamp(at[n-1,k],0,N-1), 0)",
      "min(abs(at[n,k]),N-1)",
      "clamp(n+1,0,N-1)",
      "clamp((4*n-1)//6+1,0,N-1)",
      "n",
  });
}

std::string random_formula(Random& random) {
  std::string body;
  for (std::int64_t terms = random.between(1, 3); terms > 0; --terms) {
    const std::string column = fmt::format("where({} == {}, c, 0)",
                                           random.pick(std::vector<std::string>{"at[n,k]", "k"}), random.between(0, 2));
    const std::string read = random.chance(50) ? fmt::format("x[{},c]", random_row(random))
                                               : fmt::format("z[k,{},{}]", random_row(random), column);
    body += (body.empty() ? "" : " + ") + fmt::format("w[n,k]*{}", read);
  }
  if (random.chance(30)) body = fmt::format("where(far[k] >= 0, {}, x[clamp(far[k],0,N-1),c])", body);
  if (random.chance(30)) body = fmt::format("sum[m in 0..n+1](where(m < K, x[clamp(at[n,m],0,N-1),c], 0)) + {}", body);
  return kHead + (random.chance(50) ? "output y[n,c] = sum[k](" : "output y[n,k,c] = (") + body + ")\n";
}

}  // namespace

TEST_CASE("a bilinear look-up reads four elements, at integers that have names, and so does its derivative") {
  const Program program = parse(R"(dim H, W, N
index n:N
input image[H,W], u[N], v[N]
let y0[n]: i32 = floor(u[n])
let x0[n]: i32 = floor(v[n])
def at(y, x) = image[clamp(y,0,H-1),clamp(x,0,W-1)]
def mix(a, b, part) = (1 - part)*a + part*b
def line(y, n) = mix(at(y, x0[n]), at(y, x0[n]+1), v[n] - x0[n])
output o[n] = mix(line(y0[n], n), line(y0[n]+1, n), u[n] - y0[n])
)");
  CHECK(reads_of(program, "o", "image") == 16);
  const Program named = name_chosen_rows(program, Choosers::IntegersAndQuotients);
  CHECK(reads_of(named, "o", "image") == 4);
  CHECK(named.definitions.size() == program.definitions.size() + 4);
  const Program gradient = differentiate(program, {"o"}, {"image"});
  CHECK(print(gradient).size() < 3000);
  const DimValues dims{{"H", 5}, {"W", 4}, {"N", 23}};
  TensorValues inputs = random_inputs(program, dims, 7);
  for (double& position : inputs.at("u")) position *= 4;
  for (double& position : inputs.at("v")) position *= 4;
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test_devices()) {
    CAPTURE(device->name());
    CHECK(largest_difference(run_on(device, program, dims, inputs).at("o"), expected.at("o")) < 1e-5);
  }
}

TEST_CASE("integers get a name where a table of them is no larger than what they are made of") {
  CHECK(tables("output y[n,k,c] = x[clamp(at[n,k],0,N-1),c]\n") == 1);
  CHECK(tables("output y[n,k,c] = x[clamp(at[n,k],0,N-1),c] + z[k,clamp(at[n,k],0,N-1),c]\n") == 1);
  CHECK(tables("output y[n,k,c] = where(at[n,k] >= 0, x[at[n,k],c], x[n,c])\n") == 1);
  CHECK_MESSAGE(tables("output y[n,k,c] = x[clamp(n+far[k],0,N-1),c]\n") == 0, "one for all pairs of n and k");
  CHECK_MESSAGE(tables("output y[n,k,c] = where(p[n,k] > 0, x[0,c], x[n,c])\n") == 0, "no value selects a row");
  CHECK_MESSAGE(tables("output y[n,k,c] = where(at[n,k] >= 0, x[at[n,k],c], 0)\n") == 0, "one branch reads no row");
  CHECK_MESSAGE(tables("output y[n,k,c] = where(n >= 1, x[clamp(at[n-1,k],0,N-1),c], 0)\n") == 0,
                "there is no row before the first one");
  CHECK(tables("output y[n,k,c] = where(n >= 1, x[clamp(at[n,k],0,N-1),c], 0)\n") == 1);
  CHECK_MESSAGE(tables("output y[n,c] = sum[m in 0..min(n+1,K)](x[clamp(at[n,m],0,N-1),c])\n") == 0,
                "rows of a triangle");
  const auto two_choices = [](const std::string& taps) {
    return tables("input sq[N,N]\noutput y[n,k] = sum[" + taps +
                  "](sq[clamp(at[n,k]+q,0,N-1),clamp(at[n,k]-q,0,N-1)])\n");
  };
  CHECK(two_choices("q in 0..2") == 2);
  CHECK_MESSAGE(two_choices("q in 0..N") == 0, "more than a few taps");
  CHECK_MESSAGE(tables("output y[n,k,c] = sum[q in 0..2](x[clamp(at[n,k]+q,0,N-1),c])\n") == 0,
                "one choice of three rows");
}

TEST_CASE("rows that quotients choose get a name where the table is small beside its reads") {
  CHECK(tables("output y[n,k,c] = x[clamp((4*n-1)//6,0,N-1),c]\n") == 1);
  CHECK(tables("output y[n,c] = sum[q in 0..2](x[clamp((4*n-1)//6+q,0,N-1),c])\n") == 1);
  CHECK_MESSAGE(tables("output y[n] = x[clamp((4*n-1)//6,0,N-1),0]\n") == 0, "as large as what it is read for");
  CHECK_MESSAGE(tables("output y[n,k,c] = x[clamp((n-1)//2,0,N-1),c]\n") == 0, "loops by pairs need no table");
  CHECK_MESSAGE(tables("output y[n,k,c] = x[(2*n)//3,c]\n") == 0, "nothing is chosen");
}

TEST_CASE("random look-ups have the values and the derivatives that are written") {
  int fired = 0;
  for (unsigned seed = 1; seed <= 120; ++seed) {
    Random random(seed);
    const std::string text = random_formula(random);
    CAPTURE(seed);
    CAPTURE(text);
    const Program program = parse(text);
    const DimValues dims{{"N", random.between(1, 5)}, {"K", random.between(1, 3)}, {"C", random.between(1, 2)}};
    const TensorValues inputs = some_inputs(program, dims, random);
    const Program named = name_chosen_rows(program, Choosers::IntegersAndQuotients);
    verify(named);
    fired += named != program;
    CHECK(largest_difference(evaluate(program, dims, inputs).at("y"), evaluate(named, dims, inputs).at("y")) < 1e-12);
    CHECK(worst_gradient_error(program, {"y"}, {"x", "z", "w"}, dims, inputs) < 1e-7);
  }
  CHECK(fired > 60);
}
