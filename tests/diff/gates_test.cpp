// The derivative of a branch that `where` does not take is 0, also where that branch has no slope: for functions that
// have none at 0, below it or where they overflow, inline, through definitions, sums and scans.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/tangents.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// `U` stands for the argument. At `bad` the value or the slope is infinite or NaN; the condition excludes it.
struct Singular {
  const char* function;
  const char* condition;
  double bad;
};
constexpr Singular kSingular[] = {{"sqrt(U)", "U > 0", 0},
                                  {"sqrt(U)", "U > 0", -1},
                                  {"log(U)", "U > 0", 0},
                                  {"1/U", "U != 0", 0},
                                  {"U^0.5", "U > 0", 0},
                                  {"U^-2", "U > 0", 0},
                                  {"rsqrt(U)", "U > 0", 0},
                                  {"exp(U)", "U < 50", 1e6},
                                  {"log1p(exp(U))", "U < 20", 1e6},
                                  {"lgamma(U)", "U > 0", 0},
                                  {"sqrt(1 - U^2)", "U < 0.99", 1},
                                  {"w*sqrt(U)/U", "U > 0", 0},
                                  {"sin(1/U)", "abs(U) > 0", 0},
                                  {"U*log(U)", "U > 0", 0},
                                  {"pow(U, w)", "U > 0", 0},
                                  {"expm1(U)/U", "not U == 0", 0},
                                  {"log_normal_cdf(1/U)", "U > 0", 0}};

/// `F` stands for the function of u[n], `C` for the condition. y grows with good elements only.
constexpr const char* kForms[] = {
    "output y[n] = where(C, F, 0)",
    "output y[n] = where(not (C), 0, F)",
    "let r[n] = F\noutput y[n] = where(C, r[n], 0)",
    "let r[n] = F\nlet q[n] = 3*r[n]*w\nlet p[n] = q[n] + w\noutput y[n] = where(C, p[n], 0)",
    "let r[n] = F\noutput y[n] = where(C, where(w > 0, r[n], u[n]), 0) + where(C, r[n]*w, 2)",
    "let r[n] = F\noutput y[m] = sum[n](where(C, r[n], 0)*x[m,n])",
    "let r[n] = F\nlet q[m,n] = r[n]*x[m,n]\noutput y[m] = sum[n](where(C, q[m,n], 0))",
    "let r[n] = F\nlet chosen[n] = where(C, r[n], 0)\noutput y[m] = prod[n](2 + sin(chosen[n]*x[m,n]))",
    "scan t {\nlet r[t,n] = F\noutput y[t,n] = where(C, r[t,n]*w, 0) + where(t == 0, 0, 0.5*y[t-1,n])\n}",
    "let r[n] = F\noutput y = max[n](where(C, r[n], -1000))",
};

std::string with(std::string text, const std::string& name, const std::string& value) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + value.size()))
    text.replace(at, name.size(), value);
  return text;
}

std::string formula(const Singular& singular, const std::string& form) {
  const std::string text = with(with(form, "F", singular.function), "C", singular.condition);
  return "dim N = 4, M = 3, T = 3\nindex n:N, m:M, t:T\ninput u[N], x[M,N], w\n" + with(text, "U", "u[n]") + "\n";
}

/// u[0] is bad, the others are good, and inside the conditions.
TensorValues inputs_for(const Program& gradient, double bad) {
  TensorValues inputs = {{"u", {bad, 0.3, 0.7, 0.45}}, {"w", {1.25}}};
  for (int k = 0; k < 12; ++k) inputs["x"].push_back(0.1 * k - 0.35);
  const std::size_t size = gradient.find_input("cot.y")->shape.empty() ? 1 : 12;
  for (std::size_t k = 0; k < size; ++k) inputs["cot.y"].push_back(k % 2 ? 0.5 : -1.5);
  return inputs;
}

double weighted(const std::vector<double>& y, const std::vector<double>& weights) {
  double total = 0;
  for (std::size_t k = 0; k < y.size(); ++k) total += y[k] * weights[k];
  return total;
}

