#include "ops/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/program/compose.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "ops/network_builder.h"
#include "ops/unfold.h"

namespace moxie {
namespace {

constexpr std::string_view kNew = "new_";  // before an optimiser's outputs

/// A setting of a rule: the input of the operation that it is bound to, and the values that it may have.
template <class Options>
struct Setting {
  std::string_view name;
  double Options::* value;
  double least, below;
};

constexpr double kNoLimit = HUGE_VAL;
constexpr std::array kOptimiserSettings = std::to_array<Setting<OptimiserOptions>>({
    {"decay", &OptimiserOptions::decay, 0, kNoLimit},
    {"momentum", &OptimiserOptions::momentum, 0, 1},
    {"beta", &OptimiserOptions::beta, 0, 1},
    {"beta1", &OptimiserOptions::beta1, 0, 1},
    {"beta2", &OptimiserOptions::beta2, 0, 1},
    {"epsilon", &OptimiserOptions::epsilon, 1e-30, kNoLimit},
});
constexpr std::array kScheduleSettings = std::to_array<Setting<ScheduleOptions>>({
    {"decay", &ScheduleOptions::decay, 0, kNoLimit},
    {"factor", &ScheduleOptions::factor, 1e-30, kNoLimit},
    {"period", &ScheduleOptions::period, 1, kNoLimit},
});

std::string known_rules(std::string_view family) {
  std::string names;
  for (const Op& op : catalogue()) {
    if (op.name.starts_with(family)) names += fmt::format(" {}", op.name.substr(family.size()));
  }
  return names;
}

/// `family` is "optimiser." or "schedule.".
Program load_rule(std::string_view family, const std::string& rule, std::string_view others) {
  const std::string name = fmt::format("{}{}", family, rule);
  if (!find_op(name)) {
    throw TypeError(fmt::format("there is no {} '{}'; known:{}{}", family.substr(0, family.size() - 1), rule, others,
                                known_rules(family)));
  }
  return load_op(name);
}

void define_first(Program& program, const std::string& name, DType dtype, const Expr& value) {
  program.definitions.insert(program.definitions.begin(), {name, dtype, {}, value});
}

/// Defines a constant for each setting that `rule` reads, and binds it.
template <class Options, class Settings>
void bind_settings(Program& into, const Program& rule, const std::string& prefix, const Options& options,
                   const Settings& settings, Inclusion& how) {
  for (const Setting<Options>& setting : settings) {
    if (!rule.find_input(setting.name)) continue;
    const double value = options.*setting.value;
    if (!(value >= setting.least && value < setting.below)) {
      throw TypeError(fmt::format("the {} of {} is {}, but must be at least {} and below {}", setting.name, rule.name,
                                  value, setting.least, setting.below));
    }
    const std::string name = fmt::format("{}.{}", prefix, setting.name);
    define_first(into, name, into.default_dtype, value);
    how.inputs.emplace(setting.name, name);
  }
}

class StepBuilder {
 public:
  explicit StepBuilder(Program gradients) { step_.program = std::move(gradients); }

  /// Keeps the loss and what is renewed as the only outputs, and differentiates the loss with weight one.
  void prepare(const Renewals& renewals) {
    Program& program = step_.program;
    program.name += "_step";
    keep_outputs(program, renewals);
    step_.feedback = renewals;
  }

  static void keep_outputs(Program& program, const Renewals& renewals) {
    if (std::erase_if(program.inputs, [](const InputDecl& input) { return input.name == "cot.loss"; }) != 1)
      throw TypeError(
          fmt::format("program '{}' is not the gradient of a loss: it has no input cot.loss", program.name));
    for (Definition& definition : program.definitions) definition.output = definition.name == "loss";
    for (const auto& [output, parameter] : renewals) program.find_definition(output)->output = true;
    define_first(program, "cot.loss", program.dtype_of("loss"), 1);
  }

  /// Reads a tensor of `gradients` that has no rows.
  void read(const Program& gradients, const std::string& tensor) {
    step_.program.inputs.push_back(
        {tensor, gradients.dtype_of(tensor), gradients.shape_of(tensor), gradients.domain_of(tensor)});
  }

  /// What the batch's parts say of the next value of a tensor that is not trained becomes its value.
  void take_over(const Program& gradients, const std::pair<std::string, std::string>& renewal) {
    const auto& [output, input] = renewal;
    if (holds_integers(gradients.dtype_of(output)))
      throw TypeError(
          fmt::format("{} holds integers, which have no mean over the parts of a batch: train with --micro-batches 0, "
                      "which takes each batch as a whole",
                      input));
    read(gradients, output);
    read(gradients, input);
    Definition renewed{"renewed." + input, gradients.dtype_of(output), {}, {}, true};
    std::vector<Affine> subscripts;
    for (const Affine& extent : step_.program.shape_of(output)) {
      const auto axis = static_cast<std::uint32_t>(renewed.axes.size());
      renewed.axes.push_back({fmt::format("i{}", axis), extent, Range::extent(extent)});
      subscripts.emplace_back(Symbol::axis(axis));
    }
    renewed.body = tensor_access(output, subscripts);
    step_.program.definitions.push_back(std::move(renewed));
    step_.feedback.emplace_back("renewed." + input, input);
  }

  void count_steps() {
    Program& program = step_.program;
    program.inputs.push_back({"step", DType::f64, {}, ValueDomain::NonNegative});
    program.definitions.push_back({"new.step", DType::f64, {}, element("step", 0) + Expr(1), true});
    step_.state.push_back({"step", {}, {}});
    step_.feedback.emplace_back("new.step", "step");
  }

