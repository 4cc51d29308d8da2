#include "tools/commands/check_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

bool is_square(const InputDecl& input) {
  const std::size_t rank = input.shape.size();
  return rank >= 2 && input.shape[rank - 1] == input.shape[rank - 2];
}

bool all_finite(const TensorValues& tensors) {
  return std::ranges::all_of(tensors, [](const auto& tensor) {
    return std::ranges::all_of(tensor.second, [](double value) { return std::isfinite(value); });
  });
}

/// The element across the diagonal of the last two axes, of extent `size`.
std::size_t mirrored(std::size_t element, std::size_t size) {
  const std::size_t matrix = element / (size * size), row = element / size % size, column = element % size;
  return (matrix * size + column) * size + row;
}

/// Every matrix A of a batch becomes A A^T / size + 1/2.
void make_covariances(std::vector<double>& values, std::size_t size) {
  const std::vector<double> from = values;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i - i % size, other = mirrored(i, size) - mirrored(i, size) % size;
    double sum = row == other ? static_cast<double>(size) / 2 : 0;
    for (std::size_t k = 0; k < size; ++k) sum += from[row + k] * from[other + k];
    values[i] = static_cast<double>(static_cast<float>(sum / static_cast<double>(size)));
  }
}

std::size_t size_of_matrix(const Sample& sample, const std::string& input) {
  return static_cast<std::size_t>(extents_of(sample.gradient, input, sample.dims).back());
}

/// A formula may need more of its inputs than their signs: after the first trial, square inputs are covariances.
void draw_inputs(Sample& sample, std::uint64_t seed) {
  constexpr std::uint64_t kTrials = 20, kSeeds = 1000;
  std::string problem = "a value is not finite";
  for (std::uint64_t trial = 0; trial < kTrials; ++trial) {
    sample.inputs = sample_inputs(sample.gradient, sample.dims, seed + kSeeds * trial);
    for (const InputDecl& input : sample.program.inputs) {
      if (trial == 0 || !is_square(input)) continue;
      make_covariances(sample.inputs.at(input.name), size_of_matrix(sample, input.name));
      sample.symmetric.insert(input.name);
    }
    try {
      sample.wanted = evaluate(sample.gradient, sample.dims, sample.inputs);
      if (all_finite(sample.wanted)) return;
    } catch (const DeviceError& error) {
      problem = error.what();
    }
  }
  throw DeviceError(fmt::format(
      "{}: none of {} random inputs lies in the formula's domain ({}); declare the signs of inputs (>= 0, > 0)",
      sample.program.name, kTrials, problem));
}

/// The sum of all outputs, weighted by their cotangents.
double objective(const Sample& sample, const TensorValues& inputs) {
  const TensorValues values = evaluate(sample.program, sample.dims, inputs);
  double sum = 0;
  for (const std::string& name : outputs_of(sample.program)) {
    const auto& weights = sample.inputs.at("cot." + name);
    const auto& output = values.at(name);
    for (std::size_t i = 0; i < output.size(); ++i) sum += weights[i] * output[i];
  }
  return sum;
}

/// The objective's slope as `a` and `b` (which may be one element) move together: central differences at two
/// distances, the error's h^2 term cancelled.
double slope(const Sample& sample, const TensorValues& inputs, double& a, double& b) {
  const double middle = a, h = 1e-4 * std::max(1.0, std::abs(middle));
  const auto slope_over = [&](double distance) {
    a = b = middle + distance;
    const double above = objective(sample, inputs);
    a = b = middle - distance;
    const double below = objective(sample, inputs);
    a = b = middle;
    return (above - below) / (2 * distance);
  };
  return (4 * slope_over(h) - slope_over(2 * h)) / 3;
}

}  // namespace

std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

Sample make_sample(const Program& program, const DimValues& dims, const std::vector<std::string>& wrt,
                   std::uint64_t seed) {
  Sample sample;
  sample.dims = choose_dims(program, dims);
  sample.program = specialise(with_dtype(program, DType::f64), sample.dims);
  sample.wrt = wrt;
  if (wrt.empty()) {
    for (const InputDecl& input : program.inputs) sample.wrt.push_back(input.name);
  }
  sample.gradient =
      sample.wrt.empty() ? sample.program : differentiate(sample.program, outputs_of(sample.program), sample.wrt);
  draw_inputs(sample, seed);
  return sample;
}

std::vector<std::pair<double, double>> finite_differences(const Sample& sample, const std::string& input,
                                                          std::size_t count, std::uint64_t seed) {
  TensorValues inputs = sample.inputs;
  std::vector<double>& tensor = inputs.at(input);
  const std::vector<double>& gradient = sample.wanted.at("grad." + input);
  std::vector<std::size_t> elements(tensor.size());
  std::iota(elements.begin(), elements.end(), 0);
  std::ranges::shuffle(elements, std::mt19937_64(seed));
  elements.resize(std::min(elements.size(), count));
  std::vector<std::pair<double, double>> results;
  for (const std::size_t i : elements) {
    const std::size_t j = sample.symmetric.contains(input) ? mirrored(i, size_of_matrix(sample, input)) : i;
    results.emplace_back(slope(sample, inputs, tensor[i], tensor[j]), i == j ? gradient[i] : gradient[i] + gradient[j]);
  }
  return results;
}

}  // namespace moxie
