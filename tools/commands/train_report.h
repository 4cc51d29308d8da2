#pragma once
// What `moxie train` tells its user, and the lines of metrics.jsonl.
#include <chrono>
#include <string>

#include "learn/training_run.h"

namespace moxie {

/// What the compiler made of the formulas, in a few lines. `compile_seconds` is the time until the first step could
/// run.
std::string describe_plan(const Plan& plan, const std::vector<Parameter>& parameters, double compile_seconds);
/// Everything that is added to a matrix to keep it positive definite: a line for each, or nothing.
std::string describe_jitter(const std::vector<Jitter>& jitter);
std::string describe_data(const Dataset& data);
/// How many ranks trained, and how long they waited for each other; nothing of a run by one process.
std::string describe_ranks(const TrainingRun& run);
std::string describe_end(const FinalReport& report, const RunState& state, const Dataset& data);
/// What a constant prediction is, in words: "always 'no', as 90 % of the training samples are".
std::string describe_constant(const Dataset& data);

std::string metrics_line(const EpochReport& report);
std::string final_metrics_line(const FinalReport& report, const RunState& state);

/// A line that is drawn again and again on a terminal, and now and then a line of its own elsewhere.
class Progress {
 public:
  /// At 0 `max_time` has no limit. mpirun gives rank 0 a terminal where there is none: `draws` says whether to draw.
  Progress(std::uint64_t epochs, double max_time, bool draws);
  ~Progress();

  void show(const EpochReport& report);

 private:
  std::string line(const EpochReport& report) const;
  double seconds_left(const EpochReport& report) const;

  std::uint64_t epochs_;
  double max_time_;
  bool terminal_;
  std::uint64_t first_epoch_ = 0;
  double first_elapsed_ = 0, shown_ = -1;
};

}  // namespace moxie
