#pragma once
// How many lanes a vector loop has, which strides they load by shuffles, and where a loop runs under masks.
#include <cstddef>
#include <cstdint>

#include "compiler/loop/loop_program.h"

namespace moxie {

/// As many of the narrowest dtype used in the vector loop as fill one register of `vector_bits`; that times
/// `registers_per_draw` where lanes draw random numbers; 1 without a vector loop.
int lane_count(const LoopProgram& program, int vector_bits, int registers_per_draw);

/// Longer strides are gathered: of every cache line few elements are read.
inline constexpr std::int64_t kMaxShuffledStride = 4;

/// A vector loop with a longer body has no tail of its own: the whole loop runs under masks, as a second copy of the
/// body costs compile time. With 24 here, tiles of a max pooling took up to eight times as long, and a convolution with
/// rows of 54 elements half as long again (AVX2).
inline constexpr std::size_t kMaxStatementsTwice = 160;
/// The number of statements, including those of inner loops.
std::size_t count_statements(const Block& block);

}  // namespace moxie
