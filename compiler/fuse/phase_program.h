#pragma once
// The Program of one phase: what it does for one chunk of steps.
#include "compiler/fuse/phases.h"
#include "compiler/fuse/slices.h"

namespace moxie {

/// The dims that all phases of a clock have in common.
struct ChunkDims {
  SliceAxis axis;
  SliceNumbers numbers;
};
ChunkDims chunk_dims(const Program& program, const Clock& clock);

/// The phase with this number as a part that runs once for every chunk. Its results are the tensors that chunks leave
/// to each other and to later parts; `copies_behind` are definitions that hold what the part has computed under the
/// names of the Program.
ProgramPart phase_program(const Phases& phases, int number, const ChunkDims& dims);

}  // namespace moxie
