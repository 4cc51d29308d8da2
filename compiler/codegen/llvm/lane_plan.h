#pragma once
// LanePlan: how many lanes a kernel has, where its scratch arrays lie, and what must survive a partial round of a
// vector loop.
#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/codegen/llvm/llvm_text.h"

namespace moxie::llvm_ir {

struct LanePlan {
  int lanes = 1;
  bool avx512 = false;    // the machine has AVX-512
  bool converts = false;  // it rounds to integers and converts f16 by instructions
  /// In bytes, per array. Those whose extents depend on dims have none: they are the blocks of `scratch`, in order.
  std::vector<std::optional<std::int64_t>> array_offsets;
  ScratchSize scratch;
  // Whether a var or array is used both inside a vector loop and outside of it: then lanes beyond the range must leave
  // it unchanged.
  std::vector<bool> var_outlives_round;
  std::vector<bool> array_outlives_round;
  std::vector<int> var_copies;  // how many partial results of each var there are at most
};

LanePlan lane_plan(const LoopProgram& program, const VectorMachine& machine);

}  // namespace moxie::llvm_ir
