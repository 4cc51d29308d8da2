#pragma once
// The functions of the language that are compositions of others.
#include <string_view>

namespace moxie {

/// One `def` a line. A text may define other functions, and tensors, of these names.
std::string_view prelude_text();

}  // namespace moxie
