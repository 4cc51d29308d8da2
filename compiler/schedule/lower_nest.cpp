#include "compiler/schedule/lower_nest.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/fuse/fold_storage.h"
#include "compiler/loop/guards.h"
#include "compiler/loop/interleave.h"
#include "compiler/loop/merge_accumulations.h"
#include "compiler/loop/nest_builder.h"
#include "compiler/loop/split_ranges.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/box.h"
#include "compiler/schedule/quotients_of_loops.h"
#include "compiler/schedule/short_sums.h"

namespace moxie {
namespace {

/// Loops that a register tile becomes: over tiles, and inside of it two of which one runs, once: see unroll(). `copy`
/// counts the elements of a tile.
struct TileSymbols {
  Symbol tile = Symbol::fresh(), full = Symbol::fresh(), partial = Symbol::fresh(), copy = Symbol::fresh();
};

/// A definition's loops and body in symbols of this kernel, before register tiles are unrolled.
struct OpenRoot {
  const NestRoot* root = nullptr;
  std::vector<Affine> subscripts;
  std::vector<LoopIndex> loops;  // one per loop of the root
  std::vector<TileSymbols> tiles;
  Expr body;
};

/// The body of root number `k` of the nest. Reads of earlier roots are replaced by what these compute: the values are
/// computed once where the loops that they need are shared. What other steps of a scan computed is in memory. Each body
/// has the guards that it needs by itself: a condition of the reader would bind what it reads to its loop.
Expr body_in_place(const FusedProgram& fused, const Nest& nest, std::size_t k) {
  const auto earlier = std::span(nest.roots).first(k);
  const auto name_of = [](const NestRoot& root) -> const std::string& { return root.definition.name; };
  const Expr& guarded = nest.roots[k].prepared->guarded;
  if (earlier.empty()) return guarded;
  return rewrite_bottom_up(guarded, {}, [&](const Expr& e, const Scope&) -> Expr {
    if (e->kind != NodeKind::Access) return e;
    const auto producer = std::ranges::find(earlier, e->tensor, name_of);
    if (producer == earlier.end()) return e;
    if (producer->definition.scan && e->subscripts[0] != place_of_step(fused, e->tensor)) return e;
    return substitute(nest.in_place[static_cast<std::size_t>(producer - earlier.begin())], axes_by_subscripts(e));
  });
}

Expr guarded(const FusedProgram& fused, const Definition& definition) {
  const Affine step(Symbol::dim(kScanStep));
  const auto at_step = [&](Symbol symbol) { return definition.scan && symbol == Symbol::axis(0) ? &step : nullptr; };
  IndexDomain domain({});
  for (std::uint32_t axis = definition.scan ? 1 : 0; axis < definition.axes.size(); ++axis)
    domain.add_range(Symbol::axis(axis), definition.axes[axis].range.substitute(at_step));
  return guard_accesses(body_in_storage(fused, definition), fused, definition, std::move(domain));
}

/// The same for a prepared nest.
class NestLowering {
 public:
  NestLowering(const FusedProgram& fused, const Nest& nest) : fused_(fused), nest_(nest) {}

  LoweredKernel run() {
    std::vector<OpenRoot> roots;
    for (std::size_t k = 0; k < nest_.roots.size(); ++k) roots.push_back(open_root(k));
    declare(roots);
    NestBuilder builder(result_.program, read_, fused_.program);
    builder.choose_lanes();
    builder.reduce_in_lanes(nest_.lanes_depth);
    builder.bound_by_values();
    if (nest_.team > 1 || nest_.computes_in_elements) builder.keep_nothing();
    if (nest_.computes_in_elements) builder.compute_in_elements();
    builder.know_steps(fused_, nest_.roots.front().definition);
    std::vector<Work> works;
    for (OpenRoot& root : roots) {
      split(builder, root);
      if (nest_.chunks_depth > 0 && nest_.team == 0)
        root.body = in_chunks(builder, root.body, nest_.chunks_depth);
      else if (nest_.chunks_depth > 0)
        result_.chunks = SplitLoop{rounds_of_sum(root.body), argument::kChunkLow, argument::kChunkHigh};
      unroll(root, 0, {}, {}, works);
    }
    builder.build(std::move(works));
    // Of the terms that a team shares each thread has few.
    merge_accumulations(result_.program, nest_.team > 1 ? HUGE_VAL : kLongestChain);
    if (nest_.team == 0) {
      split_ranges(result_);
      interleave(result_.program);
    }
    verify(result_.program);
    return std::move(result_);
  }

