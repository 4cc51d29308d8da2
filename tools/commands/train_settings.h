#pragma once
// Settings of a training run as texts NAME=VALUE.
#include <string>
#include <vector>

#include "learn/train_config.h"

namespace moxie {

/// `config` with settings name=value, as the options --name value; a list of several values may stand in several
/// settings. Throws UsageError for unknown names and for values of the wrong kind.
TrainConfig with_settings(const TrainConfig& config, const std::vector<std::string>& settings);

/// The settings that a text had before it was divided at its commas: "layers=30", "15", "rate=0.1" are two of them.
/// What does not begin with NAME= of an option belongs to the list in front of it.
std::vector<std::string> whole_settings(const std::vector<std::string>& parts);

}  // namespace moxie
