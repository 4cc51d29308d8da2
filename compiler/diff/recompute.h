#pragma once
// Definitions of scans that are computed again where a derivative needs them.
#include "compiler/program/program.h"

namespace moxie {

/// What a scan recomputes is there for its own step only. For all who read it from elsewhere there are copies,
/// `again.NAME`: in each scan that reads it at its own step, recomputed there too, and one outside for all others.
Program with_recomputed_copies(const Program& program);

}  // namespace moxie
