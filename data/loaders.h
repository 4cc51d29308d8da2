#pragma once
// The loaders behind the presets, and what they share.
#include <string_view>

#include "data/presets.h"

namespace moxie {

Dataset load_letter(const Preset& preset, const LoadOptions& options);
Dataset load_adult(const Preset& preset, const LoadOptions& options);
Dataset load_connect4(const Preset& preset, const LoadOptions& options);
Dataset load_mnist(const Preset& preset, const LoadOptions& options);
Dataset load_moving_mnist(const Preset& preset, const LoadOptions& options);
Dataset load_cifar10(const Preset& preset, const LoadOptions& options);
/// One of the nine sets in uci-regression/: features and target standardised by the training rows.
Dataset load_uci_regression(const Preset& preset, const LoadOptions& options);
Dataset load_synthetic(const Preset& preset, const LoadOptions& options);
Dataset load_synthetic_regression(const Preset& preset, const LoadOptions& options);
Dataset load_synthetic_text(const Preset& preset, const LoadOptions& options);

Dataset load_csv(const std::filesystem::path& file, const LoadOptions& options);
Samples load_csv_for_prediction(const std::filesystem::path& file, const LoadOptions& options);
Dataset load_npz(const std::filesystem::path& file, const LoadOptions& options);
Samples load_npz_for_prediction(const std::filesystem::path& file, const LoadOptions& options);
Dataset load_safetensors(const std::filesystem::path& file, const LoadOptions& options);
Samples load_safetensors_for_prediction(const std::filesystem::path& file, const LoadOptions& options);
Dataset load_text(const std::filesystem::path& file, const LoadOptions& options);
/// Without labels where the first line has no tab.
Samples load_text_for_prediction(const std::filesystem::path& file, const LoadOptions& options);

/// Encodes a table (fitting the encoding unless the options bring one) and divides it.
Dataset make_dataset(std::string_view name, const Table& table, const Roles& roles, const RowSplit& rows,
                     const LoadOptions& options);

/// What `options.kept` names, as RowLabels has it.
std::vector<std::pair<std::string, std::vector<std::string>>> kept_columns(const Table& table,
                                                                           const LoadOptions& options);

/// Four fifths of the rows for training, for sets without a published division: the same rows for the same `split`,
/// whatever the run's seed, so that test errors of different runs can be compared.
RowSplit default_split(std::size_t rows, std::size_t split);

/// The last column is the target, all others are features.
Roles last_column_roles(const Table& table, Task task);

/// Throws DataError unless the table is complete.
void require_shape(const Table& table, std::size_t rows, std::size_t columns);

}  // namespace moxie
