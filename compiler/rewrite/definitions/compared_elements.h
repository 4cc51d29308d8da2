#pragma once
// Definitions whose elements are subtracted from each other, or compared.
#include <set>
#include <string>

#include "compiler/program/program.h"

namespace moxie {

/// Definitions of which a body compares two elements that may be the same one, or subtracts them, as `m[i] - m[j]` for
/// all pairs. A stored element is rounded once, so that its difference from itself is zero. If both elements are
/// inlined, it may not be: a fused multiply-add rounds only one of the two products, and the normal form of
/// `(a[i] + b[i]) - (a[j] + b[j])` adds in another order. Definitions that round nothing, such as a maximum of inputs,
/// and functions of indices alone are not in the set.
std::set<std::string> compared_elements(const Program& program);

}  // namespace moxie
