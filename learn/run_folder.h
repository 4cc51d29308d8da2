#pragma once
// The folder of a training run.
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "learn/snapshot.h"

namespace moxie {

class RunFolder {
 public:
  /// Throws DataError if there is anything at `path` already.
  static void require_free(const std::filesystem::path& path);
  /// Makes the folder, which must not exist, and its config.json; and model.mox, the text of a model of the user's own.
  static RunFolder create(const std::filesystem::path& path, const TrainConfig& config, std::string_view command);
  /// Throws DataError if no run can be taken up there.
  static RunFolder open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path model_file() const { return path_ / "model.safetensors"; }
  TrainConfig read_config() const;
  /// What was typed to make the run, or to go on with it.
  std::string read_command() const;
  void write_config(const TrainConfig& config, std::string_view command) const;

  /// Writes the checkpoint, and before it the best model where there is a new one.
  void write(const Snapshot& snapshot) const;
  /// write(), as TrainingCallbacks::save.
  std::function<void(const Snapshot&)> saver() const;
  Checkpoint read_checkpoint() const;

  /// Appends one line to metrics.jsonl.
  void append_metrics(const std::string& json) const;
  std::string read_metrics() const;
  /// The last line of metrics.jsonl, which a run that is finished has; else an empty text.
  std::string final_metrics() const;
  void write_report(const std::string& html) const;
  /// Drops the lines of steps after `step`, which a run taken up there writes again.
  void rewind_metrics(std::uint64_t step) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoint_file() const { return path_ / "checkpoint.safetensors"; }

  std::filesystem::path path_;
};

}  // namespace moxie
