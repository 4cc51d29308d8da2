#include "learn/train_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "compiler/support/error.h"
#include "learn/model_text.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

template <class Value>
using Choices = std::map<std::string_view, Value>;

const Choices<GpnOptions::Propagate> kPropagate = {{"mean", GpnOptions::Propagate::Mean},
                                                   {"variance", GpnOptions::Propagate::Variance},
                                                   {"covariance", GpnOptions::Propagate::Covariance},
                                                   {"sample", GpnOptions::Propagate::Sample}};
const Choices<GpnOptions::Covariance> kCovariance = {{"exact", GpnOptions::Covariance::Exact},
                                                     {"equispaced", GpnOptions::Covariance::Equispaced},
                                                     {"series", GpnOptions::Covariance::Series}};
const Choices<GpnOptions::Sharing> kSharing = {
    {"none", GpnOptions::Sharing::None}, {"group", GpnOptions::Sharing::Group}, {"layer", GpnOptions::Sharing::Layer}};
const Choices<GpnOptions::Targets> kInit = {{"random", GpnOptions::Targets::Normal},
                                            {"identity", GpnOptions::Targets::Identity},
                                            {"tanh", GpnOptions::Targets::Tanh},
                                            {"relu", GpnOptions::Targets::Relu}};
const Choices<GpnOptions::Likelihood> kLikelihood = {{"expected", GpnOptions::Likelihood::Expected},
                                                     {"predictive", GpnOptions::Likelihood::Predictive},
                                                     {"beta-nll", GpnOptions::Likelihood::BetaPredictive}};
const Choices<bool> kInference = {{"ml", false}, {"vb", true}};
const Choices<GpnOptions::Inference> kPosterior = {{"full", GpnOptions::Inference::VariationalFull},
                                                   {"diagonal", GpnOptions::Inference::VariationalDiagonal}};
const Choices<GpnOptions::SigmaPoints> kSigmaPoints = {{"features", GpnOptions::SigmaPoints::Features},
                                                       {"logits", GpnOptions::SigmaPoints::Logits}};
const Choices<bool> kDropout = {{"none", false}, {"fast", true}};
const Choices<bool> kMissingTarget = {{"error", false}, {"skip", true}};
const Choices<std::optional<bool>> kHeader = {{"auto", std::nullopt}, {"yes", true}, {"no", false}};
const Choices<bool> kOnNan = {{"stop", false}, {"skip", true}};
const Choices<Reduction> kReduce = {{"tree", Reduction::Tree}, {"fast", Reduction::Fast}};
const Choices<Precision> kPrecision = {
    {"strict", Precision::Strict}, {"fast", Precision::Fast}, {"accurate", Precision::Accurate}};
const Choices<ProbActOptions::Architecture> kNetwork = {{"dense", ProbActOptions::Architecture::Dense},
                                                        {"vgg-small", ProbActOptions::Architecture::VggSmall},
                                                        {"vgg16", ProbActOptions::Architecture::Vgg16},
                                                        {"text-cnn", ProbActOptions::Architecture::TextCnn}};
const Choices<ProbActOptions::Sharing> kMean = {{"fixed", ProbActOptions::Sharing::Fixed},
                                                {"single", ProbActOptions::Sharing::Single},
                                                {"channel", ProbActOptions::Sharing::Channel},
                                                {"element", ProbActOptions::Sharing::Element}};
const Choices<ProbActOptions::Evaluation> kEvaluation = {{"mean", ProbActOptions::Evaluation::Mean},
                                                         {"sample", ProbActOptions::Evaluation::Sample},
                                                         {"ensemble", ProbActOptions::Evaluation::Sample},
                                                         {"moments", ProbActOptions::Evaluation::Moments}};
const Choices<SpGruOptions::Cell> kCell = {{"gru", SpGruOptions::Cell::Gru},
                                           {"gru-gamma", SpGruOptions::Cell::GammaGru},
                                           {"gru-poisson", SpGruOptions::Cell::PoissonGru},
                                           {"lstm", SpGruOptions::Cell::Lstm},
                                           {"mc-lstm", SpGruOptions::Cell::DropoutLstm}};
/// What is done to frames, and whether they are those that were read.
const Choices<bool> kFrameTask = {{"", false}, {"predict", false}, {"reconstruct", true}};
const Choices<std::optional<Task>> kTask = {
    {"", std::nullopt}, {"classify", Task::Classification}, {"regress", Task::Regression}};

