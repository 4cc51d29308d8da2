#include "ops/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ops/slice.h"

namespace moxie {
namespace {

constexpr std::string_view kMean = "mean", kVariance = "variance", kProbability = "probability";

std::vector<std::string> names_with(const Program& model, OutputRole role) {
  std::vector<std::string> names;
  for (const Definition& definition : model.definitions) {
    if (definition.role == role) names.push_back(definition.name);
  }
  return names;
}

bool predicts(const Program& model, std::string_view name) {
  const Definition* definition = model.find_definition(name);
  return definition && definition->role == OutputRole::Prediction;
}

std::string loss_of(const Program& model) {
  const std::vector<std::string> losses = names_with(model, OutputRole::Loss);
  if (!losses.empty()) return losses.front();
  throw ModelError("", "the model has no loss", "say what training minimises, such as: loss error = sum[s](...)/S");
}

// ---- What no data set could change ----

void check_data_input(const Program& model, const InputDecl& input) {
  if (input.name != "x" && input.name != "target")
    throw ModelError(
        input.name, fmt::format("`{}` is no input that a data set has", input.name),
        fmt::format("a data set gives x[S,I] (the features) and target[S]; what is trained is a parameter: "
                    "parameter {} init ...",
                    input.name));
  const auto samples = input.shape.empty() ? std::nullopt : input.shape[0].as_symbol();
  if (!samples || !model.find_dim(samples->name())->dynamic)
    throw ModelError(input.name, fmt::format("the first axis of `{}` does not count samples", input.name),
                     fmt::format("write dim S dynamic, and input {}[S,..]", input.name));
  if (!is_stored_as_computed(input.dtype))
    throw ModelError(input.name,
                     fmt::format("`{}` is {}, but rows of data are numbers", input.name, to_string(input.dtype)),
                     fmt::format("write input {0}[..]: f32, or input {0}[..]: f64", input.name));
}

void check_inputs(const Program& model) {
  for (const InputDecl& input : model.inputs) {
    if (input.role == InputRole::Data) check_data_input(model, input);
  }
  const InputDecl* x = model.find_input("x");
  if (!x) throw ModelError("", "the model reads no x", "declare the features: input x[S,I]");
  const InputDecl* target = model.find_input("target");
  if (target && target->shape[0] != x->shape[0])
    throw ModelError("target", "`x` and `target` count samples by different dims",
                     fmt::format("write target[{},..]", print(x->shape[0])));
  for (const DimDecl& dim : model.dims) {
    if (dim.dynamic && x->shape[0] != Affine(Symbol::dim(dim.name)))
      throw ModelError(dim.name, fmt::format("dim `{}` is dynamic, but does not count samples", dim.name),
                       fmt::format("write dim {0}, or dim {0} = 8", dim.name));
  }
}

void check_prediction(const Program& model, const Definition& prediction) {
  const auto sources = sources_of(model, {prediction.name});
  if (sources.contains("target"))
    throw ModelError(prediction.name, fmt::format("`{}` reads the target", prediction.name),
                     "a prediction knows x, parameters and states only");
  const Affine samples = model.find_input("x")->shape[0];
  const bool has_rows = !prediction.axes.empty() && prediction.axes[0].extent == samples &&
                        prediction.axes[0].range == Range::extent(samples);
  if (!has_rows)
    throw ModelError(
        prediction.name, fmt::format("`{}` has no row for each sample", prediction.name),
        fmt::format("its first axis is that of x: predict {}[s,..] with s:{}", prediction.name, print(samples)));
}

void check_predictions(const Program& model) {
  const std::vector<std::string> names = names_with(model, OutputRole::Prediction);
  for (const std::string& name : names) check_prediction(model, *model.find_definition(name));
  if (names.empty())
    throw ModelError("", "the model predicts nothing",
                     "say what it makes of a sample: predict mean[s] = ... for values, predict probability[s,c] = ... "
                     "for classes, or predict NAME[s,..] = ... for anything else");
  if (predicts(model, kVariance) && !predicts(model, kMean))
    throw ModelError("variance", "the model predicts a variance, but no mean", "add predict mean[s] = ...");
  if (!sources_of(model, names).contains("x"))
    throw ModelError(names.front(), "no prediction depends on x", "read the features: x[s,i]");
}

/// Inputs of the program of a training step, which the optimiser's formulas add.
bool is_name_of_step(std::string_view name) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"loss", "rate", "step", "initial_rate", "gradient_norm", "kl_weight"});
  static constexpr auto kPrefixes = std::to_array<std::string_view>(
      {"best.", "new.", "grad.", "cot.", "grad_square.", "update.", "optimiser.", "schedule."});
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

