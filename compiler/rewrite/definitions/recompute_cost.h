#pragma once
// Which elements of a definition are cheaper to compute again than to keep in memory.
#include "compiler/program/program.h"

namespace moxie {

/// A tensor of at most this many elements stays in the cache of a core: a megabyte of singles.
inline constexpr double kElementsInCache = 1 << 18;
/// Multiply-adds that an element of the definition may cost to be computed again by each reader, rather than stored and
/// read.
double most_recomputed(const Definition& definition);

}  // namespace moxie
