#pragma once
// A network with its parameters: how they start, how they are saved, and what the network says of samples.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "learn/scores.h"
#include "learn/train_config.h"
#include "runtime/forward_pass.h"
#include "runtime/safetensors.h"
#include "runtime/trainer.h"

namespace moxie {

/// The values that the parameters start from: the same for the same seed, on every machine.
NamedTensors initial_values(const std::vector<Parameter>& parameters, std::uint64_t seed);

SampleRows rows_of(const Samples& samples);

/// What model.safetensors holds.
struct SavedModel {
  TrainConfig config;
  Encoding encoding;
  NamedTensors parameters;
  double variance_scale = 1;  // of predicted variances, as fitted to the validation rows
  std::string data = {};      // training_digest of the set that it was trained on
};
/// A digest of the rows that train and validate, by which changed data are noticed.
std::string training_digest(const Dataset& data);
void save_model(const std::filesystem::path& file, const SavedModel& model);
/// Throws DataError for a file that is no model, or whose tensors are not those of the network that it describes: then
/// nothing is compiled for extents that a damaged file claims.
SavedModel load_model(const std::filesystem::path& file);
/// Throws DataError where a parameter of the network is missing or has another shape; `file` stands in messages.
void check_parameters(const Network& network, const NamedTensors& tensors, const std::string& file);

/// Throws DataError for a feature that the network's declared sign of x forbids.
void check_features(const Network& network, const Matrix& x, const Encoding& encoding);

struct Evaluation {
  double loss = 0;
  Scores scores;
  double variance_scale = 1;
  std::optional<double> covariance_error = {};  // largest bound of it, of models that compute covariances by a series
  std::optional<double> kl = {};                // divergence of the posterior from the prior, of models that have one
};

class Evaluator {
 public:
  Evaluator(const TrainConfig& config, const Encoding& encoding, const std::shared_ptr<Device>& device);

  void set_parameters(const NamedTensors& parameters);
  Prediction predict(const SampleRows& rows, double variance_scale);
  /// Loss and scores, which are the loss alone for a model whose predictions have none. Where no scale of variances is
  /// given, it is that which fits these samples, if one is to be fitted.
  Evaluation evaluate(const Samples& samples, std::optional<double> variance_scale = {});
  /// With the weights of the classes.
  double loss(const Samples& samples);

 private:
  Evaluator(const TrainConfig& config, Encoding encoding, const std::shared_ptr<Device>& device,
            const Network& network);
  std::map<std::string, RowValues> run(const SampleRows& rows);
  std::map<std::string, RowValues> losses(const Samples& samples);

  Encoding encoding_;
  bool is_own_, recalibrate_;
  std::size_t passes_;
  std::uint64_t seed_;
  ForwardPass loss_, predict_;
};

}  // namespace moxie
