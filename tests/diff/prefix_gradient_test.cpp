// Gradients of reductions over a prefix: recurrences, with the values of the dense formulas.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/property/random.h"

using namespace moxie;
using namespace moxie::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// A range that gains or loses one element from t to t+1, and the condition for the same elements of 0..N.
struct Prefix {
  const char* range;
  const char* condition;
};
constexpr Prefix kPrefixes[] = {{"0..t+1", "u <= t"},
                                {"0..t", "u < t"},
                                {"t..N", "u >= t"},
                                {"t+1..N", "u > t"},
                                {"0..N-t", "u+t < N"},
                                {"2..t", "u >= 2 and u < t"},
                                {"t..N-3", "u >= t and u < N-3"}};

const char* neutral(const std::string& kind) { return kind == "min" ? "inf" : kind == "prod" ? "1" : "-inf"; }

std::string formula(const std::string& kind, const std::string& range, const std::string& element) {
  return fmt::format("dim N dynamic\nindex t:N, u:N, s in 0..2\ninput x[2,N], w[N]\noutput y[s,t] = {}[u in {}]({})\n",
                     kind, range, element);
}

std::vector<double> random_numbers(Random& random, std::size_t count, bool whole) {
  std::vector<double> values(count);
  for (double& value : values) value = whole ? static_cast<double>(random.between(-2, 2)) : random.real(-2, 2);
  return values;
}

/// Every gradient of the formula by evaluate(), with which all devices agree.
TensorValues gradients(const std::string& text, const DimValues& dims, const TensorValues& inputs) {
  const Program program = differentiate(with_dtype(parse(text), DType::f64), {"y"}, {});
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test_devices()) {
    Session session(program, {}, device);
    for (const auto& [name, values] : inputs)
      session.set(name, make_host_tensor(DType::f64, extents_of(program, name, dims), values));
    session.run();
    for (const char* name : {"grad.x", "grad.w"}) {
      const std::vector<double> got = to_doubles(session.get(name)), &want = expected.at(name);
      for (std::size_t k = 0; k < want.size(); ++k) {
        INFO(text, device->name(), ": ", name, "[", k, "] is ", got[k], ", not ", want[k]);
        CHECK((got[k] == doctest::Approx(want[k]).epsilon(1e-9) || (std::isnan(got[k]) && std::isnan(want[k]))));
      }
    }
  }
  return expected;
}

bool is_recurrence_alone(const Program& program) {
  return std::ranges::all_of(program.definitions, [](const Definition& definition) {
    return definition.name == "y" || definition.name == "y.prefix" || definition.name.starts_with("grad.") ||
           definition.body->height == 0;
  });
}

}  // namespace

TEST_CASE("gradients over prefixes are those of the dense formulas, ties included") {
  constexpr std::int64_t n = 7;
  for (const std::string kind : {"max", "min", "prod", "logsumexp"}) {
    for (const Prefix& prefix : kPrefixes) {
      Random random(17);
      for (const bool whole : {true, false}) {
        const std::string element = "x[s,u]*w[u]";
        const TensorValues inputs{{"x", random_numbers(random, 2 * n, whole)},
                                  {"w", random_numbers(random, n, whole)},
                                  {"cot.y", random_numbers(random, 2 * n, false)}};
        const TensorValues got = gradients(formula(kind, prefix.range, element), {{"N", n}}, inputs);
        const std::string masked = fmt::format("where({}, {}, {})", prefix.condition, element, neutral(kind));
        const TensorValues dense = evaluate(
            differentiate(with_dtype(parse(formula(kind, "0..N", masked)), DType::f64), {"y"}, {}), {{"N", n}}, inputs);
        for (const char* name : {"grad.x", "grad.w"}) {
          for (std::size_t k = 0; k < got.at(name).size(); ++k) {
            INFO(kind, " over ", std::string(prefix.range), std::string(whole ? " of whole numbers" : ""), ": ",
                 std::string(name), "[", k, "]");
            CHECK(got.at(name)[k] == doctest::Approx(dense.at(name)[k]));
          }
        }
      }
    }
  }
}

TEST_CASE("a running extremum inside of another one reads no elements that a ragged definition lacks") {
  constexpr std::size_t n = 6;
  Random random(23);
  const TensorValues inputs{{"x", random_numbers(random, n, false)},
                            {"w", random_numbers(random, n, false)},
                            {"cot.y", random_numbers(random, n, false)}};
  const auto found = [&](const std::string& definition, const std::string& element) {
    return gradients("dim N dynamic\nindex i:N, j:N, k:N\ninput x[N], w[N]\n" + definition +
                         "output y[i] = max[j in 0..i+1](min[k in i..N](" + element + "))\n",
                     {{"N", n}}, inputs);
  };
  const TensorValues ragged = found("let m[j,k in j..N of N] = x[j]*w[k]\n", "m[j,k]"), whole = found("", "x[j]*w[k]");
  for (const char* name : {"grad.x", "grad.w"}) {
    for (std::size_t k = 0; k < n; ++k) CHECK(ragged.at(name)[k] == doctest::Approx(whole.at(name)[k]));
  }
}

TEST_CASE("what is infinite has its place in a running extremum") {
  const TensorValues inputs{{"x", {-kInf, -kInf, 1, kInf, kInf, 0, 0, 0, 0, 0}},
                            {"w", {1, 1, 1, 1, 1}},
                            {"cot.y", {1, 2, 4, 8, 16, 0, 0, 0, 0, 0}}};
  const std::vector<double> got = gradients(formula("max", "0..t+1", "x[s,u] + w[u]"), {{"N", 5}}, inputs).at("grad.x");
  CHECK(std::vector(got.begin(), got.begin() + 5) == std::vector<double>{3, 0, 4, 24, 0});
}

TEST_CASE("gradients over prefixes are recurrences, and so are their gradients") {
  for (const std::string kind : {"max", "min", "prod", "logsumexp"}) {
    const std::string text =
        fmt::format("dim N dynamic\nindex t:N, u:N\ninput x[N]\noutput y[t] = {}[u in t..N](sin(x[u]))\n", kind);
    const Program program = with_dtype(parse(text), DType::f64);
    const Program gradient = differentiate(program, {"y"}, {});
    INFO(print(gradient));
    CHECK(is_recurrence_alone(gradient));
    CHECK(std::ranges::any_of(gradient.definitions, [](const Definition& d) { return d.scan.has_value(); }));
    const DimValues dims{{"N", 6}};
    CHECK(worst_gradient_error(program, {"y"}, {}, dims, random_inputs(program, dims, 5)) < 1e-7);
    CHECK(worst_gradient_error(gradient, {"grad.x"}, {}, dims, random_inputs(gradient, dims, 6)) < 1e-6);
  }
}

TEST_CASE("a prefix of a few elements is taken as it stands") {
  const std::string text = "dim N = 4\nindex t:N, u:N\ninput x[N]\noutput y[t] = max[u in 0..t+1](x[u])\n";
  const Program gradient = differentiate(parse(text), {"y"}, {});
  CHECK(std::ranges::none_of(gradient.definitions, [](const Definition& d) { return d.scan.has_value(); }));
}
