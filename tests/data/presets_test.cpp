#include "data/presets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;
using moxie::test::DataFolder;

namespace {

std::string load_error(std::string_view name, const LoadOptions& options = {}) {
  return data_error([&] { load_dataset(name, options); });
}

/// 20 rows: x, a code, a word that depends on the row, and a number.
std::string twenty_rows() {
  std::string text = "x,code,word,y\n";
  for (int i = 0; i < 20; ++i)
    text += std::to_string(i) + "," + std::to_string(i % 3) + "," + (i % 2 ? "odd" : "even") + "," +
            std::to_string(i * 2) + "\n";
  return text;
}

}  // namespace

TEST_CASE("shuffles are the same everywhere") {
  CHECK(shuffled(8, 1) == std::vector<std::size_t>{4, 6, 3, 5, 1, 7, 2, 0});
  CHECK(shuffled(8, 1) != shuffled(8, 2));
  CHECK(shuffled(0, 1).empty());
  std::vector<std::size_t> order = shuffled(1000, 7);
  std::ranges::sort(order);
  for (std::size_t i = 0; i < order.size(); ++i) REQUIRE(order[i] == i);
}

TEST_CASE("random splits are disjoint and complete") {
  const RowSplit split = random_split(10, 0.2, 3);
  CHECK(split.train.size() == 8);
  CHECK(split.test.size() == 2);
  std::set<std::size_t> rows(split.train.begin(), split.train.end());
  rows.insert(split.test.begin(), split.test.end());
  CHECK(rows.size() == 10);
  CHECK(random_split(1, 0.2, 3).train.empty());
}

TEST_CASE("every row is a test row of one fold, and folds have equal parts of each class") {
  const std::vector<std::uint32_t> strata = {0, 0, 1, 0, 2, 0, 1, 1, 0, 0, 0};
  std::vector<int> tests(strata.size());
  for (std::size_t fold = 0; fold < 3; ++fold) {
    const RowSplit split = fold_split(strata, 3, fold, 5);
    CHECK(split.train.size() + split.test.size() == strata.size());
    CHECK(split.test.size() >= 3);
    CHECK(split.test.size() <= 4);
    for (const std::uint32_t stratum : {0U, 1U}) {
      const auto count = std::ranges::count_if(split.test, [&](std::size_t row) { return strata[row] == stratum; });
      CHECK(count >= (stratum == 0 ? 2 : 1));
      CHECK(count <= (stratum == 0 ? 3 : 1));
    }
    for (const std::size_t row : split.test) {
      ++tests[row];
      CHECK(std::ranges::find(split.train, row) == split.train.end());
    }
    CHECK(fold_split(strata, 3, fold, 5).test == split.test);
  }
  CHECK(std::ranges::all_of(tests, [](int count) { return count == 1; }));
  CHECK(fold_split(strata, 3, 0, 5).test != fold_split(strata, 3, 0, 6).test);
}

TEST_CASE("rows of a fold's test are in no other part, whatever the seed") {
  const test::DataFolder folder;
  std::string table = "x,y\n";
  for (int k = 0; k < 30; ++k) table += std::to_string(k) + (k % 3 == 0 ? ",rare\n" : ",often\n");
  LoadOptions options;
  options.folds = 5;
  std::vector<std::size_t> tested;
  const std::string name = "csv:" + folder.write("t.csv", table).string();
  for (options.fold = 1; options.fold <= 5; ++options.fold) {
    options.seed = 1;
    const Dataset data = load_dataset(name, options);
    CHECK(data.train.rows() + data.validation.rows() + data.test.rows() == 30);
    CHECK(data.test.rows() == 6);
    for (const std::size_t row : data.test.labels.numbers) {
      tested.push_back(row);
      for (const Samples* others : {&data.train, &data.validation})
        CHECK(std::ranges::find(others->labels.numbers, row) == others->labels.numbers.end());
    }
    double rare = 0;
    for (std::size_t row = 0; row < data.test.rows(); ++row) rare += data.test.y(row, 1);
    CHECK(rare == 2);
    options.seed = 2;
    const Dataset reseeded = load_dataset(name, options);
    CHECK(reseeded.test.labels.numbers == data.test.labels.numbers);
    CHECK(reseeded.validation.labels.numbers != data.validation.labels.numbers);
  }
  std::ranges::sort(tested);
  CHECK(tested.size() == 30);
  CHECK(std::ranges::adjacent_find(tested) == tested.end());
  CHECK(test::data_error([&] {
          load_dataset(name, options);
        }).find("which of the 5 folds? There is none with number 6") != std::string::npos);
  options.fold = 1;
  CHECK(test::data_error([&] { load_dataset("synthetic", options); }) ==
        "synthetic: --folds divides the rows of csv:FILE, npz:FILE and safetensors:FILE only");
  options.test_file = "more.csv";
  CHECK(test::data_error([&] { load_dataset(name, options); }).find("leave out --test-file more.csv") !=
        std::string::npos);
  options.test_file.clear();
  options.folds = 31;
  CHECK(test::data_error([&] { load_dataset(name, options); }).find("31 folds need as many rows, and there are 30") !=
        std::string::npos);
}

