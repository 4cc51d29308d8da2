#pragma once
// Windows: where an axis and the index of a sum give a position in a tensor together, x[t-k].
#include <optional>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

struct Window {
  Symbol position = Symbol::fresh();  // j
  Symbol axis = Symbol::fresh();      // t
  Affine shifted;                     // t-k
  Affine extent;                      // of the tensor's axis

  /// The axis by the position, t = j + k.
  Affine axis_by_position() const;
};

/// The first subscript in the expression that moves by one with the axis, and with one of the indices.
std::optional<Window> window_of(const Program& program, const Expr& expr, Symbol axis,
                                const std::vector<Symbol>& indices);

}  // namespace moxie
