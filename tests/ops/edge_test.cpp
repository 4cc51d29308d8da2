// Formulas at the edges of their domains: values and gradients stay finite, and mean what the limit means.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "ops/catalogue.h"

namespace {

using namespace moxie;

struct Edge {
  const char* op;
  DimValues dims;
  TensorValues inputs;
};

/// Outputs by name and gradients of the sum of all outputs as grad.NAME.
TensorValues outputs_and_gradients(const Edge& edge) {
  const Program program = load_op(edge.op);
  const TensorValues values = evaluate(program, edge.dims, edge.inputs);
  TensorValues inputs = edge.inputs;
  TensorValues result;
  std::vector<std::string> outputs;
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    outputs.push_back(definition.name);
    result[definition.name] = values.at(definition.name);
    inputs["cot." + definition.name].assign(values.at(definition.name).size(), 1);
  }
  const std::vector<std::string> wrt = differentiable_inputs(get_op(edge.op), program);
  const TensorValues gradients = evaluate(differentiate(program, outputs, wrt), edge.dims, inputs);
  for (const std::string& name : wrt) result["grad." + name] = gradients.at("grad." + name);
  return result;
}

TEST_CASE("values and gradients are finite at the edges") {
  const std::vector<Edge> edges = {
      {"gpn.loss_unscented_diag",
       {{"S", 1}, {"D", 3}},
       {{"mu", {1000, 0, -1000}}, {"var", {0, 5000, 1e-9}}, {"target", {0, 1, 0}}}},
      {"gpn.loss_unscented_diag", {{"S", 1}, {"D", 2}}, {{"mu", {0, 0}}, {"var", {0, 400}}, {"target", {1, 0}}}},
      {"gpn.loss_unscented_diag", {{"S", 1}, {"D", 1}}, {{"mu", {3}}, {"var", {400}}, {"target", {1}}}},
      {"gpn.loss_unscented_features_diag",
       {{"S", 1}, {"M", 1}, {"D", 2}},
       {{"mean_x", {0}}, {"var_x", {0}}, {"W", {0, 0}}, {"target", {0, 1}}}},
      {"gpn.penalty_noise", {{"N", 1}, {"R", 2}}, {{"noise", {1e-300, 1e300}}, {"alpha_S", {0.1}}, {"beta_S", {1e-3}}}},
      {"gpn.class_probability", {{"S", 1}, {"D", 2}}, {{"mu", {1e4, -1e4}}, {"var", {0, 0}}}},
      {"probact.moments", {{"S", 1}, {"N", 3}}, {{"mu", {0, 1e6, -1e6}}, {"var", {0, 0, 1e-30}}, {"sigma", {0, 0, 0}}}},
      {"sp_gru.sigmoid", {{"S", 1}, {"N", 2}}, {{"o_m", {1000, -1000}}, {"o_s", {0, 1e6}}}},
      {"sp_gru.tanh", {{"S", 1}, {"N", 2}}, {{"o_m", {1000, -1000}}, {"o_s", {0, 1e6}}}},
      {"loss.softmax_cross_entropy", {{"S", 1}, {"D", 2}}, {{"logits", {1e5, -1e5}}, {"target", {0, 1}}}},
  };
  for (const Edge& edge : edges) {
    CAPTURE(edge.op);
    for (const auto& [name, values] : outputs_and_gradients(edge)) {
      CAPTURE(name);
      for (const double value : values) CHECK(std::isfinite(value));
    }
  }
}

TEST_CASE("two equal classes without variance cost log 2, and the variance's gradient is p(1-p)/2") {
  const TensorValues values = outputs_and_gradients(
      {"gpn.loss_unscented_diag", {{"S", 1}, {"D", 2}}, {{"mu", {0, 0}}, {"var", {0, 0}}, {"target", {1, 0}}}});
  CHECK(values.at("loss")[0] == doctest::Approx(std::log(2)));
  CHECK(values.at("grad.mu")[0] == doctest::Approx(-0.5));
  CHECK(values.at("grad.mu")[1] == doctest::Approx(0.5));
  CHECK(values.at("grad.var")[0] == doctest::Approx(0.125));
}

TEST_CASE("the branches of the closed unscented loss meet") {
  for (const double u : {1e-4, 900.0}) {
    const auto loss = [&](double factor) {
      const double var = u / 3 * factor;
      return outputs_and_gradients(
          {"gpn.loss_unscented_diag", {{"S", 1}, {"D", 2}}, {{"mu", {1, -1}}, {"var", {var, 0}}, {"target", {1, 0}}}});
    };
    const TensorValues below = loss(1 - 1e-12);
    const TensorValues above = loss(1 + 1e-12);
    for (const char* name : {"loss", "grad.mu", "grad.var"}) {
      CAPTURE(name);
      CHECK(below.at(name)[0] == doctest::Approx(above.at(name)[0]).epsilon(1e-9));
    }
  }
}

}  // namespace
