#pragma once
// Scans over two indices, `scan i, j { let d[i,j] = .. d[i-1,j] .. d[i,j-1] .. }`, as scans over their diagonals.
#include <array>
#include <cstddef>
#include <cstdint>

#include "compiler/program/program.h"

namespace moxie {

/// The definitions from `first` on, whose first two axes are those of the scan, step through all pairs of indices: the
/// second index inside the first, each from its last element to its first if it goes backwards. The pairs (i, j) with
/// the same t = s*i + j form a diagonal, and s is the smallest factor for which every element is computed from elements
/// on earlier diagonals, so that those on one diagonal are independent (the wavefront method of L. Lamport, The
/// parallel execution of DO loops, 1974). Such a definition d becomes d.diagonals[t,i,..], in a scan of this number
/// over t whose steps are computed for all i at once, and d[i,j,..] = d.diagonals[s*i + j,i,..] behind it.
///
/// Throws what verify() does of the definitions as they are written, and ShapeError where an axis is no whole range
/// from 0, or a definition reads what the scan computes later.
void skew_scan(Program& program, std::size_t first, const std::array<bool, 2>& is_backwards, std::uint32_t number);

}  // namespace moxie
