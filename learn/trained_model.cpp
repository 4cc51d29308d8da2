#include "learn/trained_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compiler/arithmetic/philox.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "data/class_weights.h"
#include "learn/cross_validation.h"
#include "learn/ensemble.h"
#include "runtime/cache_file.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

/// Keeps the random numbers of initial values apart from those of Programs and of the order of samples.
constexpr std::int64_t kInitialStream = -2;

/// The four random words of one element.
PhiloxCounter words_of(std::uint64_t seed, std::size_t parameter, std::size_t element) {
  const PhiloxKey key = philox_key(seed, kInitialStream, 0);
  return philox4x32_10({static_cast<std::uint32_t>(element), static_cast<std::uint32_t>(parameter), 0, 0}, key);
}

double equally_spaced(const Parameter& parameter, std::size_t row) {
  const Initialiser& start = parameter.initialiser;
  const std::int64_t last = parameter.shape[0] - 1;
  return last == 0 ? start.low
                   : start.low + (start.high - start.low) * static_cast<double>(row) / static_cast<double>(last);
}

double initial_value(const Parameter& parameter, std::size_t element, std::size_t per_row, const PhiloxCounter& words) {
  const Initialiser& start = parameter.initialiser;
  switch (start.kind) {
    case Initialiser::Kind::Constant:
      return start.low;
    case Initialiser::Kind::Normal:
      return start.low + start.high * normal_from_words(words[0], words[1]);
    case Initialiser::Kind::Uniform:
      return start.low + (start.high - start.low) * uniform_from_word(words[0]);
    case Initialiser::Kind::Linspace:
      return equally_spaced(parameter, element / per_row);
    case Initialiser::Kind::Tanh:
      return std::tanh(equally_spaced(parameter, element / per_row));
    case Initialiser::Kind::Relu:
      return std::max(0.0, equally_spaced(parameter, element / per_row));
    case Initialiser::Kind::Values:
      return start.values.at(element);
    case Initialiser::Kind::Glorot: {
      const auto sum = static_cast<double>(parameter.shape.front() + parameter.shape.back());
      return std::sqrt(6 / sum) * (2 * uniform_from_word(words[0]) - 1);
    }
    case Initialiser::Kind::He: {
      const std::int64_t rows = element_count(parameter.shape) / parameter.shape.back();
      return std::sqrt(6 / static_cast<double>(rows)) * (2 * uniform_from_word(words[0]) - 1);
    }
  }
  throw InternalError("a parameter has an unknown initialiser");
}

/// Convolutions keep a copy of each pixel for every place of the filter.
std::size_t rows_at_once(const TrainConfig& config) { return is_convolutional(config) ? config.batch : 1024; }

/// The mean square of the errors in predicted standard deviations, which are 1 where there are none.
double mean_square_error(const std::map<std::string, RowValues>& outputs, const std::vector<float>& target) {
  const std::vector<double>& mean = outputs.at("mean").values;
  const auto variance = outputs.find("variance");
  double sum = 0;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    const double error = mean[i] - target[i];
    sum += error * error / (variance == outputs.end() ? 1 : variance->second.values[i]);
  }
  return sum / static_cast<double>(mean.size());
}

/// Throws DataError for a variance of the user's own model that is none.
void require_variances(const std::map<std::string, RowValues>& outputs) {
  const auto variance = outputs.find("variance");
  if (variance == outputs.end()) return;
  const std::vector<double>& values = variance->second.values;
  const auto negative = std::ranges::find_if(values, [](double value) { return value < 0; });
  if (negative == values.end()) return;
  throw DataError(
      fmt::format("the model predicts {:g} as the variance of sample {}, which is negative; predict what cannot be, "
                  "such as exp(..), softplus(..) or a square",
                  *negative, static_cast<std::size_t>(negative - values.begin()) / variance->second.columns + 1));
}

std::optional<double> largest_error_bound(const std::map<std::string, RowValues>& outputs) {
  std::optional<double> largest;
  for (const auto& [name, bound] : outputs) {
    if (name.ends_with(".error_bound"))
      largest = std::max(largest.value_or(0), *std::ranges::max_element(bound.values));
  }
  return largest;
}

}  // namespace

NamedTensors initial_values(const std::vector<Parameter>& parameters, std::uint64_t seed) {
  NamedTensors tensors;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    const Parameter& parameter = parameters[k];
    std::vector<double> values(static_cast<std::size_t>(element_count(parameter.shape)));
    const std::size_t per_row =
        parameter.shape.empty() ? 1 : values.size() / static_cast<std::size_t>(parameter.shape[0]);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = initial_value(parameter, i, per_row, words_of(seed, k, i));
    tensors[parameter.name] = make_host_tensor(DType::f32, parameter.shape, values);
  }
  return tensors;
}

SampleRows rows_of(const Samples& samples) { return {samples.rows(), samples.x.values, samples.y.values}; }

std::string training_digest(const Dataset& data) {
  std::string digests;
  for (const Samples* samples : {&data.train, &data.validation})
    for (const Matrix* matrix : {&samples->x, &samples->y})
      digests += key_digest(
          {reinterpret_cast<const char*>(matrix->values.data()), matrix->values.size() * sizeof(matrix->values[0])});
  return key_digest(digests);
}

void save_model(const std::filesystem::path& file, const SavedModel& model) {
  TensorFile contents{model.parameters, {}};
  contents.metadata = {{"config", to_json(model.config)},
                       {"encoding", to_json(model.encoding)},
                       {"variance_scale", fmt::format("{}", model.variance_scale)},
                       {"data", model.data},
                       {"version", MOXIE_VERSION}};
  write_safetensors(file, contents);
}

