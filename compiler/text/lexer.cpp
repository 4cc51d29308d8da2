#include "compiler/text/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "compiler/program/identifiers.h"
#include "compiler/support/error.h"
#include "compiler/support/utf8.h"
#include "compiler/text/foreign_words.h"

namespace moxie {
namespace {

/// Longer marks first, so that `<=` is not read as `<` and `=`.
constexpr std::array<std::string_view, 23> kMarks = {"..", "<=", ">=", "==", "!=", "//", "(", ")", "[", "]", ",", ":",
                                                     "+",  "-",  "*",  "/",  "%",  "^",  "<", ">", "=", "{", "}"};

class Lexer {
 public:
  /// Editors of Windows begin a file with a byte order mark.
  explicit Lexer(const SourceText& source)
      : source_(source), text_(source.text()), position_(text_.starts_with("\xef\xbb\xbf") ? 3 : 0) {}

  std::vector<Token> run() {
    while (position_ < text_.size()) step();
    if (!open_.empty()) fail(open_.back().offset, fmt::format("this `{}` is never closed", open_.back().text));
    end_statement();
    tokens_.push_back({TokenKind::End, "", text_.size()});
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::size_t offset, const std::string& message, const std::string& hint = "") const {
    source_.fail<ParseError>(offset, message, hint);
  }

  char at(std::size_t position) const { return position < text_.size() ? text_[position] : '\0'; }

  void step() {
    const char c = text_[position_];
    if (c == '\n') {
      if (open_.empty()) end_statement();
      ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (c == '#') {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else if (is_letter(c)) {
      name();
    } else if (is_digit(c) || (c == '.' && is_digit(at(position_ + 1)))) {
      number();
    } else if (c == '"' && at_file_name()) {
      file_name();
    } else {
      mark();
    }
  }

  /// Behind the word `include` at the start of a line.
  bool at_file_name() const {
    if (tokens_.empty() || tokens_.back().text != "include") return false;
    return tokens_.size() == 1 || tokens_[tokens_.size() - 2].kind == TokenKind::Newline;
  }

  void file_name() {
    const std::size_t end = text_.find_first_of("\"\n", position_ + 1);
    if (end == std::string_view::npos || text_[end] == '\n') fail(position_, "this name of a file is never closed");
    push(TokenKind::String, end + 1);
  }

  void end_statement() {
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::Newline) push(TokenKind::Newline, position_);
  }

  void push(TokenKind kind, std::size_t end) {
    tokens_.push_back({kind, text_.substr(position_, end - position_), position_});
    position_ = end;
  }

  void name() {
    std::size_t end = position_;
    while (is_word(at(end)) || (at(end) == '.' && is_word(at(end + 1)))) ++end;
    push(TokenKind::Name, end);
  }

  /// A point that is followed by another one belongs to a range: `0..3`.
  void number() {
    std::size_t end = position_;
    bool integer = true;
    while (is_digit(at(end))) ++end;
    if (at(end) == '.' && at(end + 1) != '.') {
      integer = false;
      do ++end;
      while (is_digit(at(end)));
    }
    if (at(end) == 'e' || at(end) == 'E') {
      integer = false;
      ++end;
      if (at(end) == '+' || at(end) == '-') ++end;
      if (!is_digit(at(end))) fail(position_, "this number has no digits in its exponent", "write 1e-3");
      while (is_digit(at(end))) ++end;
    }
    if (is_letter(at(end)))
      fail(end, "a number runs into a name",
           at(end) == '_' ? "numbers are written without `_`" : "write a product with `*`: 2*x");
    push(integer ? TokenKind::Integer : TokenKind::Number, end);
  }

  void mark() {
    const std::string_view rest = text_.substr(position_);
    const auto found = std::ranges::find_if(kMarks, [&](std::string_view m) { return rest.starts_with(m); });
    if (found == kMarks.end()) fail_character(rest);
    push(TokenKind::Mark, position_ + found->size());
    match_bracket(tokens_.back());
  }

  [[noreturn]] void fail_character(std::string_view rest) const {
    const std::size_t length = utf8_length(rest);
    const auto code = static_cast<unsigned char>(rest[0]);
    const bool is_shown = length > 1 || (code > ' ' && code < 0x7f);
    const std::string shown =
        is_shown ? fmt::format("`{}`", rest.substr(0, length)) : fmt::format("byte 0x{:02x}", code);
    const std::string_view said = said_here(rest.substr(0, std::max<std::size_t>(1, length)));
    fail(position_, "unexpected character " + shown,
         said.empty() ? "names consist of the letters a-z, digits, `_` and inner dots" : std::string(said));
  }

  void match_bracket(const Token& token) {
    if (token.text == "(" || token.text == "[") open_.push_back(token);
    if (token.text == "{" || token.text == "}") return check_brace(token);
    if (token.text != ")" && token.text != "]") return;
    if (open_.empty()) fail(token.offset, fmt::format("this `{}` closes nothing", token.text));
    const std::string_view wanted = open_.back().text == "(" ? ")" : "]";
    if (token.text != wanted) {
      fail(token.offset, fmt::format("`{}` where `{}` was expected", token.text, wanted),
           fmt::format("it closes the `{}` on line {}", open_.back().text, source_.line_of(open_.back().offset)));
    }
    open_.pop_back();
  }

  /// Braces enclose the statements of a scan: `scan t {`, and `}` on a line of its own.
  void check_brace(const Token& token) const {
    const auto newline =
        std::find_if(tokens_.rbegin(), tokens_.rend(), [](const Token& t) { return t.kind == TokenKind::Newline; });
    const Token& first = *newline.base();
    const bool opens_scan = token.text == "{" && first.text == "scan";
    const bool closes_scan = token.text == "}" && first.offset == token.offset;
    if (opens_scan || closes_scan) return;
    fail(token.offset, "braces have no meaning here", "use `(` `)` and `[` `]`; braces enclose the lines of a scan");
  }

  const SourceText& source_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::vector<Token> tokens_;
  std::vector<Token> open_;
};

}  // namespace

std::vector<Token> tokenize(const SourceText& source) { return Lexer(source).run(); }

}  // namespace moxie
