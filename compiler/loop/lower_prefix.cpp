#include "compiler/loop/lower_prefix.h"

#include <algorithm>
#include <set>

#include "compiler/loop/nest_builder.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// The loops around the scan, outermost first, and which of them runs over lanes: if none does, the scan.
struct Order {
  std::vector<LoopIndex> loops;
  bool scan_in_lanes = false;
  std::optional<std::size_t> split;  // the loop that is shared out
};

class PrefixLowering {
 public:
  PrefixLowering(const FusedProgram& fused, const Kernel& kernel)
      : fused_(fused), root_(kernel.roots.front()), prefix_(*root_.prefix), kernel_(kernel) {}

  LoweredKernel run(const Order& order) {
    declare();
    NestBuilder builder(result_.program, read_, fused_.program);
    builder.choose_lanes();
    builder.reduce_in_lanes(order.scan_in_lanes ? 1 : 0);
    for (std::size_t k = 0; k < order.loops.size(); ++k) {
      const LoopIndex& loop = order.loops[k];
      const Range range = order.split == k ? split(builder, loop) : loop.range;
      builder.open_loop(loop.symbol, range, loop.name, {.vector = loop.lanes, .parallel = true});
    }
    scan(builder, order);
    for (std::size_t k = 0; k < order.loops.size(); ++k) builder.close_loop();
    verify(result_.program);
    return std::move(result_);
  }

  Order for_processor() const {
    Order order{outer_loops(), true, {}};
    if (const auto row = row_loop()) {
      std::erase_if(order.loops, [&](const LoopIndex& loop) { return loop.symbol == row->symbol; });
      order.loops.push_back(*row);
      order.loops.back().lanes = true;
      order.scan_in_lanes = false;
    }
    double most = 1;
    for (std::size_t k = 0; k < order.loops.size(); ++k) {
      const double pieces = assumed_extent(order.loops[k].range) / (order.loops[k].lanes ? kAssumedLanes : 1);
      if (!can_be_split(order.loops[k]) || pieces <= most) continue;
      most = pieces;
      order.split = k;
    }
    return order;
  }

  Order for_threads() const {
    Order order{outer_loops(), false, {}};
    const auto longest = std::ranges::max_element(
        order.loops, {}, [&](const LoopIndex& loop) { return can_be_split(loop) ? assumed_extent(loop.range) : 0; });
    if (longest == order.loops.end() || !can_be_split(*longest)) return order;
    std::rotate(order.loops.begin(), longest, longest + 1);
    order.loops.front().lanes = true;
    order.split = 0;
    return order;
  }

 private:
  std::vector<LoopIndex> outer_loops() const {
    std::vector<LoopIndex> loops = root_.locals;
    if (prefix_.block) loops.push_back(*prefix_.block);
    return loops;
  }

  /// Whether no other loop moves its range.
  bool can_be_split(const LoopIndex& loop) const {
    return has_fixed_extent(loop.range) || (prefix_.block && loop.symbol == prefix_.block->symbol);
  }

  /// The loop over the axis that lies fastest in memory, if it is another one than that of the scan and fills lanes.
  std::optional<LoopIndex> row_loop() const {
    if (root_.locals.empty()) return std::nullopt;
    const LoopIndex& last = root_.locals.back();
    const bool is_row = root_.subscripts.back() == Affine(last.symbol) && assumed_extent(last.range) >= kAssumedLanes;
    return is_row ? std::optional(last) : std::nullopt;
  }

  Range split(NestBuilder& builder, const LoopIndex& loop) {
    result_.tiles = SplitLoop{loop.range, argument::kTileLow, argument::kTileHigh, loop.lanes};
    const Range piece = Range::half_open(Symbol::dim(argument::kTileLow), Symbol::dim(argument::kTileHigh));
    builder.know_piece(piece, loop.range);
    return piece;
  }

  void scan(NestBuilder& builder, const Order& order) {
    const ValueType type = value_type(root_.definition.dtype);
    const bool in_lanes = std::ranges::any_of(order.loops, &LoopIndex::lanes);
    const std::string source = cite(root_.definition);
    const VarId running = builder.new_var(type, in_lanes);
    Work start{Work::Target::Var, running, {}, std::nullopt, type, builder.guarded(prefix_.start), {}, source};
    builder.build({std::move(start)});
    builder.open_loop(prefix_.position.symbol, prefix_.position.range, prefix_.position.name,
                      {.vector = order.scan_in_lanes, .comment = "each continues the one before it: " + source});
    Work element{
        Work::Target::Buffer, written_, root_.subscripts, std::nullopt, type, builder.guarded(root_.body), {}, source};
    element.running = Work::Running{running, prefix_.kind};
    builder.build({std::move(element)});
    builder.close_loop();
  }

  void declare() {
    LoopProgram& program = result_.program;
    program.name = kernel_name(kernel_.name);
    program.precision = fused_.program.precision;
    program.comments.push_back(definition_comment(root_.definition, fused_.program));
    std::set<std::string> read;
    for (const Expr& expr : {root_.body, prefix_.start}) {
      visit(expr, [&](const Expr& e) {
        if (e->kind == NodeKind::Access) read.insert(e->tensor);
      });
    }
    for (const std::string& name : read) read_[name] = add_buffer(name, false);
    written_ = add_buffer(root_.definition.name, true);
    program.arguments = kernel_arguments(fused_.program);
  }

  BufferId add_buffer(const std::string& tensor, bool written) {
    result_.program.buffers.push_back(declare_buffer(fused_, tensor));
    result_.program.buffers.back().written = written;
    result_.uses.push_back({tensor, written, std::nullopt, written ? cite(root_.definition) : ""});
    return static_cast<BufferId>(result_.uses.size() - 1);
  }

  const FusedProgram& fused_;
  const KernelRoot& root_;
  const PrefixLoops& prefix_;
  const Kernel& kernel_;
  LoweredKernel result_;
  std::map<std::string, BufferId> read_;
  BufferId written_ = 0;
};

}  // namespace

LoweredKernel lower_prefix(const FusedProgram& fused, const Kernel& kernel) {
  LoweredKernel lowered = PrefixLowering(fused, kernel).run(PrefixLowering(fused, kernel).for_processor());
  LoweredKernel threads = PrefixLowering(fused, kernel).run(PrefixLowering(fused, kernel).for_threads());
  if (threads.program != lowered.program)
    lowered.threads = LoweredKernel::ForThreads{std::move(threads.program), std::move(threads.tiles)};
  return lowered;
}

}  // namespace moxie
