#include "tools/commands/check_sample.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>

#include "compiler/diff/active_tensors.h"
#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

/// Of all evaluations of one check: about ten seconds.
constexpr std::uint64_t kOperations = 500'000'000;

/// Definitions between may be infinite: masked scores are.
bool has_finite_outputs(const Program& program, const TensorValues& tensors) {
  return std::ranges::all_of(outputs_of(program), [&](const std::string& output) {
    return std::ranges::all_of(tensors.at(output), [](double value) { return std::isfinite(value); });
  });
}

std::size_t size_of_matrix(const Sample& sample, const std::string& input) {
  return static_cast<std::size_t>(extents_of(sample.gradient, input, sample.dims).back());
}

TensorValues evaluated(const Sample& sample, const Program& program, const TensorValues& inputs) {
  return evaluate(program, sample.dims, inputs, 0, 0, {}, sample.budget.get());
}

/// A formula may need more of its inputs than their signs: after the first trial, square inputs are covariances.
void draw_inputs(Sample& sample, std::uint64_t seed) {
  constexpr std::uint64_t kTrials = 20, kSeeds = 1000;
  std::string problem = "an output or a derivative is not finite";
  for (std::uint64_t trial = 0; trial < kTrials; ++trial) {
    sample.inputs = sample_inputs(sample.gradient, sample.dims, seed + kSeeds * trial);
    if (trial > 0) sample.symmetric = make_covariances(sample.program, sample.dims, sample.inputs);
    try {
      sample.wanted = evaluated(sample, sample.gradient, sample.inputs);
      if (has_finite_outputs(sample.gradient, sample.wanted)) return;
    } catch (const DeviceError& error) {
      problem = error.what();
    }
  }
  throw DeviceError(
      fmt::format("{}: none of {} random inputs lies in the formula's domain ({}); declare the domains of inputs (>= "
                  "0, > 0, >= 0 and <= 1)",
                  sample.program.name, kTrials, problem));
}

std::vector<std::string> outputs_from(const Program& program, const std::string& input) {
  const std::set<std::string> reached = reached_from(program, {input});
  std::vector<std::string> names = real_outputs(program);
  std::erase_if(names, [&](const std::string& name) { return !reached.contains(name); });
  return names;
}

/// What differences are taken of: the outputs that one input reaches.
struct Objective {
  const Sample& sample;
  std::vector<std::string> outputs;

  /// Every element, times its cotangent.
  std::vector<double> weighted(const TensorValues& inputs) const {
    const TensorValues values = evaluated(sample, sample.program, inputs);
    std::vector<double> results;
    for (const std::string& name : outputs) {
      const auto& weights = sample.inputs.at("cot." + name);
      std::ranges::transform(values.at(name), weights, std::back_inserter(results), std::multiplies<>());
    }
    return results;
  }
};

/// The sum of a - b over all elements, and its rounding error. Elements that stay cost no digits of the sum.
struct Change {
  double value = 0, rounding = 0;
};
Change change_between(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kRounding = 16 * std::numeric_limits<double>::epsilon();
  Change change;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) change.value += a[i] - b[i];
    change.rounding += kRounding * (std::abs(a[i]) + std::abs(b[i]));
  }
  return change;
}

/// The slope of the sum of all weighted outputs as `a` and `b` (which may be one element) move together by h and 2h:
/// central differences, the error's h^2 term cancelled. They contradict each other at kinks and jumps. A kink at the
/// very point shows in the slopes on both sides: their difference halves with h where the function is smooth.
Slope slope_over(const Objective& objective, const TensorValues& inputs, double& a, double& b, double h) {
  const double middle = a;
  const auto moved = [&](double distance) {
    a = b = middle + distance;
    std::vector<double> outputs = objective.weighted(inputs);
    a = b = middle;
    return outputs;
  };
  const auto here = moved(0), above = moved(h), below = moved(-h), far_above = moved(2 * h), far_below = moved(-2 * h);
  const Change near = change_between(above, below), far = change_between(far_above, far_below);
  const double near_slope = near.value / (2 * h), far_slope = far.value / (4 * h);
  const double bend = std::abs(change_between(above, here).value - change_between(here, below).value) / h;
  const double far_bend =
      std::abs(change_between(far_above, here).value - change_between(here, far_below).value) / (2 * h);
  const bool kink = bend > 0.75 * far_bend;
  return {(4 * near_slope - far_slope) / 3, std::abs(near_slope - far_slope) + near.rounding / h + (kink ? bend : 0)};
}

/// The most certain of the slopes at several distances. Some inputs may only be moved a little.
Slope slope(const Objective& objective, const TensorValues& inputs, double& a, double& b) {
  const double middle = a, unit = std::max(1.0, std::abs(middle));
  Slope best{0, std::numeric_limits<double>::infinity()};
  for (const double h : {1e-4, 1e-5, 1e-6, 1e-7, 1e-8}) {
    try {
      const Slope found = slope_over(objective, inputs, a, b, h * unit);
      if (found.uncertainty < best.uncertainty) best = found;
    } catch (const DeviceError&) {
      a = b = middle;  // outside the formula's domain
    }
    if (best.uncertainty < 1e-8 * (std::abs(best.value) + 1)) break;
  }
  return best;
}

}  // namespace

