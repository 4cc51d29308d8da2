#pragma once
// TokenStream: the parsers' view of the tokens, one after the other, with the errors of what is not found there.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "compiler/support/error.h"
#include "compiler/text/lexer.h"

namespace moxie {

class TokenStream {
 public:
  explicit TokenStream(const SourceText& source) : source_(source), tokens_(tokenize(source)) {}

  const SourceText& source() const { return source_; }
  const Token& peek() const { return tokens_[position_]; }
  /// The token behind the next one.
  const Token& peek_second() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  bool at(std::string_view text) const { return peek().text == text && peek().kind != TokenKind::End; }
  bool at_name() const { return peek().kind == TokenKind::Name; }

  std::size_t position() const { return position_; }
  /// Whether the bracket that stands here is followed by a parenthesis: `[i](`.
  bool at_call_after_brackets() const;
  /// Whether a `def` of this name follows.
  bool is_defined_below(std::string_view name) const;

  /// How deep the text nests here. A body that is read for a call nests as deep as the call.
  int depth() const { return depth_; }
  void set_depth(int depth) { depth_ = depth; }

  /// Back (or on) to a position that was seen before.
  void seek(std::size_t position) { position_ = position; }

  /// The End token stays where it is.
  Token next() { return peek().kind == TokenKind::End ? peek() : tokens_[position_++]; }
  bool accept(std::string_view text);
  Token expect(std::string_view text, const std::string& hint = "");
  Token expect_name(const std::string& what);
  std::int64_t expect_integer(const std::string& what);

  /// "`)` expected, but found `x`"
  [[noreturn]] void fail_expected(const std::string& what, const std::string& hint = "") const;
  template <class E>
  [[noreturn]] void fail(const Token& token, const std::string& message, const std::string& hint = "") const {
    source_.fail<E>(token.offset, message, hint);
  }

  /// Counts how deep the text nests, so that no text exhausts the stack.
  class Nesting {
   public:
    explicit Nesting(TokenStream& tokens) : tokens_(tokens) { tokens.check_depth(++tokens.depth_); }
    ~Nesting() { --tokens_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    TokenStream& tokens_;
  };
  /// Throws ParseError where `depth` is more than an expression may have.
  void check_depth(int depth) const;

 private:
  const SourceText& source_;
  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

/// The value of an Integer token, if it fits 64 bits.
std::optional<std::int64_t> integer_value(const Token& token);

}  // namespace moxie