void check_parameters(const Program& model, const std::string& loss) {
  const auto used = sources_of(model, {loss});
  bool has_parameters = false;
  for (const InputDecl& input : model.inputs) {
    if (input.role == InputRole::Data) continue;
    const bool is_weight = input.role == InputRole::State && input.name == kDivergenceWeight;
    if (is_name_of_step(input.name) && !is_weight)
      throw ModelError(input.name, fmt::format("`{}` is a name that the training step itself uses", input.name),
                       "call it otherwise");
    if (input.role == InputRole::State) {
      if (model.find_definition(std::string(kNextPrefix) + input.name)) continue;
      throw ModelError(input.name, fmt::format("the state `{}` never changes", input.name),
                       fmt::format("say what it becomes: next {}[..] = ...", input.name));
    }
    has_parameters = true;
    if (!used.contains(input.name))
      throw ModelError(input.name, fmt::format("the loss `{}` does not depend on parameter `{}`", loss, input.name),
                       "nothing would train it: use it, or leave it out");
  }
  if (!has_parameters)
    throw ModelError("", "the model has no parameters", "declare what is trained: parameter W[H,I] init glorot");
}

// ---- Dims ----

class DimBinder {
 public:
  DimBinder(Program& model, const DimValues& given) : model_(model) {
    for (const auto& [name, value] : given) bind(name, value, fmt::format("--dim gives it {}", value));
  }

  /// The rows of `input` have `extents`, one after the other the numbers of a row.
  void match(const std::string& input, const std::vector<std::int64_t>& extents, const std::string& what) {
    const InputDecl* declared = model_.find_input(input);
    if (!declared) return;
    const std::vector<Affine> row(declared->shape.begin() + 1, declared->shape.end());
    if (row.size() == extents.size()) {
      for (std::size_t k = 0; k < row.size(); ++k) {
        if (const auto dim = row[k].as_symbol()) bind(dim->name(), extents[k], fmt::format("the data has {}", what));
      }
    }
    std::int64_t wanted = 1, found = 1;
    for (const std::int64_t extent : extents) wanted *= extent;
    for (const Affine& extent : row) found *= value_of(extent);
    if (found != wanted)
      throw ModelError(input,
                       fmt::format("`{}` has {} numbers for each sample, but the data has {}", input, found, what),
                       row.size() < extents.size() ? fmt::format("give it an axis more: {}[S,K]", input)
                                                   : "leave the values of its dims out: they come from the data");
  }

  void require_all() const {
    for (const DimDecl& dim : model_.dims) {
      if (dim.dynamic) continue;
      if (!dim.value) fail_without_value(dim.name);
      if (*dim.value < 1)
        throw ModelError(dim.name, fmt::format("dim `{}` is {}", dim.name, *dim.value), "it must be positive");
    }
  }

  std::int64_t value_of(const Affine& extent) const {
    return extent.evaluate([&](Symbol symbol) {
      const DimDecl* dim = model_.find_dim(symbol.name());
      if (!dim->value) fail_without_value(dim->name);
      return *dim->value;
    });
  }

 private:
  /// `source` says where the value comes from.
  void bind(const std::string& name, std::int64_t value, const std::string& source) {
    const auto dim = std::ranges::find(model_.dims, name, &DimDecl::name);
    if (dim == model_.dims.end() || dim->dynamic)
      throw ModelError("", fmt::format("there is no dim '{}' to give a value", name), "see the model's dim statements");
    if (dim->value && *dim->value != value)
      throw ModelError(name, fmt::format("dim `{}` is {} here, but {}", name, *dim->value, source),
                       fmt::format("leave the value out here: dim {}", name));
    dim->value = value;
  }

  [[noreturn]] static void fail_without_value(const std::string& name) {
    throw ModelError(name, fmt::format("dim `{}` has no value: neither x nor target shows it", name),
                     fmt::format("write dim {0} = 32, or give --dim {0}=32", name));
  }

  Program& model_;
};

void bind_dims(Program& model, const SampleShape& rows, const DimValues& given) {
  DimBinder binder(model, given);
  const std::size_t axes = model.find_input("x")->shape.size() - 1;
  const std::vector<std::int64_t> row =
      axes == rows.image.size() && !rows.image.empty() ? rows.image : std::vector<std::int64_t>{rows.features};
  binder.match("x", row, fmt::format("{} features", rows.features));
  const bool classes = rows.task == Task::Classification;
  binder.match("target", {rows.targets}, fmt::format("{} {}", rows.targets, classes ? "classes" : "targets"));
  binder.require_all();
}

// ---- The parts of a Network ----

/// What the model predicts must be what the data set has.
void check_task(const Program& model, const SampleShape& rows) {
  const std::optional<Task> task = task_of(model);
  const bool classes = rows.task == Task::Classification;
  if (task && *task != rows.task)
    throw ModelError(std::string(classes ? kMean : kProbability),
                     fmt::format("the data set's targets are {}", classes ? "classes" : "values"),
                     classes ? "predict probability[s,c] for its classes" : "predict mean[s], or give --task classify");
}