/// The slope of the formula in element k of u, by differences.
double slope(const Program& program, TensorValues inputs, std::size_t k) {
  constexpr double kStep = 1e-5;
  const std::vector<double> weights = inputs.at("cot.y");
  inputs.erase("cot.y");
  inputs["u"][k] += kStep;
  const double above = weighted(evaluate(program, {}, inputs).at("y"), weights);
  inputs["u"][k] -= 2 * kStep;
  return (above - weighted(evaluate(program, {}, inputs).at("y"), weights)) / (2 * kStep);
}

std::size_t size_of(const Program& program) {
  std::size_t size = 1;
  for (const Affine& extent : program.shape_of("y"))
    size *= static_cast<std::size_t>(*program.find_dim(extent.terms()[0].first.name())->value);
  return size;
}

}  // namespace

TEST_CASE("a branch that is not taken has no derivative, however singular it is") {
  for (const Singular& singular : kSingular) {
    for (const char* form : kForms) {
      const Program program = parse(formula(singular, form));
      const Program gradient = differentiate(program, {"y"}, {});
      TensorValues inputs = inputs_for(gradient, singular.bad);
      inputs["cot.y"].resize(size_of(program));
      const TensorValues got = evaluate(gradient, {}, inputs);
      INFO(formula(singular, form), print(gradient));
      CHECK(got.at("grad.u")[0] == 0);
      for (std::size_t k = 1; k < 4; ++k)
        CHECK(got.at("grad.u")[k] == doctest::Approx(slope(program, inputs, k)).epsilon(1e-6));
      for (const auto& [name, values] : got) {
        if (name.starts_with("grad."))
          CHECK(std::ranges::all_of(values, [](double value) { return std::isfinite(value); }));
      }
    }
  }
}

TEST_CASE("tangents skip branches that are not taken as gradients do") {
  for (const Singular& singular : kSingular) {
    for (const char* form : kForms) {
      const Program program = parse(formula(singular, form));
      TensorValues inputs = inputs_for(differentiate(program, {"y"}, {}), singular.bad);
      inputs["cot.y"].resize(size_of(program));
      const TensorValues gradient = evaluate(differentiate(program, {"y"}, {}), {}, inputs);
      for (const std::string& name : {"u", "x", "w"}) {
        for (std::size_t k = 0; k < inputs.at(name).size(); ++k) {
          inputs["tan." + name].push_back(0.25 + 0.125 * static_cast<double>(k));
        }
      }
      const Program forward = tangents(program, {"y"}, {});
      const double by_tangent = weighted(inputs.at("cot.y"), evaluate(forward, {}, inputs).at("tan.y"));
      double by_gradient = 0;
      for (const char* name : {"u", "x", "w"})
        by_gradient += weighted(gradient.at(std::string("grad.") + name), inputs.at(std::string("tan.") + name));
      INFO(formula(singular, form), print(forward));
      CHECK(by_tangent == doctest::Approx(by_gradient).epsilon(1e-9));
    }
  }
}

TEST_CASE("a slope that is infinite meets a tangent that a choice made zero") {
  const char* const forms[] = {
      "output y[n] = sqrt(where(u[n] > 0.5, u[n], 0))",
      "let v[n] = where(u[n] > 0.5, u[n], 0)\noutput y[n] = log(v[n] + 1) + sqrt(v[n])",
      "let s = sum[n](where(u[n] > 2, u[n]^2, 0))\noutput y[n] = u[n] + sqrt(s)",
      "scan n {\nlet r[n] = where(n == 0, 0, sqrt(v[n-1]))\nlet v[n] = where(u[n] > 0.5, u[n] + r[n], 0)\n"
      "output y[n] = v[n] + r[n]\n}",
  };
  for (const char* form : forms) {
    const Program program = parse(std::string("dim N = 3\nindex n:N\ninput u[N]\n") + form + "\n");
    const std::vector<double> u = {0.25, 1, 0.75}, v = {1, 2, 3}, cotangent = {0.5, -1, 2};
    const TensorValues ju = evaluate(differentiate(program, {"y"}, {"u"}), {}, {{"u", u}, {"cot.y", cotangent}});
    const TensorValues jv = evaluate(tangents(program, {"y"}, {"u"}), {}, {{"u", u}, {"tan.u", v}});
    INFO(form);
    CHECK(weighted(jv.at("tan.y"), cotangent) == doctest::Approx(weighted(ju.at("grad.u"), v)));
  }
}

