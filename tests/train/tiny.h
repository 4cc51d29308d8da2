#pragma once
// Small data sets and runs for the tests of training.
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

#include "learn/run_folder.h"
#include "learn/training_run.h"
#include "runtime/temporary_folder.h"

namespace moxie::tiny {

/// A folder for one test, gone after it.
struct Scratch : TemporaryFolder {
  std::filesystem::path operator/(const char* name) const { return path() / name; }
};

inline Encoding encoding(Task task) {
  Encoding result;
  result.task = task;
  result.features = {{"x1"}, {"x2"}};
  if (task == Task::Classification) {
    result.class_column = "class";
    result.classes = {"inside", "outside"};
  } else {
    result.targets = {{"y", 10, 2}};
  }
  return result;
}

/// `rows` points on two spiral turns around the origin: inside or outside of the unit circle; or their height.
inline Samples samples(Task task, std::size_t rows, double turn) {
  Samples result{Matrix(rows, 2), Matrix(rows, task == Task::Classification ? 2 : 1)};
  for (std::size_t k = 0; k < rows; ++k) {
    const bool inside = k % 2 == 0;
    const double angle = turn + 2.4 * static_cast<double>(k);
    const double radius = inside ? 0.6 : 1.4;
    result.x(k, 0) = static_cast<float>(radius * std::cos(angle));
    result.x(k, 1) = static_cast<float>(radius * std::sin(angle));
    if (task == Task::Classification) {
      result.y(k, inside ? 0 : 1) = 1;
    } else {
      result.y(k, 0) = std::sin(2 * result.x(k, 0)) - result.x(k, 1);
    }
  }
  return result;
}

inline Dataset dataset(Task task = Task::Classification) {
  return {"tiny", samples(task, 50, 0), samples(task, 20, 0.1), samples(task, 20, 0.2), encoding(task)};
}

inline TrainConfig config(const std::string& model) {
  TrainConfig result;
  result.model = model;
  result.data = "tiny";
  result.layers = {6, 5};
  result.inducing_points = 6;
  result.batch = 16;
  result.rate = 0.02;
  result.epochs = 6;
  return result;
}

inline TrainingRun run(const TrainConfig& config, const Dataset& data) {
  return TrainingRun(config, data, open_device("interp"));
}

inline TrainingCallbacks saved_to(const RunFolder& folder, std::function<bool()> stop = {}) {
  return {.stop = std::move(stop), .save = folder.saver()};
}

}  // namespace moxie::tiny
