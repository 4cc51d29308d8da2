#pragma once
// Scans over two indices, `scan i, j { let d[i,j] = .. d[i-1,j] .. d[i,j-1] .. }`, as scans over their diagonals.
#include <array>
#include <cstddef>
#include <cstdint>

#include "compiler/ir/program.h"

namespace moxie {

/// The definitions from `first` on, whose first two axes are those of the scan, step through all pairs of indices: the
/// second index inside the first, each from its last element to its first if it goes backwards. What none of them reads
/// of the others lies on one diagonal: those (i, j) with the same t = s*i + j, where the smallest s is taken for which
/// all that is read lies on earlier ones (L. Lamport, The parallel execution of DO loops, 1974). Such a definition d
/// becomes d.diagonals[t,i,..], in a scan of this number over t whose steps are computed for all i at once, and
/// d[i,j,..] = d.diagonals[s*i + j,i,..] behind it.
///
/// Throws ShapeError where an axis is no whole range from 0, or a definition reads what the scan computes later.
void skew_scan(Program& program, std::size_t first, const std::array<bool, 2>& is_backwards, std::uint32_t number);

}  // namespace moxie
