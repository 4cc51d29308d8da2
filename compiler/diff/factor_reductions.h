#pragma once
// Extrema and log-sum-exps of sums of terms, by the law max(a + x, a + y) = a + max(x, y), which log-sum-exp obeys too.
#include "compiler/program/program.h"

namespace moxie {

/// Which of equal elements a derivative of an extremum goes to: the first in the order of its list of indices.
enum class Ties : std::uint8_t { Kept, Free };

/// Reductions over several indices of a sum of terms that each depend on some of these take two terms at a time, in the
/// cheapest order, with intermediate results that are definitions. `logsumexp[k,q,r](a[q,r] + x[k,q] + y[k,r])`, as the
/// inside algorithm of a grammar has it, becomes `logsumexp[q,r](a[q,r] + part[q,r])` with
/// `part[q,r] = logsumexp[k](x[k,q] + y[k,r])`. Derivatives are those of the parts, and as cheap. Where ties are kept,
/// extrema lose their last indices first.
Program factor_reductions(const Program& program, Ties ties);

}  // namespace moxie
