#include "learn/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "data/class_weights.h"
#include "learn/uncertainty_warnings.h"
#include "runtime/cache_file.h"

namespace moxie {
namespace {

using Clock = std::chrono::steady_clock;

/// What a rank tells the others with each step.
constexpr RankFlags kStop = 1, kTimeIsOver = 2;
/// So many skipped steps in a row mean that training cannot go on.
constexpr std::uint64_t kMostSkipped = 100;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A network with a posterior: the weight of its divergence from the prior.
constexpr const char* kPriorWeight = "kl_weight";
/// A network that may fit the mean first: the weight of the likelihood in its loss.
constexpr const char* kLikelihoodWeight = "nll_weight";

bool wants_stop(const TrainingCallbacks& callbacks) { return callbacks.stop && callbacks.stop(); }

HostTensor scalar(double value) { return make_host_tensor(DType::f32, {}, std::span(&value, 1)); }

/// With the prior weighted as in the mean over the training rows.
NamedTensors starting_values(const Network& network, std::uint64_t seed, std::size_t rows) {
  NamedTensors values = initial_values(network.parameters, seed);
  if (values.contains(kPriorWeight)) values[kPriorWeight] = scalar(1 / static_cast<double>(rows));
  return values;
}

/// Before anything is compiled for it.
Network network_for(const TrainConfig& config, const Dataset& data) {
  Network network = make_network(config, data.encoding);
  for (const Samples* samples : {&data.train, &data.validation, &data.test})
    check_features(network, samples->x, data.encoding);
  return network;
}

/// The optimiser's state starts at zero.
NamedTensors zeros_of(const Program& program, const std::vector<std::pair<std::string, std::string>>& renewals,
                      const NamedTensors& parameters) {
  NamedTensors tensors;
  for (const auto& [output, input] : renewals) {
    if (parameters.contains(input)) continue;
    std::vector<std::int64_t> shape = extents_of(program, input, {});
    const auto count = static_cast<std::size_t>(element_count(shape));
    const DType dtype = program.dtype_of(input);
    tensors[input] = {dtype, std::move(shape), std::vector<std::byte>(count * size_of(dtype))};
  }
  return tensors;
}

}  // namespace

StepProgram make_step(const TrainConfig& config, const Network& network) {
  const Program gradients = differentiate(network.train, {"loss"}, trainable_names(network.parameters));
  if (config.micro_batches > 0) {
    SplitStep step = split_training_step(gradients, network.parameters, optimiser_options(config),
                                         schedule_options(config), network.renewals);
    return {std::move(step.update), std::move(step.feedback), std::move(step.gradients)};
  }
  TrainingStep step = training_step(gradients, network.parameters, optimiser_options(config), schedule_options(config),
                                    network.renewals);
  return {std::move(step.program), std::move(step.feedback)};
}

TrainingRun::TrainingRun(const TrainConfig& config, const Dataset& data, const std::shared_ptr<Device>& device,
                         std::shared_ptr<Communicator> communicator)
    : config_(config),
      data_(data),
      network_(network_for(config, data)),
      targets_(weighted_targets(data.train.y, data.encoding)),
      communicator_(std::move(communicator)),
      trainer_(make_step(config, network_), device, {data.train.rows(), data.train.x.values, targets_.values},
               {config.batch, config.seed, batch_division(config), communicator_}),
      evaluator_(config, data.encoding, device),
      initial_(starting_values(network_, config.seed, data.train.rows())),
      best_(initial_),
      start_(Clock::now()),
      saved_(start_) {
  for (const auto& [name, tensor] : initial_) trainer_.set(name, tensor);
  for (const auto& [name, tensor] : zeros_of(trainer_.session().program(), trainer_.renewals(), initial_))
    trainer_.set(name, tensor);
  state_.data = training_digest(data);
  state_.plateau.rate = config.rate;
  trainer_.set_rate(state_.plateau.rate);
  trainer_.warm_up();
}

void TrainingRun::resume(const Checkpoint& checkpoint) {
  if (checkpoint.state.data != state_.data)
    throw DataError(
        fmt::format("{}: the rows that train and validate are not those that the run began with; put those "
                    "back to go on with it, or begin a new run",
                    config_.data));
  for (const auto& [name, tensor] : checkpoint.tensors) trainer_.set(name, tensor);
  for (const auto& [name, tensor] : checkpoint.best) best_[name] = tensor;
  state_ = checkpoint.state;
  state_.finished.clear();
  new_best_ = false;
  earlier_ = state_.elapsed;
  trainer_.seek(state_.position);
  trainer_.set_rate(state_.plateau.rate);
}

void TrainingRun::train(const TrainingCallbacks& callbacks) {
  start_ = Clock::now();
  if (new_best_) save(callbacks);  // a new run: whatever ends it, it can go on
  start_ = saved_ = Clock::now();
  try {
    take_steps(callbacks);
  } catch (const LostRankError&) {
    save(callbacks);
    throw;
  }
  save(callbacks);
}

void TrainingRun::take_steps(const TrainingCallbacks& callbacks) {
  while (state_.finished.empty() && !is_to_stop(callbacks)) {
    if (state_.finished = limit_reached(); !state_.finished.empty()) break;
    take_step(callbacks);
    if (trainer_.position().data.used == data_.train.rows()) {
      const EpochReport report = finish_epoch();
      if (callbacks.report) callbacks.report(report);
    }
    if (seconds_since(saved_) >= config_.save_every) save(callbacks);
  }
}

/// Clocks differ: that of rank 0 counts.
RankFlags TrainingRun::own_flags(const TrainingCallbacks& callbacks) const {
  const bool is_over = communicator_->rank() == 0 && config_.max_time > 0 && elapsed() >= config_.max_time;
  return (wants_stop(callbacks) ? kStop : 0) | (is_over ? kTimeIsOver : 0);
}

bool TrainingRun::is_to_stop(const TrainingCallbacks& callbacks) const {
  return communicator_->size() > 1 ? (flags_ & kStop) != 0 : wants_stop(callbacks);
}

void TrainingRun::take_step(const TrainingCallbacks& callbacks) {
  StepResult result;
  warm_up(kPriorWeight, config_.kl_warmup);
  warm_up(kLikelihoodWeight, config_.mean_warmup);
  try {
    result = trainer_.step(communicator_->size() > 1 ? own_flags(callbacks) : 0);
  } catch (const DeviceError& error) {
    return handle_failure(error.what(),
                          callbacks);  // such as a matrix that is not positive definite; nothing was renewed
  }
  flags_ |= result.flags;
  waited_ += result.waited;
  if (!result.finite()) return handle_failure(undo_and_explain(result), callbacks);
  skipped_in_a_row_ = 0;
  gradient_norm_ = result.gradient_norm;
  state_.loss_sum += result.loss * static_cast<double>(result.samples.size());
  state_.loss_samples += result.samples.size();
}

void TrainingRun::handle_failure(const std::string& what, const TrainingCallbacks& callbacks) {
  ++state_.skipped;
  if (config_.on_nan == "skip" && ++skipped_in_a_row_ < kMostSkipped) return;
  save(callbacks);
  const bool is_first = trainer_.position().step <= 1;
  throw DeviceError(
      fmt::format("step {}: {}. The parameters from before this step are saved. {}", trainer_.position().step, what,
                  is_first ? "It is the first one: look at the values that parameters start from, and at the data, or "
                             "try --on-nan skip"
                           : "Try a smaller --rate, or --on-nan skip"));
}

/// Takes the step back and says what was not finite first.
std::string TrainingRun::undo_and_explain(const StepResult& result) {
  const std::string spoilt = trainer_.first_non_finite();
  const std::string where = communicator_->size() > 1 ? fmt::format(" on rank {}", result.spoilt_rank) : "";
  trainer_.undo();
  if (const std::string before = trainer_.first_non_finite(); !before.empty())
    return fmt::format("the step before it made {} infinite or NaN", before);
  if (std::isfinite(result.loss))
    return fmt::format("the gradient is not finite{}; the first tensor that it spoilt is {}", where, spoilt);
  evaluator_.set_parameters(parameters());
  const Samples& all = data_.train;
  for (const std::uint32_t sample : result.samples) {
    const double loss = evaluator_.loss(select_rows(all, std::array{std::size_t{sample}}));
    if (!std::isfinite(loss))
      return fmt::format("the loss of training sample {} is {}{}", sample + 1, without_nan_sign(loss), where);
  }
  return fmt::format("the loss is {}{}, but not that of any single sample", without_nan_sign(result.loss), where);
}

EpochReport TrainingRun::finish_epoch() {
  compare_ranks();
  evaluator_.set_parameters(parameters());
  EpochReport report;
  report.validation = evaluator_.evaluate(data_.validation);
  report.epoch = trainer_.position().data.epoch + 1;
  report.step = trainer_.position().step;
  report.loss = state_.loss_sum / static_cast<double>(state_.loss_samples);
  report.gradient_norm = gradient_norm_;
  report.rate = state_.plateau.rate;
  report.verdict = observe(state_.plateau, plateau_options(config_), report.validation.loss);
  report.elapsed = elapsed();
  state_.loss_sum = 0;
  state_.loss_samples = 0;
  if (report.verdict == PlateauVerdict::Improved) keep_best(report.validation);
  if (report.verdict == PlateauVerdict::RateFell) trainer_.set_rate(state_.plateau.rate);
  if (report.verdict == PlateauVerdict::Finished) state_.finished = "the validation loss no longer falls";
  return report;
}

void TrainingRun::keep_best(const Evaluation& validation) {
  best_ = parameters();
  new_best_ = true;
  state_.best_epoch = trainer_.position().data.epoch + 1;
  state_.variance_scale = validation.variance_scale;
}

/// The weight grows linearly over the first epochs, if asked for, to what it starts at without.
void TrainingRun::warm_up(const char* weight, double epochs) {
  if (epochs == 0 || !initial_.contains(weight)) return;
  const std::size_t rows = data_.train.rows();
  const std::size_t steps_per_epoch = (rows + config_.batch - 1) / config_.batch;
  const double steps = epochs * static_cast<double>(steps_per_epoch);
  const double done = static_cast<double>(trainer_.position().step + 1) / steps;
  trainer_.set(weight, scalar(std::min(done, 1.0) * to_doubles(initial_.at(weight))[0]));
}

std::string TrainingRun::limit_reached() const {
  const DataPosition at = trainer_.position().data;
  const std::uint64_t epochs = at.epoch + (at.used == data_.train.rows() ? 1 : 0);
  if (epochs >= config_.epochs) return fmt::format("all {} epochs are done", config_.epochs);
  const bool is_alone = communicator_->size() == 1;
  const bool is_over = is_alone ? config_.max_time > 0 && elapsed() >= config_.max_time : (flags_ & kTimeIsOver) != 0;
  return is_over ? fmt::format("{:g} s are over", config_.max_time) : "";
}

double TrainingRun::elapsed() const { return earlier_ + seconds_since(start_); }

void TrainingRun::save(const TrainingCallbacks& callbacks) {
  state_.position = trainer_.position();
  state_.elapsed = elapsed();
  saved_ = Clock::now();
  if (communicator_->rank() != 0 || !callbacks.save) return;
  Snapshot snapshot{{state_, trainer_.tensors(), best_}, {}};
  if (new_best_) snapshot.model = model();
  callbacks.save(snapshot);
  new_best_ = false;
  saved_ = Clock::now();
}

void TrainingRun::compare_ranks() {
  if (communicator_->size() == 1 || config_.reduce != "tree") return;
  std::string digests;
  for (const auto& [output, input] : trainer_.renewals()) {
    const std::span<const std::byte> values = trainer_.session().read(input);
    digests += key_digest({reinterpret_cast<const char*>(values.data()), values.size()});
  }
  const std::vector<std::string> ranks = gather_texts(*communicator_, key_digest(digests));
  const auto other = std::ranges::find_if(ranks, [&](const std::string& digest) { return digest != ranks[0]; });
  if (other != ranks.end())
    throw DeviceError(
        fmt::format("step {}: rank {} has other parameters than rank 0, though both took the same steps: "
                    "their processors or libraries differ",
                    trainer_.position().step, other - ranks.begin()));
}

SavedModel TrainingRun::model() const { return {config_, data_.encoding, best_, state_.variance_scale, state_.data}; }

FinalReport TrainingRun::evaluate_best() {
  evaluator_.set_parameters(best_);
  const double variance = state_.variance_scale;
  FinalReport report{
      evaluator_.evaluate(data_.train, variance),
      evaluator_.evaluate(data_.validation, variance),
      evaluator_.evaluate(data_.test, variance),
      score(constant_prediction(data_.train, data_.encoding, data_.test.rows()), data_.test.y, data_.encoding),
      network_.jitter,
      config_.propagate == "covariance" ? config_.covariance : "",
      {}};
  report.warnings = uncertainty_warnings(predict(data_.test), report.test.scores, config_);
  return report;
}

Prediction TrainingRun::predict(const Samples& samples) {
  return evaluator_.predict(rows_of(samples), state_.variance_scale);
}

std::map<std::string, RowValues> TrainingRun::functions(const std::vector<double>& activations) const {
  if (network_.functions.definitions.empty()) return {};
  const std::vector<float> x(activations.begin(), activations.end());
  ForwardPass pass(network_.functions, open_device("interp"), x.size());  // once and small: not worth compiling
  pass.set(best_);
  return pass.run({x.size(), x, {}});
}

NamedTensors TrainingRun::parameters() const {
  NamedTensors result = initial_;
  for (auto& [name, tensor] : result) {
    // Models are judged with the whole of these.
    const bool is_weight = name == kPriorWeight || (name == kLikelihoodWeight && config_.mean_warmup > 0);
    if (!is_weight) tensor = trainer_.value(name);
  }
  return result;
}

}  // namespace moxie