 private:
  OpenRoot open_root(std::size_t k) {
    const NestRoot& root = nest_.roots[k];
    OpenRoot open{&root, {}, {}, {}, nest_.in_place[k]};
    std::vector<Affine> symbols(root.definition.axes.size());
    if (root.definition.scan) symbols[0] = Symbol::dim(kScanStep);
    const auto lookup = [&](Symbol symbol) {
      return symbol.kind() == Symbol::Kind::Axis ? &symbols.at(symbol.number()) : nullptr;
    };
    // Outer loops get their symbols first: outer symbols sort first. Copies of one loop have the same symbols.
    for (const NestLoop& loop : root.loops) {
      open.tiles.emplace_back();
      const AxisDecl& axis = root.definition.axes[loop.axis];
      const Symbol symbol = Symbol::fresh();
      Range range = axis.range.substitute(lookup);
      symbols[loop.axis] = Affine(symbol);
      if (const auto iterations = iterations_between_dims(range)) {  // counted from 0, to be split and tiled
        symbols[loop.axis] = Affine(symbol) + range.lows[0].value;
        range = Range::extent(*iterations);
      }
      open.loops.push_back({symbol, std::move(range), axis.name, loop.lanes});
    }
    Replacement replacement;
    for (std::uint32_t axis = 0; axis < symbols.size(); ++axis)
      replacement.emplace_back(Symbol::axis(axis), symbols[axis]);
    open.subscripts = symbols;
    if (!root.element.empty()) {
      open.subscripts.clear();
      for (const Affine& element : root.element) open.subscripts.push_back(element.substitute(lookup));
    }
    if (root.definition.scan) open.subscripts[0] = place_of_step(fused_, root.definition.name);
    open.body = substitute(open.body, replacement);
    open.body = boxed(open);
    open.body = with_short_sums_written_out(open.body, std::max(nest_.lanes_depth, nest_.chunks_depth) - 1);
    return open;
  }

  /// Short reductions inside of vector loops as boxes, whose masks guard what only they visit.
  Expr boxed(const OpenRoot& open) const {
    if (nest_.team > 0) return boxed_tiles(open);
    Expr body = open.body;
    for (const LoopIndex& loop : open.loops) {
      if (loop.lanes) body = box_reductions(body, loop.symbol, loop.range);
    }
    body = boxed_inside(body, nest_.lanes_depth);
    if (body == open.body) return body;
    IndexDomain domain({});
    for (const LoopIndex& loop : open.loops) domain.add_range(loop.symbol, loop.range);
    return guard_accesses(body, fused_, open.root->definition, std::move(domain));
  }

  /// Reductions whose ranges differ in the elements of a register tile as boxes: the elements share their loops.
  Expr boxed_tiles(const OpenRoot& open) const {
    IndexDomain domain({});
    Expr whole = open.body;
    for (std::size_t k = 0; k < open.loops.size(); ++k) {
      const LoopIndex& loop = open.loops[k];
      const std::int64_t factor = open.root->loops[k].unroll;
      if (factor == 1) {
        domain.add_range(loop.symbol, loop.range);
        continue;
      }
      const Symbol tile = open.tiles[k].tile, copy = open.tiles[k].copy;
      domain.add_range(tile, tiles_of(loop.range, factor));
      domain.add_range(copy, Range::extent(factor));
      const TileElements elements = elements_of_tile(open, k);
      const Affine element = elements.first + Affine(copy) * elements.step;
      whole = box_reductions_of_tile(substitute(whole, {{loop.symbol, element}}), copy, Range::extent(factor));
    }
    if (whole == open.body) return whole;
    return guard_accesses(whole, fused_, open.root->definition, std::move(domain));
  }

