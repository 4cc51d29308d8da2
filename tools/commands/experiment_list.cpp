// The experiments, and what is published about them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "data/presets.h"
#include "tools/commands/command.h"
#include "tools/commands/experiment.h"
#include "tools/commands/train_settings.h"

namespace moxie {
namespace {

constexpr std::string_view kPaper = "Gaussian Process Neurons Learn Stochastic Activation Functions";
constexpr std::string_view kDropoutSource =
    "dropout with one hidden layer of 50 units (protein: 100), github.com/yaringal/DropoutUncertaintyExps, mean and "
    "standard error over the splits";

/// What a row of a table means, as options of `moxie train`.
struct Method {
  std::string_view row, model;
  std::vector<std::string> settings;
};

const std::array kMethods = std::to_array<Method>({
    {"tanh", "mlp", {}},
    {"tanh fast dropout", "mlp", {"dropout=fast"}},
    {"GPN means", "gpn", {"propagate=mean"}},
    {"GPN variances", "gpn", {"likelihood=expected"}},
    {"GPN variances shared", "gpn", {"sharing=layer"}},
    {"GPN variances identity", "gpn", {"init=identity"}},
    {"GPN variances predictive", "gpn", {"likelihood=predictive"}},
    {"GPN variances beta-NLL", "gpn", {"likelihood=beta-nll"}},
    {"GPN variances beta-NLL, mean first", "gpn", {"likelihood=beta-nll", "mean-warmup=20"}},
    {"GPN variances recalibrated", "gpn", {"recalibrate=true"}},
    {"GPN covariances", "gpn", {"propagate=covariance"}},
    {"GPN covariances equispaced", "gpn", {"propagate=covariance", "covariance=equispaced"}},
    {"GPN covariances series", "gpn", {"propagate=covariance", "covariance=series:10"}},
    {"GPN variational", "gpn", {"inference=vb"}},
    {"sigmoid", "probact", {"sigma=none", "activation=sigmoid"}},
    {"hyperbolic tangent", "probact", {"sigma=none", "activation=tanh"}},
    {"ReLU", "probact", {"sigma=none"}},
    {"leaky ReLU", "probact", {"sigma=none", "activation=leaky_relu"}},
    {"PReLU", "probact", {"sigma=none", "activation=prelu"}},
    {"swish", "probact", {"sigma=none", "activation=swish"}},
    {"ProbAct fixed 0.5", "probact", {"sigma=0.5"}},
    {"ProbAct fixed 1", "probact", {"sigma=1"}},
    {"ProbAct trained mean", "probact", {"sigma=1", "mean=element"}},
    {"ProbAct trained mean 0.25", "probact", {"sigma=0.25", "mean=channel"}},
    {"ProbAct single", "probact", {"sigma=single"}},
    {"ProbAct channel", "probact", {"sigma=channel"}},
    {"ProbAct element", "probact", {"sigma=element"}},
    {"ProbAct element bounded", "probact", {"sigma=element", "sigma-bound=2"}},
    {"SP-GRU", "sp-gru", {}},
    {"SP-LSTM", "sp-gru", {"cell=lstm"}},
    {"MC-LSTM", "sp-gru", {"cell=mc-lstm"}},
});

constexpr std::array kTable3 = std::to_array<PublishedFigure>({
    {"GPN variances", "letter", "test_error", 0.0709, 0.0043},
});

constexpr std::array kTable4 = std::to_array<PublishedFigure>({
    {"tanh", "784x50x50x10", "ratio", 1},
    {"GPN variances", "784x50x50x10", "ratio", 4},
    {"GPN covariances", "784x50x50x10", "ratio", 13},
});

constexpr std::string_view kAll;  // every row

constexpr std::array kRegression = std::to_array<PublishedFigure>({
    {kAll, "bostonHousing", "rmse", 2.90, 0.18},
    {kAll, "concrete", "rmse", 4.82, 0.16},
    {kAll, "energy", "rmse", 0.54, 0.06},
    {kAll, "kin8nm", "rmse", 0.08, 0.00},
    {kAll, "naval-propulsion-plant", "rmse", 0.00, 0.00},
    {kAll, "power-plant", "rmse", 4.01, 0.04},
    {kAll, "protein-tertiary-structure", "rmse", 4.27, 0.02},
    {kAll, "wine-quality-red", "rmse", 0.62, 0.01},
    {kAll, "yacht", "rmse", 0.67, 0.05},
    {kAll, "bostonHousing", "log_likelihood", -2.40, 0.04},
    {kAll, "concrete", "log_likelihood", -2.93, 0.02},
    {kAll, "energy", "log_likelihood", -1.21, 0.01},
    {kAll, "kin8nm", "log_likelihood", 1.14, 0.01},
    {kAll, "naval-propulsion-plant", "log_likelihood", 4.45, 0.00},
    {kAll, "power-plant", "log_likelihood", -2.80, 0.01},
    {kAll, "protein-tertiary-structure", "log_likelihood", -2.87, 0.00},
    {kAll, "wine-quality-red", "log_likelihood", -0.93, 0.01},
    {kAll, "yacht", "log_likelihood", -1.25, 0.01},
});

const std::vector<std::string> kClassification = {"letter", "adult", "connect-4", "mnist"};
const std::vector<std::string> kUciRegression = {"bostonHousing",
                                                 "concrete",
                                                 "energy",
                                                 "kin8nm",
                                                 "naval-propulsion-plant",
                                                 "power-plant",
                                                 "protein-tertiary-structure",
                                                 "wine-quality-red",
                                                 "yacht"};

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::size_t replicates_of(const Experiment& experiment, const ExperimentOptions& options, const std::string& column) {
  const std::size_t wanted = options.replicates > 0 ? options.replicates : experiment.replicates;
  const auto preset = std::ranges::find(presets(), column, &Preset::name);
  const bool has_splits = experiment.measure == measure_regression || experiment.measure == measure_likelihood;
  const bool by_split = has_splits && preset != presets().end() && preset->splits > 0;
  return by_split ? std::min(wanted, preset->splits) : wanted;
}

}  // namespace

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all = {
      {"table3",
       "test errors of classifiers on four data sets, five seeds each",
       {"tanh", "tanh fast dropout", "GPN means", "GPN variances", "GPN variances shared", "GPN variances identity",
        "GPN covariances series", "GPN variational"},
       kClassification,
       5,
       {"test_error", "test_nll", "test_ece"},
       kTable3,
       kPaper,
       measure_classification},
      {"table4",
       "time and memory of one training iteration",
       {"tanh", "GPN means", "GPN variances", "GPN covariances", "GPN covariances equispaced",
        "GPN covariances series"},
       {"784x50x50x10"},
       1,
       {"milliseconds", "ratio", "workspace_mib"},
       kTable4,
       kPaper,
       measure_iteration},
      {"regression",
       "UCI regression sets with their published splits",
       {"GPN variances", "GPN variances predictive", "GPN variances recalibrated", "GPN variational"},
       kUciRegression,
       20,
       {"rmse", "log_likelihood", "test_coverage_95"},
       kRegression,
       kDropoutSource,
       measure_regression},
      {"likelihoods",
       "what regression maximises: losses of Gaussian process neurons on UCI regression sets, with recalibrated "
       "variances",
       {"GPN variances", "GPN variances predictive", "GPN variances beta-NLL", "GPN variances beta-NLL, mean first"},
       kUciRegression,
       5,
       {"validation_nll", "nll", "rmse", "test_coverage_95", "test_ece", "default_validation_nll", "default_nll",
        "default_rmse"},
       {},
       "",
       measure_likelihood},
      {"clt",
       "how Gaussian the activations behind a layer of N units are",
       {"1", "2", "5", "10", "20", "50"},
       {"random initialisation"},
       10,
       {"ks_distance", "skewness", "excess_kurtosis", "mean_error", "deviation_ratio"},
       {},
       kPaper,
       measure_central_limit},
      {"seeds",
       "whether training from random initial values ever fails, over many seeds",
       {"GPN variances", "GPN covariances", "GPN variational"},
       joined(kClassification, kUciRegression),
       50,
       {"failed", "skipped_steps"},
       {},
       "",
       measure_robustness},
      {"probact",
       "test errors of noisy and of plain activations, with less data and with noisy images, three seeds each",
       {"sigmoid", "hyperbolic tangent", "ReLU", "leaky ReLU", "PReLU", "swish", "ProbAct fixed 0.5", "ProbAct fixed 1",
        "ProbAct trained mean", "ProbAct trained mean 0.25", "ProbAct single", "ProbAct channel", "ProbAct element",
        "ProbAct element bounded"},
       {"cifar10", "cifar10 50 %", "cifar10 25 %", "mnist", "mnist 25 %"},
       3,
       {"test_error", "test_nll", "test_ece", "error_noise_0.25", "error_noise_0.5", "error_noise_1"},
       {},
       "",
       measure_probact},
      {"sp-gru",
       "uncertainty of predicted frames against angle, speed and noise of digits unlike those of the training",
       {"SP-GRU", "SP-LSTM", "MC-LSTM"},
       {"moving-mnist"},
       3,
       {"rmse", "nll", "predict_ms", "variance_angle_0", "variance_angle_30", "variance_angle_60", "variance_angle_90",
        "variance_speed_0", "variance_speed_1", "variance_speed_2", "variance_speed_4", "variance_noise_0",
        "variance_noise_0.1", "variance_noise_0.2", "variance_noise_0.4", "increases_with_angle",
        "increases_with_speed", "increases_with_noise"},
       {},
       "",
       measure_frames},
  };
  return all;
}

