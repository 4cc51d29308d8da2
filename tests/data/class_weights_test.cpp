#include "data/class_weights.h"

#include <doctest/doctest.h>

#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;

namespace {

/// Three rows of the class `no`, one of `yes`.
Dataset unequal() {
  Dataset data;
  data.name = "t";
  data.encoding.classes = {"no", "yes"};
  data.train = {Matrix(4, 1), Matrix(4, 2)};
  for (const std::size_t row : {0, 1, 2}) data.train.y(row, 0) = 1;
  data.train.y(3, 1) = 1;
  return data;
}

}  // namespace

TEST_CASE("balanced classes have the same sum of weights, and rows the mean weight 1") {
  Dataset data = unequal();
  data.encoding.class_weights = class_weights(data, {"balanced"});
  CHECK(data.encoding.class_weights == std::vector<double>{4.0 / 6, 2});
  const Matrix weighted = weighted_targets(data.train.y, data.encoding);
  CHECK(weighted(0, 0) == doctest::Approx(4.0 / 6));
  CHECK(weighted(0, 1) == 0);
  CHECK(weighted(3, 1) == 2);
}

TEST_CASE("weights of classes by name") {
  Dataset data = unequal();
  CHECK(class_weights(data, {"yes=5"}) == std::vector<double>{1, 5});
  CHECK(data_error([&] { class_weights(data, {"maybe=5"}); }) ==
        "--class-weight maybe=5: give balanced, or CLASS=WEIGHT for some of the classes no, yes");
  CHECK(data_error([&] { class_weights(data, {"yes=-1"}); }) ==
        "--class-weight yes=-1: the weight must be a positive number, at most 1000000");
  data.encoding.task = Task::Regression;
  CHECK(data_error([&] { class_weights(data, {"balanced"}); }) ==
        "t: --class-weight is for classes, but the targets are values");
}
