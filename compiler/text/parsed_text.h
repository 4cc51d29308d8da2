#pragma once
// parse() of a text for those who ask which reductions it defines.
#include <vector>

#include "compiler/program/monoid.h"
#include "compiler/text/text_library.h"

namespace moxie {

/// A Program, and the reductions that its text and the texts that it includes define. A Program has none: their uses
/// are scans there.
struct ParsedText {
  Program program;
  std::vector<Monoid> reductions;
};
ParsedText parse_text(std::string_view text, std::string_view file, const TextLibrary& library);

}  // namespace moxie
