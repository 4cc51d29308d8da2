#pragma once
// Workspace: how what is neither input nor output shares the caller's block of memory, whatever the dims come to be.
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/aot/dim_math.h"
#include "runtime/plan.h"

namespace moxie::aot {

/// A tensor, or the partial results of one kernel for it, from the first step of the plan that uses it to the last.
struct Block {
  std::string tensor;
  const LoweredKernel* partial_of = nullptr;
  std::size_t first = 0, last = 0;
  std::size_t slot = 0;
};

/// Blocks of one slot are never in use at the same time. A slot is as large as its largest block.
struct WorkspaceLayout {
  std::vector<Block> blocks;
  std::size_t slots = 0;

  /// The slot of a tensor, or of partial results; none for inputs, outputs and kernels without such.
  const Block* find(const std::string& tensor, const LoweredKernel* partial_of = nullptr) const;
};
WorkspaceLayout lay_out(const Plan& plan);

/// Blocks begin at multiples of this.
inline constexpr std::int64_t kWorkspaceAlignment = 64;

/// Where slots begin, and the bytes of all in a workspace that may itself begin anywhere.
struct SlotPlaces {
  std::vector<Val> offsets;
  Val total;
};
/// `bytes_of` gives the size of a block; so many bytes lie before the first slot.
SlotPlaces place_slots(FunctionWriter& writer, const WorkspaceLayout& layout,
                       const std::function<Val(const Block&)>& bytes_of, const Val& before);

/// The first aligned address of the workspace, the parameter %workspace.
Pointer workspace_start(FunctionWriter& writer);

}  // namespace moxie::aot