template <class Value>
Value choose(std::string_view option, const Choices<Value>& choices, const std::string& name) {
  const auto found = choices.find(name);
  if (found != choices.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& [choice, value] : choices) known.push_back(choice);
  throw UsageError(fmt::format("{} '{}' is unknown; known: {}", option, name, fmt::join(known, ", ")));
}

/// More terms change nothing in single precision, unless activations are almost equal.
constexpr std::int64_t kMostTerms = 100;

void require(bool condition, std::string_view option, double value, std::string_view wanted) {
  if (!condition) throw UsageError(fmt::format("--{} is {}, but must be {}", option, value, wanted));
}

/// What an option may be at most. Loops and allocations grow with these, also those of a run folder from elsewhere.
struct Limit {
  std::string_view option;
  double value, maximum;
  std::string words() const { return fmt::format("at most {:.0f}", maximum); }
};

std::vector<Limit> limits_of(const TrainConfig& c) {
  std::vector<Limit> limits = {
      {"samples", static_cast<double>(c.samples), 1e5},
      {"batch", static_cast<double>(c.batch), 1e9},
      {"micro-batches", static_cast<double>(c.micro_batches), static_cast<double>(c.batch)},
      {"inducing-points", static_cast<double>(c.inducing_points), 1e4},
      {"groups", static_cast<double>(c.groups), 1e6},
      {"folds", static_cast<double>(c.folds), 1e4},
      {"hidden", static_cast<double>(c.hidden), 1e6},
      {"vocabulary", static_cast<double>(c.vocabulary), 1e7},
      {"text-length", static_cast<double>(c.text_length), 1e6},
      {"layers", static_cast<double>(c.layers.size()), 1e3},
  };
  for (const std::int64_t units : c.layers) limits.push_back({"layers", static_cast<double>(units), 1e7});
  return limits;
}

/// --covariance METHOD, or series:TERMS.
void set_covariance(GpnOptions& options, const std::string& text) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  options.covariance = choose("--covariance", kCovariance, text.substr(0, colon));
  if (colon == text.size()) return;
  const std::string terms = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(terms.data(), terms.data() + terms.size(), options.series_terms);
  const bool is_number = error == std::errc() && end == terms.data() + terms.size();
  if (options.covariance != GpnOptions::Covariance::Series || !is_number || options.series_terms < 1 ||
      options.series_terms > kMostTerms)
    throw UsageError(fmt::format("--covariance {}: give series:TERMS, with 1 to {} terms", text, kMostTerms));
}

/// The networks of the paper (section 7.1) and of its comparisons.
struct DefaultLayers {
  std::string_view data;
  std::vector<std::int64_t> layers;
};
const std::array kDefaultLayers = std::to_array<DefaultLayers>({
    {"letter", {30, 15}},
    {"mnist", {50, 50}},
});
const std::vector<std::int64_t> kOtherLayers = {30};

/// The number that an option holds, or what it is if it is not given.
double number_of(std::string_view option, const std::string& text, double otherwise) {
  if (text.empty()) return otherwise;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw UsageError(fmt::format("{} '{}' is not a number", option, text));
  return value;
}

/// "none", a number, or who has a trained one in common.
void set_sigma(const std::string& sigma, ProbActOptions& options) {
  options.noise = sigma != "none";
  if (!options.noise) return;
  const auto shared = kMean.find(sigma);
  const bool trained = sigma != "fixed" && shared != kMean.end();
  options.sigma = sigma.empty() ? ProbActOptions::Sharing::Element
                  : trained     ? shared->second
                                : ProbActOptions::Sharing::Fixed;
  if (trained || sigma.empty()) return;
  if (sigma.find_first_not_of("0123456789.eE+-") != sigma.npos)
    throw UsageError(fmt::format("--sigma '{}' is unknown; known: a number, none, single, channel, element", sigma));
  options.sigma_start = number_of("--sigma", sigma, 0);
}

ProbActOptions::Image image_of(const Encoding& encoding) {
  const auto extent = [](std::size_t size) { return static_cast<std::int64_t>(size); };
  return {extent(encoding.image.height), extent(encoding.image.width), extent(encoding.image.channels)};
}

Network make_probact(const TrainConfig& c, std::vector<std::int64_t> sizes, const Encoding& encoding) {
  ProbActOptions options;
  options.sizes = std::move(sizes);
  options.image = image_of(encoding);
  options.vocabulary = static_cast<std::int64_t>(encoding.vocabulary.size());
  options.architecture = choose("--network", kNetwork, c.network);
  options.task = encoding.task;
  if (!c.activation.empty()) options.activation = c.activation;
  options.mean = choose("--mean", kMean, c.mean);
  set_sigma(c.sigma, options);
  options.sigma_bound = c.sigma_bound;
  options.sigma_slope = c.sigma_slope;
  options.evaluation = choose("--evaluation", kEvaluation, c.evaluation);
  return probact_network(options);
}

