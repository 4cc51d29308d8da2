#pragma once
// Models of the user's own: a .mox file with parameters, predictions and a loss.
#include <string>

#include "learn/train_config.h"
#include "ops/model.h"

namespace moxie {

/// The text of a model, to show where in it something is wrong.
struct ModelText {
  std::string file, text;
};

/// Reads the file that `config.model` names into `config.formula`, and takes from it what was not chosen: the task of a
/// table, and the precision. Throws DataError, ParseError and the like, with line and caret where they are known.
ModelText read_model(TrainConfig& config, bool precision_chosen, const std::vector<std::string>& folders = {});

/// Throws what `error` says, with the line of the text that it is about.
[[noreturn]] void fail_in_text(const ModelError& error, const ModelText& model);

/// What a data set says of the rows that models read.
SampleShape sample_shape(const Encoding& encoding);

/// The network of config.formula.
Network make_own_network(const TrainConfig& config, const Encoding& encoding);

}  // namespace moxie
