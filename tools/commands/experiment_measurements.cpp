// Measurements without a data set: table 4 and the central limit.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numbers>
#include <random>

#include "learn/calibration.h"
#include "learn/training_run.h"
#include "tools/commands/experiment.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

// ---- Table 4 ----

constexpr std::size_t kBatch = 256;

/// Images of noise and classes of no meaning: their values do not matter.
Dataset noise_images(std::size_t pixels, std::size_t classes) {
  Encoding encoding;
  for (std::size_t k = 0; k < pixels; ++k) encoding.features.emplace_back().column = fmt::format("p{}", k);
  for (std::size_t k = 0; k < classes; ++k) encoding.classes.push_back(fmt::format("c{}", k));
  Samples samples{Matrix(kBatch, pixels), Matrix(kBatch, classes)};
  std::minstd_rand random(1);
  for (float& value : samples.x.values) value = static_cast<float>(random() % 256) / 255;
  for (std::size_t row = 0; row < kBatch; ++row) samples.y(row, row % classes) = 1;
  return {"noise", samples, samples, samples, encoding};
}

struct Iteration {
  double seconds = 0;  // of the fastest: others on the machine only ever slow it down
  std::int64_t workspace_bytes = 0;
};

Iteration time_iteration(const std::string& row, const Workplace& workplace) {
  constexpr int kWarmUp = 3, kFewest = 15;
  constexpr double kEnough = 2;  // seconds
  const Dataset data = noise_images(784, 10);
  TrainConfig config;
  config.layers = {50, 50};
  config.batch = kBatch;
  config = with_method(config, row, workplace.options.settings);
  TrainingRun run(config, data, workplace.device);
  for (int i = 0; i < kWarmUp; ++i) run.trainer().step();
  std::vector<double> times;
  for (const auto begin = Clock::now();
       times.size() < kFewest || std::chrono::duration<double>(Clock::now() - begin).count() < kEnough;) {
    const auto start = Clock::now();
    run.trainer().step();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  return {std::ranges::min(times), run.trainer().session().workspace_bytes()};
}

// ---- The central limit ----

/// Moments of standardised values and their distance from the standard normal distribution.
Json compare_with_normal(const std::vector<double>& values, double mean, double variance) {
  double first = 0, second = 0, third = 0, fourth = 0;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) first += value / count;
  std::vector<double> transform;
  for (const double value : values) {
    const double d = value - first;
    second += d * d / count;
    third += d * d * d / count;
    fourth += d * d * d * d / count;
    transform.push_back(std::erfc(-(value - mean) / std::sqrt(2 * variance)) / 2);
  }
  return {{"ks_distance", uniform_distance(std::move(transform))},
          {"skewness", third / std::pow(second, 1.5)},
          {"excess_kurtosis", fourth / (second * second) - 3},
          {"mean_error", std::abs(first - mean) / std::sqrt(variance)},
          {"deviation_ratio", std::sqrt(second / variance)}};
}

/// The outputs `names` of a Program, made so, for `rows` rows of `x`.
std::map<std::string, RowValues> run(Program program, const std::vector<std::string>& names,
                                     const NamedTensors& parameters, const std::vector<float>& x, std::size_t rows,
                                     const std::shared_ptr<Device>& device) {
  for (Definition& definition : program.definitions)
    definition.output = std::ranges::find(names, definition.name) != names.end();
  std::erase_if(program.inputs, [](const InputDecl& input) { return input.name == "target"; });
  std::erase_if(program.definitions, [](const Definition& d) { return d.name.starts_with("loss"); });
  ForwardPass pass(program, device, rows);
  pass.set(parameters);
  return pass.run({rows, x, {}});
}

}  // namespace

std::optional<Json> measure_iteration(const Cell& cell, const Workplace& workplace) {
  const double fixed = time_iteration("tanh", workplace).seconds;
  const Iteration measured = time_iteration(cell.row, workplace);
  constexpr double kMebibyte = 1024 * 1024;
  return Json{{"milliseconds", 1e3 * measured.seconds},
              {"ratio", measured.seconds / fixed},
              {"workspace_mib", static_cast<double>(measured.workspace_bytes) / kMebibyte}};
}

/// The activation of a unit behind two layers of N units each, for one input: draws, and what moments say.
std::optional<Json> measure_central_limit(const Cell& cell, const Workplace& workplace) {
  constexpr std::size_t kDraws = 20000, kInputs = 10;
  GpnOptions options;
  const std::int64_t units = std::stoll(cell.row);
  options.sizes = {kInputs, units, units, 1};
  options.task = Task::Regression;
  options.propagate = GpnOptions::Propagate::Sample;
  const Network network = gpn_network(options);
  const NamedTensors parameters = initial_values(network.parameters, cell.replicate + 1);
  std::mt19937 random(static_cast<std::uint32_t>(cell.replicate));
  std::vector<float> x(kInputs);
  for (float& value : x) value = static_cast<float>(random() % 1000) / 1000;
  std::vector<float> repeated;
  for (std::size_t k = 0; k < kDraws; ++k) repeated.insert(repeated.end(), x.begin(), x.end());
  const auto moments = run(network.predict, {"layer3.mu", "layer3.var"}, parameters, x, 1, workplace.device);
  const auto draws = run(network.train, {"layer3.mu"}, parameters, repeated, kDraws, workplace.device);
  return compare_with_normal(draws.at("layer3.mu").values, moments.at("layer3.mu").values[0],
                             moments.at("layer3.var").values[0]);
}

}  // namespace moxie
