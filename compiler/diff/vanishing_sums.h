#pragma once
// Sums that are zero whatever the inputs are. A softmax made safe by the largest element of its row does not change
// with that element, and deviations from a mean add up to nothing: by the laws of the real numbers the adjoints of both
// are zero, where arithmetic would compute the rounding errors of zero, in passes of their own over all that is summed.
#include "compiler/program/program.h"

namespace moxie {

/// The expression without those of its terms that are zero; 0 if all of them together are. Definitions outside of scans
/// are looked into as far as they are sums and products. What would take long to tell stays.
Expr without_vanishing_sums(const Program& program, const Expr& expr);

}  // namespace moxie
