#include "ops/formula_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "compiler/analysis/verify_definition.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"

namespace moxie {

bool is_file_name(std::string_view source) {
  return source == kStandardInput || source.ends_with(".mox") || source.find('/') != source.npos;
}

std::string read_text(const std::string& path) {
  std::stringstream text;
  if (path == kStandardInput) {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream file(path, std::ios::binary);
  // A folder opens but cannot be read.
  if (!file || (file.peek(), file.bad()))
    throw DataError(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  text << file.rdbuf();
  return text.str();
}

ParsedText read_parsed(const std::string& path, const std::vector<std::string>& folders,
                       const std::vector<std::string>& dims) {
  TextLibrary library = catalogue_library();
  library.includes_files = true;
  library.folders.assign(folders.begin(), folders.end());
  const std::string text = read_text(path), name = path == kStandardInput ? "stdin" : path;
  ParsedText parsed = parse_text(text, name, library);
  verify_text(parsed.program, text, name);
  if (!dims.empty()) verify_text(with_values(parsed.program, parse_dims(dims, parsed.program)), text, name);
  return parsed;
}

Program read_program(const std::string& path, const std::vector<std::string>& folders) {
  return read_parsed(path, folders).program;
}

DimValues parse_dims(const std::vector<std::string>& texts, const Program& program) {
  DimValues dims;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const char* begin = text.data() + (equals == text.npos ? text.size() : equals + 1);
    const char* end = text.data() + text.size();
    std::int64_t value = 0;
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || rest != end || value < 0) {
      throw UsageError(fmt::format("--dim {}: a name and a number are wanted, such as S=8", text));
    }
    if (!program.find_dim(name)) {
      std::vector<std::string> names;
      for (const DimDecl& dim : program.dims) names.push_back(dim.name);
      throw UsageError(fmt::format("--dim {}: {} has no dim '{}'; it has {}", text, program.name, name,
                                   names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    dims[name] = value;
  }
  return dims;
}

}  // namespace moxie
