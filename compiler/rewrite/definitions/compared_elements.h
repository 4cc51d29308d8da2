#pragma once
// Definitions whose elements are subtracted from each other, or compared.
#include <set>
#include <string>

#include "compiler/program/program.h"

namespace moxie {

/// Definitions of which a body compares two elements that may be the same one, or subtracts them, as `m[i] - m[j]` for
/// all pairs. An element that is stored has been rounded once, so that its difference to itself is zero. Written out
/// at both places it may not be: a fused multiply-add rounds one of two products, and the normal form of
/// `(a[i] + b[i]) - (a[j] + b[j])` adds up in another order. Functions of indices alone, and what rounds nothing, such
/// as a maximum, are not among them.
std::set<std::string> compared_elements(const Program& program);

}  // namespace moxie