TEST_CASE("a branch that is not taken has no derivative, on every device and with any rewrites") {
  for (const auto& device : test_devices()) {
    const bool is_slow = device->name() == "cuda-emu";
    for (std::size_t k = 0; k < std::size(kSingular) * std::size(kForms); k += is_slow ? 37 : 3) {
      const Singular& singular = kSingular[k % std::size(kSingular)];
      const std::string text = formula(singular, kForms[k / std::size(kSingular)]);
      for (const char* precision : {"", "precision fast\n"}) {
        const Program gradient = differentiate(with_dtype(parse(precision + text), DType::f64), {"y"}, {});
        TensorValues inputs = inputs_for(gradient, singular.bad);
        inputs["cot.y"].resize(size_of(gradient));
        const TensorValues expected = evaluate(gradient, {}, inputs);
        const TensorValues got = run_on(device, gradient, {{"N", 4}, {"M", 3}, {"T", 3}}, inputs);
        INFO(device->name(), "\n", precision, text);
        for (std::size_t n = 0; n < 4; ++n)
          CHECK(got.at("grad.u")[n] == doctest::Approx(expected.at("grad.u")[n]).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("a cotangent of zero hides no slope from second derivatives") {
  const Program program = parse("input u\nlet r = sqrt(u)\noutput y = where(u > 0, r, 0)\n");
  const Program gradient = differentiate(program, {"y"}, {"u"});
  const Program second = differentiate(gradient, {"grad.u"}, {"cot.y"});
  const TensorValues got = evaluate(second, {}, {{"u", {4}}, {"cot.y", {0}}, {"cot.grad.u", {1}}});
  CHECK(got.at("grad.cot.y")[0] == 0.25);
}

TEST_CASE("pairs of a particle with itself have no derivative, however singular it is") {
  struct Energy {
    const char *before, *pair, *after;
  };
  constexpr const char* kDims = "dtype f64\ndim N\nindex i:N, j:N, k in 0..3, l in 0..3\ninput x[N,3], q[N]\n";
  constexpr const char* kDistance = "let r[i,j] = sqrt(sum[k]((x[i,k]-x[j,k])^2))\n";
  constexpr Energy kEnergies[] = {
      {"output y = sum[i,j](", "q[j]/sum[k]((x[i,k]-x[j,k])^2)^1.5", ")\n"},
      {"DISTANCE output y = sum[i,j](", "q[i]/r[i,j] + log(r[i,j])", ")\n"},
      {"DISTANCE let f[i,j] = 1/r[i,j]^6 - q[j]/r[i,j]^3\noutput y = sum[i,j](", "f[i,j]", ")\n"},
      {"DISTANCE output y = sum[i,j](", "where(q[j] > 0, log(r[i,j]), 0)", ")\n"},
      {"let a[i,k] = sum[j](", "q[j]*(x[j,k]-x[i,k])/sum[l]((x[i,l]-x[j,l])^2)^1.5",
       ")\noutput y = sum[i,k](a[i,k]^2)\n"}};
  constexpr const char* kApart[] = {"where(i != j, PAIR, 0)", "where(i == j, 0, PAIR)",
                                    "where(i < j or i > j, PAIR, 0)", "where(not (i <= j and i >= j), PAIR, 0)"};
  const DimValues dims = {{"N", 4}};
  const TensorValues inputs = {{"x", {0, 0, 0.1, 1, 0.2, 0, 0.3, 1.1, 0.5, 0.9, 0.8, 2}}, {"q", {1, -2, 3, 0.5}}};
  for (const Energy& energy : kEnergies) {
    for (const char* apart : kApart) {
      const std::string before = with(energy.before, "DISTANCE ", kDistance);
      const std::string text = kDims + before + with(apart, "PAIR", energy.pair) + energy.after;
      INFO(text);
      CHECK(worst_gradient_error(parse(text), {"y"}, {"x", "q"}, dims, inputs) < 1e-6);
      const Program gradient = differentiate(parse(text), {"y"}, {});
      TensorValues all = inputs;
      all["cot.y"] = {1};
      const TensorValues expected = evaluate(gradient, dims, all);
      for (const auto& device : test_devices()) {
        if (device->name() == "cuda-emu" && apart != kApart[0]) continue;  // compiles slowly
        const TensorValues got = run_on(device, gradient, dims, all);
        for (std::size_t n = 0; n < 12; ++n)
          CHECK(got.at("grad.x")[n] == doctest::Approx(expected.at("grad.x")[n]).epsilon(1e-9));
      }
    }
  }
}

TEST_CASE("formulas without a choice, and slopes that are finite by declared domains, get no guards") {
  const auto guards = [](const std::string& text) {
    const std::string printed = print(differentiate(parse("dim N\nindex n:N\n" + text), {"y"}, {}));
    return printed.find("inf") != std::string::npos;
  };
  CHECK_FALSE(guards("input u[N]\nlet r[n] = sqrt(u[n])\noutput y[n] = r[n]^2\n"));
  CHECK_FALSE(guards("input u[N]\nlet r[n] = sqrt(u[n])\noutput y[n] = where(n > 1, r[n], 0)\n"));
  CHECK_FALSE(guards("input u[N] > 0\nlet r[n] = sqrt(u[n])\noutput y[n] = where(n > 1, r[n], 0)\n"));
  CHECK_FALSE(guards("input u[N], v[N]\nlet r[n] = tanh(u[n])*v[n]\noutput y[n] = where(v[n] > 1, r[n], 0)\n"));
  CHECK_FALSE(guards("input u[N]\noutput y[n] = where(u[n] > 1, log(u[n]), 0)\n"));
  CHECK_FALSE(guards("input u[N]\nlet r[n] = sqrt(u[n])\noutput y[n] = where(n != 1, r[n], 0)\n"));
  CHECK_FALSE(
      guards("input u[N]\nlet r[n] = u[n]/(sqrt(N)*where(u[n] <= 0.1, 1, u[n]))\n"
             "output y[n] = where(u[n] > 1, r[n], 0)\n"));
  CHECK(guards("input u[N]\nlet r[n] = sqrt(u[n])\noutput y[n] = where(u[n] > 0, r[n], 0)\n"));
}

TEST_CASE("a choice does not bring the elements of a reduction together with all that read its result") {
  // Rows of C elements take C steps each: no sum over the row for each of its elements.
  const auto rows_in_rows = [](const std::string& summand) {
    const Program program = parse(
        "dim B, C\nindex b:B, c:C\ninput x[B,C], w[B,C], v[B], label[B]: i32 >= 0\n"
        "let p[b,c] = " +
        summand);
    int found = 0;
    for (const Definition& definition : differentiate(program, {"y"}, {"x"}).definitions) {
      const bool is_element = definition.axes.size() == 2;
      visit(definition.body, [&](const Expr& e) { found += is_element && e->kind == NodeKind::Reduce; });
    }
    return found;
  };
  // The normaliser of log_softmax is a definition of its own.
  CHECK(rows_in_rows("log_softmax[c](x[b,c])\noutput y = sum[b](where(v[b] > 0, p[b,label[b]], 0))\n") == 0);
  CHECK(rows_in_rows("log_softmax[c](x[b,c])\noutput y = sum[b,c](where(v[b] > 0, w[b,c]*p[b,c], 0))\n") == 0);
  // The norm of the row stands in the gradient again.
  CHECK(rows_in_rows(
            "x[b,c]/sqrt(sum[e in 0..C](x[b,e]^2))\noutput y = sum[b,c](where(v[b] > 0, w[b,c]*p[b,c], 0))\n") == 2);
}
