#pragma once
// Quotients of indices that loops make affine, and which loops would.
#include <cstdint>
#include <map>

#include "compiler/program/program.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// The expression with the quotients of indices that are affine here in the place of the sums that they are: where f is
/// 4*g + 3, f/4 is g. So copies of a register tile see that they read the same.
Expr with_exact_quotients(const Expr& expr);
/// The same for quotients that are affine because of ranges in the scope: where f is 4*g + p, and p runs from 0 to 3,
/// f/4 is g.
Expr with_known_quotients(const Expr& expr, const Scope& scope);

/// By what the body divides axes of a fixed extent, by number, where that divides the extent: the largest divisor of
/// each.
std::map<std::uint32_t, std::int64_t> divisors_of_axes(const Definition& definition);

}  // namespace moxie
