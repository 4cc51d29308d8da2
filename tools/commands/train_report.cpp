#include "tools/commands/train_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "compiler/support/nan.h"
#include "runtime/cpu/host.h"
#include "runtime/cpu/plugin.h"

namespace moxie {
namespace {

using Json = nlohmann::ordered_json;

/// Between two lines where there is no terminal.
constexpr double kSecondsBetweenLines = 5;
constexpr double kSecondsBetweenDrawings = 0.1;

std::string duration(double seconds) {
  const long whole = std::lround(seconds);
  if (whole < 100) return fmt::format("{:.1f} s", seconds);
  if (whole < 3600) return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  return fmt::format("{}:{:02} h", whole / 3600, whole / 60 % 60);
}

/// 1234567 as 1,234,567.
std::string grouped(std::size_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// The score that matters most: the error of classes, the root mean square error of values, else the loss.
std::string headline(const Scores& scores) {
  const Score& first = scores.front();
  if (first.name != "error" || std::isnan(first.value))
    return fmt::format("{} {}", first.name, score_text(first.value));
  return fmt::format("error {:.2f} %", 100 * first.value);
}

std::string all_scores(const Scores& scores) {
  std::string text = headline(scores);
  for (std::size_t k = 1; k < scores.size(); ++k)
    text += fmt::format(", {} {}", scores[k].name, score_text(scores[k].value));
  return text;
}

void add(Json& json, const std::string& part, const Evaluation& evaluation) {
  json[part + "_loss"] = evaluation.loss;
  for (const Score& score : evaluation.scores) json[part + "_" + score.name] = score.value;
}

}  // namespace

std::string describe_data(const Dataset& data) {
  const std::size_t outputs = data.encoding.target_count();
  return fmt::format("data      {}: {} training, {} validation, {} test samples{}; {} features, {} {}", data.name,
                     grouped(data.train.rows()), grouped(data.validation.rows()), grouped(data.test.rows()),
                     data.left_out > 0 ? fmt::format(" ({} rows without a target are left out)", data.left_out) : "",
                     data.encoding.feature_count(), outputs,
                     data.task() == Task::Classification ? "classes" : "target" + std::string(outputs == 1 ? "" : "s"));
}

std::string describe_plan(const Plan& plan, const std::vector<Parameter>& parameters, double compile_seconds) {
  std::size_t count = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.trainable) count += static_cast<std::size_t>(element_count(parameter.shape));
  }
  std::size_t kernels = 0, products = 0;
  std::set<int> lanes;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      ++kernels;
      lanes.insert(lanes_for(kernel->program, host_machine()));
    }
    products += products_of(step).size();
  }
  const std::int64_t compiled = llvm_compilations();
  return fmt::format(
      "formulas  {} definitions: the loss of {} parameters, its gradient, the optimiser's update\n"
      "compiled  {} kernels of {} lanes and {} matrix products in {} ({})",
      plan.program.definitions.size(), grouped(count), kernels, fmt::join(lanes, " or "), products,
      duration(compile_seconds),
      compiled == 0 ? "warm: every kernel came from the cache" : fmt::format("cold: LLVM compiled {}", compiled));
}

std::string describe_ranks(const TrainingRun& run) {
  const Communicator& ranks = run.communicator();
  if (ranks.size() == 1) return {};
  return fmt::format("ranks     {} ({}); rank 0 spent {:.1f} % of {} waiting for others and adding up with them\n",
                     ranks.size(), ranks.description(), 100 * run.waited() / run.seconds(), duration(run.seconds()));
}

std::string describe_end(const FinalReport& report, const RunState& state, const Dataset& data) {
  std::string text = fmt::format(
      "finished  {}: epoch {}, step {}, {}\n"
      "best      after epoch {}: validation loss {:.4f}, {}\n"
      "test      {}",
      state.finished, state.position.data.epoch + 1, state.position.step, duration(state.elapsed), state.best_epoch,
      without_nan_sign(report.validation.loss), headline(report.validation.scores), all_scores(report.test.scores));
  for (const std::string& warning : report.warnings) text += fmt::format("\nwarning   {}", warning);
  // Beside the error of a constant, that of unequal classes means something.
  if (report.test.scores.front().name == report.constant.front().name)
    text += fmt::format("\nconstant  {}, nll {}: {}", headline(report.constant),
                        score_text(score_of(report.constant, "nll")), describe_constant(data));
  return text;
}

