#include <fmt/format.h>

#include <cmath>

#include "compiler/support/error.h"
#include "data/archive.h"
#include "data/file.h"
#include "data/loaders.h"
#include "data/locate.h"

namespace moxie {
namespace fs = std::filesystem;
namespace {

// The nine regression sets of the Bayesian deep learning literature, with their published divisions into training and
// test rows.

/// A list of whole numbers below `bound`, one a line. (Some files write them as 1.000e+00.)
std::vector<std::size_t> parse_indices(std::string_view text, const std::string& file, std::size_t bound) {
  TableOptions options;
  options.header = false;
  const Table table = parse_table(text, file, options);
  std::vector<std::size_t> indices;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const Column& column = table.columns[0];
    const double value = column.kind == ColumnKind::Numeric ? column.numbers[row] : std::nan("");
    if (!(value >= 0 && value < static_cast<double>(bound) && value == std::floor(value)))
      throw DataError(fmt::format("{}: must be a whole number below {}", table.place(row, 0), bound));
    indices.push_back(static_cast<std::size_t>(value));
  }
  return indices;
}

class Folder {
 public:
  Folder(const Preset& preset, const fs::path& data_dir) : preset_(preset), data_dir_(data_dir) {}

  fs::path find(std::string_view file) const {
    return locate(data_dir_, {fs::path("uci-regression") / preset_.name, fs::path(preset_.name), ""}, file,
                  preset_.origin);
  }
  std::vector<std::size_t> indices(std::string_view file, std::size_t bound) const {
    const fs::path path = find(file);
    return parse_indices(read_whole_file(path), path.string(), bound);
  }
  RowSplit split(std::size_t number, std::size_t rows) const {
    return {row_list(fmt::format("index_train_{}.txt", number), rows),
            row_list(fmt::format("index_test_{}.txt", number), rows)};
  }

 private:
  std::vector<std::size_t> row_list(const std::string& name, std::size_t rows) const {
    const fs::path loose = find("data.txt").parent_path() / name;
    std::error_code unreadable;
    if (fs::is_regular_file(loose, unreadable)) return parse_indices(read_whole_file(loose), loose.string(), rows);
    const std::string archive = find("splits.tar").string();
    for (const ArchiveMember& member : read_tar(read_whole_file(archive), archive))
      if (fs::path(member.name).filename() == name)
        return parse_indices(member.content, fmt::format("{}:{}", archive, name), rows);
    throw DataError(fmt::format("{}: holds no {}", archive, name));
  }

  const Preset& preset_;
  const fs::path& data_dir_;
};

}  // namespace

Dataset load_uci_regression(const Preset& preset, const LoadOptions& options) {
  const Folder folder(preset, options.data_dir);
  TableOptions layout;
  layout.separator = Separator::Blanks;
  layout.header = false;
  const Table table = read_table(folder.find("data.txt"), layout);
  const RowSplit rows = folder.split(options.split, table.rows());
  const Roles roles{Task::Regression, folder.indices("index_features.txt", table.columns.size()),
                    folder.indices("index_target.txt", table.columns.size()), Scaling::Standardise};
  return make_dataset(preset.name, table, roles, rows, options);
}

}  // namespace moxie
