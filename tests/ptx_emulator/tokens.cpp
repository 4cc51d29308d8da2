#include "tests/ptx_emulator/tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace moxie::ptx {
namespace {

/// Directives that end with their line. `.loc` also tells the line of the CUDA text.
constexpr std::array<std::string_view, 5> kLineDirectives = {".version", ".target", ".address_size", ".file", ".loc"};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%' || c == '.';
}

class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text.substr(0, text.find('\0'))) {}

  std::vector<Token> run() {
    while (skip_space()) {
      const std::string_view word = take_word();
      if (word == ".section") {
        skip_past('}');
      } else if (std::ranges::find(kLineDirectives, word) != kLineDirectives.end()) {
        const std::string_view rest = take_until('\n');
        if (word == ".loc") cuda_line_ = second_number(rest);
      } else {
        tokens_.push_back({word, line_, cuda_line_});
      }
    }
    return std::move(tokens_);
  }

 private:
  bool starts_with(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }

  std::string_view take(std::size_t count) {
    const std::string_view taken = text_.substr(at_, count);
    line_ += static_cast<int>(std::ranges::count(taken, '\n'));
    at_ += taken.size();
    return taken;
  }
  std::string_view take_until(char end) { return take(std::min(text_.find(end, at_), text_.size()) - at_); }
  void skip_past(char end) {
    take_until(end);
    take(1);
  }

  /// Whether anything is left.
  bool skip_space() {
    while (at_ < text_.size()) {
      if (starts_with("//"))
        take_until('\n');
      else if (starts_with("/*"))
        take(std::min(text_.find("*/", at_ + 2), text_.size()) + 2 - at_);
      else if (std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
        take(1);
      else
        return true;
    }
    return false;
  }

  /// A word may hold "::", as in ld.global.L1::no_allocate; a quoted string is one word.
  std::string_view take_word() {
    std::size_t end = at_;
    if (text_[at_] == '"') return take(std::min(text_.find('"', at_ + 1), text_.size()) + 1 - at_);
    while (end < text_.size() && (is_word(text_[end]) || text_.substr(end, 2) == "::"))
      end += is_word(text_[end]) ? 1 : 2;
    return take(std::max<std::size_t>(end - at_, 1));
  }

  /// The line in "file line column".
  static int second_number(std::string_view text) {
    int number = 0;
    const std::size_t begin = text.find_first_not_of(" \t");
    const std::size_t gap = text.find(' ', begin);
    if (gap != std::string_view::npos) std::from_chars(text.data() + gap + 1, text.data() + text.size(), number);
    return number;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1, cuda_line_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Tokenizer(text).run(); }

}  // namespace moxie::ptx
