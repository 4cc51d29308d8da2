#pragma once
// Staging: inside a double loop over r and t, an exponential of t alone would be computed again for every r. It is
// computed once for all t before the loop over r, into scratch, and read from there.
#include <functional>
#include <optional>
#include <vector>

#include "compiler/ir/expr.h"
#include "compiler/loop/loop_program.h"

namespace moxie {

/// An expression in one index, `placeholder`, that is worth computing beforehand for 0 <= placeholder < extent.
struct Staged {
  Expr expr;
  Symbol placeholder;
  std::int64_t extent;
  ValueType type;
};

/// What `body`, which runs in a loop over `index`, computes in inner loops without depending on `index`. `is_available`
/// tells whether an expression's symbols are known before the loop.
std::vector<Staged> find_staged(const Expr& body, ValueType type, Symbol index,
                                const std::function<bool(Symbol)>& is_available);

/// The precision in which the arguments of a node are evaluated.
ValueType argument_type(const Expr& expr, ValueType type);

}  // namespace moxie
