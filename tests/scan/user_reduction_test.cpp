// Reductions that a text or C++ defines: values, derivatives, every device, laws and messages.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/builder/monoid_builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "compiler/text/parsed_text.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

namespace {

using namespace moxie;
using namespace moxie::test;

const std::string kAffine = "reduction affine(a, b) identity (1, 0) combine(f, g) = (g.a*f.a, g.a*f.b + g.b)\n";
const std::string kArgmax =
    "reduction first(value, at) identity (-inf, inf) combine(a, b) = (max(a.value, b.value), "
    "where(b.value > a.value, b.at, a.at)) finish = at\n";

/// All forms of ranges, of reductions and cumulative scans.
const std::string kForms = "dtype f64\n" + kAffine + kArgmax + R"(dim S, K
index s:S, k:K, j:K
input a[K], b[K], x[S,K]
def last(s) = affine.b[k](a[k], x[s,k])
output whole[s] = last(s)
output both[s] = affine.b[k](a[k], x[s,k]) + affine.a[k](a[k], x[s,k])
output inclusive[k] = affine.b[j in 0..k+1](a[j], b[j])
output exclusive[k] = affine.b[j in 0..k](a[j], b[j])
output suffix[k] = affine.b[j in k..K](a[j], b[j])
output late[k] = affine.b[j in k+2..K](a[j], b[j])
output ragged[s,k] = affine.b[j in max(k-1, 0)..min(k+2, K)](a[j], x[s,j])
output grid = affine.b[s,k](a[k], x[s,k])
output top[s] = first[k](x[s,k], k)
)";

/// x[t] = a[t]*x[t-1] + b[t] from low to high, from x = 0.
double recurrence(const std::vector<double>& a, const double* b, std::size_t low, std::size_t high) {
  double x = 0;
  for (std::size_t t = low; t < high; ++t) x = a[t] * x + b[t];
  return x;
}

TensorValues expected(const TensorValues& in, std::size_t samples, std::size_t length) {
  const std::vector<double>&a = in.at("a"), &b = in.at("b"), &x = in.at("x");
  TensorValues out;
  double grid = 0;
  for (std::size_t s = 0; s < samples; ++s) {
    const double* row = x.data() + s * length;
    double product = 1;
    for (std::size_t k = 0; k < length; ++k) {
      product *= a[k];
      grid = a[k] * grid + row[k];
      out["ragged"].push_back(recurrence(a, row, k > 0 ? k - 1 : 0, std::min(k + 2, length)));
    }
    out["whole"].push_back(recurrence(a, row, 0, length));
    out["both"].push_back(out["whole"].back() + product);
    const auto top = std::max_element(row, row + length) - row;
    out["top"].push_back(length > 0 ? static_cast<double>(top) : std::numeric_limits<double>::infinity());
  }
  out["grid"] = {grid};
  for (std::size_t k = 0; k < length; ++k) {
    out["inclusive"].push_back(recurrence(a, b.data(), 0, k + 1));
    out["exclusive"].push_back(recurrence(a, b.data(), 0, k));
    out["suffix"].push_back(recurrence(a, b.data(), k, length));
    out["late"].push_back(recurrence(a, b.data(), k + 2, length));
  }
  return out;
}

void check_close(const TensorValues& got, const TensorValues& want, double tolerance = 1e-12) {
  for (const auto& [name, values] : want) {
    CAPTURE(name);
    REQUIRE(got.at(name).size() == values.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      CAPTURE(k);
      const bool same = got.at(name)[k] == values[k];
      CHECK((same || std::abs(got.at(name)[k] - values[k]) <= tolerance * (1 + std::abs(values[k]))));
    }
  }
}

TEST_CASE("reductions over whole, growing, shrinking and moving ranges, on every device") {
  const Program program = parse(kForms);
  verify(program);
  for (const std::int64_t length : {1, 2, 7}) {
    CAPTURE(length);
    const DimValues dims = {{"S", 3}, {"K", length}};
    const TensorValues inputs = random_inputs(program, dims, 3);
    const TensorValues want = expected(inputs, 3, static_cast<std::size_t>(length));
    check_close(evaluate(program, dims, inputs), want);
    for (const auto& device : test_devices()) {
      CAPTURE(device->name());
      check_close(run_on(device, program, dims, inputs), want);
    }
  }
}

TEST_CASE("reductions of no elements are the identity, on every device") {
  const Program program = parse("dtype f64\n" + kAffine + kArgmax + R"(dim S, K
index s:S, k:K, j:K
input a[K], x[S,K]
output b[s] = affine.b[k](a[k], x[s,k])
output c[s] = affine.a[k](a[k], x[s,k])
output top[s] = first[k](x[s,k], k)
output y[k] = affine.b[j in 0..k+1](a[j], a[j])
)");
  const DimValues dims = {{"S", 2}, {"K", 0}};
  const double none = std::numeric_limits<double>::infinity();
  const TensorValues want = {{"b", {0, 0}}, {"c", {1, 1}}, {"top", {none, none}}, {"y", {}}};
  for (const auto& device : test_devices()) check_close(run_on(device, program, dims, {{"a", {}}, {"x", {}}}), want);
  const Program all = parse(kForms);
  const TensorValues inputs = random_inputs(all, dims, 3);
  check_close(evaluate(all, dims, inputs), expected(inputs, 2, 0));
}

