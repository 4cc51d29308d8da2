#pragma once
// Reads the integer part of the language: affine expressions and ranges.
#include <functional>

#include "compiler/ir/affine.h"
#include "compiler/ir/quotients.h"
#include "compiler/ir/token_stream.h"

namespace moxie {

/// What a name stands for in an affine expression; throws where it may not stand there.
using NameResolver = std::function<Affine(const Token& name)>;

/// Where floor division (`i/2`, `i//2`) and remainder (`i%2`) may stand: the quotients that were read, and the value of
/// a divisor, if it is known and positive.
struct Division {
  Quotients& quotients;
  std::function<std::optional<std::int64_t>(const Affine& divisor)> divisor;
};

/// A divisor that is none: an error that points at it.
[[noreturn]] void fail_divisor(const TokenStream& tokens, const Token& at);
/// Throws TypeError where a quotient follows, which may not stand here.
void refuse_division(const TokenStream& tokens);

Affine parse_affine(TokenStream& tokens, const NameResolver& resolve, const Division* division = nullptr);
/// `low..high`, half open; `max(a, b)..min(c, d)`, with `ceil(a/2)` and `floor(b/2)+1` for entries that are divided.
Range parse_range(TokenStream& tokens, const NameResolver& resolve);
/// `a, b, ...]` behind an opening bracket, closed by `]`.
std::vector<Affine> parse_affine_list(TokenStream& tokens, const NameResolver& resolve,
                                      const Division* division = nullptr);

}  // namespace moxie
