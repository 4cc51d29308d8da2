#pragma once
// Formulas in files, and values of their dims as texts.
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/text/parsed_text.h"

namespace moxie {

/// The name that stands for the standard input.
inline constexpr std::string_view kStandardInput = "-";

/// Whether the name is that of a file: it ends in .mox, holds a slash, or is that of the standard input.
bool is_file_name(std::string_view source);

/// The whole file; throws DataError where it cannot be read.
std::string read_text(const std::string& path);

/// The Program of a .mox file, which may include files from its folder and `folders`, and use formulas of the
/// catalogue. Throws DataError where a file cannot be read, and ParseError, ShapeError or TypeError with line and
/// caret.
Program read_program(const std::string& path, const std::vector<std::string>& folders = {});
/// The same, with the reductions that the text defines. Throws also where the formula cannot be computed with `dims`,
/// texts as parse_dims() takes them.
ParsedText read_parsed(const std::string& path, const std::vector<std::string>& folders = {},
                       const std::vector<std::string>& dims = {});

/// From texts such as `S=8`. Throws UsageError for a malformed one, a negative value, or a dim that the Program does
/// not have.
DimValues parse_dims(const std::vector<std::string>& texts, const Program& program);

}  // namespace moxie