  /// Short reductions inside those at `depth`, which may be vector loops, as boxes.
  Expr boxed_inside(const Expr& expr, int depth) const {
    if (depth == 0) return expr;
    if (expr->kind != NodeKind::Reduce)
      return map_children(expr, [&](const Expr& child) { return boxed_inside(child, depth); });
    const OpenedReduce opened = moxie::open(expr);
    return map_opened(expr, opened, [&](const Expr& child) {
      return depth > 1 ? boxed_inside(child, depth - 1) : box_reductions(child, opened.index, opened.range);
    });
  }

  void declare(const std::vector<OpenRoot>& roots) {
    LoopProgram& program = result_.program;
    program.name = kernel_name(nest_.roots.front().definition.name);
    program.precision = fused_.program.precision;
    result_.team = nest_.team;
    result_.in_scan = nest_.roots.front().definition.scan.has_value();
    std::set<std::string> read;
    for (const OpenRoot& open : roots) {
      program.comments.push_back(open.root->prepared->comment);
      visit(open.body, [&](const Expr& e) {
        if (e->kind == NodeKind::Access) read.insert(e->tensor);
      });
    }
    for (const std::string& name : read) read_[name] = add_buffer(name, nullptr);
    for (const OpenRoot& open : roots)
      written_[open.root->definition.name] = add_buffer(open.root->definition.name, &open.root->definition);
    program.arguments = kernel_arguments(fused_.program, scan_arguments(roots));
  }

  /// The step, and where folded tensors have theirs.
  std::set<std::string> scan_arguments(const std::vector<OpenRoot>& roots) const {
    if (!result_.in_scan) return {};
    std::set<std::string> arguments = {kScanStep};
    for (const OpenRoot& open : roots) {
      arguments.merge(folded_steps_in(open.body));
      if (const auto written = open.subscripts[0].as_symbol()) arguments.insert(written->name());
    }
    return arguments;
  }

  BufferId add_buffer(const std::string& tensor, const Definition* writer) {
    BufferDecl buffer = declare_buffer(fused_, tensor);
    buffer.written = writer != nullptr;
    BufferUse use{tensor, buffer.written, std::nullopt, writer ? cite(*writer) : ""};
    if (writer && nest_.chunks_depth > 0) {
      use.partial = writer->body->reduce;
      add_chunks(buffer);
    }
    result_.program.buffers.push_back(std::move(buffer));
    result_.uses.push_back(std::move(use));
    return static_cast<BufferId>(result_.uses.size() - 1);
  }

  /// In a scan the chunks take the place of the steps.
  void add_chunks(BufferDecl& buffer) const {
    if (result_.in_scan)
      buffer.shape.front() = Symbol::dim(argument::kChunks);
    else
      add_chunk_axis(buffer);
  }

  void add_chunk(std::vector<Affine>& subscripts) const {
    const Affine chunk(Symbol::dim(argument::kChunk));
    if (result_.in_scan)
      subscripts.front() = chunk;
    else
      subscripts.insert(subscripts.begin(), chunk);
  }

  /// The range of the loop that is split over threads becomes the one of a tile. Of a register tile the loop over tiles
  /// is split.
  void split(NestBuilder& builder, OpenRoot& open) {
    for (std::size_t k = 0; k < open.loops.size(); ++k) {
      const NestLoop& loop = open.root->loops[k];
      if (!loop.parallel) continue;
      Range& range = open.loops[k].range;
      const Range whole = loop.unroll > 1 ? tiles_of(range, loop.unroll) : range;
      result_.tiles = SplitLoop{whole, argument::kTileLow, argument::kTileHigh, loop.lanes};
      const Range piece = Range::half_open(Symbol::dim(argument::kTileLow), Symbol::dim(argument::kTileHigh));
      builder.know_piece(piece, whole);

      if (loop.unroll == 1) range = piece;
    }
  }

