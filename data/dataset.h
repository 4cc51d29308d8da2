#pragma once
// A data set ready for training: three parts of features and targets.
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/encoding.h"
#include "data/matrix.h"

namespace moxie {

/// What tells rows apart, for those who look at predictions.
struct RowLabels {
  std::vector<std::size_t> numbers = {};  // of each row among those of its file or set, from 1; empty: 1, 2, ..
  std::vector<std::pair<std::string, std::vector<std::string>>> kept = {};  // names of columns, and their texts
  std::size_t left_out = 0;  // rows of the file that are not there, since something in them was unexpected
  bool operator==(const RowLabels&) const = default;
};

/// Features and targets of the same rows. Targets are one-hot classes, or standardised regression values; those of a
/// row without one are NaN, in rows for prediction only.
struct Samples {
  Matrix x, y;
  RowLabels labels = {};
  bool operator==(const Samples&) const = default;

  std::size_t rows() const { return x.rows; }
};

struct Dataset {
  std::string name;
  Samples train, validation, test;
  Encoding encoding;         // task, names of features and classes, mean and sd of the targets
  std::size_t left_out = 0;  // rows without a target

  Task task() const { return encoding.task; }
};

/// Row numbers of the training part (validation rows included) and of the test part.
struct RowSplit {
  std::vector<std::size_t> train, test;
};

/// The numbers 0 .. count-1 in an order that depends on the seed alone: the same on every machine.
std::vector<std::size_t> shuffled(std::size_t count, std::uint64_t seed);

/// The first `train` of the rows for training, the others for test.
RowSplit ordered_split(std::size_t count, std::size_t train);

/// The first rows of a shuffle for training, the last `test_share` of them (at least one) for test.
RowSplit random_split(std::size_t count, double test_share, std::uint64_t seed);

/// Rows for cross-validation: those of one of the folds (from 0) for test, all others for training. Every row is a test
/// row of one fold. The numbers of test rows of two folds differ by at most 1, and so do those of each stratum, such as
/// a class. The division depends on the strata and the seed alone.
RowSplit fold_split(std::span<const std::uint32_t> strata, std::size_t folds, std::size_t fold, std::uint64_t seed);

/// Some of the rows, in the order given.
Samples select_rows(const Samples& samples, std::span<const std::size_t> rows);

/// A share of the rows (at least one), drawn with the seed, in their order.
Samples draw_share(const Samples& samples, double share, std::uint64_t seed);

/// Draws `validation_share` of the training rows (at least one) with the seed; every part keeps the order of the rows.
/// Throws DataError, naming `name`, when there are too few rows for three parts.
Dataset split_samples(std::string name, const Samples& all, Encoding encoding, const RowSplit& rows,
                      double validation_share, std::uint64_t seed);

}  // namespace moxie