TEST_CASE("validation rows depend on the seed, test rows do not") {
  LoadOptions first, second;
  second.seed = 2;
  const Dataset a = load_dataset("synthetic", first), b = load_dataset("synthetic", second);
  CHECK(a.train.rows() == 2880);
  CHECK(a.validation.rows() == 320);
  CHECK(a.test.rows() == 800);
  CHECK(a.test == b.test);
  CHECK(a.encoding == b.encoding);
  CHECK(a.validation != b.validation);
  CHECK(load_dataset("synthetic", first).train == a.train);
  LoadOptions other;
  other.split = 1;
  CHECK(load_dataset("synthetic", other).test != a.test);
}

TEST_CASE("generated sets are scaled and balanced") {
  const Dataset spirals = load_dataset("synthetic"), values = load_dataset("synthetic-regression");
  CHECK(spirals.encoding.classes == std::vector<std::string>{"a", "b", "c", "d"});
  for (const float x : spirals.train.x.values) REQUIRE((x >= 0 && x <= 1));
  CHECK(values.task() == Task::Regression);
  double sum = 0, squares = 0;
  for (const float y : values.train.y.values) sum += y, squares += double{y} * y;
  CHECK(std::abs(sum / values.train.rows()) < 0.05);
  CHECK(squares / values.train.rows() == doctest::Approx(1).epsilon(0.1));
}

TEST_CASE("csv: classification and regression by the target") {
  const DataFolder folder;
  const std::string name = "csv:" + folder.write("t.csv", twenty_rows()).string();
  const Dataset values = load_dataset(name);
  CHECK(values.task() == Task::Regression);
  CHECK(values.encoding.feature_names() == std::vector<std::string>{"x", "code", "word=even", "word=odd"});
  CHECK(values.train.rows() + values.validation.rows() + values.test.rows() == 20);
  LoadOptions options;
  options.targets = {"word"};
  options.ignored = {"y"};
  options.categorical = {"code"};
  const Dataset classes = load_dataset(name, options);
  CHECK(classes.task() == Task::Classification);
  CHECK(classes.encoding.feature_names() == std::vector<std::string>{"x", "code=0", "code=1", "code=2"});
  options.targets = {"2"};
  options.categorical.clear();
  options.task = Task::Classification;
  CHECK(load_dataset(name, options).encoding.classes == std::vector<std::string>{"0", "1", "2"});
}

TEST_CASE("csv: a test file of its own") {
  const DataFolder folder;
  const std::string name = "csv:" + folder.write("t.csv", twenty_rows()).string();
  LoadOptions options;
  options.test_file = folder.write("u.csv", "x,code,word,y\n38,0,new,3\n");
  const Dataset set = load_dataset(name, options);
  CHECK(set.train.rows() + set.validation.rows() == 20);
  REQUIRE(set.test.rows() == 1);
  CHECK(set.test.x.values == std::vector<float>{2, 0, 0, 1, 0});
}

TEST_CASE("csv: a trained model's encoding on new rows, with and without the target") {
  const DataFolder folder;
  const Dataset set = load_dataset("csv:" + folder.write("t.csv", twenty_rows()).string());
  LoadOptions options;
  options.encoding = &set.encoding;
  const Samples bare = load_for_prediction("csv:" + folder.write("p.csv", "x,code,word\n0,2,odd\n").string(), options);
  CHECK(bare.x.columns == 4);
  CHECK(bare.y.columns == 0);
  const Samples full =
      load_for_prediction("csv:" + folder.write("q.csv", "x,code,word,y\n0,2,odd,1\n").string(), options);
  CHECK(full.y.columns == 1);
  CHECK(full.x == bare.x);
  CHECK(data_error([] { load_for_prediction("synthetic", {}); }) ==
        "synthetic: prediction needs the encoding of the trained model");
}

