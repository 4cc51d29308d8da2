#pragma once
// How good predictions are, and how well their uncertainties are calibrated.
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "runtime/forward_pass.h"

namespace moxie {

/// What a model says of some samples, row-major. Classification: `probability` of each class. Regression: `mean` and
/// `variance` of each target, in the units of the data. A model of the user's own may have `others` alone.
struct Prediction {
  Task task = Task::Classification;
  std::size_t rows = 0, columns = 0;
  std::vector<double> probability;
  std::vector<double> mean, variance;
  std::vector<double> aleatoric = {};  // the part of the variance that is noise of the targets; empty: not known
  std::map<std::string, RowValues> others = {};  // further outputs, as the model computes them

  /// That of some of the rows.
  Prediction select(std::span<const std::size_t> some) const;
  /// Whether there is a prediction that targets can be compared with.
  bool has_scores() const { return !probability.empty() || !mean.empty(); }
};

/// What a model without any features would say of each of `rows` samples: the fractions of the classes among the
/// training samples, or the mean and the variance of their targets.
Prediction constant_prediction(const Samples& train, const Encoding& encoding, std::size_t rows);

/// From the outputs of a network's `predict`, with its variances times `variance_scale`; a model without variances has
/// 1 (of standardised targets) everywhere.
Prediction make_prediction(std::map<std::string, RowValues> outputs, const Encoding& encoding, double variance_scale);

struct Score {
  std::string name;
  double value = 0;
};
using Scores = std::vector<Score>;

/// Classification: error (share of wrong classes), nll (mean -log probability of the right class), brier (mean squared
/// distance from the one-hot target), ece (expected calibration error of the top class in 15 bins of equal width),
/// sharpness (mean entropy of the prediction), and macro_scores().
/// Regression, in the units of the data: rmse, nll (of a Gaussian, mean over targets and samples), mae, crps
/// (continuous ranked probability score), ece (mean distance between the probability of central intervals and the share
/// of targets inside), pit_ks (largest distance of the probability integral transform from uniform), sharpness (mean
/// predicted standard deviation), and coverage_50 ... coverage_95 (share of targets inside the central interval of that
/// probability); where it is known what is noise of the targets, aleatoric_sd and epistemic_sd (roots of the mean
/// variances of both parts).
/// A score that does not exist is NaN, such as the nll of a prediction without any variance. None for predictions that
/// targets cannot be compared with. `targets` are those of the data set, one-hot or standardised.
Scores score(const Prediction& prediction, const Matrix& targets, const Encoding& encoding);

/// Mean over the samples of -log probability of the right class; `targets` are one-hot, or weighted by their classes.
double log_loss(const Prediction& prediction, const Matrix& targets);
/// Four digits; a dash for a score without a value.
std::string score_text(double value);
/// The value of a score; throws InternalError if it is not there.
double score_of(const Scores& scores, const std::string& name);
/// The class with the highest probability.
std::size_t top_class(const Prediction& prediction, std::size_t row);

}  // namespace moxie
