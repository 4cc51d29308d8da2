#include "compiler/fuse/prefix_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/expression/reductions.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Fewer positions take less time than the launch that adds up blocks.
constexpr double kMinBlocked = 8192;
/// With that many other elements there is enough to do at the same time.
constexpr double kManyElements = 1024;
/// Long enough that adding up the blocks is little of the work, short enough for a thread of a GPU.
constexpr std::int64_t kMinBlockLength = 256, kMaxBlockLength = 4096, kUsualBlockLength = 1024;

/// About as many positions in a block as there are blocks.
std::int64_t block_length(const Affine& extent) {
  if (!extent.is_constant()) return kUsualBlockLength;
  const auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(extent.constant())));
  return std::clamp(static_cast<std::int64_t>(std::bit_ceil(root)), kMinBlockLength, kMaxBlockLength);
}

bool is_worth_blocks(const Definition& definition, const PrefixReduction& reduction) {
  double others = 1;
  for (std::uint32_t axis = 0; axis < definition.axes.size(); ++axis) {
    if (axis != reduction.axis) others *= assumed_extent(definition.axes[axis].range);
  }
  const bool is_long =
      !reduction.extent.is_constant() || static_cast<double>(reduction.extent.constant()) >= kMinBlocked;
  return is_long && others < kManyElements;
}

Range block_range(const Affine& extent, std::int64_t length) {
  if (extent.is_constant()) return Range::extent(Affine(ceil_div(extent.constant(), length)));
  return {{{1, Affine(0)}}, {{length, extent - Affine(1)}}};
}

class Planner {
 public:
  Planner(const Program& program, PrefixPlans& plans) : names_(program), result_(program), plans_(plans) {
    result_.definitions.clear();
  }

  Program run() {
    const std::vector<Definition> definitions = names_.definitions;
    for (const Definition& definition : definitions) add(definition);
    return std::move(result_);
  }

 private:
  void add(const Definition& definition) {
    if (const auto reduction = match_prefix(definition)) {
      PrefixPlan plan{*reduction};
      if (is_worth_blocks(definition, *reduction)) plan.blocks = add_blocks(definition, *reduction);
      plans_[definition.name] = std::move(plan);
    }
    result_.definitions.push_back(definition);
  }

  PrefixBlocks add_blocks(const Definition& definition, const PrefixReduction& reduction) {
    PrefixBlocks blocks{block_length(reduction.extent), {}, {}, {}};
    blocks.range = block_range(reduction.extent, blocks.length);
    const Definition sums = block_sums(definition, reduction, blocks);
    blocks.sums = sums.name;
    add_new(sums);
    if (!has_fixed_extent(blocks.range) || !is_long(blocks.range)) return blocks;
    const Definition before = preceding(definition, sums, reduction.kind);
    blocks.before = before.name;
    add_new(before);
    return blocks;
  }

  void add_new(const Definition& definition) {
    names_.definitions.push_back(definition);
    add(definition);
  }

  /// What each block adds, over the other axes and the blocks.
  Definition block_sums(const Definition& definition, const PrefixReduction& reduction, const PrefixBlocks& blocks) {
    Definition sums{unused_name(names_, definition.name + ".blocks"), definition.dtype, {}, {}, false, definition.line};
    Replacement renumbered;
    const auto lookup = [&](Symbol symbol) -> const Affine* {
      const auto it = std::ranges::find(renumbered, symbol, &std::pair<Symbol, Affine>::first);
      return it == renumbered.end() ? nullptr : &it->second;
    };
    for (std::uint32_t axis = 0; axis < definition.axes.size(); ++axis) {
      if (axis == reduction.axis) continue;
      AxisDecl other = definition.axes[axis];
      other.range = other.range.substitute(lookup);
      renumbered.emplace_back(Symbol::axis(axis), Symbol::axis(static_cast<std::uint32_t>(sums.axes.size())));
      sums.axes.push_back(std::move(other));
    }
    const Affine first = Affine(Symbol::axis(static_cast<std::uint32_t>(sums.axes.size()))) * blocks.length;
    // Without the division there is more room than need be, but an affine number.
    const Affine room = blocks.range.as_extent().value_or(reduction.extent);
    sums.axes.push_back({axis_name(names_, sums.axes, room), room, blocks.range});
    const Symbol within = Symbol::fresh();
    const Affine position = first + Affine(within);
    renumbered.emplace_back(reduction.position, position);
    Expr element = substitute(reduction.element, renumbered);
    // A mask for the last block, so that all have one length.
    if (!reduction.extent.is_constant() || reduction.extent.constant() % blocks.length != 0)
      element = call("where", {call("<", {index_value(position), index_value(reduction.extent)}), element,
                               constant(neutral_value(reduction.kind))});
    sums.body = reduce(reduction.kind, within, Range::extent(Affine(blocks.length)), element);
    return sums;
  }

