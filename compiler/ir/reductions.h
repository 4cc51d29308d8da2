#pragma once
// The kinds of reductions.
#include "compiler/ir/expr.h"

namespace moxie {

/// What a reduction without iterations gives; it changes nothing that it is combined with.
double neutral_value(ReduceKind kind);

}  // namespace moxie
