#pragma once
// A training run: steps, evaluations, the plateau rule, checkpoints.
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "learn/snapshot.h"
#include "learn/trained_model.h"
#include "runtime/trainer.h"

namespace moxie {

/// What is known after an epoch.
struct EpochReport {
  std::uint64_t epoch = 0, step = 0;
  double loss = 0;  // mean over the epoch's samples, each before its step
  double gradient_norm = 0;
  double rate = 0;
  Evaluation validation;
  PlateauVerdict verdict = PlateauVerdict::Waiting;
  double elapsed = 0;
};

/// How good the best parameters are.
struct FinalReport {
  Evaluation train, validation, test;
  Scores constant = {};  // of what constant_prediction() says of the test samples
  std::vector<Jitter> jitter;
  std::string covariance;                  // how covariances were computed; empty without them
  std::vector<std::string> warnings = {};  // about the uncertainties of the test predictions
};

/// What a run tells whoever started it. Each may be empty.
struct TrainingCallbacks {
  std::function<bool()> stop = {};                      // asked before every step: whether to stop
  std::function<void(const EpochReport&)> report = {};  // after every epoch
  std::function<void(const Snapshot&)> save = {};       // on rank 0: when a new run starts, every save_every seconds,
                                                        // and before train() returns or throws what ended a step
};

/// The Program that a run takes its steps with.
StepProgram make_step(const TrainConfig& config, const Network& network);

class TrainingRun {
 public:
  /// `config` and `data` outlive the run, and are the same on all ranks. Compiles the step.
  TrainingRun(const TrainConfig& config, const Dataset& data, const std::shared_ptr<Device>& device,
              std::shared_ptr<Communicator> communicator = self_communicator());
  TrainingRun(const TrainConfig&&, const Dataset&, const std::shared_ptr<Device>&,
              std::shared_ptr<Communicator> = {}) = delete;  // both outlive the run
  TrainingRun(const TrainConfig&, const Dataset&&, const std::shared_ptr<Device>&,
              std::shared_ptr<Communicator> = {}) = delete;
  TrainingRun(const TrainConfig&&, const Dataset&&, const std::shared_ptr<Device>&,
              std::shared_ptr<Communicator> = {}) = delete;

  /// Takes the run up at a checkpoint. Throws DataError if the data differ from those that the run began with.
  void resume(const Checkpoint& checkpoint);
  /// Trains until a limit is reached or `stop` says so on some rank. Throws DeviceError at a NaN or an infinity, unless
  /// they are skipped, and LostRankError where a rank is lost; rank 0 saves what was reached before that step.
  void train(const TrainingCallbacks& callbacks = {});
  /// The best parameters so far, as save_model() writes them.
  SavedModel model() const;
  FinalReport evaluate_best();
  /// What the best parameters say of samples. Only after evaluate_best().
  Prediction predict(const Samples& samples);
  /// The learned functions at these activations, by the names of Network::functions; nothing for other networks.
  std::map<std::string, RowValues> functions(const std::vector<double>& activations) const;

  const RunState& state() const { return state_; }
  const Network& network() const { return network_; }
  /// For steps that the run takes no note of.
  Trainer& trainer() { return trainer_; }
  const Dataset& data() const { return data_; }
  const Plan& plan() const { return trainer_.batch_session().plan(); }
  /// Seconds of training in this process until it was saved last, and those of them that this rank spent with others:
  /// waiting for them, and adding up.
  double seconds() const { return state_.elapsed - earlier_; }
  double waited() const { return waited_; }
  const Communicator& communicator() const { return *communicator_; }

 private:
  void take_step(const TrainingCallbacks& callbacks);
  void take_steps(const TrainingCallbacks& callbacks);
  RankFlags own_flags(const TrainingCallbacks& callbacks) const;
  /// Whether a rank wants to stop, as far as all of them know.
  bool is_to_stop(const TrainingCallbacks& callbacks) const;
  /// Saves and throws, or counts the step as skipped. Nothing of the step remains.
  void handle_failure(const std::string& what, const TrainingCallbacks& callbacks);
  std::string undo_and_explain(const StepResult& result);
  EpochReport finish_epoch();
  void keep_best(const Evaluation& validation);
  void warm_up(const char* weight, double epochs);
  std::string limit_reached() const;
  double elapsed() const;
  void save(const TrainingCallbacks& callbacks);
  /// Throws DeviceError where ranks do not have the same parameters.
  void compare_ranks();
  NamedTensors parameters() const;

  const TrainConfig& config_;
  const Dataset& data_;
  Network network_;
  Matrix targets_;  // of the training rows, as the loss weighs them
  std::shared_ptr<Communicator> communicator_;
  Trainer trainer_;
  Evaluator evaluator_;
  NamedTensors initial_, best_;
  RunState state_;
  double gradient_norm_ = 0;
  bool new_best_ = true;  // not saved yet
  std::uint64_t skipped_in_a_row_ = 0;
  RankFlags flags_ = 0;  // that ranks have raised
  double waited_ = 0;
  double earlier_ = 0;  // seconds of training before this process
  std::chrono::steady_clock::time_point start_, saved_;
};

}  // namespace moxie
