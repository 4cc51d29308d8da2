#include "runtime/trainer.h"

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"

namespace moxie {
namespace {

double scalar(const Session& session, const std::string& tensor) {
  std::vector<double> value;
  append_doubles(session.plan().program.dtype_of(tensor), session.read(tensor), value);
  return value.at(0);
}

bool all_finite(const HostTensor& tensor) {
  return std::ranges::all_of(to_doubles(tensor), [](double value) { return std::isfinite(value); });
}

}  // namespace

bool StepResult::finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }

Trainer::Trainer(const StepProgram& step, std::shared_ptr<Device> device, const SampleRows& data,
                 const TrainerOptions& options)
    : session_(step.program, {}, std::move(device)),
      renewals_(step.renewals),
      data_(data),
      seed_(options.seed),
      order_(data.rows, options.batch, options.seed) {
  if (reads("x")) check_rows(step.program, "x", data.x, data.rows);
  if (reads("target")) check_rows(step.program, "target", data.target, data.rows);
  for (const auto& [output, input] : renewals_) session_.feed_back(output, input);
  session_.set_random_state(seed_, 0);
}

void Trainer::set(const std::string& input, const HostTensor& values) { session_.set(input, values); }

void Trainer::set_rate(double initial_rate) {
  session_.set("initial_rate", make_host_tensor(DType::f32, {}, std::span(&initial_rate, 1)));
}

void Trainer::warm_up() {
  const TrainerPosition before = position();
  step();
  undo();
  seek(before);
}

StepResult Trainer::step() {
  const std::span<const std::uint32_t> samples = order_.next();
  const bool resizes = samples.size() != rows_;
  rows_ = 0;  // until both inputs have the size of this batch
  if (reads("x")) load("x", data_.x, samples, resizes);
  if (reads("target")) load("target", data_.target, samples, resizes);
  rows_ = samples.size();
  session_.run();
  for (const char* scalar : {"loss", "gradient_norm"}) session_.prefetch(scalar);
  return {scalar(session_, "loss"), scalar(session_, "gradient_norm"), samples};
}

void Trainer::undo() { session_.take_back(); }

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

bool Trainer::reads(const std::string& input) const { return session_.plan().program.find_input(input) != nullptr; }

void Trainer::load(const std::string& input, std::span<const float> values, std::span<const std::uint32_t> samples,
                   bool resizes) {
  if (resizes) make_room(session_, input, samples.size());
  gather(values, data_.rows, samples, session_.program().dtype_of(input),
         session_.write(input, Session::Domain::checked));
}

}  // namespace moxie
