#pragma once
// Trainer: runs the Program of a training step over the batches of a data set.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/batch_order.h"
#include "runtime/communicator.h"
#include "runtime/device.h"
#include "runtime/micro_batches.h"
#include "runtime/rows.h"
#include "runtime/session.h"

namespace moxie {

using NamedTensors = std::map<std::string, HostTensor>;

/// A Program that reads x[S,..], perhaps target[S,..], and the scalar initial_rate, puts out the scalars `loss` and
/// `gradient_norm`, and renews tensors: each pair is an output and the input whose next value it is.
/// Where batches are divided, `gradients` reads the rows, and puts out the loss and what `program` makes of the batch:
/// the inputs of `program` that are named as these outputs (see ops/training.h, SplitStep).
struct StepProgram {
  Program program;
  std::vector<std::pair<std::string, std::string>> renewals;
  Program gradients = {};  // no definitions: batches are taken as a whole
};

struct TrainerOptions {
  std::size_t batch = 256;
  std::uint64_t seed = 1;       // of the order of samples and of the Program's random numbers
  BatchDivision division = {};  // of StepProgram::gradients
  std::shared_ptr<Communicator> communicator = self_communicator();  // all ranks have the same data and options
};

struct StepResult {
  double loss = 0;
  double gradient_norm = 0;
  std::span<const std::uint32_t> samples;  // those of the batch; valid until the next step
  int spoilt_rank = -1;                    // the lowest rank that computed a NaN or an infinity; -1: none, or unknown
  RankFlags flags = 0;                     // raised by any rank in this step
  double waited = 0;                       // seconds that this rank waited for others and added up with them
  bool finite() const;
};

/// What a training run needs to go on as if it had never stopped, with `tensors()`.
struct TrainerPosition {
  DataPosition data;
  std::uint64_t step = 0;  // counts every step taken, for random numbers
  bool operator==(const TrainerPosition&) const = default;
};

/// With several ranks, each has a Trainer of its own, and all functions that take steps are collective: they are called
/// by all ranks, and have the same effect on all of them.
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
  /// Takes one step on the next batch; all ranks know of the flags that some rank raises. Throws LostRankError, with
  /// the step's number, where a rank is lost: then the step has not been taken, and the batch is the next one still.
  StepResult step(RankFlags flags = 0);
  /// Gives all renewed tensors the values that they had before the last step. A step that threw renewed none, and
  /// nothing is undone.
  void undo();

  /// The current value of an input.
  HostTensor value(const std::string& input) const;
  /// The current values of the renewed tensors.
  NamedTensors tensors() const;
  const std::vector<std::pair<std::string, std::string>>& renewals() const { return renewals_; }
  /// The first renewed tensor that holds a NaN or an infinity; empty if there is none.
  std::string first_non_finite() const;
  TrainerPosition position() const { return {order_.position(), session_.step()}; }
  void seek(const TrainerPosition& position);
  /// Where parameters and other renewed tensors are.
  const Session& session() const { return session_; }
  /// Where the rows of batches are: the same, unless batches are divided.
  const Session& batch_session() const { return parts_ ? parts_->session() : session_; }

 private:
  StepResult take_whole(std::span<const std::uint32_t> samples);
  StepResult take_divided(std::span<const std::uint32_t> samples, RankFlags flags);
  void pass_parameters();

  Session session_;
  std::vector<std::pair<std::string, std::string>> renewals_;
  std::unique_ptr<RowLoader> rows_;      // of batches that are taken as a whole
  std::unique_ptr<MicroBatches> parts_;  // of batches that are divided
  std::vector<std::string> passed_;      // renewed tensors that the parts read
  std::uint64_t seed_;
  BatchOrder order_;
};

}  // namespace moxie