Network make_mlp(const TrainConfig& c, std::vector<std::int64_t> sizes, const Encoding& encoding) {
  MlpOptions options;
  options.sizes = std::move(sizes);
  options.task = encoding.task;
  if (!c.activation.empty()) options.activation = c.activation;
  options.dropout = choose("--dropout", kDropout, c.dropout) ? c.dropout_rate : 0;
  return mlp_network(options);
}

Network make_gpn(const TrainConfig& c, std::vector<std::int64_t> sizes, const Encoding& encoding) {
  GpnOptions options;
  options.sizes = std::move(sizes);
  options.task = encoding.task;
  options.propagate = choose("--propagate", kPropagate, c.propagate);
  set_covariance(options, c.covariance);
  if (choose("--inference", kInference, c.inference))
    options.inference = choose("--posterior", kPosterior, c.posterior);
  options.jitter = c.jitter;
  options.likelihood = choose("--likelihood", kLikelihood, likelihood_of(c));
  options.groups = c.groups;
  options.input_variance = c.input_variance;
  options.input_connected = c.input_connected;
  options.train_points = c.train_points;
  options.train_noise = c.train_noise;
  options.sharing = choose("--sharing", kSharing, c.sharing);
  options.targets = choose("--init", kInit, c.init);
  options.sigma_points = choose("--sigma-points", kSigmaPoints, c.sigma_points);
  options.inducing_points = c.inducing_points;
  options.noise = c.noise;
  options.least_noise = c.least_noise;
  options.sigma = number_of("--sigma", c.sigma, options.sigma);
  options.penalty = c.penalty;
  options.train_lambda = c.train_lambda;
  options.train_sigma = c.train_sigma;
  return gpn_network(options);
}

Network make_sp_gru(const TrainConfig& c, std::vector<std::int64_t> sizes, const Encoding& encoding) {
  const auto frames = static_cast<std::int64_t>(encoding.image.channels);
  if (frames == 0) throw UsageError("sp-gru is for sequences of frames: --data moving-mnist");
  SpGruOptions options;
  options.frames_in = options.frames_out = frames;
  options.pixels = sizes.front() / frames;
  options.hidden = c.hidden;
  options.cell = choose("--cell", kCell, c.cell);
  options.weight_variance = c.weight_variance;
  // The mean square of noise whose deviation is uniform.
  options.input_variance = c.frame_noise * c.frame_noise + c.frame_noise_spread * c.frame_noise_spread / 3;
  options.dropout = c.mc_dropout;
  return sp_gru_network(options);
}

using MakeNetwork = Network (*)(const TrainConfig&, std::vector<std::int64_t>, const Encoding&);
const Choices<MakeNetwork> kModel = {
    {"gpn", make_gpn}, {"mlp", make_mlp}, {"probact", make_probact}, {"sp-gru", make_sp_gru}};

std::string known_models() {
  std::string text;
  for (const auto& [name, make] : kModel) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

Network with_precision(Network network, const TrainConfig& config) {
  const Precision precision = choose("--precision", kPrecision, config.precision);
  for (Program* program : {&network.train, &network.predict, &network.functions, &network.validate})
    program->precision = precision;
  return network;
}

/// One of the families of networks that moxie composes.
Network make_known(const TrainConfig& config, const Encoding& encoding) {
  std::vector<std::int64_t> sizes;
  if (!is_convolutional(config)) sizes = hidden_layers(config);
  sizes.insert(sizes.begin(), static_cast<std::int64_t>(encoding.feature_count()));
  sizes.push_back(static_cast<std::int64_t>(encoding.target_count()));
  return make_family_network(config, std::move(sizes), encoding);
}

bool draws(const Program& program) {
  bool found = false;
  for (const Definition& definition : program.definitions)
    visit(definition.body, [&](const Expr& expr) { found = found || expr->kind == NodeKind::Random; });
  return found;
}

}  // namespace

std::string likelihood_of(const TrainConfig& config) {
  if (!config.likelihood.empty()) return config.likelihood;
  return config.inference == "vb" ? "expected" : "beta-nll";
}