SavedModel load_model(const std::filesystem::path& file) {
  require_single_run(file.parent_path());
  TensorFile contents = read_safetensors(file);
  const auto text = [&](const char* name) -> const std::string& {
    const auto found = contents.metadata.find(name);
    if (found == contents.metadata.end())
      throw DataError(fmt::format("{}: is not the model of a run: it has no '{}'", file.string(), name));
    return found->second;
  };
  SavedModel model{
      config_from_json(text("config"), file.string()), encoding_from_json(text("encoding"), file.string()), {}};
  const auto number = nlohmann::json::parse(text("variance_scale"), nullptr, false);
  if (!number.is_number() || !(number.get<double>() >= 0))
    throw DataError(
        fmt::format("{}: the scale of variances '{}' is not a number", file.string(), text("variance_scale")));
  model.variance_scale = number.get<double>();
  model.data = text("data");
  model.parameters = std::move(contents.tensors);
  check_file(model.config, file.string());
  check_parameters(make_network(model.config, model.encoding), model.parameters, file.string());
  return model;
}

void check_parameters(const Network& network, const NamedTensors& tensors, const std::string& file) {
  for (const Parameter& parameter : network.parameters) {
    const auto found = tensors.find(parameter.name);
    if (found == tensors.end())
      throw DataError(fmt::format("{}: there is no parameter {}, which its network has", file, parameter.name));
    if (found->second.shape != parameter.shape)
      throw DataError(fmt::format("{}: parameter {} has shape [{}], but its network expects [{}]", file, parameter.name,
                                  fmt::join(found->second.shape, ", "), fmt::join(parameter.shape, ", ")));
  }
}

void check_features(const Network& network, const Matrix& x, const Encoding& encoding) {
  const InputDecl* input = network.predict.find_input("x");
  if (!input || input->domain == ValueDomain::Any || !checks_inputs()) return;
  const auto refused = std::ranges::find_if(x.values, [&](float value) { return !admits(input->domain, value); });
  if (refused == x.values.end()) return;
  const auto at = static_cast<std::size_t>(refused - x.values.begin());
  throw DataError(fmt::format(
      "{} of sample {} is {:g} as the network reads it, but the network's x is declared {}; leave such samples out, or "
      "train a network that takes them",
      encoding.feature_names().at(at % x.columns), at / x.columns, without_nan_sign(*refused),
      to_string(input->domain)));
}

Evaluator::Evaluator(const TrainConfig& config, const Encoding& encoding, const std::shared_ptr<Device>& device)
    : Evaluator(config, encoding, device, make_network(config, encoding)) {}

Evaluator::Evaluator(const TrainConfig& config, Encoding encoding, const std::shared_ptr<Device>& device,
                     const Network& network)
    : encoding_(std::move(encoding)),
      is_own_(is_own_model(config)),
      recalibrate_(config.recalibrate),
      passes_(ensemble_size(config, network)),
      seed_(config.seed),
      loss_(network.validate.definitions.empty() ? network.train : network.validate, device, rows_at_once(config)),
      predict_(network.predict, device, rows_at_once(config)) {}

void Evaluator::set_parameters(const NamedTensors& parameters) {
  loss_.set(parameters);
  predict_.set(parameters);
}

Prediction Evaluator::predict(const SampleRows& rows, double variance_scale) {
  return make_prediction(run(rows), encoding_, variance_scale);
}

std::map<std::string, RowValues> Evaluator::run(const SampleRows& rows) {
  // The same draws for the same rows, whatever was evaluated before: a run that is resumed goes on bit for bit.
  predict_.set_random_state(seed_, 0);
  if (passes_ == 1) {
    auto outputs = predict_.run(rows);
    if (is_own_) require_variances(outputs);
    return outputs;
  }
  Ensemble ensemble;
  for (std::size_t k = 0; k < passes_; ++k) ensemble.add(predict_.run(rows));
  return ensemble.outputs();
}

Evaluation Evaluator::evaluate(const Samples& samples, std::optional<double> variance_scale) {
  const SampleRows rows = rows_of(samples);
  const auto outputs = run(rows);
  Evaluation result;
  const auto of_loss = losses(samples);
  result.loss = of_loss.at("loss").values[0];
  if (const auto kl = of_loss.find("kl"); kl != of_loss.end()) result.kl = kl->second.values[0];
  result.covariance_error = largest_error_bound(outputs);
  const bool has_values = encoding_.task == Task::Regression && outputs.contains("mean");
  const bool fits = has_values && (recalibrate_ || !outputs.contains("variance"));
  if (fits) result.variance_scale = variance_scale ? *variance_scale : mean_square_error(outputs, samples.y.values);
  const Prediction prediction = make_prediction(outputs, encoding_, result.variance_scale);
  result.scores = score(prediction, samples.y, encoding_);
  // Single draws are less certain than the ensemble, and their losses so noisy that rates fell for no other reason.
  if (passes_ > 1 && !prediction.probability.empty())
    result.loss = log_loss(prediction, weighted_targets(samples.y, encoding_));
  if (result.scores.empty()) result.scores = {{"loss", result.loss}};
  return result;
}

std::map<std::string, RowValues> Evaluator::losses(const Samples& samples) {
  const Matrix targets = weighted_targets(samples.y, encoding_);
  loss_.set_random_state(seed_, 0);
  return loss_.run({samples.rows(), samples.x.values, targets.values});
}

double Evaluator::loss(const Samples& samples) { return losses(samples).at("loss").values[0]; }

}  // namespace moxie
