#pragma once
// The words of .mox text: its tokens.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "compiler/text/source_text.h"

namespace moxie {

/// Integer is a number without point and exponent, Mark an operator or bracket, String the file behind `include`,
/// Newline the end of a statement (never inside brackets).
enum class TokenKind : std::uint8_t { Name, Integer, Number, Mark, String, Newline, End };

struct Token {
  TokenKind kind;
  std::string_view text;
  std::size_t offset;
};

/// Ends with a Newline and an End token. Throws ParseError for characters, numbers and brackets that do not fit.
std::vector<Token> tokenize(const SourceText& source);

}  // namespace moxie
