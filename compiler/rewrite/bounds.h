#pragma once
// Between which numbers an expression lies, as far as minima and maxima in it tell.
#include <cmath>

#include "compiler/ir/expr.h"

namespace moxie {

struct Interval {
  double low = -HUGE_VAL, high = HUGE_VAL;
};

/// Of every value that is not NaN.
Interval bounds_of(const Expr& expr);

}  // namespace moxie
