#pragma once
// Into how many pieces the loops of a kernel are split, for given extents.
#include "compiler/loop/lower.h"
#include "compiler/program/program.h"

namespace moxie {

struct PieceCounts {
  std::int64_t tiles = 1;   // independent pieces
  std::int64_t chunks = 1;  // pieces with partial results of their own
  bool operator==(const PieceCounts&) const = default;
};

/// Depends on shapes only, never on the number of threads, so that results do not either; and `chunks` not on `lanes`,
/// so that memory can be planned before any kernel is compiled. Throws ShapeError where dims are missing.
PieceCounts count_pieces(const LoweredKernel& kernel, const DimValues& dims, int lanes);

/// The dims, and for a kernel of a scan the arguments that tell the step, those of a step of it where `dims` has none.
DimValues at_first_step(const LoweredKernel& kernel, DimValues dims);

/// The number of iterations of the whole loop, which runs from 0.
std::int64_t extent_of(const SplitLoop& loop, const DimValues& dims);
/// The number of iterations that a piece must hold whole: those of `lanes` lanes count as one.
std::int64_t vector_extent_of(const SplitLoop& loop, const DimValues& dims, int lanes);
/// The value of an affine expression in dims. Throws ShapeError where one is missing.
std::int64_t evaluate(const Affine& affine, const DimValues& dims);

}  // namespace moxie