/// A number for each target or class.
void check_widths(const Program& model, const SampleShape& rows) {
  const bool classes = rows.task == Task::Classification;
  for (const std::string_view name : {kMean, kVariance, kProbability}) {
    if (!predicts(model, name) || (name == kProbability) != classes) continue;
    std::int64_t columns = 1;
    const auto value = [&](Symbol symbol) { return model.find_dim(symbol.name())->value.value(); };
    const auto shape = model.shape_of(name);
    for (std::size_t k = 1; k < shape.size(); ++k) columns *= shape[k].evaluate(value);
    if (columns != rows.targets)
      throw ModelError(std::string(name),
                       fmt::format("`{}` has {} numbers for each sample, but the data has {} {}", name, columns,
                                   rows.targets, classes ? "classes" : "targets"),
                       fmt::format("give it the axes of target: {}[s,{}]", name, classes ? "c" : "k"));
  }
}

std::vector<Parameter> parameters_of(const Program& model) {
  std::vector<Parameter> parameters;
  const auto value = [&](Symbol symbol) { return model.find_dim(symbol.name())->value.value(); };
  for (const InputDecl& input : model.inputs) {
    if (input.role == InputRole::Data) continue;
    Parameter parameter{input.name, {}, input.start, input.role == InputRole::Parameter};
    std::int64_t count = 1;
    for (const Affine& extent : input.shape) {
      parameter.shape.push_back(extent.evaluate(value));
      if (parameter.shape.back() < 1)
        throw ModelError(input.name, fmt::format("`{}` has an extent of {}", input.name, parameter.shape.back()),
                         "all extents of parameters and states are positive");
      count *= parameter.shape.back();
    }
    const std::vector<double>& values = input.start.values;
    if (input.start.kind == Initialiser::Kind::Values && static_cast<std::int64_t>(values.size()) != count)
      throw ModelError(input.name,
                       fmt::format("`{}` has {} elements, but starts with {} values", input.name, count, values.size()),
                       "give one value for each element, row by row");
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

/// The states whose next value is another one: `next a[h] = a[h]` leaves a as it is.
std::vector<std::string> renewed_states(const Program& model) {
  std::vector<std::string> states;
  for (const std::string& next : names_with(model, OutputRole::Next)) {
    const std::string state = next.substr(kNextPrefix.size());
    const Definition& definition = *model.find_definition(next);
    std::vector<Affine> axes;
    for (std::size_t k = 0; k < definition.axes.size(); ++k)
      axes.emplace_back(Symbol::axis(static_cast<std::uint32_t>(k)));
    if (definition.body != tensor_access(state, axes)) states.push_back(state);
  }
  return states;
}

bool has_scalar_output(const Program& model, std::string_view name) {
  const Definition* definition = model.find_definition(name);
  return definition && definition->output && definition->role == OutputRole::Value && definition->axes.empty();
}

/// The loss is called `loss`, and what could meet a name of the training step has a prefix.
TensorNames names_in_training(const Program& model, const std::string& loss) {
  TensorNames names;
  for (const Definition& definition : model.definitions) {
    const std::string& name = definition.name;
    if (name == loss) {
      names[name] = "loss";
    } else if (is_name_of_step(name) && definition.role != OutputRole::Next) {
      names[name] = "model." + name;
    }
  }
  return names;
}

/// The program of the loss as validation has it; an empty one where it is that of training.
Program validation_of(const Program& model, const std::string& loss, bool has_states) {
  const bool says_so = has_scalar_output(model, kValidationLoss);
  if (!says_so && !has_states) return {};
  const std::string name = says_so ? std::string(kValidationLoss) : loss;
  return renamed(slice(model, {name}), names_in_training(model, name));
}

/// A state that its own next value does not read is an input all the same.
Program with_states(Program program, const Program& model) {
  for (const InputDecl& input : model.inputs) {
    if (input.role == InputRole::State && !program.find_input(input.name))
      program.inputs.push_back({input.name, input.dtype, input.shape, input.domain});
  }
  return program;
}

}  // namespace

std::optional<Task> task_of(const Program& model) {
  if (predicts(model, kProbability)) return Task::Classification;
  return predicts(model, kMean) ? std::optional(Task::Regression) : std::nullopt;
}

void check_model(const Program& model) {
  const std::string loss = loss_of(model);
  check_inputs(model);
  check_predictions(model);
  check_parameters(model, loss);
}

Network model_network(const Program& given, const SampleShape& rows, const DimValues& dims) {
  check_model(given);
  Program model = given;
  check_task(model, rows);
  bind_dims(model, rows, dims);
  check_widths(model, rows);
  const std::string loss = loss_of(model);
  const TensorNames names = names_in_training(model, loss);
  std::vector<std::string> trained = {loss};
  Network network;
  network.parameters = parameters_of(model);
  for (const std::string& state : renewed_states(model)) {
    trained.push_back(std::string(kNextPrefix) + state);
    network.renewals.emplace_back(trained.back(), state);
  }
  if (has_scalar_output(model, kDivergence)) trained.emplace_back(kDivergence);
  network.train = with_states(renamed(slice(model, trained), names), model);
  network.validate = validation_of(model, loss, !network.renewals.empty());
  network.predict = slice(model, names_with(model, OutputRole::Prediction));
  network.train.name = model.name + "_train";
  network.predict.name = model.name + "_predict";
  verify(network.train);
  verify(network.predict);
  return network;
}

}  // namespace moxie
