#pragma once
// Whether values lie in the declared domain of the input that they are given to.
#include <optional>
#include <span>
#include <string>

#include "compiler/program/program.h"
#include "compiler/support/error.h"

namespace moxie {

/// Where an element stands in a row-major tensor: "[1,0]"; nothing for a scalar.
std::string element_text(std::size_t place, std::span<const std::int64_t> shape);

/// Whether values of the input may be refused: there is a domain, or integers of 64 bits, which are computed in f64.
inline bool has_limits(const InputDecl& input) { return input.domain != ValueDomain::Any || input.dtype == DType::i64; }

/// What is wrong with the first value outside the domain: tensor, element and value, such as "x[1,0] = -2, but x is
/// declared >= 0". Nothing if all lie inside. `values` are elements of the input's dtype, row-major, as many as the
/// shape has; the bound is rounded to that dtype. Integers beyond 2^53 in absolute value, which f64 does not have, lie
/// outside every domain. One vectorised pass over memory.
std::optional<ErrorDetails> domain_violation(const InputDecl& input, std::span<const std::int64_t> shape,
                                             std::span<const std::byte> values);

/// Throws DataError for a value outside the domain.
void check_domain(const InputDecl& input, std::span<const std::int64_t> shape, std::span<const std::byte> values);

}  // namespace moxie
