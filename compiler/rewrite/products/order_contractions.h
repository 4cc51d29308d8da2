#pragma once
// The order of a sum of products of several tensors, for passes that would settle part of it.
#include "compiler/program/program.h"

namespace moxie {

/// Whether order-contractions will compute the definition two factors at a time, in an order of its own. `known` has
/// the definitions before it, and has them afterwards.
bool has_cheaper_order(Program& known, const Definition& definition);

}  // namespace moxie
