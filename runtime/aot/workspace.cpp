#include "runtime/aot/workspace.h"

#include <algorithm>
#include <map>

namespace moxie::aot {
namespace {

std::vector<Block> blocks_of(const Plan& plan) {
  std::map<std::string, Block> tensors;
  std::vector<Block> blocks;
  for (std::size_t k = 0; k < plan.steps.size(); ++k) {
    for (const std::string& name : tensors_of(plan.steps[k])) {
      const Definition* definition = plan.fused.program.find_definition(name);
      if (!definition || definition->output) continue;
      tensors.try_emplace(name, Block{name, nullptr, k, k, 0}).first->second.last = k;
    }
    for (const LoweredKernel* kernel : kernels_of(plan.steps[k])) {
      for (const BufferUse& use : kernel->uses) {
        if (use.partial && kernel->chunks) blocks.push_back({use.tensor, kernel, k, k, 0});
      }
    }
  }
  for (auto& [name, block] : tensors) blocks.push_back(block);
  std::ranges::stable_sort(blocks, {}, &Block::first);
  return blocks;
}

}  // namespace

const Block* WorkspaceLayout::find(const std::string& tensor, const LoweredKernel* partial_of) const {
  const auto block =
      std::ranges::find_if(blocks, [&](const Block& b) { return b.tensor == tensor && b.partial_of == partial_of; });
  return block == blocks.end() ? nullptr : &*block;
}

/// Every block takes the slot that was free first, in the order of their first use: no more slots than blocks that are
/// in use at once.
WorkspaceLayout lay_out(const Plan& plan) {
  WorkspaceLayout layout{blocks_of(plan)};
  std::vector<std::size_t> busy_until;  // per slot
  for (Block& block : layout.blocks) {
    const auto free = std::ranges::find_if(busy_until, [&](std::size_t last) { return last < block.first; });
    block.slot = static_cast<std::size_t>(free - busy_until.begin());
    if (free == busy_until.end())
      busy_until.push_back(block.last);
    else
      *free = block.last;
  }
  layout.slots = busy_until.size();
  return layout;
}

SlotPlaces place_slots(FunctionWriter& w, const WorkspaceLayout& layout,
                       const std::function<Val(const Block&)>& bytes_of, const Val& before) {
  std::vector<Val> sizes(layout.slots, w.integer(0));
  for (const Block& block : layout.blocks) sizes[block.slot] = w.larger(sizes[block.slot], bytes_of(block));
  SlotPlaces places{{}, before};
  for (const Val& size : sizes) {
    places.offsets.push_back(rounded_up(w, places.total, kWorkspaceAlignment));
    places.total = w.saturating_add(places.offsets.back(), size);
  }
  const Val padded = w.saturating_add(places.total, w.integer(kWorkspaceAlignment - 1));
  places.total = w.select(w.is("eq", places.total, w.integer(0)), places.total, padded);
  return places;
}

Pointer workspace_start(FunctionWriter& w) {
  const Val start = w.address({"%workspace"});
  return w.offset({"%workspace"}, w.sub(rounded_up(w, start, kWorkspaceAlignment), start));
}

}  // namespace moxie::aot
