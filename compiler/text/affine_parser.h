#pragma once
// Reads the integer part of the language: affine expressions and ranges.
#include <functional>

#include "compiler/expression/affine.h"
#include "compiler/text/token_stream.h"

namespace moxie {

/// What names stand for in an affine expression.
struct NameResolver {
  std::function<Affine(const Token& name)> resolve;  // throws where the name may not stand there
  /// The value of dims, if the text tells it and it is positive.
  std::function<std::optional<std::int64_t>(const Affine& dims)> value_of;
};

/// What may stand beside affine expressions: floor division (`i/2`, `i//2`) and remainder (`i%2`), functions of indices
/// (`min(i+1, N-1)`), and tables of integers (`[0, 1, -1][k]`).
struct IntegerForms {
  /// The quotient or remainder by the mark, unless the divisor is unknown.
  std::function<std::optional<Affine>(std::string_view mark, const Affine& value, const Affine& divisor)> divided;
  /// The rest of a call, if it is one of a function that chooses among integers.
  std::function<std::optional<Affine>(const Token& name)> call;
  /// The rest of a table behind its opening bracket.
  std::function<Affine(const Token& opening)> table;
};

/// A divisor that is none: an error that points at it.
[[noreturn]] void fail_divisor(const TokenStream& tokens, const Token& at);
/// Throws TypeError where a quotient follows, which may not stand here.
void refuse_division(const TokenStream& tokens);

Affine parse_affine(TokenStream& tokens, const NameResolver& resolve, const IntegerForms* forms = nullptr);
/// `low..high`, half open; `max(a, b)..min(c, d)`, with `ceil(a/2)` and `floor(b/2)+1` for entries that are divided.
Range parse_range(TokenStream& tokens, const NameResolver& resolve);
/// `a, b, ...]` behind an opening bracket, closed by `]`.
std::vector<Affine> parse_affine_list(TokenStream& tokens, const NameResolver& resolve,
                                      const IntegerForms* forms = nullptr);

}  // namespace moxie
