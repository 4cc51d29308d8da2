#pragma once
// Where seeds make a derivative zero.
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// A seed is an element, of which there is one: sum[i](f(i)*where(i == seed, 1, 0)) is f(seed). The program with such
/// sums carried out. `extents` are those of the axes that the seeds number. Conditions on seeds are outermost in the
/// bodies of definitions, and readers take them over: of a definition that is where(i == seed, e, 0), they read e, so
/// that nothing is computed or stored for zeros.
Program with_sparse_seeds(const Program& program, const std::vector<Symbol>& seeds, const std::vector<Affine>& extents);

}  // namespace moxie