TEST_CASE("long rows without other axes run in blocks, on every device and for any number of threads") {
  for (const int length : {1, 130, 200, 9000}) {
    CAPTURE(length);
    const Program program = parse("dtype f64\n" + kAffine + "dim K = " + std::to_string(length) + R"(
index k:K, j:K
input a[K], b[K]
output whole = affine.b[k](a[k], b[k])
output inclusive[k] = affine.b[j in 0..k+1](a[j], b[j])
output suffix[k] = affine.b[j in k..K](a[j], b[j])
)");
    verify(program);
    const DimValues dims = {{"K", length}};
    TensorValues inputs = random_inputs(program, dims, 3);
    inputs["x"] = {};
    TensorValues want = expected(inputs, 0, static_cast<std::size_t>(length));
    want = {{"inclusive", want["inclusive"]}, {"suffix", want["suffix"]}, {"whole", {want["inclusive"].back()}}};
    inputs.erase("x");
    check_close(evaluate(program, dims, inputs), want);
    for (const auto& device : test_devices()) {
      CAPTURE(device->name());
      check_close(run_on(device, program, dims, inputs), want);
    }
    DeviceOptions one, three;
    one.threads = 1;
    three.threads = 3;
    const auto first = test_device("cpu", one), second = test_device("cpu", three);
    if (first && second) CHECK(run_on(first, program, dims, inputs) == run_on(second, program, dims, inputs));
    if (length == 200) CHECK(worst_gradient_error(program, {"whole", "inclusive", "suffix"}, {}, dims, inputs) < 1e-6);
  }
}

TEST_CASE("derivatives of user-defined reductions are exact in both modes, and print and parse") {
  const Program program = parse(kForms);
  CHECK(print(parse(print(program))) == print(program));
  const std::vector<std::string> outputs = {"whole",  "both", "inclusive", "exclusive",
                                            "suffix", "late", "ragged",    "grid"};
  const Program gradient = differentiate(program, outputs, {});
  verify(gradient);
  CHECK(print(parse(print(gradient))) == print(gradient));
  const DimValues dims = {{"S", 2}, {"K", 5}};
  const TensorValues inputs = random_inputs(program, dims, 5);
  CHECK(worst_gradient_error(program, outputs, {}, dims, inputs) < 1e-7);
  CHECK(worst_tangent_error(program, outputs, {}, dims, inputs) < 1e-7);
}

TEST_CASE("equal reductions are computed once, and those of a scan before it") {
  const Program program = parse("dtype f64\n" + kAffine + R"(dim T, S
index t:T, s:S
input a[S], x[T,S]
scan t {
  output h[t] = affine.b[s](a[s], x[t,s]) + where(t == 0, 0, h[t-1])
}
output y[t] = affine.b[s](a[s], x[t,s])
output z[t] = affine.a[s](a[s], x[t,s])
)");
  verify(program);
  CHECK(program.definitions.size() == 5);
  const Program again = parse(print(program));
  for (std::size_t k = 0; k < 5; ++k) CHECK(again.definitions[k].scan == program.definitions[k].scan);
  const DimValues dims = {{"T", 3}, {"S", 4}};
  const TensorValues values = evaluate(program, dims, random_inputs(program, dims, 1));
  CHECK(values.at("h")[2] == doctest::Approx(values.at("y")[0] + values.at("y")[1] + values.at("y")[2]));
}

TEST_CASE("NaN passes through a reduction") {
  const Program program = parse("dtype f64\n" + kAffine +
                                "dim K\nindex k:K, j:K\ninput a[K]\noutput y[k] = affine.b[j in 0..k+1](a[j], 1)\n");
  for (const auto& device : test_devices()) {
    const TensorValues got = run_on(device, program, {{"K", 3}}, {{"a", {2, std::nan(""), 2}}});
    CHECK(got.at("y")[0] == 1);
    CHECK(std::isnan(got.at("y")[1]));
    CHECK(std::isnan(got.at("y")[2]));
  }
}

std::optional<BrokenLaw> law_of(const std::string& text) {
  return broken_law(parse_text(text, "test.mox", {}).reductions.at(0), 1);
}