TEST_CASE("names, splits and options that do not exist") {
  CHECK(load_error("letters").find(
            "there is no data set 'letters'; known: synthetic synthetic-regression synthetic-text letter adult") == 0);
  LoadOptions split, target, task;
  task.task = Task::Regression;
  CHECK(load_error("letter", task) == "letter: its targets are classes, so the task can only be to classify");
  split.split = 20;
  target.targets = {"x"};
  CHECK(load_error("yacht", split) == "yacht: there is no split 20; the set has 20, from 0");
  CHECK(load_error("letter", target) ==
        "letter: target, ignored, categorical, unscaled and kept columns are for csv:FILE, npz:FILE and "
        "safetensors:FILE only, "
        "and a "
        "test "
        "file for these and text:FILE");
}

TEST_CASE("a missing file names every path tried and the origin") {
  LoadOptions options;
  options.data_dir = "no-such-folder";
  CHECK(load_error("letter", options) ==
        "cannot find letter-recognition.data or letter-recognition.data.gz; tried\n"
        "  no-such-folder/letter-recognition/letter-recognition.data.gz\n"
        "  no-such-folder/letter-recognition/letter-recognition.data\n"
        "  no-such-folder/letter-recognition.data.gz\n"
        "  no-such-folder/letter-recognition.data\n"
        "The data comes from the UCI Machine Learning Repository, set 'Letter Recognition'; put it into one of these "
        "places, or "
        "give the folder that holds it");
}

TEST_CASE("incomplete sets are refused") {
  const DataFolder folder;
  LoadOptions options;
  options.data_dir = folder.path();
  const std::string letters = folder.write("letter-recognition.data", "A,1\nB,2\n").string();
  CHECK(load_error("letter", options) ==
        letters + ": has 2 rows of 2 columns; the set has 20000 of 17, so the file is incomplete or another one");
  CHECK(load_error("csv:" + folder.write("one.csv", "1,2\n").string())
            .find("0 training and 1 test rows are too few; at least 2 and 1") != std::string::npos);
  for (const double share : {0.0, 1.0, -1.0, std::nan("")}) {
    LoadOptions wrong;
    wrong.validation_share = share;
    CHECK(load_error("synthetic", wrong).find("is not between 0 and 1") != std::string::npos);
  }
}

TEST_CASE("mnist: files that do not fit together") {
  const DataFolder folder;
  LoadOptions options;
  options.data_dir = folder.path();
  const std::string one_image("\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02xy", 18);
  const std::string images = folder.write("mnist/train-images-idx3-ubyte", one_image).string();
  const std::string labels =
      folder.write("mnist/train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x09", 9)).string();
  folder.write("mnist/t10k-images-idx3-ubyte", one_image);
  folder.write("mnist/t10k-labels-idx1-ubyte", one_image);
  CHECK(load_error("mnist", options) ==
        images + ": has shape [1, 1, 2]; for the 1 labels of " + labels + " it must be [1, 28, 28]");
  folder.write("mnist/train-labels-idx1-ubyte", one_image);
  CHECK(load_error("mnist", options) == labels + ": must be a list of labels, not of shape [1, 1, 2]");
  const std::string black = std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x1c\0\0\0\x1c", 16) + std::string(784, '\0');
  folder.write("mnist/train-images-idx3-ubyte", black);
  folder.write("mnist/train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x0a", 9));
  CHECK(load_error("mnist", options) == labels + ": label 1 is 10, not a digit");
}

TEST_CASE("regression sets: loose row lists, and damage to them") {
  const DataFolder folder;
  LoadOptions options;
  options.data_dir = folder.path();
  folder.write("data.txt", "1 2\n3 4\n5 7\n");
  folder.write("index_features.txt", "0\n");
  folder.write("index_target.txt", "1.000000000000000000e+00\n");
  CHECK(load_error("yacht", options).find("cannot find splits.tar or splits.tar.gz") == 0);
  const std::string train = folder.write("index_train_0.txt", "0\n1\n").string();
  folder.write("index_test_0.txt", "2\n");
  const Dataset set = load_dataset("yacht", options);
  CHECK(set.test.x.values == std::vector<float>{3});
  CHECK(set.test.y.values == std::vector<float>{4});
  folder.write("index_train_0.txt", "0\n3\n");
  CHECK(load_error("yacht", options) == train + ":2: column 1: must be a whole number below 3");
  folder.write("index_train_0.txt", "x\n");
  CHECK(load_error("yacht", options) == train + ":1: column 1: must be a whole number below 3");
}
