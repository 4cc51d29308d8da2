#include "gradient_check.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/diff/differentiate.h"

namespace moxie::test {
namespace {

double weighted_sum(const TensorValues& results, const TensorValues& cotangents,
                    const std::vector<std::string>& outputs) {
  double sum = 0;
  for (const std::string& output : outputs) {
    const auto& y = results.at(output);
    const auto& weights = cotangents.at(output);
    for (std::size_t k = 0; k < y.size(); ++k) sum += y[k] * weights[k];
  }
  return sum;
}

}  // namespace

std::size_t element_count(const InputDecl& input, const DimValues& dims) {
  std::int64_t count = 1;
  for (const Affine& extent : input.shape) count *= extent.evaluate([&](Symbol dim) { return dims.at(dim.name()); });
  return static_cast<std::size_t>(count);
}

TensorValues random_inputs(const Program& program, const DimValues& dims, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<> uniform(-1, 1);
  TensorValues values;
  for (const InputDecl& input : program.inputs) {
    std::vector<double> tensor(element_count(input, dims));
    std::ranges::generate(tensor, [&] { return uniform(random); });
    values.emplace(input.name, std::move(tensor));
  }
  return values;
}

double worst_gradient_error(const Program& program, const std::vector<std::string>& outputs,
                            const std::vector<std::string>& wrt, const DimValues& dims, const TensorValues& inputs) {
  const Program gradient = differentiate(program, outputs, wrt);
  verify(gradient);
  TensorValues all = random_inputs(gradient, dims, 99);
  TensorValues cotangents;
  const std::size_t first_cotangent = program.inputs.size();
  for (std::size_t k = 0; k < outputs.size(); ++k)
    cotangents[outputs[k]] = all.at(gradient.inputs[first_cotangent + k].name);
  for (const auto& [name, tensor] : inputs) all[name] = tensor;
  const TensorValues results = evaluate(gradient, dims, all);

  std::vector<std::string> names = wrt;
  if (names.empty()) {
    for (const InputDecl& input : program.inputs) names.push_back(input.name);
  }
  double worst = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string& gradient_name = gradient.definitions[gradient.definitions.size() - names.size() + i].name;
    const std::vector<double>& computed = results.at(gradient_name);
    double scale = 1;
    for (const double g : computed) scale = std::max(scale, 1 + std::abs(g));
    for (std::size_t k = 0; k < computed.size(); ++k) {
      double error = std::numeric_limits<double>::infinity();
      for (const double step : {1e-5, 3e-7}) {
        TensorValues moved = inputs;
        moved.at(names[i])[k] += step;
        const double above = weighted_sum(evaluate(program, dims, moved), cotangents, outputs);
        moved.at(names[i])[k] -= 2 * step;
        const double below = weighted_sum(evaluate(program, dims, moved), cotangents, outputs);
        error = std::min(error, std::abs((above - below) / (2 * step) - computed[k]));
        if (error < 1e-7 * scale) break;
      }
      worst = std::max(worst, error / scale);
      if (std::isnan(error)) return error;
    }
  }
  return worst;
}

}  // namespace moxie::test
