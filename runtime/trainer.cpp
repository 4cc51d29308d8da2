#include "runtime/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

double scalar(const Session& session, const std::string& tensor) {
  std::vector<double> value;
  append_doubles(session.plan().program.dtype_of(tensor), session.read(tensor), value);
  return value.at(0);
}

bool has_input(const Session& session, const std::string& input) {
  return session.program().find_input(input) != nullptr;
}

bool all_finite(const HostTensor& tensor) {
  return std::ranges::all_of(to_doubles(tensor), [](double value) { return std::isfinite(value); });
}

}  // namespace

bool StepResult::finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }

Trainer::Trainer(const StepProgram& step, std::shared_ptr<Device> device, const SampleRows& data,
                 const TrainerOptions& options)
    : session_(step.program, {}, device),
      renewals_(step.renewals),
      seed_(options.seed),
      order_(data.rows, options.batch, options.seed) {
  check_division(options.division, options.communicator->size());
  if (step.gradients.definitions.empty()) {
    rows_ = std::make_unique<RowLoader>(session_.program(), data, checks_inputs(session_.device().program_options()));
  } else {
    parts_ =
        std::make_unique<MicroBatches>(step.gradients, std::move(device), data, options.division, options.communicator);
    for (const std::string& name : parts_->outputs()) session_.resize(name, extents_of(session_.program(), name, {}));
  }
  for (const auto& [output, input] : renewals_) {
    session_.feed_back(output, input);
    if (parts_ && has_input(parts_->session(), input)) passed_.push_back(input);
  }
  session_.set_random_state(seed_, 0);
}

void Trainer::set(const std::string& input, const HostTensor& values) {
  const bool is_of_parts = parts_ && has_input(parts_->session(), input);
  if (is_of_parts) parts_->session().set(input, values);
  if (!is_of_parts || has_input(session_, input)) session_.set(input, values);
}

void Trainer::set_rate(double initial_rate) {
  session_.set("initial_rate", make_host_tensor(DType::f32, {}, std::span(&initial_rate, 1)));
}

void Trainer::warm_up() {
  const TrainerPosition before = position();
  step();
  undo();
  seek(before);
}

StepResult Trainer::step(RankFlags flags) {
  const DataPosition before = order_.position();
  const std::span<const std::uint32_t> samples = order_.next();
  if (!parts_) return take_whole(samples);
  try {
    return take_divided(samples, flags);
  } catch (const LostRankError& error) {
    order_.seek(before);
    throw LostRankError(fmt::format("step {}: {}", session_.step() + 1, error.what()));
  }
}

StepResult Trainer::take_whole(std::span<const std::uint32_t> samples) {
  rows_->load(session_, samples);
  session_.run();
  for (const char* scalar : {"loss", "gradient_norm"}) session_.prefetch(scalar);
  return {scalar(session_, "loss"), scalar(session_, "gradient_norm"), samples};
}

StepResult Trainer::take_divided(std::span<const std::uint32_t> samples, RankFlags flags) {
  pass_parameters();
  const MicroBatches::Result result = parts_->compute(samples, seed_, session_.step(), flags);
  for (const std::string& name : parts_->outputs()) {
    const std::span<const std::byte> sum = parts_->sum(name);
    std::ranges::copy(sum, session_.write(name, Session::Domain::checked).begin());
  }
  session_.run();
  return {result.loss, scalar(session_, "gradient_norm"), samples, result.spoilt_rank, result.flags, result.waited};
}

void Trainer::pass_parameters() {
  for (const std::string& name : passed_)
    std::ranges::copy(session_.read(name), parts_->session().write(name, Session::Domain::checked).begin());
}

void Trainer::undo() { session_.take_back(); }

HostTensor Trainer::value(const std::string& input) const {
  return !parts_ || has_input(session_, input) ? session_.get(input) : parts_->session().get(input);
}

NamedTensors Trainer::tensors() const {
  NamedTensors result;
  for (const auto& [output, input] : renewals_) result[input] = session_.get(input);
  return result;
}

std::string Trainer::first_non_finite() const {
  for (const auto& [output, input] : renewals_) {
    if (!all_finite(session_.get(input))) return input;
  }
  return {};
}

void Trainer::seek(const TrainerPosition& position) {
  order_.seek(position.data);
  session_.set_random_state(seed_, position.step);
}

}  // namespace moxie
