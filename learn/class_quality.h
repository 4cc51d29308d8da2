#pragma once
// How good predicted classes are, class by class.
#include <vector>

#include "learn/scores.h"

namespace moxie {

struct ClassQuality {
  std::size_t rows = 0;       // of this class
  std::size_t predicted = 0;  // as this class
  std::size_t right = 0;      // of both
  double auc = 0;             // area under the ROC curve of this class against all others; NaN where there is no other

  /// Of the rows of the class, the fraction that is found; NaN without rows.
  double recall() const;
  /// Of the rows that are predicted as the class, the fraction that is right; 0 where none is.
  double precision() const;
  /// The harmonic mean of both; NaN without rows.
  double f1() const;
};

/// `targets` are one-hot.
std::vector<ClassQuality> class_quality(const Prediction& prediction, const Matrix& targets);

/// How many rows of each class (first axis) are predicted as each (second one).
std::vector<std::vector<std::size_t>> confusion_matrix(const Prediction& prediction, const Matrix& targets);

/// recall, precision, f1 and auc: means over the classes that have rows, each counting the same.
Scores macro_scores(const Prediction& prediction, const Matrix& targets);

}  // namespace moxie
