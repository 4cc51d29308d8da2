#pragma once
// Networks that moxie composes, as models that a user might have written.
#include <string_view>

#include "ops/network.h"

namespace moxie {

/// One Program with parameters, states, predictions and a loss, of which model_network() makes a network that trains to
/// the same bits. What is not trained is a state that stays as it is (`next V0[n] = V0[n]`); where validation has
/// another loss than training, it is the output `validation_loss`, and a divergence from the prior is the output `kl`.
/// Definitions of the same name that differ between training, prediction and validation get the prefixes `prediction.`
/// (predictions keep theirs: `train.`) and `validation.`. What describes learned functions is left out.
Program network_model(const Network& network, std::string_view name);

}  // namespace moxie
