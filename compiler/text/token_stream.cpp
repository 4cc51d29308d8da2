#include "compiler/text/token_stream.h"

#include <fmt/format.h>

#include <charconv>

#include "compiler/text/foreign_words.h"

namespace moxie {
namespace {

constexpr int kDeepest = 200;

std::string spelled(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the text";
  if (token.kind == TokenKind::Newline) return "the end of the line";
  return fmt::format("`{}`", token.text.substr(0, 40));
}

}  // namespace

bool TokenStream::accept(std::string_view text) {
  if (!at(text)) return false;
  ++position_;
  return true;
}

Token TokenStream::expect(std::string_view text, const std::string& hint) {
  if (!at(text)) fail_expected(fmt::format("`{}`", text), hint);
  return next();
}

Token TokenStream::expect_name(const std::string& what) {
  if (!at_name()) fail_expected(what);
  return next();
}

std::int64_t TokenStream::expect_integer(const std::string& what) {
  if (peek().kind != TokenKind::Integer) fail_expected(what);
  const std::optional<std::int64_t> value = integer_value(peek());
  if (!value) fail<ParseError>(peek(), "this integer does not fit 64 bits");
  next();
  return *value;
}

bool TokenStream::at_call_after_brackets() const {
  if (!at("[")) return false;
  int open = 0;
  for (std::size_t k = position_; k + 1 < tokens_.size(); ++k) {
    if (tokens_[k].text == "[") ++open;
    if (tokens_[k].text == "]" && --open == 0) return tokens_[k + 1].text == "(";
  }
  return false;
}

bool TokenStream::is_defined_below(std::string_view name) const {
  for (std::size_t k = position_; k + 2 < tokens_.size(); ++k) {
    if (tokens_[k].kind == TokenKind::Newline && tokens_[k + 1].text == "def" && tokens_[k + 2].text == name)
      return true;
  }
  return false;
}

void TokenStream::fail_expected(const std::string& what, const std::string& hint) const {
  fail<ParseError>(peek(), fmt::format("{} expected, but found {}", what, spelled(peek())),
                   hint.empty() ? std::string(said_here(peek().text)) : hint);
}

void TokenStream::check_depth(int depth) const {
  if (depth <= kDeepest) return;
  fail<ParseError>(peek(), fmt::format("the expression nests more than {} levels deep", kDeepest),
                   "name parts of it with `let`");
}

std::optional<std::int64_t> integer_value(const Token& token) {
  std::int64_t value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto [stop, error] = std::from_chars(token.text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace moxie
