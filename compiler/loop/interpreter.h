#pragma once
// The reference: runs a LoopProgram in double, one lane, checking every access.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie {

/// Runs `program` on `buffers` (in the program's order, values in double whatever the dtype, stored in the buffer's
/// layout) with the arguments' values. Throws InternalError for an access outside a buffer or array, or a read of
/// scratch memory that was never written.
KernelStatus interpret(const LoopProgram& program, std::span<const std::span<double>> buffers,
                       std::span<const std::int64_t> arguments);

}  // namespace moxie
