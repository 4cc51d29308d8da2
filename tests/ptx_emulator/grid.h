#pragma once
// The blocks of a launch, one after the other, in any order that a test asks for.
#include "tests/ptx_emulator/warp.h"

namespace moxie::ptx {

enum class BlockOrder : std::uint8_t { ascending, descending, shuffled };

/// Runs a kernel to its end. Throws Fault.
void run_grid(const Launch& launch, BlockOrder order);

}  // namespace moxie::ptx