void check(const TrainConfig& c) {
  if (!is_own_model(c) && !kModel.contains(c.model))
    throw UsageError(
        fmt::format("there is no model '{}'; known: {}, or FILE.mox for one of your own", c.model, known_models()));
  choose("--propagate", kPropagate, c.propagate);
  GpnOptions options;
  set_covariance(options, c.covariance);
  choose("--inference", kInference, c.inference);
  choose("--posterior", kPosterior, c.posterior);
  choose("--likelihood", kLikelihood, likelihood_of(c));
  choose("--sharing", kSharing, c.sharing);
  choose("--init", kInit, c.init);
  choose("--sigma-points", kSigmaPoints, c.sigma_points);
  choose("--dropout", kDropout, c.dropout);
  choose("--missing-target", kMissingTarget, c.missing_target);
  choose("--header", kHeader, c.header);
  choose("--on-nan", kOnNan, c.on_nan);
  choose("--reduce", kReduce, c.reduce);
  choose("--precision", kPrecision, c.precision);
  if (c.model == "sp-gru") {
    choose("--task", kFrameTask, c.task);
  } else {
    choose("--task", kTask, c.task);
  }
  choose("--cell", kCell, c.cell);
  choose("--network", kNetwork, c.network);
  choose("--mean", kMean, c.mean);
  choose("--evaluation", kEvaluation, c.evaluation);
  for (const Limit& limit : limits_of(c))
    require(limit.value <= limit.maximum, limit.option, limit.value, limit.words());
  require(c.folds != 1, "folds", 1, "2 or more, or 0 for one run");
  require(c.fold <= c.folds, "fold", static_cast<double>(c.fold),
          fmt::format("at most the number of --folds, {}", c.folds));
  require(c.samples > 0, "samples", static_cast<double>(c.samples), "positive");
  require(c.train_share > 0 && c.train_share <= 1, "train-share", c.train_share, "above 0 and at most 1");
  if (c.model == "gpn" && !c.activation.empty()) throw UsageError("--activation is not for the model gpn");
  if (c.model == "mlp" && !c.sigma.empty()) throw UsageError("--sigma is not for the model mlp");
  require(c.kl_warmup >= 0, "kl-warmup", c.kl_warmup, "a number of epochs");
  require(c.mean_warmup >= 0, "mean-warmup", c.mean_warmup, "a number of epochs");
  if (c.mean_warmup > 0 && (c.model != "gpn" || likelihood_of(c) != "beta-nll"))
    throw UsageError("--mean-warmup is for gpn with --likelihood beta-nll");
  require(c.batch > 0, "batch", static_cast<double>(c.batch), "positive");
  require(c.reduce == "fast" || c.micro_batches == 0 || std::has_single_bit(c.micro_batches), "micro-batches",
          static_cast<double>(c.micro_batches), "a power of two, or 0");
  require(c.save_every >= 0, "save-every", c.save_every, "a number of seconds");
  require(c.rate > 0, "rate", c.rate, "positive");
  require(c.lowest_rate > 0, "lowest-rate", c.lowest_rate, "positive");
  require(c.patience > 0, "patience", c.patience, "positive");
  require(c.max_time >= 0, "max-time", c.max_time, "positive, or 0 for no limit");
  require(c.schedule_factor > 0 && c.schedule_factor < 1, "schedule-factor", c.schedule_factor, "between 0 and 1");
}

void check_file(const TrainConfig& config, const std::string& file) {
  try {
    check(config);
  } catch (const UsageError& error) {
    throw DataError(fmt::format("{}: is not the configuration of a run: {}", file, error.what()));
  }
}

void check_units(const TrainConfig& config, const Encoding& encoding) {
  const std::size_t units = config.target_units.size(), targets = encoding.targets.size();
  if (units == 0 || (targets > 0 && units == 1) || units == targets) return;
  throw DataError(
      fmt::format("--target-unit {}: {}", fmt::join(config.target_units, ","),
                  encoding.task == Task::Classification
                      ? "the targets are classes, which have no unit"
                      : fmt::format("there are {} targets; give one unit for each, or one for all", targets)));
}

std::string to_json(const TrainConfig& config) {
  Json json;
  json["model"] = config.model;
  if (!config.formula.empty()) json["formula"] = config.formula;
  visit_fields(config, [&](const char*, const char* name, const auto& value, const char*) { json[name] = value; });
  return json.dump(2) + "\n";
}

