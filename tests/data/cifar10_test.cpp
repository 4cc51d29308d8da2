// CIFAR-10 in its binary format.
#include <doctest/doctest.h>

#include "data/presets.h"
#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;
using moxie::test::DataFolder;

namespace {

constexpr std::size_t kPlane = 1024;

/// One record of a colour each for red, green and blue.
std::string record(char label, char red, char green, char blue) {
  return std::string(1, label) + std::string(kPlane, red) + std::string(kPlane, green) + std::string(kPlane, blue);
}

LoadOptions options_for(const DataFolder& folder) {
  LoadOptions options;
  options.data_dir = folder.path();
  options.validation_share = 0.5;
  return options;
}

TEST_CASE("cifar10: pixels keep their channels together, scaled by those of the whole set") {
  const DataFolder folder;
  folder.write("cifar10/train_5000.bin", record(3, 0, 0, 0) + record(9, 0, 0, 0));
  folder.write("cifar10/test_1000.bin", record(1, '\xff', 0, '\x80'));
  const Dataset data = load_dataset("cifar10", options_for(folder));
  CHECK(data.train.rows() == 1);
  CHECK(data.encoding.image == ImageShape{32, 32, 3});
  CHECK(data.encoding.feature_count() == 3072);
  CHECK(encoding_from_json(to_json(data.encoding), "here") == data.encoding);
  REQUIRE(data.test.rows() == 1);
  CHECK(data.test.y(0, 1) == 1);
  for (const std::size_t pixel : {0, 1023}) {
    CHECK(data.test.x(0, 3 * pixel) == doctest::Approx((1 - 0.4914) / 0.2470));
    CHECK(data.test.x(0, 3 * pixel + 1) == doctest::Approx(-0.4822 / 0.2435));
    CHECK(data.test.x(0, 3 * pixel + 2) == doctest::Approx((128 / 255.0 - 0.4465) / 0.2616));
  }
}

TEST_CASE("cifar10: images of the wrong size and unknown classes") {
  const DataFolder folder;
  const std::string train = folder.write("cifar10/train_5000.bin", record(3, 0, 0, 0) + "x").string();
  CHECK(data_error([&] { load_dataset("cifar10", options_for(folder)); }) ==
        train + ": its 3074 bytes are not a number of records of 3073 bytes: a label and 3x32x32 pixels");
  folder.write("cifar10/train_5000.bin", record(3, 0, 0, 0) + record(10, 0, 0, 0));
  CHECK(data_error([&] { load_dataset("cifar10", options_for(folder)); }) ==
        train + ": the label of image 2 is 10, but there are 10 classes, from 0");
}

TEST_CASE("a share of the training rows, drawn with the seed") {
  LoadOptions options;
  const Dataset whole = load_dataset("synthetic", options);
  options.train_share = 0.25;
  const Dataset part = load_dataset("synthetic", options);
  CHECK(part.train.rows() == whole.train.rows() / 4);
  CHECK(part.validation == whole.validation);
  CHECK(part.test == whole.test);
  options.train_share = 0;
  CHECK(data_error([&] { load_dataset("synthetic", options); }) ==
        "synthetic: the share 0 of the training rows is not above 0 and at most 1");
}

}  // namespace
