// Measurements of models on data unlike that which they were trained on: ProbAct with noisy images, recurrent networks
// with digits that move otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>

#include "compiler/arithmetic/philox.h"
#include "learn/training_run.h"
#include "tools/commands/command.h"
#include "tools/commands/experiment.h"
#include "tools/commands/train_report.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kNoiseStream = -5;
constexpr std::array kNoiseLevels = {0.25, 0.5, 1.0};  // standard deviations of what is added to scaled pixels

Samples with_noise(Samples samples, double deviation, std::uint64_t seed) {
  const PhiloxKey key = philox_key(seed, kNoiseStream, 0);
  for (std::size_t k = 0; k < samples.x.values.size(); ++k) {
    const PhiloxCounter words = philox4x32_10({static_cast<std::uint32_t>(k), 0, 0, 0}, key);
    samples.x.values[k] += static_cast<float>(deviation * normal_from_words(words[0], words[1]));
  }
  return samples;
}

void add_noisy_errors(TrainingRun& run, const Dataset& data, Json& result) {
  for (const double level : kNoiseLevels) {
    const Samples noisy = with_noise(data.test, level, 1);
    result[fmt::format("error_noise_{}", level)] = score_of(score(run.predict(noisy), noisy.y, data.encoding), "error");
  }
}

/// "cifar10 25 %": a data set, and the part of its training rows that is used.
void set_data(const std::string& column, TrainConfig& config) {
  const std::size_t space = column.find(' ');
  config.data = column.substr(0, space);
  if (space == column.npos) return;
  config.train_share = std::strtod(column.c_str() + space, nullptr) / 100;
  if (!(config.train_share > 0 && config.train_share <= 1) || !column.ends_with(" %"))
    throw UsageError(
        fmt::format("column '{}': name a data set, or a part of its training rows as in 'cifar10 25 %'", column));
}

/// One way in which digits may move otherwise, and how far.
struct Deviation {
  const char* name;
  double MovingMnistOptions::* value;
  std::array<double, 4> steps;
};
constexpr std::array kDeviations = std::to_array<Deviation>({
    {"angle", &MovingMnistOptions::angle, {0, 30, 60, 90}},
    {"speed", &MovingMnistOptions::speed, {0, 1, 2, 4}},
    {"noise", &MovingMnistOptions::noise, {0, 0.1, 0.2, 0.4}},
});

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// The mean predicted variance for each step of each deviation, and whether it always increases.
void add_variances(const TrainConfig& config, TrainingRun& run, Json& result) {
  for (const Deviation& deviation : kDeviations) {
    double before = -1;
    bool increases = true;
    for (const double step : deviation.steps) {
      LoadOptions options = load_options(config);
      options.moving_mnist.*deviation.value += step;
      const double variance = mean_of(run.predict(load_dataset(config.data, options).test).variance);
      result[fmt::format("variance_{}_{}", deviation.name, step)] = variance;
      increases &= variance > before;
      before = variance;
    }
    result[fmt::format("increases_with_{}", deviation.name)] = increases ? 1 : 0;
  }
}

/// The fastest of several predictions: other programs on the machine only make them slower.
void add_cost(TrainingRun& run, const Dataset& data, Json& result) {
  constexpr int kRuns = 5;
  double seconds = std::numeric_limits<double>::infinity();
  for (int k = 0; k < kRuns; ++k) {
    const auto start = std::chrono::steady_clock::now();
    run.predict(data.test);
    seconds = std::min(seconds, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  result["predict_ms"] = 1e3 * seconds / static_cast<double>(data.test.rows());
}

}  // namespace

std::optional<Json> measure_probact(const Cell& cell, const Workplace& workplace) {
  TrainConfig config;
  config.rate = 1e-3;
  config.lowest_rate = 1e-4;
  config.batch = 64;
  config.patience = 3;
  config.epochs = 40;
  config.weight_decay = 1e-4;  // keeps weights from growing until the noise no longer matters
  config.layers = {256, 256};
  set_data(cell.column, config);
  if (config.data == "cifar10") {
    config.network = "vgg-small";
    config.evaluation = "ensemble";  // what is pooled and averaged in training has noise: without it all would be less
    config.samples = 10;
  }
  config.data_dir = workplace.options.data_dir.string();
  config = with_method(config, cell.row, workplace.options.settings);
  config.seed = cell.replicate + 1;
  check(config);
  return train_cell(config, workplace, add_noisy_errors);
}

std::optional<Json> measure_frames(const Cell& cell, const Workplace& workplace) {
  TrainConfig config;
  config.data = cell.column;
  config.data_dir = workplace.options.data_dir.string();
  config.sequences = 2000;
  config.angle_spread = 30;
  config.speed_spread = 2;
  config.frame_noise = config.frame_noise_spread = 0.05;
  // An uncertain weight adds its variance times the square of what it reads, and so makes states uncertain that are
  // unlike those of the training; with the usual 1e-4 the variances hardly saw noise.
  config.weight_variance = 1e-2;
  config.batch = 32;
  config.epochs = 60;
  config.rate = 2e-3;
  config = with_method(config, cell.row, workplace.options.settings);
  config.seed = cell.replicate + 1;
  check(config);
  return train_cell(config, workplace, [&](TrainingRun& run, const Dataset& data, Json& result) {
    add_variances(config, run, result);
    add_cost(run, data, result);
  });
}

}  // namespace moxie