TrainConfig config_from_json(std::string_view text, const std::string& file) {
  TrainConfig config;
  std::string member = "its text";
  try {
    const Json json = Json::parse(text);
    member = "model";
    json.at(member).get_to(config.model);
    member = "formula";
    if (json.contains(member) || is_own_model(config)) json.at(member).get_to(config.formula);
    std::set<std::string> known = {"model", "formula", "moxie"};
    visit_fields(config, [&](const char*, const char* name, auto& value, const char*) {
      member = name;
      known.insert(member);
      if (json.contains(member)) json.at(member).get_to(value);
    });
    // An option whose name is damaged would have its default, and with it another run.
    for (const auto& [name, value] : json.items()) {
      if (!known.contains(name))
        throw DataError(
            fmt::format("{}: there is no option '{}'; the file is damaged, or of a newer moxie", file, name));
    }
  } catch (const nlohmann::json::exception& error) {
    throw DataError(fmt::format("{}: is not the configuration of a run: {}: {}", file, member, error.what()));
  }
  return config;
}

LoadOptions load_options(const TrainConfig& c) {
  LoadOptions options;
  options.data_dir = c.data_dir;
  options.seed = c.seed;
  options.split = c.split;
  options.folds = c.folds;
  options.fold = c.fold;
  options.validation_share = c.validation_share;
  options.train_share = c.train_share;
  options.targets = c.targets;
  options.ignored = c.ignored;
  options.categorical = c.categorical;
  options.unscaled = c.unscaled;
  options.test_file = c.test_file;
  options.missing = c.missing;
  options.header = choose("--header", kHeader, c.header);
  options.skips_missing_targets = choose("--missing-target", kMissingTarget, c.missing_target);
  options.class_weights = c.class_weight;
  options.moving_mnist = {c.sequences,    c.digits, c.frames,       c.side,        c.pooling,           c.angle,
                          c.angle_spread, c.speed,  c.speed_spread, c.frame_noise, c.frame_noise_spread};
  options.text = {c.vocabulary, c.text_length};
  if (c.model == "sp-gru") {
    options.moving_mnist.reconstruct = choose("--task", kFrameTask, c.task);
  } else {
    options.task = choose("--task", kTask, c.task);
  }
  return options;
}

std::vector<std::int64_t> hidden_layers(const TrainConfig& config) {
  if (!config.layers.empty()) return config.layers;
  const auto found = std::ranges::find(kDefaultLayers, config.data, &DefaultLayers::data);
  return found == kDefaultLayers.end() ? kOtherLayers : found->layers;
}

Network make_network(const TrainConfig& config, const Encoding& encoding) {
  const bool reads_text = is_own_model(config) || (config.model == "probact" && config.network == "text-cnn");
  if (!encoding.vocabulary.empty() && !reads_text)
    throw UsageError("texts are for `moxie train probact --network text-cnn`: elsewhere numbers of words mean nothing");
  if (!is_own_model(config)) return make_known(config, encoding);
  return with_precision(make_own_network(config, encoding), config);
}

Network make_family_network(const TrainConfig& config, std::vector<std::int64_t> sizes, const Encoding& encoding) {
  return with_precision(choose("model", kModel, config.model)(config, std::move(sizes), encoding), config);
}

bool is_own_model(const TrainConfig& config) { return config.model.ends_with(".mox"); }

bool is_convolutional(const TrainConfig& config) { return config.model == "probact" && config.network != "dense"; }

std::size_t ensemble_size(const TrainConfig& config, const Network& network) {
  if (is_own_model(config)) return draws(network.predict) ? config.samples : 1;
  const bool drops = config.model == "sp-gru" && config.cell == "mc-lstm";
  const bool is_noisy = config.model == "probact" && config.evaluation == "ensemble" && config.sigma != "none";
  return drops || is_noisy ? config.samples : 1;
}

BatchDivision batch_division(const TrainConfig& config) {
  return {config.micro_batches, choose("--reduce", kReduce, config.reduce)};
}

std::size_t suitable_micro_batches(std::size_t batch) {
  constexpr std::size_t kFewestRows = 32, kMostParts = 8;  // smaller parts cost more in all than they let ranks share
  return std::min(std::bit_floor(std::max<std::size_t>(1, batch / kFewestRows)), kMostParts);
}

OptimiserOptions optimiser_options(const TrainConfig& config) {
  OptimiserOptions options;
  options.rule = config.optimiser;
  options.decay = config.weight_decay;
  options.momentum = config.momentum;
  return options;
}

ScheduleOptions schedule_options(const TrainConfig& config) {
  const std::string rule = config.schedule == "plateau" ? "constant" : config.schedule;
  return {rule, config.schedule_decay, config.schedule_factor, config.schedule_period};
}

PlateauOptions plateau_options(const TrainConfig& config) {
  // Without the plateau rule a rate that fell once ends the training: early stopping.
  const bool falls = config.schedule == "plateau";
  return {config.patience, config.schedule_factor, falls ? config.lowest_rate : config.rate};
}

}  // namespace moxie
