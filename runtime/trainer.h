#pragma once
// Trainer: runs the Program of a training step over the batches of a data set.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/batch_order.h"
#include "runtime/device.h"
#include "runtime/rows.h"
#include "runtime/session.h"

namespace moxie {

using NamedTensors = std::map<std::string, HostTensor>;

/// A Program that reads x[S,..], perhaps target[S,..], and the scalar initial_rate, puts out the scalars `loss` and
/// `gradient_norm`, and renews tensors: each pair is an output and the input whose next value it is.
struct StepProgram {
  Program program;
  std::vector<std::pair<std::string, std::string>> renewals;
};

struct TrainerOptions {
  std::size_t batch = 256;
  std::uint64_t seed = 1;  // of the order of samples and of the Program's random numbers
};

struct StepResult {
  double loss = 0;
  double gradient_norm = 0;
  std::span<const std::uint32_t> samples;  // those of the batch; valid until the next step
  bool finite() const;
};

/// What a training run needs to go on as if it had never stopped, with `tensors()`.
struct TrainerPosition {
  DataPosition data;
  std::uint64_t step = 0;  // counts every step taken, for random numbers
  bool operator==(const TrainerPosition&) const = default;
};

class Trainer {
 public:
  /// Throws ShapeError if the rows do not fit the Program, and DataError for values outside the declared domain of x or
  /// target: all rows are checked here, once, and not again when they are gathered into batches.
  Trainer(const StepProgram& step, std::shared_ptr<Device> device, const SampleRows& data,
          const TrainerOptions& options);

  /// Gives an input other than x and target its values. Throws DataError for values outside its declared domain; what
  /// steps make of a renewed tensor is not checked.
  void set(const std::string& input, const HostTensor& values);
  void set_rate(double initial_rate);
  /// Compiles what a step needs, and leaves no trace.
  void warm_up();
  /// Takes one step on the next batch.
  StepResult step();
  /// Gives all renewed tensors the values that they had before the last step. A step that threw renewed none, and
  /// nothing is undone.
  void undo();

  /// The current value of an input.
  HostTensor value(const std::string& input) const { return session_.get(input); }
  /// The current values of the renewed tensors.
  NamedTensors tensors() const;
  const std::vector<std::pair<std::string, std::string>>& renewals() const { return renewals_; }
  /// The first renewed tensor that holds a NaN or an infinity; empty if there is none.
  std::string first_non_finite() const;
  TrainerPosition position() const { return {order_.position(), session_.step()}; }
  void seek(const TrainerPosition& position);
  const Session& session() const { return session_; }

 private:
  bool reads(const std::string& input) const;
  void load(const std::string& input, std::span<const float> values, std::span<const std::uint32_t> samples,
            bool resizes);

  Session session_;
  std::vector<std::pair<std::string, std::string>> renewals_;
  SampleRows data_;
  std::uint64_t seed_;
  BatchOrder order_;
  std::size_t rows_ = 0;  // of the last batch
};

}  // namespace moxie