  void schedule(const ScheduleOptions& options) {
    Program& program = step_.program;
    program.inputs.push_back({"initial_rate", program.default_dtype, {}, ValueDomain::NonNegative});
    if (options.rule == "constant") {
      program.definitions.push_back({"rate", program.default_dtype, {}, element("initial_rate", 0), true});
      return;
    }
    const Program rule = load_rule("schedule.", options.rule, " constant");
    Inclusion how{"schedule.", {{"initial", "initial_rate"}, {"step", "step"}}, {}, {{"rate", "rate"}}};
    bind_settings(program, rule, "schedule", options, kScheduleSettings, how);
    include(program, rule, how);
  }

  void update(const std::vector<Parameter>& parameters, const OptimiserOptions& options) {
    const Program rule = load_rule("optimiser.", options.rule, "");
    Inclusion shared{"", {{"rate", "rate"}}};
    if (rule.find_input("step")) shared.inputs["step"] = "new.step";
    bind_settings(step_.program, rule, "optimiser", options, kOptimiserSettings, shared);
    for (const Parameter& parameter : parameters) {
      if (parameter.trainable) update(parameter, unfold(rule, "P", parameter.shape.size()), shared);
    }
  }

  void measure_gradient(const std::vector<std::string>& parameters) {
    Expr squares = 0;
    for (const std::string& parameter : parameters) {
      const std::string name = "grad_square." + parameter;
      const std::string gradient = "grad." + parameter;
      step_.program.definitions.push_back({name, step_.program.default_dtype, {}, sum_of_squares(gradient)});
      squares = squares + element(name, 0);
    }
    step_.program.definitions.push_back(
        {"gradient_norm", step_.program.default_dtype, {}, call("sqrt", {squares}), true});
  }

  TrainingStep build() && { return std::move(step_); }

 private:
  void update(const Parameter& parameter, const Program& rule, Inclusion how) {
    const std::string& name = parameter.name;
    how.prefix = "update." + name + ".";
    how.inputs["param"] = name;
    how.inputs["grad"] = "grad." + name;
    renew(name, name, "new_param", how);
    const std::vector<Affine> shape = step_.program.shape_of(name);
    for (const Definition& definition : rule.definitions) {
      if (!definition.output || definition.name == "new_param") continue;
      const std::string state = definition.name.substr(kNew.size());
      const std::string tensor = fmt::format("{}.{}", state, name);
      const ValueDomain domain = rule.find_input(state)->domain;
      step_.program.inputs.push_back({tensor, step_.program.dtype_of(name), shape, domain});
      step_.state.push_back({tensor, parameter.shape, {}, false});
      renew(tensor, state, definition.name, how);
    }
    include_as(step_.program.dtype_of(name), rule, how);
  }

  /// What the rule computes has the parameter's dtype, since it becomes the parameter.
  void include_as(DType dtype, const Program& rule, const Inclusion& how) {
    const DType usual = std::exchange(step_.program.default_dtype, dtype);
    include(step_.program, rule, how);
    step_.program.default_dtype = usual;
  }

  /// The rule's `output` is the next value of its input, which is `tensor` here.
  void renew(const std::string& tensor, const std::string& input, const std::string& output, Inclusion& how) {
    if (output != "new_param") how.inputs[input] = tensor;
    how.outputs[output] = "new." + tensor;
    step_.feedback.emplace_back("new." + tensor, tensor);
  }

  Expr sum_of_squares(const std::string& tensor) const {
    const std::vector<Affine> shape = step_.program.shape_of(tensor);
    std::vector<Symbol> indices;
    std::vector<Affine> subscripts;
    for (std::size_t k = 0; k < shape.size(); ++k) {
      indices.push_back(Symbol::fresh());
      subscripts.emplace_back(indices.back());
    }
    const Expr value = tensor_access(tensor, subscripts);
    Expr sum = value * value;
    for (std::size_t k = shape.size(); k-- > 0;)
      sum = reduce(ReduceKind::Sum, indices[k], Range::extent(shape[k]), sum);
    return sum;
  }

  TrainingStep step_;
};

}  // namespace

std::vector<std::string> trainable_names(const std::vector<Parameter>& parameters) {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) {
    if (parameter.trainable) names.push_back(parameter.name);
  }
  return names;
}

TrainingStep training_step(Program gradients, const std::vector<Parameter>& parameters,
                           const OptimiserOptions& optimiser, const ScheduleOptions& schedule,
                           const Renewals& renewals) {
  StepBuilder builder(std::move(gradients));
  builder.prepare(renewals);
  builder.count_steps();
  builder.schedule(schedule);
  builder.update(parameters, optimiser);
  builder.measure_gradient(trainable_names(parameters));
  return std::move(builder).build();
}

SplitStep split_training_step(Program gradients, const std::vector<Parameter>& parameters,
                              const OptimiserOptions& optimiser, const ScheduleOptions& schedule,
                              const Renewals& renewals) {
  StepBuilder::keep_outputs(gradients, renewals);
  gradients.name += "_gradients";
  Program update(gradients.name + "_update", gradients.default_dtype);
  update.precision = gradients.precision;
  std::ranges::remove_copy_if(gradients.dims, std::back_inserter(update.dims), &DimDecl::dynamic);
  StepBuilder builder(std::move(update));
  for (const std::string& name : trainable_names(parameters)) {
    gradients.find_definition("grad." + name)->output = true;
    builder.read(gradients, name);
    builder.read(gradients, "grad." + name);
  }
  for (const auto& renewal : renewals) builder.take_over(gradients, renewal);
  builder.count_steps();
  builder.schedule(schedule);
  builder.update(parameters, optimiser);
  builder.measure_gradient(trainable_names(parameters));
  TrainingStep step = std::move(builder).build();
  return {std::move(gradients), std::move(step.program), std::move(step.state), std::move(step.feedback)};
}

}  // namespace moxie
