#pragma once
// A data set ready for training: three parts of features and targets.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tools/data/encoding.h"
#include "tools/data/matrix.h"

namespace moxie {

/// Features and targets of the same rows. Targets are one-hot classes, or standardised regression values.
struct Samples {
  Matrix x, y;
  bool operator==(const Samples&) const = default;

  std::size_t rows() const { return x.rows; }
};

struct Dataset {
  std::string name;
  Samples train, validation, test;
  Encoding encoding;  // task, names of features and classes, mean and sd of the targets

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

/// A share of the rows (at least one), drawn with the seed, in their order.
Samples draw_share(const Samples& samples, double share, std::uint64_t seed);

/// Draws `validation_share` of the training rows (at least one) with the seed; every part keeps the order of the rows.
/// Throws DataError, naming `name`, when there are too few rows for three parts.
Dataset split_samples(std::string name, const Samples& all, Encoding encoding, const RowSplit& rows,
                      double validation_share, std::uint64_t seed);

}  // namespace moxie
