#pragma once
// Integers that elements of tensors and indices make, in the place of an index.
#include <optional>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// An affine expression in which Symbol::value(k) stands for the integer `values[k]`, as in the subscripts of an
/// access.
struct IntegerElement {
  Affine affine;
  std::vector<Expr> values = {};
  bool operator==(const IntegerElement&) const = default;
};

/// The expression with the integer in the place of the index; nothing where the index moves a range, chooses an element
/// of a matrix, or counts a draw.
std::optional<Expr> substitute_element(const Expr& expr, Symbol index, const IntegerElement& integer);

}  // namespace moxie
