#pragma once
// SourceText: a .mox text with its file name; turns offsets into error messages that show the line.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/error.h"

namespace moxie {

class SourceText {
 public:
  SourceText(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  std::string_view text() const { return text_; }
  int line_of(std::size_t offset) const;
  /// `file:line:column: message`, the source line with a caret below `offset`, and the hint on a line of its own.
  std::string describe(std::size_t offset, const std::string& message, const std::string& hint) const;
  ErrorDetails details(std::size_t offset, const std::string& message, const std::string& hint) const;
  /// Throws an E that describes what is wrong at `offset`.
  template <class E>
  [[noreturn]] void fail(std::size_t offset, const std::string& message, const std::string& hint = "") const {
    throw E(describe(offset, message, hint), details(offset, message, hint));
  }

 private:
  std::size_t line_begin(std::size_t offset) const;

  std::string_view text_;
  std::string file_;
};

/// "did you mean `a` or `b`?" with the names closest to the unknown one, or an empty string if none is close.
std::string did_you_mean(std::string_view unknown, const std::vector<std::string>& known);

}  // namespace moxie
