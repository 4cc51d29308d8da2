#pragma once
// Where a .mox text finds what it includes and uses.
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

struct TextLibrary {
  /// The formula that `use NAME(...)` brings in; nothing where there is none of that name.
  std::function<std::optional<Program>(std::string_view name)> formula;
  /// The names of all formulas, for messages.
  std::vector<std::string> formula_names;
  /// The text that `include "FILE"` brings in where there is no such file, by the path as it is written; nothing where
  /// the library has none of that name.
  std::function<std::optional<std::string_view>(std::string_view path)> shared_text = {};
  /// Whether `include "FILE"` may read files: those in the folder of the including file and below.
  bool includes_files = false;
  /// Folders that files are included from besides.
  std::vector<std::filesystem::path> folders;
};

/// parse() of a text that may include other files and use formulas; `file` is then its path.
Program parse(std::string_view text, std::string_view file, const TextLibrary& library);

/// verify() of what parse() made of `text`: messages show the line, with a caret below what is wrong, and what to do.
void verify_text(const Program& program, std::string_view text, std::string_view file);

struct IncludedFile {
  std::filesystem::path path;  // without links and dots, the same for the same file
  std::string shown;           // for messages: relative to the working folder where it was given so
  std::string text;
};
/// The file that `including` names as `written`: beside it or below, or in one of `folders`. Throws DataError with the
/// reason where there is none, where links or `..` lead out of these folders, and for what is no text file of at most 4
/// MiB.
IncludedFile read_included(const std::filesystem::path& including, std::string_view written,
                           const std::vector<std::filesystem::path>& folders);

}  // namespace moxie
