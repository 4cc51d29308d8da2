#pragma once
// Launches: the integer arguments of one call of a kernel, and what a failed check means to the user.
#include <vector>

#include "runtime/plan.h"

namespace moxie {

struct Launch {
  std::int64_t tile = 0, tiles = 1, chunk = 0, chunks = 1;
  ScanPosition at = {};
};

/// The values of the kernel's arguments, in its order.
std::vector<std::int64_t> launch_arguments(const LoweredKernel& kernel, const DimValues& dims, const Launch& launch,
                                           int lanes, std::uint64_t seed, std::uint64_t step);

/// Whether the kernel runs with results below the smallest normal number rounded to zero: if no tensor of its is in
/// double, in which numbers as small are rare, and results next to them may be exact.
bool flushes_to_zero(const LoweredKernel& kernel);

/// Throws DomainError if the status reports a failed check.
void throw_if_failed(const LoweredKernel& kernel, const KernelStatus& status);

}  // namespace moxie