std::string describe_constant(const Dataset& data) {
  const Prediction constant = constant_prediction(data.train, data.encoding, 1);
  if (data.task() == Task::Regression)
    return constant.columns > 1 ? "the means of the training samples"
                                : fmt::format(
                                      "the mean of the training samples, {:.6g}, with their standard deviation "
                                      "{:.4g}",
                                      constant.mean[0], std::sqrt(constant.variance[0]));
  const std::size_t top = top_class(constant, 0);
  return fmt::format("always '{}', as {:.3g} % of the training samples are", data.encoding.classes[top],
                     100 * constant.probability[top]);
}

std::string describe_jitter(const std::vector<Jitter>& jitter) {
  std::string text;
  for (const Jitter& each : jitter) text += fmt::format("jitter    {:g} is added to {}\n", each.amount, each.matrix);
  return text;
}

std::string metrics_line(const EpochReport& report) {
  Json json = {{"step", report.step}, {"epoch", report.epoch}, {"loss", report.loss}};
  add(json, "validation", report.validation);
  if (report.validation.kl) json["kl"] = *report.validation.kl;
  if (report.validation.covariance_error) json["covariance_error"] = *report.validation.covariance_error;
  json["rate"] = report.rate;
  json["gradient_norm"] = report.gradient_norm;
  json["elapsed_s"] = report.elapsed;
  return json.dump();
}

std::string final_metrics_line(const FinalReport& report, const RunState& state) {
  Json json = {{"step", state.position.step},   {"epoch", state.position.data.epoch + 1}, {"final", true},
               {"finished", state.finished},    {"best_epoch", state.best_epoch},         {"rate", state.plateau.rate},
               {"skipped_steps", state.skipped}};
  add(json, "train", report.train);
  add(json, "validation", report.validation);
  add(json, "test", report.test);
  for (const Score& score : report.constant) json["constant_" + score.name] = score.value;
  if (report.test.scores.front().name == "rmse") {
    for (const char* name : {"rmse", "nll"}) json[name] = score_of(report.test.scores, name);
  }
  if (report.test.kl) json["kl"] = *report.test.kl;
  if (report.test.covariance_error) json["covariance_error"] = *report.test.covariance_error;
  if (!report.covariance.empty()) json["covariance"] = report.covariance;
  for (const Jitter& jitter : report.jitter) json["jitter"][jitter.matrix] = jitter.amount;
  if (!report.warnings.empty()) json["warnings"] = report.warnings;
  json["elapsed_s"] = state.elapsed;
  return json.dump();
}

Progress::Progress(std::uint64_t epochs, double max_time, bool draws)
    : epochs_(epochs), max_time_(max_time), terminal_(draws && isatty(STDOUT_FILENO) != 0) {}

Progress::~Progress() {
  if (terminal_ && shown_ >= 0) fmt::print("\n");
}

void Progress::show(const EpochReport& report) {
  if (shown_ < 0) {
    first_epoch_ = report.epoch;
    first_elapsed_ = report.elapsed;
  }
  const double pause = terminal_ ? kSecondsBetweenDrawings : kSecondsBetweenLines;
  const bool news = report.verdict == PlateauVerdict::RateFell || report.verdict == PlateauVerdict::Finished ||
                    report.epoch >= epochs_;
  if (shown_ >= 0 && report.elapsed - shown_ < pause && !news) return;
  shown_ = report.elapsed;
  if (terminal_) {
    fmt::print("\r{}\x1b[K", line(report));
  } else {
    fmt::print("{}\n", line(report));
  }
  std::fflush(stdout);
}

std::string Progress::line(const EpochReport& report) const {
  // An epoch of which every step was skipped has no loss.
  const std::string loss = std::isnan(report.loss) ? "-" : fmt::format("{:.4f}", report.loss);
  return fmt::format("epoch {:>4}  loss {}  validation {:.4f}, {}  rate {:.0e}  {}, at most {} left", report.epoch,
                     loss, without_nan_sign(report.validation.loss), headline(report.validation.scores), report.rate,
                     duration(report.elapsed), duration(seconds_left(report)));
}

/// By the speed so far; training may end earlier.
double Progress::seconds_left(const EpochReport& report) const {
  const std::uint64_t done = report.epoch - first_epoch_;
  const double per_epoch = done > 0 ? (report.elapsed - first_elapsed_) / static_cast<double>(done)
                                    : report.elapsed / static_cast<double>(report.epoch);
  const double by_epochs = per_epoch * static_cast<double>(epochs_ - std::min(epochs_, report.epoch));
  return max_time_ > 0 ? std::min(by_epochs, std::max(0.0, max_time_ - report.elapsed)) : by_epochs;
}

}  // namespace moxie
