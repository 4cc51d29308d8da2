// moxie check: devices against the definition of the language, gradients against finite differences.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/ir/evaluate.h"
#include "ops/catalogue.h"
#include "runtime/session.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

struct CheckOptions {
  ProgramChoice program;
  DeviceChoice device;
  std::vector<std::string> wrt;
  std::uint64_t seed = 1;
  std::size_t elements = 24;
};

/// What a tensor is compared with, and how much it may differ: |got - want| <= tolerance * (max|want| + 1).
struct Candidate {
  const char* column;
  const char* device;
  DType dtype;
  double tolerance;
};
constexpr std::array kCandidates = {
    Candidate{"interp", "interp", DType::f64, 1e-9},
    Candidate{"cpu f64", "cpu", DType::f64, 1e-9},
    Candidate{"cpu f32", "cpu", DType::f32, 2e-3},
};
constexpr double kDifferenceTolerance = 1e-6;

/// A formula with made-up inputs, and the values that the language defines for it.
struct Sample {
  Program program;   // as chosen, in double
  Program gradient;  // with grad.x of every x in `wrt`
  std::vector<std::string> wrt;
  DimValues dims;
  TensorValues inputs;
  TensorValues wanted;
};

std::vector<std::string> outputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const Definition& definition : program.definitions) {
    if (definition.output) names.push_back(definition.name);
  }
  return names;
}

std::vector<std::string> inputs_of(const Program& program) {
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) names.push_back(input.name);
  return names;
}

bool all_finite(const TensorValues& tensors) {
  return std::ranges::all_of(tensors, [](const auto& tensor) {
    return std::ranges::all_of(tensor.second, [](double value) { return std::isfinite(value); });
  });
}

/// Inputs at which every definition is finite: a formula may need more of its inputs than the signs say.
void draw_inputs(Sample& sample, std::uint64_t seed) {
  constexpr int kTrials = 20;
  std::string problem = "a value is not finite";
  for (int trial = 0; trial < kTrials; ++trial) {
    sample.inputs = sample_inputs(sample.gradient, sample.dims, seed + 1000 * static_cast<std::uint64_t>(trial));
    try {
      sample.wanted = evaluate(sample.gradient, sample.dims, sample.inputs);
      if (all_finite(sample.wanted)) return;
    } catch (const DeviceError& error) {
      problem = error.what();
    }
  }
  throw DeviceError(fmt::format("{}: none of {} random inputs lies in the formula's domain ({}); declare the signs of inputs (>= 0, > 0)",
                                sample.program.name, kTrials, problem));
}

std::vector<std::string> differentiated_inputs(const CheckOptions& options, const Program& program) {
  if (!options.wrt.empty()) return options.wrt;
  const Op* op = find_op(options.program.source);
  return op ? differentiable_inputs(*op, program) : inputs_of(program);
}

Sample make_sample(const CheckOptions& options) {
  Sample sample;
  const Program chosen = load_program(options.program);
  sample.dims = choose_dims(chosen, parse_dims(options.program.dims, chosen));
  sample.program = specialise(with_dtype(chosen, DType::f64), sample.dims);
  sample.wrt = differentiated_inputs(options, chosen);
  sample.gradient = sample.wrt.empty() ? sample.program : differentiate(sample.program, outputs_of(sample.program), sample.wrt);
  draw_inputs(sample, options.seed);
  return sample;
}

/// Largest |got - want|, and NaN where one of them is.
double worst(std::span<const double> got, std::span<const double> want) {
  double result = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got[i] - want[i]);
    if (!(error <= result)) result = error;
  }
  return result;
}

/// Errors of one tensor by column; a column may be missing.
struct Row {
  double scale = 0;
  std::vector<std::optional<double>> errors;
};
using Table = std::map<std::string, Row>;

