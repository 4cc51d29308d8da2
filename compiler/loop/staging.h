#pragma once
// Staging: inside a double loop over r and t, an exponential of t alone would be computed again for every r. It is
// computed once for all t before the loop over r, into scratch, and read from there.
#include <functional>
#include <optional>
#include <vector>

#include "compiler/loop/loop_program.h"
#include "compiler/program/program.h"

namespace moxie {

/// An expression in one index, `placeholder`, that is worth computing beforehand for all of `range`, which lies within
/// 0 <= placeholder < extent.
struct Staged {
  Expr expr;
  Symbol placeholder;
  std::int64_t extent;
  ValueType type;
  Range range;  // 0 <= placeholder < extent, where several loops read different parts
};

/// Whether both compute the same at each element, in the same type.
bool compute_the_same(const Staged& a, const Staged& b);

/// What is known before a loop.
struct StageScope {
  std::function<bool(Symbol)> is_available;
  /// The largest value of an affine expression, if that is a known number.
  std::function<std::optional<std::int64_t>(const Affine&)> largest;
  std::int64_t longest;  // extent that scratch has room for
  const Program& source;
};

/// What `body`, which runs in a loop over `index`, computes in inner loops without depending on `index`.
std::vector<Staged> find_staged(const Expr& body, ValueType type, Symbol index, const StageScope& scope);

/// The type in which the arguments of a node are evaluated.
ValueType argument_type(const Expr& expr, ValueType type, const Program& source);

}  // namespace moxie
