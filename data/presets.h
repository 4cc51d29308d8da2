#pragma once
// Data sets by name.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"
#include "data/moving_mnist.h"
#include "data/texts.h"

namespace moxie {

struct LoadOptions {
  std::filesystem::path data_dir = "data";
  std::uint64_t seed = 1;  // of the draw of the validation rows
  std::size_t split = 0;   // which of the set's divisions into training and test rows
  double validation_share = 0.1;
  double train_share = 1;              // of the training rows without those of the validation, drawn with the seed
  const Encoding* encoding = nullptr;  // use this one, of a trained model, instead of fitting one

  MovingMnistOptions moving_mnist = {};  // for moving-mnist only; its seed is `seed`

  TextOptions text = {};  // for texts only

  // For csv:FILE, npz:FILE and safetensors:FILE only, and the test file for text:FILE too.
  std::vector<std::string> targets;      // column names, or numbers from 1 or from -1 for the last; or Table::targets
  std::vector<std::string> ignored;      // columns that are neither features nor targets
  std::vector<std::string> categorical;  // columns of categories that look like numbers
  std::vector<std::string> unscaled;     // columns of numbers that are taken as they are: counts, identifiers
  std::optional<Task> task;              // unset: classification if the target holds words
  std::filesystem::path test_file;       // unset: a fifth of the rows, drawn with `split`
  std::size_t folds = 0, fold = 0;       // above 0: test rows are those of fold `fold`, from 1, of cross-validation
  std::vector<std::string> missing;      // csv: how missing values are written; empty: as TableOptions::missing says
  std::optional<bool> header = {};       // csv: whether the first line holds names; unset: as TableOptions says
  bool skips_missing_targets = false;    // rows without a target are left out instead of refused
  std::vector<std::string> kept;         // columns whose texts the samples carry
  Unexpected unexpected = Unexpected::Error;  // in rows for prediction

  std::vector<std::string> class_weights = {};  // of any set: what class_weights() takes; empty: none
};

struct Preset {
  std::string_view name;
  Task task;
  std::size_t splits;  // 0: as many as one likes, drawn at random
  std::string_view description;
  std::string_view origin;  // where the data can be had
  Dataset (*load)(const Preset& preset, const LoadOptions& options);
};

/// All named sets, for help texts; `csv:FILE`, `npz:FILE`, `safetensors:FILE` and `text:FILE` come in addition.
std::span<const Preset> presets();

/// Whether the name is that of a file of the user's own: csv:FILE, text:FILE, ...
bool names_file(std::string_view name);
/// Whether it is that of a set whose files lie in LoadOptions::data_dir.
bool reads_data_folder(std::string_view name);

/// Loads a preset or a file (`csv:FILE`, `npz:FILE`, `safetensors:FILE`, `text:FILE`). Throws DataError: for an unknown
/// name with the list of the known ones, for a missing file with every path that was tried.
Dataset load_dataset(std::string_view name, const LoadOptions& options = {});

/// The rows to apply a trained model to: all rows of a file (without the targets, y has no columns), or the test rows
/// of a preset. `options.encoding` must be set.
Samples load_for_prediction(std::string_view name, const LoadOptions& options);

}  // namespace moxie