void run_candidate(const Sample& sample, const Candidate& candidate, const DeviceChoice& device, Table& table) {
  Session session(with_dtype(sample.gradient, candidate.dtype), sample.dims, open_chosen_device({candidate.device, device.threads}));
  for (const InputDecl& input : session.plan().program.inputs) {
    session.set(input.name, make_host_tensor(input.dtype, extents_of(sample.gradient, input.name, sample.dims), sample.inputs.at(input.name)));
  }
  session.run();
  for (const std::string& name : outputs_of(sample.gradient)) {
    table[name].errors.push_back(worst(to_doubles(session.get(name)), sample.wanted.at(name)));
  }
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

/// The derivative by one element: central differences at two distances, the error's h^2 term cancelled.
double difference(const Sample& sample, TensorValues& inputs, double& element) {
  const double h = 1e-4 * std::max(1.0, std::abs(element));
  const double middle = element;
  const auto slope = [&](double distance) {
    element = middle + distance;
    const double above = objective(sample, inputs);
    element = middle - distance;
    const double below = objective(sample, inputs);
    element = middle;
    return (above - below) / (2 * distance);
  };
  return (4 * slope(h) - slope(2 * h)) / 3;
}

/// The worst error among `count` elements of each gradient.
void run_differences(const CheckOptions& options, const Sample& sample, Table& table) {
  std::mt19937_64 random(options.seed);
  TensorValues inputs = sample.inputs;
  for (const std::string& name : sample.wrt) {
    std::vector<double>& tensor = inputs.at(name);
    std::vector<std::size_t> elements(tensor.size());
    std::iota(elements.begin(), elements.end(), 0);
    std::ranges::shuffle(elements, random);
    elements.resize(std::min(elements.size(), options.elements));
    double error = 0;
    for (const std::size_t i : elements) {
      const double found = std::abs(difference(sample, inputs, tensor[i]) - sample.wanted.at("grad." + name)[i]);
      if (!(found <= error)) error = found;
    }
    table["grad." + name].errors.emplace_back(error);
  }
}

/// Prints the table; gives whether every error is within its tolerance.
bool report(const Sample& sample, const Table& table) {
  fmt::print("{} with", sample.program.name);
  for (const auto& [name, value] : sample.dims) fmt::print(" {}={}", name, value);
  fmt::print("; largest differences by tensor\n{:24}{:>12}", "tensor", "max |value|");
  std::vector<double> tolerances;
  for (const Candidate& candidate : kCandidates) {
    fmt::print("{:>12}", candidate.column);
    tolerances.push_back(candidate.tolerance);
  }
  fmt::print("{:>14}\n", "differences");
  tolerances.push_back(kDifferenceTolerance);
  bool good = true;
  for (const auto& [name, row] : table) {
    fmt::print("{:24}{:12.4g}", name, row.scale);
    bool within = true;
    for (std::size_t i = 0; i < row.errors.size(); ++i) {
      fmt::print("{:{}.2g}", *row.errors[i], i == kCandidates.size() ? 14 : 12);
      within = within && *row.errors[i] <= tolerances[i] * (row.scale + 1);
    }
    fmt::print("{}\n", within ? "" : "  beyond tolerance");
    good = good && within;
  }
  fmt::print("tolerances: ");
  for (std::size_t i = 0; i < tolerances.size(); ++i) {
    fmt::print("{}{} {:g}", i ? ", " : "", i == kCandidates.size() ? "differences" : kCandidates[i].column, tolerances[i]);
  }
  fmt::print(", each times (max |value| + 1)\n");
  return good;
}

int check(const CheckOptions& options) {
  const Sample sample = make_sample(options);
  Table table;
  for (const std::string& name : outputs_of(sample.gradient)) {
    for (const double value : sample.wanted.at(name)) table[name].scale = std::max(table[name].scale, std::abs(value));
  }
  for (const Candidate& candidate : kCandidates) run_candidate(sample, candidate, options.device, table);
  run_differences(options, sample, table);
  return report(sample, table) ? 0 : 1;
}

}  // namespace

Work add_check(CLI::App& app) {
  auto options = std::make_shared<CheckOptions>();
  add_program_options(app, options->program);
  app.add_option("--wrt", options->wrt, "the inputs to differentiate with respect to; all differentiable ones if not given")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--seed", options->seed, "the seed of the random inputs")->capture_default_str();
  app.add_option("--elements", options->elements, "how many elements of each gradient are compared with finite differences")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_threads_option(app, options->device);
  return [options] { return check(*options); };
}

}  // namespace moxie
