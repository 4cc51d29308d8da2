#pragma once
// Which rows a trained model is applied to.
#include <string>

#include "learn/trained_model.h"

namespace moxie {

/// What the user said of the rows. Empty texts: nothing.
struct RowChoice {
  std::string data, data_dir;
  std::string rows;                           // test, validation, train or all
  std::vector<std::string> kept = {};         // columns to carry along
  Unexpected unexpected = Unexpected::Error;  // in other files than that of the training
};

struct ChosenRows {
  Samples samples;
  std::string description;  // "120 test rows of csv:t.csv"
};

/// The rows of the set that the model was trained on are told apart as training did: its test rows, unless `rows` names
/// others. Of any other file they are all rows. Throws UsageError for a file that only the model names, and for rows
/// that cannot be told apart; `run` stands in messages.
ChosenRows choose_rows(const RowChoice& choice, const SavedModel& model, const std::string& run);

}  // namespace moxie
