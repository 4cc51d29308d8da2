#pragma once
// Reads the integer part of the language: affine expressions and ranges.
#include <functional>

#include "compiler/ir/affine.h"
#include "compiler/ir/token_stream.h"

namespace moxie {

/// What a name stands for in an affine expression; throws where it may not stand there.
using NameResolver = std::function<Affine(const Token& name)>;

Affine parse_affine(TokenStream& tokens, const NameResolver& resolve);
/// `low..high`, half open; `max(a, b)..min(c, d)`, with `ceil(a/2)` and `floor(b/2)+1` for entries that are divided.
Range parse_range(TokenStream& tokens, const NameResolver& resolve);
/// `a, b, ...]` behind an opening bracket, closed by `]`.
std::vector<Affine> parse_affine_list(TokenStream& tokens, const NameResolver& resolve);

}  // namespace moxie
