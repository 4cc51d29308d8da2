#pragma once
// Writes affine expressions and ranges as .mox text.
#include <functional>
#include <string>
#include <vector>

#include "compiler/expression/affine.h"

namespace moxie {

using SymbolSpelling = std::function<std::string(Symbol)>;

/// `2*i+k-1`
std::string affine_text(const Affine& affine, const SymbolSpelling& spell);
/// `i,k+1`
std::string affine_list_text(const std::vector<Affine>& list, const SymbolSpelling& spell);
/// `r..R`
std::string range_text(const Range& range, const SymbolSpelling& spell);

}  // namespace moxie