  /// The reduction at this depth runs over the range of one chunk: what is stored are partial results.
  Expr in_chunks(NestBuilder& builder, const Expr& body, int depth) {
    const OpenedReduce opened = moxie::open(body);
    if (depth > 1)
      return map_opened(body, opened, [&](const Expr& child) { return in_chunks(builder, child, depth - 1); });
    const bool over_lanes = nest_.lanes_depth == nest_.chunks_depth;
    const Range whole = Range::extent(*iterations_between_dims(opened.range));  // pieces of it are counted from 0
    result_.chunks = SplitLoop{whole, argument::kChunkLow, argument::kChunkHigh, over_lanes, 1, nest_.chunks};
    const Range piece = Range::half_open(Symbol::dim(argument::kChunkLow), Symbol::dim(argument::kChunkHigh));
    builder.know_piece(piece, whole);
    const Affine& first = opened.range.lows[0].value;
    const Expr shifted = substitute(opened.body, {{opened.index, Affine(opened.index) + first}});
    return reduce(body->reduce, opened.index, piece, shifted);
  }

  /// Teams share the rounds of all loops of a sum by their number: its loops stay whole.
  static Range rounds_of_sum(const Expr& body) {
    return Range::extent(*iterations_between_dims(moxie::open(body).range));
  }

  static Range tiles_of(const Range& range, std::int64_t factor) {
    const Affine extent = *range.as_extent(), last = extent - Affine(1);
    if (extent.is_constant()) return Range::extent(Affine(ceil_div(extent.constant(), factor)));
    return {{{1, Affine(0)}}, {{factor, last}}};
  }

  /// The elements of a register tile: first, first + step, ..
  struct TileElements {
    Affine first;
    std::int64_t step = 1;
  };

  /// Neighbours, but where the threads of a GPU are neighbours along the axis: each has a place in every part of it.
  TileElements elements_of_tile(const OpenRoot& open, std::size_t k) const {
    const NestLoop& plan = open.root->loops[k];
    const auto tiles = known_extent(tiles_of(open.loops[k].range, plan.unroll));
    if (tiles == 1) return {Affine(0)};
    if (nest_.team > 0 && plan.lanes && tiles) return {Affine(open.tiles[k].tile), *tiles};
    return {Affine(open.tiles[k].tile) * plan.unroll};
  }

  /// Opens the loops from number k on: a register tile becomes a loop over tiles with a copy of the work for every
  /// iteration inside; NestBuilder shares loops and values between the copies.
  void unroll(const OpenRoot& open, std::size_t k, std::vector<LoopIndex> loops, const Replacement& elements,
              std::vector<Work>& works) const {
    if (k == open.loops.size()) {
      works.push_back(work_of(open, std::move(loops), elements));
      return;
    }
    const NestLoop& plan = open.root->loops[k];
    LoopIndex loop = open.loops[k];
    loop.range = loop.range.substitute(lookup_in(elements));
    if (known_extent(loop.range) == 1 && !plan.parallel && !plan.lanes) {
      copies(open, k, loops, elements, {Affine(0)}, 1, works);
      return;
    }
    if (plan.unroll == 1) {
      loops.push_back(loop);
      unroll(open, k + 1, std::move(loops), elements, works);
      return;
    }
    const Affine extent = *loop.range.as_extent();
    const std::int64_t factor = plan.unroll;
    if (extent.is_constant() && extent.constant() <= factor && !plan.parallel) {
      copies(open, k, loops, elements, {Affine(0)}, extent.constant(), works);
      return;
    }
    const auto& [tile, full_tile, partial_tile, element] = open.tiles[k];
    Range tiles = tiles_of(loop.range, factor);
    if (plan.parallel) tiles = Range::half_open(Symbol::dim(argument::kTileLow), Symbol::dim(argument::kTileHigh));
    loops.push_back({tile, tiles, "", nest_.team > 0 && plan.lanes});
    const TileElements whole = elements_of_tile(open, k);
    if (extent.is_constant() && extent.constant() % factor == 0) {
      copies(open, k, loops, elements, whole, factor, works);
      return;
    }
    const Affine& first = whole.first;
    // One of two loops runs, once: `full` where the tile lies inside the range, `partial` where it does not.
    const Affine rest = extent - first - Affine(factor);
    const LoopIndex full{full_tile, {{{1, Affine(0)}}, {{1, Affine(0)}, {factor, rest}}}, ""};
    const LoopIndex partial{partial_tile, {{{1, Affine(0)}, {factor, rest + Affine(1)}}, {{1, Affine(0)}}}, ""};
    std::vector<LoopIndex> inside = loops;
    inside.push_back(full);
    copies(open, k, inside, elements, whole, factor, works);
    loops.push_back(partial);
    loop.range = Range::half_open(first, extent);
    loops.push_back(loop);
    unroll(open, k + 1, std::move(loops), elements, works);
  }

