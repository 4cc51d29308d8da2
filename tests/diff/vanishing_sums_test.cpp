// Adjoints that are zero whatever the inputs are: of what makes a softmax safe, of means in deviations from them.
#include "compiler/diff/vanishing_sums.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "compiler/diff/differentiate.h"
#include "compiler/program/program.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

const std::string kHead =
    "dim S, N\nindex s:S, n:N, m:N, k:N\ninput x[S,N], w[S,N], c\nlet top[s] = max[n](x[s,n])\n"
    "let mean[s] = sum[n](x[s,n])/N\n";
const DimValues kDims = {{"S", 4}, {"N", 5}};

struct Form {
  const char* name;
  const char* text;
  const char* adjoint;  // the definition whose adjoint may vanish
  bool vanishes;
};

const Form kForms[] = {
    {"softmax", "let e[s,n] = exp(x[s,n] - top[s])\noutput y[s,n] = e[s,n]/sum[m](e[s,m])", "top", true},
    {"softmax in one line", "output y[s,n] = exp(x[s,n] - top[s])/sum[m](exp(x[s,m] - top[s]))", "top", true},
    {"softmax without definitions", "output y[s,n] = exp(x[s,n] - max[m](x[s,m]))/sum[k](exp(x[s,k] - max[m](x[s,m])))",
     "y.extremum", true},
    {"log-sum-exp", "output y[s] = top[s] + log(sum[n](exp(x[s,n] - top[s])))", "top", true},
    {"cross entropy", "output y = sum[s,n](w[s,n]*(x[s,n] - top[s] - log(sum[m](exp(x[s,m] - top[s])))))", "top", true},
    {"causal attention",
     "let z[s,n] = sum[m in 0..n+1](exp(x[s,m] - x[s,n]))\noutput y[s,n] = sum[m in 0..n+1](exp(x[s,m] - "
     "x[s,n])*w[s,m])/z[s,n]",
     "z", false},
    {"masked softmax",
     "let e[s,n] = where(w[s,n] > -0.5, exp(x[s,n] - top[s]), 0)\noutput y[s,n] = e[s,n]/(sum[m](e[s,m]))*w[s,n]",
     "top", true},
    {"deviations", "output y[s] = sum[n]((x[s,n] - mean[s])^2)/N", "mean", true},
    {"third moment", "output y[s] = sum[n]((x[s,n] - mean[s])^3)/N", "mean", false},
    {"another temperature", "output y[s,n] = exp(x[s,n] - top[s])/(c + sum[m](exp(x[s,m] - top[s])))", "top", false},
    {"another range", "output y[s,n] = exp(x[s,n] - top[s])/sum[m in 1..N](exp(x[s,m] - top[s]))", "top", true},
    {"read elsewhere", "output y[s,n] = exp(x[s,n] - top[s])/sum[m](exp(x[s,m] - top[s])) + w[s,n]*top[s]", "top",
     false},
    {"stopped", "output y[s,n] = exp(x[s,n] - top[s])/sum[m](exp(stop_gradient(x[s,m] - top[s])))", "top", false},
};

bool has_adjoint(const Program& gradient, const std::string& name) {
  return std::ranges::any_of(gradient.definitions, [&](const Definition& definition) {
    return definition.name == "adj." + name || definition.name.starts_with("adj." + name + ".");
  });
}

}  // namespace

TEST_CASE("adjoints that vanish are not computed") {
  for (const Form& form : kForms) {
    CAPTURE(std::string(form.name));
    const Program program = parse(kHead + form.text);
    const Program gradient = differentiate(program, {"y"}, {"x", "w"});
    CHECK(has_adjoint(gradient, form.adjoint) == !form.vanishes);
    if (std::string(form.text).find("stop_gradient") == std::string::npos)
      CHECK(worst_gradient_error(program, {"y"}, {"x", "w"}, kDims, random_inputs(program, kDims, 7)) < 1e-6);
  }
}

TEST_CASE("sums are told to vanish by their values alone, whatever their form") {
  const Program program = parse(kHead + "output y = sum[s,n](x[s,n]*w[s,n])");
  const auto left = [&](const std::string& text) {
    const Program with = parse(kHead + fmt::format("output y[s] = {}", text));
    return without_vanishing_sums(with, with.definitions.back().body)->is_constant(0);
  };
  CHECK(left("sum[n](x[s,n]*sum[m](w[s,m])) - sum[m,n](w[s,n]*x[s,m])"));
  CHECK(left("sum[n](x[s,n] - mean[s])"));
  CHECK(left("sum[n](where(n >= 0, x[s,n], 0)) - N*mean[s]"));
  CHECK(left("sum[n](x[s,n]/sqrt(c))*sqrt(c) - N*mean[s]"));
  CHECK_FALSE(left("sum[n](where(n >= 1, x[s,n], 0)) - N*mean[s]"));
  CHECK_FALSE(left("sum[n](x[s,n])^2 - sum[n](x[s,n]^2)"));
  CHECK_FALSE(left("sum[n](sqrt(x[s,n]^2)) - sum[n](x[s,n])"));
  CHECK_FALSE(left("sum[n](x[s,n]) - sum[n](x[n-n,n])"));
}

TEST_CASE("a long chain of linear definitions is given up in time") {
  std::string text = "dim N\nindex n:N, m:N\ninput x[N], A[N,N]\nlet h0[n] = x[n]\n";
  for (int k = 1; k <= 60; ++k)
    text += fmt::format("let h{}[n] = sum[m](A[n,m]*h{}[m]) + h{}[n] - h{}[n]/2\n", k, k - 1, k - 1, k - 1);
  const Program program = parse(text + "output y = sum[n](h60[n])");
  CHECK(differentiate(program, {"y"}, {"x"}).find_definition("grad.x") != nullptr);
}
