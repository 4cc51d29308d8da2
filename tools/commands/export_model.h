#pragma once
// A trained model as one formula, from the features as the data has them to predictions in its units.
#include "learn/trained_model.h"

namespace moxie {

struct ExportedModel {
  /// Reads features[S,D] and the weights. Puts out `probability` for classification, `mean` and `variance` for
  /// regression, and whatever else a model of the user's own predicts.
  Program program;
  NamedTensors weights;                        // the parameters, and what features and targets were scaled with
  std::vector<std::string> features, outputs;  // names of the columns of each
  bool has_scores = true;                      // there is a `probability`, or a `mean` and a `variance`
  std::vector<std::pair<std::string, std::int64_t>> others;  // further outputs, and how many numbers each sample has
};

ExportedModel exported(const SavedModel& model);

}  // namespace moxie
