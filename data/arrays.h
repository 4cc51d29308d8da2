#pragma once
// Files of arrays as tables: `x` holds the features of each row, `y` its targets.
#include <filesystem>

#include "data/table.h"

namespace moxie {

/// The first axis of `x` and `y` is that of the rows; all others together are columns, named x1, x2, .. (or x, where
/// there are no others). NaN is a missing value. `y` may be absent where only features are wanted: then the table has
/// no targets. Other arrays are ignored. Of the options, kinds and categorical columns are used. Throws DataError.
Table read_npz_table(const std::filesystem::path& path, const TableOptions& options = {});
/// The same for tensors of a .safetensors file.
Table read_safetensors_table(const std::filesystem::path& path, const TableOptions& options = {});

}  // namespace moxie
