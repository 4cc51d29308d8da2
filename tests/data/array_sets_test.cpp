// Arrays of the user's own as data sets: .npz and .safetensors files with `x` and `y`.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "data/npy.h"
#include "data/presets.h"
#include "runtime/safetensors.h"
#include "tests/data/support.h"

using namespace moxie;
using moxie::test::data_error;
using moxie::test::DataFolder;

namespace {

struct Array {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};
using Arrays = std::map<std::string, Array>;

/// 0, 1, 2, ..
Array counting(std::vector<std::size_t> shape) {
  Array array{std::move(shape), {}};
  std::size_t count = 1;
  for (const std::size_t extent : array.shape) count *= extent;
  for (std::size_t k = 0; k < count; ++k) array.values.push_back(static_cast<double>(k));
  return array;
}

/// The same arrays in both kinds of file, each as the name of a data set.
std::vector<std::string> files(const DataFolder& folder, const std::string& name, const Arrays& arrays) {
  NpyArrays npz;
  TensorFile tensors;
  for (const auto& [key, array] : arrays) {
    npz[key] = make_npy_array<double>(array.shape, array.values);
    tensors.tensors[key] = make_host_tensor(DType::f64, {array.shape.begin(), array.shape.end()}, array.values);
  }
  write_safetensors(folder.path() / (name + ".safetensors"), tensors);
  return {"npz:" + folder.write(name + ".npz", print_npz(npz)).string(),
          "safetensors:" + (folder.path() / (name + ".safetensors")).string()};
}

/// The messages without the file's name.
std::vector<std::string> errors(const Arrays& arrays, const LoadOptions& options = {}) {
  const DataFolder folder;
  std::vector<std::string> messages;
  for (const std::string& name : files(folder, "t", arrays)) {
    const std::string message = data_error([&] { load_dataset(name, options); });
    const std::string file = name.substr(name.find(':') + 1);
    messages.push_back(message.starts_with(file) ? message.substr(file.size()) : message);
  }
  return messages;
}
void check_error(const Arrays& arrays, const std::string& message, const LoadOptions& options = {}) {
  for (const std::string& found : errors(arrays, options)) CHECK(found == message);
}

}  // namespace

TEST_CASE("arrays: features and targets of any shape, values unless classes are asked for") {
  const DataFolder folder;
  Array classes = counting({20});
  for (double& value : classes.values) value = std::fmod(value, 3) - 1;
  for (const std::string& name : files(folder, "t", {{"x", counting({20, 2, 2})}, {"y", classes}, {"z", {{}, {1}}}})) {
    const Dataset values = load_dataset(name);
    CHECK(values.name == name);
    CHECK(values.task() == Task::Regression);
    CHECK(values.encoding.feature_names() == std::vector<std::string>{"x1", "x2", "x3", "x4"});
    CHECK(values.encoding.targets.at(0).column == "y");
    CHECK(values.train.rows() + values.validation.rows() + values.test.rows() == 20);
    LoadOptions options;
    options.task = Task::Classification;
    options.ignored = {"x2"};
    options.categorical = {"x4"};
    const Dataset set = load_dataset(name, options);
    CHECK(set.encoding.classes == std::vector<std::string>{"-1", "0", "1"});
    CHECK(set.encoding.feature_count() == 2 + 20);
    CHECK(set.encoding.feature_names().at(2) == "x4=3");
  }
}

TEST_CASE("arrays: several targets, a test file, missing values") {
  const DataFolder folder;
  Array features = counting({10});
  features.values[3] = std::nan("");
  const std::vector<std::string> train = files(folder, "t", {{"x", features}, {"y", counting({10, 2})}});
  const std::vector<std::string> test = files(folder, "u", {{"x", {{1}, {18}}}, {"y", {{1, 2}, {1, 2}}}});
  for (std::size_t kind = 0; kind < 2; ++kind) {
    LoadOptions options;
    options.test_file = test[kind].substr(test[kind].find(':') + 1);
    const Dataset set = load_dataset(train[kind], options);
    CHECK(set.encoding.feature_names() == std::vector<std::string>{"x", "x=?"});
    CHECK(set.encoding.target_count() == 2);
    CHECK(set.train.rows() + set.validation.rows() == 10);
    CHECK(set.test.x.values == std::vector<float>{2, 0});
    options.targets = {"y2"};
    options.ignored = {"y1"};
    CHECK(load_dataset(train[kind], options).encoding.target_count() == 1);
  }
}

TEST_CASE("arrays: a trained model's encoding on new rows, with and without the targets") {
  const DataFolder folder;
  LoadOptions training;
  training.task = Task::Classification;
  Array classes = counting({20});
  for (double& value : classes.values) value = std::fmod(value, 2);
  const std::vector<std::string> train = files(folder, "t", {{"x", counting({20, 3})}, {"y", classes}});
  const std::vector<std::string> bare = files(folder, "p", {{"x", counting({2, 3})}});
  const std::vector<std::string> full = files(folder, "q", {{"x", counting({2, 3})}, {"y", {{2}, {1, 0}}}});
  for (std::size_t kind = 0; kind < 2; ++kind) {
    const Dataset set = load_dataset(train[kind], training);
    LoadOptions options = training;  // as a run remembers them
    options.encoding = &set.encoding;
    const Samples without = load_for_prediction(bare[kind], options), with = load_for_prediction(full[kind], options);
    CHECK(without.x.columns == 3);
    CHECK(without.y.columns == 0);
    CHECK(with.x == without.x);
    CHECK(with.y.values == std::vector<float>{0, 1, 1, 0});
  }
}

TEST_CASE("csv: options of the training do not name columns of the rows to predict") {
  const DataFolder folder;
  std::string text = "a,b,c\n";
  for (int i = 0; i < 20; ++i)
    text += std::to_string(i) + "," + std::to_string(i % 7) + "," + std::to_string(i % 2) + "\n";
  for (const std::vector<std::string>& targets : {std::vector<std::string>{}, {"c"}}) {
    LoadOptions options;
    options.task = Task::Classification;
    options.targets = targets;
    const Dataset set = load_dataset("csv:" + folder.write("t.csv", text).string(), options);
    options.encoding = &set.encoding;
    CHECK(load_for_prediction("csv:" + folder.write("p.csv", "a,b\n1,2\n").string(), options).x.columns == 2);
  }
}

TEST_CASE("arrays: what is wrong is named") {
  check_error({{"y", counting({3})}}, ": has no array 'x' of features (and 'y' of targets)");
  check_error({{"x", counting({3})}}, ": has no targets to learn: array 'y' is missing");
  check_error({{"x", counting({3, 2})}, {"y", counting({4})}}, ": array 'y' has 4 rows, but 'x' has 3");
  check_error({{"x", {{}, {1}}}, {"y", counting({4})}},
              ": array 'x' is a single number; its first axis must be that of the rows");
  check_error({{"x", {{0, 3}, {}}}, {"y", {{0}, {}}}}, ": array 'x' is empty");
  check_error({{"x", {{3, 0}, {}}}, {"y", counting({3})}}, ": array 'x' is empty");
  Array features = counting({10, 2});
  features.values[5] = std::numeric_limits<double>::infinity();
  check_error({{"x", features}, {"y", counting({10})}},
              ":3: column 2 'x2': inf is not a finite number; write nan for a missing value");
  LoadOptions options;
  options.targets = {"z"};
  check_error({{"x", counting({3, 2})}, {"y", counting({3})}}, ": has no column 'z'; it has 3: 'x1' 'x2' 'y'", options);
}
