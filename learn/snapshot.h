#pragma once
// What a training run saves.
#include <cstdint>
#include <optional>
#include <string>

#include "learn/trained_model.h"
#include "runtime/plateau.h"
#include "runtime/trainer.h"

namespace moxie {

/// Where a run stands, besides its tensors.
struct RunState {
  TrainerPosition position;
  PlateauState plateau;
  double loss_sum = 0;  // over samples, since the last evaluation
  std::uint64_t loss_samples = 0;
  std::uint64_t best_epoch = 0;  // after which the best parameters were found
  double variance_scale = 1;     // of the best parameters
  std::uint64_t skipped = 0;     // steps that --on-nan skip undid
  double elapsed = 0;            // seconds of training
  std::string finished;          // why training ended; empty while it may go on
  std::string data;              // digest of the rows that train and validate
  bool operator==(const RunState&) const = default;
};

struct Checkpoint {
  RunState state;
  NamedTensors tensors;  // all that a step renews
  NamedTensors best;     // the parameters with the lowest validation loss
};

/// What saves a run: enough to take it up again, and the best model if no snapshot before has it.
struct Snapshot {
  Checkpoint checkpoint;
  std::optional<SavedModel> model;
};

}  // namespace moxie
