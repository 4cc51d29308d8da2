#pragma once
// From the columns of a table to features and targets: scaling and one-hot, fitted on training rows, used on any rows.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/matrix.h"
#include "data/table.h"
#include "ops/task.h"

namespace moxie {

enum class Scaling : std::uint8_t {
  UnitRange,   // the training rows fill [0, 1]
  Standardise  // the training rows have mean 0 and variance 1
};

/// A numeric column becomes (value - offset) * scale; `scale` is 0 where the training rows are constant, so that such a
/// column says nothing instead of dividing by zero. `mean` is that of the training rows.
struct NumericEncoding {
  double offset = 0, scale = 1, mean = 0;
  bool operator==(const NumericEncoding&) const = default;
};

/// How one column becomes features. Categorical: one feature per category, a missing value being the category "?".
/// Numeric with missing values: a second feature is 1 where the value (then 0) is missing.
struct FeatureEncoding {
  std::string column;
  ColumnKind kind = ColumnKind::Numeric;
  NumericEncoding numeric;
  bool missing_flag = false;
  std::vector<std::string> categories;
  bool operator==(const FeatureEncoding&) const = default;

  std::size_t width() const { return kind == ColumnKind::Categorical ? categories.size() : missing_flag ? 2 : 1; }
};

/// A regression target becomes (value - mean) / sd; sd is 1 where the training rows are constant.
struct TargetEncoding {
  std::string column;
  double mean = 0, sd = 1;
  bool operator==(const TargetEncoding&) const = default;
};

/// What the features of images are: rows of pixels, the channels of a pixel together. All 0 for other data.
struct ImageShape {
  std::size_t height = 0, width = 0, channels = 0;
  bool operator==(const ImageShape&) const = default;
};

struct Encoding {
  Task task = Task::Classification;
  std::vector<FeatureEncoding> features;
  std::string class_column;             // Classification
  std::vector<std::string> classes;     // Classification: the one-hot targets, in this order
  std::vector<TargetEncoding> targets;  // Regression
  ImageShape image = {};
  std::vector<std::string> vocabulary = {};  // of texts, whose features are the numbers of their words, from 1
  std::vector<double> class_weights = {};    // of the losses of each class's samples; empty: all 1
  bool operator==(const Encoding&) const = default;

  std::size_t feature_count() const;
  std::size_t target_count() const { return task == Task::Classification ? classes.size() : targets.size(); }
  /// One name per feature: "age", "sex=Male", "age=?" (the missing flag).
  std::vector<std::string> feature_names() const;
};

/// Which columns are what; numbers of columns from 0.
struct Roles {
  Task task = Task::Classification;
  std::vector<std::size_t> features, targets;
  Scaling scaling = Scaling::UnitRange;
  std::vector<std::size_t> unscaled = {};  // features and targets that are not scaled
};

/// Ranges and means come from the training rows; categories, classes and missing flags from all rows. Throws DataError.
Encoding fit_encoding(const Table& table, const Roles& roles, std::span<const std::size_t> training_rows);

/// What is done about categories that the training rows did not have, and about missing values where they had none.
enum class Unexpected : std::uint8_t {
  Error,
  Unknown,  // no category (the missing one, if there is such), or the mean of the training rows
  Skip      // rows are left out
};

/// Columns are found by name, and only they need to be there. Throws DataError for a category or class that the
/// encoding does not know, a missing value where it has no place for one (unless `unexpected` is Unknown), and a result
/// that is not finite.
Matrix encode_features(const Table& table, const Encoding& encoding, Unexpected unexpected = Unexpected::Error);
/// With `allow_missing` the targets of a row without one are NaN.
Matrix encode_targets(const Table& table, const Encoding& encoding, bool allow_missing = false);
/// The rows without anything unexpected among their features.
std::vector<std::size_t> expected_rows(const Table& table, const Encoding& encoding);

/// JSON text for run folders; encoding_from_json(to_json(e)) == e. Throws DataError, naming `file`.
std::string to_json(const Encoding& encoding);
Encoding encoding_from_json(std::string_view text, const std::string& file);

}  // namespace moxie