std::set<std::string> reached_from(const Program& program, std::set<std::string> reached) {
  for (std::size_t known = 0; known != reached.size();) {  // definitions of a scan may read later ones
    known = reached.size();
    for (const Definition& definition : program.definitions) {
      visit(definition.body, [&](const Expr& e) {
        if (e->kind == NodeKind::Access && reached.contains(e->tensor)) reached.insert(definition.name);
      });
    }
  }
  return reached;
}

std::map<std::string, double> sensitivities(const Sample& sample) {
  constexpr double kStep = 0x1p-30;
  TensorValues moved = sample.inputs;
  std::mt19937_64 random(7);
  for (auto& [name, values] : moved) {
    if (holds_integers(sample.gradient.dtype_of(name))) continue;
    for (double& value : values) value *= 1 + (random() % 2 == 0 ? kStep : -kStep);
  }
  std::map<std::string, double> result;
  const TensorValues values = evaluated(sample, sample.gradient, moved);
  for (const std::string& name : outputs_of(sample.gradient)) {
    const std::vector<double>& wanted = sample.wanted.at(name);
    double& largest = result[name];
    for (std::size_t i = 0; i < wanted.size(); ++i)
      largest = std::max(largest, std::abs(values.at(name)[i] - wanted[i]) / kStep);
  }
  return result;
}

namespace {

/// The formula without the roundings of f16 and bf16, which differences would see as steps.
Program in_default_dtype(Program program) {
  const auto replace = [&](auto& tensor) {
    if (!holds_integers(tensor.dtype) && !is_stored_as_computed(tensor.dtype)) tensor.dtype = program.default_dtype;
  };
  std::ranges::for_each(program.inputs, replace);
  std::ranges::for_each(program.definitions, replace);
  return program;
}

/// Throws TypeError where a tensor of the formula has the name of a derivative, which would get another one.
void require_free_names(const Sample& sample) {
  std::vector<std::string> names;
  for (const std::string& input : sample.wrt) names.push_back("grad." + input);
  for (const std::string& output : real_outputs(sample.program)) names.push_back("cot." + output);
  for (const std::string& name : names) {
    if (sample.program.find_input(name) || sample.program.find_definition(name))
      throw TypeError(fmt::format("{} is the name of a derivative, and the formula has it already: rename it", name));
  }
}

}  // namespace

Sample make_sample(const Program& program, const DimValues& dims, const std::vector<std::string>& wrt,
                   std::uint64_t seed) {
  Sample sample;
  sample.budget = std::make_shared<EvaluationBudget>(kOperations);
  sample.dims = choose_dims(program, dims);
  sample.program = specialise(with_dtype(in_default_dtype(program), DType::f64), sample.dims);
  sample.wrt = wrt;
  if (real_outputs(program).empty()) {
    sample.wrt.clear();  // integers have no derivatives
  } else if (wrt.empty()) {
    for (const InputDecl& input : program.inputs) {
      if (!holds_integers(input.dtype)) sample.wrt.push_back(input.name);
    }
  }
  require_free_names(sample);
  sample.gradient = gradient_in(sample, DType::f64);
  draw_inputs(sample, seed);
  return sample;
}

Program gradient_in(const Sample& sample, DType dtype) {
  Program program = with_dtype(sample.program, dtype);
  const std::vector<std::string> outputs = real_outputs(program);
  return sample.wrt.empty() || outputs.empty() ? program : differentiate(program, outputs, sample.wrt);
}

std::vector<Difference> finite_differences(const Sample& sample, const std::string& input, std::size_t count,
                                           std::uint64_t seed) {
  TensorValues inputs = sample.inputs;
  std::vector<double>& tensor = inputs.at(input);
  const std::vector<double>& gradient = sample.wanted.at("grad." + input);
  std::vector<std::size_t> elements(tensor.size());
  std::iota(elements.begin(), elements.end(), 0);
  std::ranges::shuffle(elements, std::mt19937_64(seed));
  elements.resize(std::min(elements.size(), count));
  const Objective objective{sample, outputs_from(sample.program, input)};
  std::vector<Difference> results;
  try {
    for (const std::size_t i : elements) {
      const std::size_t j = sample.symmetric.contains(input) ? mirrored(i, size_of_matrix(sample, input)) : i;
      results.push_back(
          {slope(objective, inputs, tensor[i], tensor[j]), i == j ? gradient[i] : gradient[i] + gradient[j]});
    }
  } catch (const BudgetError&) {
    return results;  // those so far are enough to be told of
  }
  return results;
}

}  // namespace moxie
