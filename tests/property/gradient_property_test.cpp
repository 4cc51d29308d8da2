// Gradients of random Programs against directional differences, and tangents against gradients, in double.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/tangents.h"
#include "tests/property/check.h"
#include "tests/property/random.h"

using namespace moxie;
using namespace moxie::test;

namespace {

constexpr double kTolerance = 1e-5;

double inner_product(const TensorValues& a, const std::string& name_a, const TensorValues& b,
                     const std::string& name_b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.at(name_a).size(); ++k) sum += a.at(name_a)[k] * b.at(name_b)[k];
  return sum;
}

/// cot . outputs, the function whose gradient the gradient program computes.
double loss(const Program& program, const DimValues& dims, const TensorValues& inputs, const TensorValues& cotangents) {
  const TensorValues values = evaluate(program, dims, inputs);
  double sum = 0;
  for (const Definition& definition : program.definitions) {
    if (definition.output) sum += inner_product(values, definition.name, cotangents, "cot." + definition.name);
  }
  return sum;
}

TensorValues moved(TensorValues inputs, const TensorValues& direction, double step) {
  for (auto& [name, tensor] : inputs) {
    for (std::size_t k = 0; k < tensor.size(); ++k) tensor[k] += step * direction.at(name)[k];
  }
  return inputs;
}

TensorValues random_direction(const TensorValues& inputs) {
  Random random(5);
  TensorValues direction = inputs;
  for (auto& [name, tensor] : direction) {
    for (double& x : tensor) x = random.real(-1, 1);
  }
  return direction;
}

/// The derivative along a random direction. Several steps are tried, since a kink may lie within one of them.
Finding gradient_is_slope(const Sample& sample) {
  const auto value = reference(sample);
  const auto gradient = gradient_reference(sample);
  if (!value || !gradient) return std::nullopt;
  const TensorValues direction = random_direction(value->inputs);
  double computed = 0;
  double scale = 1;
  for (const InputDecl& input : value->program.inputs) {
    const double part = inner_product(gradient->values, "grad." + input.name, direction, input.name);
    computed += part;
    scale += std::abs(part);
  }
  double measured = 0;
  for (const double step : {1e-5, 1e-6, 1e-7}) {
    const double above = loss(value->program, sample.dims, moved(value->inputs, direction, step), gradient->inputs);
    const double below = loss(value->program, sample.dims, moved(value->inputs, direction, -step), gradient->inputs);
    measured = (above - below) / (2 * step);
    // Rounding of the loss itself, divided by the step.
    const double rounding = 1e-14 * (1 + std::abs(above)) / step;
    if (std::abs(measured - computed) <= kTolerance * scale + rounding) return std::nullopt;
  }
  return fmt::format("the slope is {:.12g}, but the gradient says {:.12g}", measured, computed);
}

/// <u, J v> == <J^T u, v>, with u the cotangents and v a random direction.
Finding tangent_is_transposed_gradient(const Sample& sample) {
  const auto value = reference(sample);
  const auto gradient = gradient_reference(sample);
  if (!value || !gradient) return std::nullopt;
  std::vector<std::string> outputs;
  for (const Definition& definition : value->program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  const Program forward = tangents(value->program, outputs, {});
  verify(forward);
  TensorValues inputs = value->inputs;
  const TensorValues direction = random_direction(inputs);
  for (const InputDecl& input : value->program.inputs)
    if (input.dtype != DType::i32) inputs["tan." + input.name] = direction.at(input.name);
  const TensorValues values = evaluate(forward, sample.dims, inputs);
  double by_gradient = 0, by_tangent = 0, scale = 1;
  for (const InputDecl& input : value->program.inputs) {
    if (input.dtype == DType::i32) continue;
    const double part = inner_product(gradient->values, "grad." + input.name, direction, input.name);
    by_gradient += part;
    scale += std::abs(part);
  }
  for (const std::string& output : outputs)
    by_tangent += inner_product(gradient->inputs, "cot." + output, values, "tan." + output);
  if (std::abs(by_tangent - by_gradient) <= 1e-7 * scale) return std::nullopt;
  return fmt::format("the gradient says {:.12g}, but the tangent {:.12g}", by_gradient, by_tangent);
}

}  // namespace

TEST_CASE("tangents of random programs are transposed gradients") {
  check_property(150, tangent_is_transposed_gradient);
}

TEST_CASE("gradients of random programs are slopes") { check_property(150, gradient_is_slope); }