TEST_CASE("the laws of a reduction are tested on random states") {
  CHECK_FALSE(law_of(kAffine));
  CHECK_FALSE(law_of(kArgmax));
  const auto identity = law_of("reduction product(p) identity 0 combine(a, b) = a.p*b.p\n");
  REQUIRE(identity);
  CHECK(identity->law == "combine(identity, x) is not x");
  CHECK(identity->states.find("x.p = ") != std::string::npos);
  CHECK(identity->difference.starts_with("component `p` is "));
  const auto right = law_of("reduction difference(d) identity 0 combine(a, b) = b.d - a.d\n");
  REQUIRE(right);
  CHECK(right->law == "combine(x, identity) is not x");
  const auto middle = law_of("reduction middle(m) identity 0 combine(a, b) = a.m + b.m + a.m^2*b.m\n");
  REQUIRE(middle);
  CHECK(middle->law == "combine(combine(x, y), z) is not combine(x, combine(y, z))");
  CHECK(middle->states.find("z.m = ") != std::string::npos);
}

void check_message(const std::string& text, const std::vector<std::string>& parts) {
  std::string told = "nothing";
  try {
    parse("dim K, S\nindex k:K, s:S\ninput x[K]\n" + text, "test.mox");
  } catch (const Error& error) {
    told = error.what();
  }
  CAPTURE(told);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(told.find(part) != std::string::npos);
  }
}

TEST_CASE("messages about reductions show the place and what to do") {
  check_message(
      "reduction r(a, b) identity (0) combine(p, q) = (p.a, p.b)\n",
      {"test.mox:4:28: the identity of `r` has 1 component(s), but the state has 2: a, b", "give one for each"});
  check_message("reduction r(a, b) identity (0, 0) combine(p, q) = (p.a + q.a, p.b, q.b)\n",
                {"test.mox:4:51: the combine of `r` has 3 component(s), but the state has 2"});
  check_message("reduction r(a) identity 0 combine(p, q) = p.a + x[k]\n",
                {"test.mox:4:49: the combine of `r` mentions `x`, which is no part of a state", "p.a, q.a"});
  check_message("reduction r(a) identity 0 combine(p, q) = p.a + k\n", {"test.mox:4:49: ", "mentions `k`"});
  check_message("reduction r(a) identity 0 combine(p, q) = p.a + q.c\n", {"test.mox:4:49: `q.c` is not declared"});
  check_message("reduction r(a) identity 0 combine(p, q) = r[k](p.a)\n",
                {"test.mox:4:43: `r` stands in its own combine", "reductions do not recurse"});
  check_message("reduction r(a) identity 0 combine(p, q) = p.a + randn(0)\n", {"a random draw stands here"});
  check_message("reduction r(a, a) identity (0, 0)\n", {"test.mox:4:16: two components are called `a`"});
  check_message("reduction x(a) identity 0 combine(p, q) = p.a + q.a\n",
                {"test.mox:4:11: `x` cannot name a reduction"});
  const std::string affine = kAffine;
  check_message(affine + "let y = affine.b[k](x[k])\n",
                {"test.mox:5:9: `affine.b` takes elements of 2 component(s), but 1 were given", "affine.b[k](a, b)"});
  check_message(affine + "let y = affine[k](x[k], 1)\n", {"`affine` has 2 results and no finish", "affine.a[k](..)"});
  check_message(affine + "let z[s] = sum[j in 0..s+1](affine.b[k](x[k], j))\n",
                {"the extent of `j`, on which elements depend, cannot be seen"});
  check_message(affine + "let affine = 1\n", {"`affine` cannot name a definition: it is already a reduction"});
  check_message(affine + "scan k {\n  let h[k] = affine.b[s](x[k], where(k == 0, 0, h[k-1]))\n}\n",
                {"test.mox:6:14: `affine.b` reduces `h`, which the scan around it computes"});
}

TEST_CASE("the C++ form of a reduction is that of the text") {
  const Monoid affine("affine", {{"a", 1}, {"b", 0}},
                      [](const State& f, const State& g) { return State{g[0] * f[0], g[0] * f[1] + g[1]}; });
  CHECK(affine == parse_text(kAffine, "test.mox", {}).reductions.at(0));
  Program p("", DType::f64);
  const Dim K = p.dim("K"), S = p.dim("S");
  const Tensor a = p.input("a", {K}), x = p.input("x", {S, K});
  const Index s(S, "s"), k(K, "k"), j(0, Expr(k) + 1, "j");
  const State prefix = reduce(p, "prefix", affine, j, {s, k}, {a(j), x(s, j)});
  p.output("y", {s, k}, prefix[1]);
  CHECK(print(parse(print(p))) == print(p));
  const DimValues dims = {{"S", 2}, {"K", 4}};
  const TensorValues inputs = random_inputs(p, dims, 1);
  const TensorValues values = evaluate(p, dims, inputs);
  for (std::size_t i = 0; i < 8; ++i)
    CHECK(values.at("y")[i] ==
          doctest::Approx(recurrence(inputs.at("a"), inputs.at("x").data() + i / 4 * 4, 0, i % 4 + 1)));
  CHECK_THROWS_AS(reduce(p, "wrong", affine, k, {}, {a(k)}), ShapeError);
  CHECK_THROWS_AS(Monoid("m", {{"a", 0}}, [](const State&, const State&) { return State{}; }), ShapeError);
}

}  // namespace
