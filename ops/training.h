#pragma once
// One training step as one Program: the loss, its gradients and the optimiser's update.
#include <string>
#include <utility>
#include <vector>

#include "compiler/program/program.h"
#include "ops/network.h"

namespace moxie {

/// The settings that a rule has no use for are ignored. `decay` is the weight decay.
struct OptimiserOptions {
  std::string rule = "adam";  // the catalogue's optimiser.<rule>
  double decay = 0;
  double momentum = 0.9;
  double beta = 0.9;  // rmsprop
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// How the rate depends on the number of completed steps.
struct ScheduleOptions {
  std::string rule = "constant";  // or the catalogue's schedule.<rule>
  double decay = 0;               // inverse_time, exponential: per step
  double factor = 0.1;            // step
  double period = 1000;           // step: number of steps
};

/// `program` reads a batch (x[S,..] and target[S,..]), the scalar `initial_rate`, and tensors that it also renews: the
/// trainable parameters, the optimiser's `state` of each (AVERAGE.PARAM) and the scalar `step` (completed steps, f64,
/// also a state). It puts out `loss`, `rate`, `gradient_norm`, and for each renewed tensor T `new.T`.
struct TrainingStep {
  Program program;
  std::vector<Parameter> state;
  Renewals feedback;  // (new.T, T)
};

/// `gradients` is a network's `train`, differentiated: differentiate(train, {"loss"}, trainable_names(parameters)).
/// `renewals` are the network's. Throws TypeError for an unknown rule, with the known ones, and for settings out of
/// range.
TrainingStep training_step(Program gradients, const std::vector<Parameter>& parameters,
                           const OptimiserOptions& optimiser = {}, const ScheduleOptions& schedule = {},
                           const Renewals& renewals = {});

/// The same step in two Programs, for a batch that is divided: `gradients` reads a part of the batch, and puts out
/// `loss`, grad.PARAM for each trainable parameter, and what the network renews, all of them means over the part's
/// rows. `update` reads these means over the whole batch under the same names (but for the loss), `initial_rate`, the
/// trainable parameters and the states; it puts out `rate`, `gradient_norm`, and what `feedback` names.
struct SplitStep {
  Program gradients, update;
  std::vector<Parameter> state;
  Renewals feedback;  // outputs of `update`, and the inputs whose next values they are
};

/// As training_step(). Throws TypeError where the network renews integers, which have no mean.
SplitStep split_training_step(Program gradients, const std::vector<Parameter>& parameters,
                              const OptimiserOptions& optimiser = {}, const ScheduleOptions& schedule = {},
                              const Renewals& renewals = {});

std::vector<std::string> trainable_names(const std::vector<Parameter>& parameters);

}  // namespace moxie
