#include "gradient_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/tangents.h"

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

/// sum(a*b) over the tensors of `a`; the sizes of the terms are added to `size`.
double weighted_total(const TensorValues& a, const TensorValues& b, double& size) {
  double sum = 0;
  for (const auto& [name, tensor] : a) {
    for (std::size_t k = 0; k < tensor.size(); ++k) {
      const double term = tensor[k] * b.at(name)[k];
      sum += term;
      size += std::abs(term);
    }
  }
  return sum;
}

std::vector<std::string> names_or_all_inputs(const Program& program, const std::vector<std::string>& wrt) {
  std::vector<std::string> names = wrt;
  if (names.empty()) {
    for (const InputDecl& input : program.inputs) {
      if (input.dtype != DType::i32) names.push_back(input.name);
    }
  }
  return names;
}

/// The values of the tensors at the end of `items`, which derivatives add, by the names of what they belong to.
template <class Items>
TensorValues last_values(const Items& items, const TensorValues& values, const std::vector<std::string>& names) {
  TensorValues some;
  for (std::size_t k = 0; k < names.size(); ++k)
    some[names[k]] = values.at(items[items.size() - names.size() + k].name);
  return some;
}

/// Random values, but `inputs` where these are.
TensorValues completed(const Program& program, const DimValues& dims, const TensorValues& inputs, unsigned seed) {
  TensorValues all = random_inputs(program, dims, seed);
  for (const auto& [name, tensor] : inputs) all[name] = tensor;
  return all;
}

TensorValues moved(TensorValues inputs, const TensorValues& direction, double step) {
  for (const auto& [name, tensor] : direction) {
    for (std::size_t k = 0; k < tensor.size(); ++k) inputs.at(name)[k] += step * tensor[k];
  }
  return inputs;
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

  const std::vector<std::string> names = names_or_all_inputs(program, wrt);
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

double worst_tangent_error(const Program& program, const std::vector<std::string>& outputs,
                           const std::vector<std::string>& wrt, const DimValues& dims, const TensorValues& inputs) {
  const std::vector<std::string> names = names_or_all_inputs(program, wrt);
  const Program forward = tangents(program, outputs, wrt), reverse = differentiate(program, outputs, wrt);
  verify(forward);
  const TensorValues forward_inputs = completed(forward, dims, inputs, 98);
  const TensorValues reverse_inputs = completed(reverse, dims, inputs, 99);
  const TensorValues v = last_values(forward.inputs, forward_inputs, names);
  const TensorValues u = last_values(reverse.inputs, reverse_inputs, outputs);
  const TensorValues forward_values = evaluate(forward, dims, forward_inputs);
  TensorValues jv;
  for (const std::string& output : outputs) jv[output] = forward_values.at("tan." + output);

  double size = 1;
  const double by_forward = weighted_total(u, jv, size);
  const double by_reverse =
      weighted_total(v, last_values(reverse.definitions, evaluate(reverse, dims, reverse_inputs), names), size);
  double worst = std::abs(by_forward - by_reverse) / size;
  for (const std::string& output : outputs) {
    const std::vector<double>& computed = jv.at(output);
    double scale = 1;
    for (const double t : computed) scale = std::max(scale, 1 + std::abs(t));
    for (std::size_t k = 0; k < computed.size(); ++k) {
      double error = std::numeric_limits<double>::infinity();
      for (const double step : {1e-5, 3e-7}) {
        const double above = evaluate(program, dims, moved(inputs, v, step)).at(output)[k];
        const double below = evaluate(program, dims, moved(inputs, v, -step)).at(output)[k];
        error = std::min(error, std::abs((above - below) / (2 * step) - computed[k]) / scale);
        if (error < 1e-7) break;
      }
      worst = std::max(worst, error);
    }
  }
  return std::isnan(by_forward) ? by_forward : worst;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, a[k] == b[k] ? 0 : std::abs(a[k] - b[k]));
  return largest;
}

double difference_from_written_gradient(const Program& program, const DimValues& dims, TensorValues inputs,
                                        const std::vector<double>& cotangent) {
  inputs["cot.y"] = cotangent;
  const TensorValues written = evaluate(differentiate(specialise(program, dims), {"y"}, {}), dims, inputs);
  const TensorValues found = evaluate(differentiate(program, {"y"}, {}), dims, inputs);
  double largest = 0;
  for (const InputDecl& input : program.inputs) {
    if (!holds_integers(input.dtype))
      largest = std::max(largest, largest_difference(written.at("grad." + input.name), found.at("grad." + input.name)));
  }
  return largest;
}

}  // namespace moxie::test
