#pragma once
// How long a kernel's machine code becomes: what compilers take their time for, and what must fit an instruction cache.
#include <cstdint>
#include <set>
#include <vector>

#include "compiler/codegen/cuda/cuda_schedule.h"
#include "compiler/codegen/cuda/kernel_shape.h"

namespace moxie::cuda_text {

/// The trip count that is assumed of a loop whose bounds are not constant.
inline constexpr std::int64_t kAssumedTripCount = 16;

/// Loops that must be unrolled so that every subscript of an array in registers is known: those in its subscripts, and
/// those in their bounds.
std::set<Symbol> loops_to_unroll(const KernelShape& shape, const std::vector<ArrayPlace>& places);

/// Instructions of the kernel, roughly, where these loops and no others are unrolled.
std::int64_t instruction_count(const LoopProgram& program, const std::set<Symbol>& unrolled);

/// Takes arrays out of registers until their loops, unrolled, make at most so many instructions: first those that save
/// most for each access to memory.
void limit_code(const LoopProgram& program, const KernelShape& shape, std::int64_t most,
                std::vector<ArrayPlace>& places);

}  // namespace moxie::cuda_text
