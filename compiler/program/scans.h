#pragma once
// Scans: which definitions step together, and which of them need to.
#include <span>
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

/// The definitions in order, those of one scan together and all others by themselves.
std::vector<std::span<const Definition>> groups_of(const Program& program);

/// Whether the body reads the tensor.
bool reads(const Definition& definition, std::string_view tensor);
/// Whether the expression reads a tensor that the scan computes.
bool reads_scan(const Program& program, const Expr& expr, const Scan& scan);

/// The highest number of a scan; 0 if there is none.
std::uint32_t last_scan(const Program& program);

/// Why a definition cannot be recomputed, but is kept: it must be there for others than readers of the same scan and
/// the same step. An empty text if it can.
std::string why_kept(const Program& program, const Definition& definition);

/// Why checkpoints cannot be this far apart: it must be a positive integer, or a dim that will have a value. An empty
/// text if they can.
std::string spacing_problem(const Program& program, const Affine& every);
inline constexpr const char* kSpacingRemedy =
    "write a positive integer, a dim with a value (dim K = 64), or sqrt for the square root of the number of steps";

/// Definitions of a scan that take no part in a recurrence leave it, to stand before or behind it, and scans are
/// numbered from 1 on. Within a scan remain the definitions that depend on a recurrence and that a recurrence depends
/// on, those that are recomputed, what depends on these, and what either needs of each step.
Program leave_scans(const Program& program);

}  // namespace moxie