  /// The sums of all blocks before each: a prefix reduction again.
  Definition preceding(const Definition& definition, const Definition& sums, ReduceKind kind) {
    Definition before{unused_name(names_, definition.name + ".before"), sums.dtype, sums.axes, {}, false, sums.line};
    std::vector<Affine> element;
    for (std::uint32_t axis = 0; axis < sums.axes.size(); ++axis) element.emplace_back(Symbol::axis(axis));
    const Affine block = element.back();
    const Symbol earlier = Symbol::fresh();
    element.back() = Affine(earlier);
    before.body = reduce(kind, earlier, Range::extent(block), tensor_access(sums.name, element));
    return before;
  }

  Program names_;  // for unused names
  Program result_;
  PrefixPlans& plans_;
};

/// What precedes a block: the start of the reduction and all earlier blocks.
Expr start_of_block(const PrefixPlan& plan, const Expr& start, std::vector<Affine> element) {
  const PrefixReduction& reduction = plan.reduction;
  Expr before = tensor_access(plan.tensor_of_blocks(), element);
  if (plan.blocks->before.empty()) {
    const Affine block = element.back();
    const Symbol earlier = Symbol::fresh();
    element.back() = Affine(earlier);
    before = reduce(reduction.kind, earlier, Range::extent(block), tensor_access(plan.blocks->sums, element));
  }
  return start->is_constant(neutral_value(reduction.kind)) ? before
                                                           : call(combining_function(reduction.kind), {start, before});
}

}  // namespace

Program with_block_sums(const Program& program, PrefixPlans& plans) { return Planner(program, plans).run(); }

KernelRoot prefix_root(const Definition& definition, const PrefixPlan& plan) {
  const PrefixReduction& reduction = plan.reduction;
  KernelRoot root{definition, {}, {}, {}, std::nullopt};
  Replacement replacement;
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
    return it == replacement.end() ? nullptr : &it->second;
  };
  std::vector<Affine> others;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    root.subscripts.emplace_back();
    if (k == reduction.axis) continue;
    const LoopIndex loop{Symbol::fresh(), definition.axes[k].range.substitute(lookup), definition.axes[k].name};
    replacement.emplace_back(Symbol::axis(k), Affine(loop.symbol));
    root.subscripts.back() = Affine(loop.symbol);
    others.emplace_back(loop.symbol);
    root.locals.push_back(loop);
  }
  const Symbol position = Symbol::fresh();
  Affine at(position);
  PrefixLoops loops{reduction.kind,
                    {position, Range::extent(reduction.extent), definition.axes[reduction.axis].name},
                    std::nullopt,
                    substitute(reduction.start, replacement)};
  if (plan.blocks) {
    loops.block = LoopIndex{Symbol::fresh(), plan.blocks->range, ""};
    const Affine first = Affine(loops.block->symbol) * plan.blocks->length;
    loops.position.range = Range::extent(reduction.extent - first);
    loops.position.range.highs.push_back({1, Affine(plan.blocks->length - 1)});
    at += first;
    others.emplace_back(loops.block->symbol);
    loops.start = start_of_block(plan, loops.start, std::move(others));
  }
  replacement.emplace_back(reduction.position, at);
  root.subscripts[reduction.axis] = reduction.backwards ? reduction.extent - Affine(1) - at : at;
  root.body = substitute(reduction.element, replacement);
  root.prefix = std::move(loops);
  return root;
}

}  // namespace moxie