TrainConfig with_method(TrainConfig config, const std::string& row, const std::vector<std::string>& settings) {
  const auto method = std::ranges::find(kMethods, row, &Method::row);
  if (method == kMethods.end()) throw InternalError(fmt::format("there is no method '{}'", row));
  config.model = method->model;
  config.recalibrate = false;  // tables say what the models themselves predict
  return with_settings(with_settings(config, method->settings), settings);
}

const Experiment& find_experiment(const std::string& name) {
  const auto found = std::ranges::find(experiments(), name, &Experiment::name);
  if (found != experiments().end()) return *found;
  std::vector<std::string_view> known;
  for (const Experiment& experiment : experiments()) known.push_back(experiment.name);
  throw UsageError(fmt::format("there is no experiment '{}'; known: {}", name, fmt::join(known, ", ")));
}

std::vector<Cell> cells_of(const Experiment& experiment, const ExperimentOptions& options) {
  for (const std::string& row : options.rows) {
    if (std::ranges::find(experiment.rows, row) == experiment.rows.end())
      throw UsageError(fmt::format("experiment {} has no row '{}'; it has: {}", experiment.name, row,
                                   fmt::join(experiment.rows, ", ")));
  }
  std::vector<Cell> cells;
  for (const std::string& column : options.columns.empty() ? experiment.columns : options.columns) {
    for (const std::string& row : options.rows.empty() ? experiment.rows : options.rows) {
      for (std::size_t k = 0; k < replicates_of(experiment, options, column); ++k) cells.push_back({row, column, k});
    }
  }
  return cells;
}

}  // namespace moxie
