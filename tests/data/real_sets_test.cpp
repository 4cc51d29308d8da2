// The public data sets, where they are at hand: counts, ranges and classes as their documentation has them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "data/presets.h"
#include "tests/skip.h"

using namespace moxie;

namespace {

const std::filesystem::path kDataDir = std::filesystem::path(MOXIE_SHARED_DIR) / "data";

bool data_at_hand() {
  const bool present = std::filesystem::is_directory(kDataDir);
  if (!present) test::skip("no folder " + kDataDir.string());
  return present;
}

Dataset load(std::string_view name, std::size_t split = 0) {
  LoadOptions options;
  options.data_dir = kDataDir;
  options.split = split;
  return load_dataset(name, options);
}

std::vector<std::size_t> class_counts(const Samples& samples) {
  std::vector<std::size_t> counts(samples.y.columns);
  for (std::size_t row = 0; row < samples.rows(); ++row)
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += samples.y(row, i) == 1;
  return counts;
}
std::vector<std::size_t> sum(std::vector<std::size_t> a, const std::vector<std::size_t>& b) {
  std::ranges::transform(a, b, a.begin(), std::plus<>());
  return a;
}
std::vector<std::size_t> training_counts(const Dataset& set) {
  return sum(class_counts(set.train), class_counts(set.validation));
}

void check_rows(const Dataset& set, std::size_t train, std::size_t validation, std::size_t test) {
  CHECK(set.train.rows() == train);
  CHECK(set.validation.rows() == validation);
  CHECK(set.test.rows() == test);
}

bool in_unit_range(const Matrix& x) {
  return std::ranges::all_of(x.values, [](float value) { return value >= 0 && value <= 1; });
}

double mean(const Matrix& x) {
  return std::accumulate(x.values.begin(), x.values.end(), 0.0) / static_cast<double>(x.values.size());
}

}  // namespace

TEST_CASE("letter") {
  if (!data_at_hand()) return;
  const Dataset set = load("letter");
  check_rows(set, 14'400, 1'600, 4'000);
  CHECK(set.train.x.columns == 16);
  CHECK(in_unit_range(set.train.x));
  for (const FeatureEncoding& feature : set.encoding.features) {
    CHECK(feature.numeric.offset >= 0);
    CHECK(feature.numeric.offset + 1 / feature.numeric.scale <= 15.001);
  }
  const auto counts = sum(training_counts(set), class_counts(set.test));
  REQUIRE(counts.size() == 26);
  CHECK(std::vector<std::size_t>(counts.begin(), counts.begin() + 3) == std::vector<std::size_t>{789, 766, 736});
  CHECK(counts.back() == 734);
  CHECK(set.encoding.classes.front() == "A");
}

TEST_CASE("adult") {
  if (!data_at_hand()) return;
  const Dataset set = load("adult");
  check_rows(set, 29'305, 3'256, 16'281);
  CHECK(set.encoding.classes == std::vector<std::string>{"<=50K", ">50K"});
  CHECK(training_counts(set) == std::vector<std::size_t>{24'720, 7'841});
  CHECK(class_counts(set.test) == std::vector<std::size_t>{12'435, 3'846});
  CHECK(in_unit_range(set.train.x));
  CHECK(in_unit_range(set.validation.x));
  const auto names = set.encoding.feature_names();
  CHECK(names.size() == 108);
  CHECK(std::ranges::count(names, "column 2=?") == 1);
}

TEST_CASE("connect-4") {
  if (!data_at_hand()) return;
  const Dataset set = load("connect-4");
  check_rows(set, 48'642, 5'404, 13'511);
  CHECK(set.train.x.columns == 42 * 3);
  CHECK(set.encoding.classes == std::vector<std::string>{"draw", "loss", "win"});
  CHECK(sum(training_counts(set), class_counts(set.test)) == std::vector<std::size_t>{6'449, 16'635, 44'473});
  CHECK(load("connect-4", 1).test != set.test);
}

TEST_CASE("mnist") {
  if (!data_at_hand()) return;
  const Dataset set = load("mnist");
  check_rows(set, 54'000, 6'000, 10'000);
  CHECK(training_counts(set) == std::vector<std::size_t>{5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
  CHECK(class_counts(set.test) == std::vector<std::size_t>{980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
  CHECK(mean(set.test.x) == doctest::Approx(0.1325).epsilon(0.001));
  CHECK(0.9 * mean(set.train.x) + 0.1 * mean(set.validation.x) == doctest::Approx(0.1307).epsilon(0.001));
}

TEST_CASE("the nine regression sets and all their splits") {
  struct Expected {
    const char* name;
    std::size_t features, splits, train, test;
    double mean, sd;  // of the target, over all rows
  };
  if (!data_at_hand()) return;
  for (const Expected& e :
       {Expected{"bostonHousing", 13, 20, 455, 51, 22.5328, 9.1880},
        Expected{"concrete", 8, 20, 927, 103, 35.8180, 16.6976}, Expected{"energy", 8, 20, 691, 77, 22.3072, 10.0836},
        Expected{"kin8nm", 8, 20, 7373, 819, 0.7143, 0.2636},
        Expected{"naval-propulsion-plant", 16, 20, 10741, 1193, 0.9750, 0.0147},
        Expected{"power-plant", 4, 20, 8611, 957, 454.3650, 17.0661},
        Expected{"protein-tertiary-structure", 9, 5, 41157, 4573, 7.7485, 6.1182},
        Expected{"wine-quality-red", 11, 20, 1439, 160, 5.6360, 0.8073},
        Expected{"yacht", 6, 20, 277, 31, 10.4954, 15.1359}}) {
    CAPTURE(e.name);
    for (std::size_t split = 0; split < e.splits; ++split) {
      const Dataset set = load(e.name, split);
      check_rows(set, e.train - e.train / 10, e.train / 10, e.test);
      REQUIRE(set.train.x.columns == e.features);
      const TargetEncoding& target = set.encoding.targets[0];
      CHECK(std::abs(target.mean - e.mean) < 0.1 * e.sd);
      CHECK(target.sd == doctest::Approx(e.sd).epsilon(0.06));
      const double rows = static_cast<double>(e.train + e.test), train = static_cast<double>(e.train);
      const double all_rows = target.mean + target.sd * mean(set.test.y) * static_cast<double>(e.test) / rows;
      CHECK(all_rows == doctest::Approx(e.mean).epsilon(1e-4));
      const double validation_share = static_cast<double>(set.validation.rows()) / train;
      CHECK(std::abs((1 - validation_share) * mean(set.train.y) + validation_share * mean(set.validation.y)) < 1e-5);
    }
  }
}

TEST_CASE("constant columns of the naval set become zero") {
  if (!data_at_hand()) return;
  const Dataset set = load("naval-propulsion-plant");
  for (const std::size_t column : {8, 11})
    for (std::size_t row = 0; row < set.train.rows(); ++row) REQUIRE(set.train.x(row, column) == 0);
}