  void copies(const OpenRoot& open, std::size_t k, const std::vector<LoopIndex>& loops, const Replacement& elements,
              const TileElements& tile, std::int64_t count, std::vector<Work>& works) const {
    for (std::int64_t copy = 0; copy < count; ++copy) {
      Replacement more = elements;
      more.emplace_back(open.loops[k].symbol, tile.first + Affine(tile.step * copy));
      more.emplace_back(open.tiles[k].copy, Affine(copy));
      unroll(open, k + 1, loops, more, works);
    }
  }

  static std::function<const Affine*(Symbol)> lookup_in(const Replacement& elements) {
    return [&elements](Symbol symbol) -> const Affine* {
      const auto it = std::ranges::find(elements, symbol, &std::pair<Symbol, Affine>::first);
      return it == elements.end() ? nullptr : &it->second;
    };
  }

  Work work_of(const OpenRoot& open, std::vector<LoopIndex> loops, const Replacement& elements) const {
    const Definition& definition = open.root->definition;
    Work work{Work::Target::Buffer,
              written_.at(definition.name),
              {},
              std::nullopt,
              value_type(definition.dtype),
              with_exact_quotients(substitute(open.body, elements)),
              std::move(loops),
              cite(definition)};
    for (const Affine& subscript : open.subscripts)
      work.subscripts.push_back(subscript.substitute(lookup_in(elements)));
    if (nest_.chunks_depth > 0) add_chunk(work.subscripts);
    return work;
  }

  const FusedProgram& fused_;
  const Nest& nest_;
  LoweredKernel result_;

  std::map<std::string, BufferId> read_, written_;
};

}  // namespace

Nest prepared(const FusedProgram& fused, Nest nest) {
  for (NestRoot& root : nest.roots) {
    if (root.prepared) continue;
    // The comment is the formula as it was written, also where the nest has split axes of it.
    const Definition* written = fused.program.find_definition(root.definition.name);
    root.prepared = {guarded(fused, root.definition),
                     definition_comment(written ? *written : root.definition, fused.program)};
  }
  while (nest.in_place.size() < nest.roots.size())
    nest.in_place.push_back(body_in_place(fused, nest, nest.in_place.size()));
  return nest;
}

bool takes_what_is_computed(const Definition& reader, const Definition& producer, const Expr& access) {
  return producer.dtype == reader.dtype && is_stored_as_computed(producer.dtype) && access->args.empty();
}

LoweredKernel lower(const FusedProgram& fused, const Nest& nest) {
  const bool is_prepared = nest.in_place.size() == nest.roots.size();
  return is_prepared ? NestLowering(fused, nest).run() : lower(fused, prepared(fused, nest));
}

}  // namespace moxie
