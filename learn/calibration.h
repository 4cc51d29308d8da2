#pragma once
// Calibration: how far predicted uncertainties agree with what happened.
#include <vector>

#include "learn/scores.h"

namespace moxie {

/// A pair of what was promised and what was found.
struct CalibrationPoint {
  double promised = 0, found = 0;
  std::size_t count = 0;  // samples behind it
};

/// Classification: confidence of the top class and share of right ones, in 15 bins of equal width of the confidence.
/// Regression: probability of the central interval and share of targets inside, at 5 %, 10 %, ... 95 %.
std::vector<CalibrationPoint> reliability(const Prediction& prediction, const Matrix& targets,
                                          const Encoding& encoding);

/// Regression: the predictive distribution function at each target, which is uniform for a model that is calibrated.
std::vector<double> probability_integral_transform(const Prediction& prediction, const Matrix& targets,
                                                   const Encoding& encoding);

/// The share of values in each of `bins` equal parts of [0, 1], times `bins`: 1 everywhere where they are uniform.
std::vector<double> histogram(const std::vector<double>& values, std::size_t bins);

/// The largest distance between the distribution function of the values and that of the uniform distribution.
double uniform_distance(std::vector<double> values);

}  // namespace moxie
