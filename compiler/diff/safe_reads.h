#pragma once
// Guards for reads that differentiation moved.
#include <set>
#include <string>

#include "compiler/program/program.h"

namespace moxie {

/// The tensors that definitions read where values say, under conditions on these values: where(idx[s] >= 0,
/// x[idx[s],n], 0) may have no element of x to read elsewhere.
std::set<std::string> read_under_conditions(const Program& program);
/// A factor that was read inside a loop may come to stand outside it, and there be read for rounds that the loop never
/// had, or outside the condition that kept it inside its tensor; what multiplies it is zero then, but the element need
/// not exist. Such reads get a guard. `conditional`: what read_under_conditions() says of the formula.
Expr with_safe_reads(const Program& program, const Definition& definition, const std::set<std::string>& conditional);

}  // namespace moxie
