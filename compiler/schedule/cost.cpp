#include "compiler/schedule/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/loop/lane_count.h"
#include "compiler/loop/operands.h"
#include "compiler/schedule/latency.h"
#include "compiler/schedule/loop_tree.h"
#include "compiler/schedule/operations.h"
#include "compiler/schedule/pieces.h"
#include "compiler/schedule/traffic.h"

namespace moxie {
namespace {

/// The share of the peak that a library reaches in products that a kernel could compute as well, on the scale on which
/// kernels are estimated: 64 x 256 x 256 took OpenBLAS 0.77 times as long as a kernel that was estimated at 0.89 of the
/// peak (AVX-512, one thread), and smaller products as long as the kernel.
constexpr double kShareOfPeak = 0.75;
/// Seconds of a library call besides its arithmetic: see product_form.cpp for what 16 x 16 x 16 takes.
constexpr double kProductCall = 1e-7;

std::array<double, kPorts> occupy_ports(const std::array<double, kOperationClasses>& operations,
                                        const Machine& machine) {
  std::array<double, kPorts> ports{};
  for (std::size_t k = 0; k < kOperationClasses; ++k) {
    const OperationCycles& cycles = machine.operations.at(k);
    ports.at(static_cast<std::size_t>(cycles.port)) += operations[k] * cycles.cycles;
    ports.at(static_cast<std::size_t>(Port::Issue)) += operations[k] * cycles.issue;
  }
  return ports;
}

/// A var that finds no register is loaded and stored in every iteration, between its own multiply-adds, and others are
/// moved about for it. A convolution of 64 channels, 8 x 28 x 28, with AVX-512: 4.9 ms with 16 sums at once, 6.5 with
/// 32; where a border is masked, 5.9 and 10. Two registers hold what is multiplied.
constexpr double kSpillsOfAVar = 4, kOperands = 2;

/// Adds up the operations of a kernel, weighted by the number of executions.
class OperationCounter {
 public:
  OperationCounter(const LoopTree& tree, const Machine& machine, const Operations& operations, Cost& cost)
      : tree_(tree),
        program_(tree.program()),
        machine_(machine),
        operations_(operations),
        cost_(cost),
        of_indices_(program_.values.size()) {}

  void run() {
    count(program_.body, tree_.calls());
    cost_.ports = occupy_ports(cost_.operations, machine_);
    cost_.index_ports = occupy_ports(index_operations_, machine_);
    cost_.spare_ports = occupy_ports(spare_operations_, machine_);
  }

 private:
  void add(OperationClass operation, double count) {
    cost_.operations.at(static_cast<std::size_t>(operation)) += count;
  }

  /// The most registers that a loop in the block needs.
  double count(const Block& block, double executions) {
    double most = 0;
    for (const Statement& statement : block) {
      const auto* let = std::get_if<stmt::Let>(&statement);
      const bool of_indices = let && is_of_indices(statement, *let);
      const double spare = of_indices ? 1 : let && !program_.values.at(let->id).varying ? 1 - 1.0 / tree_.lanes() : 0;
      for (const OperationCount& part : operations_.of(statement)) {
        const double executed = part.count * executions;
        add(part.operation, executed);
        if (of_indices) index_operations_.at(static_cast<std::size_t>(part.operation)) += executed;
        spare_operations_.at(static_cast<std::size_t>(part.operation)) += spare * executed;
      }
      const auto* loop = std::get_if<stmt::For>(&statement);
      if (!loop) continue;
      const CountedLoop& counted = tree_.loops()[tree_.index_of(*loop)];
      add(OperationClass::LoopEntry, counted.executions);
      add(OperationClass::Iteration, counted.body_executions());
      const double inside = count(loop->body, counted.body_executions());
      const double needed = registers_needed(loop->body);
      const double kept_in_loops = std::max(inside, machine_.registers);  // or spilled there
      const double vars = is_innermost(loop->body) ? registers_of_vars(loop->body) + kOperands : 0;
      const double spilled =
          std::max(0.0, needed - kept_in_loops) + kSpillsOfAVar * std::max(0.0, vars - machine_.registers);
      add(OperationClass::Spill, spilled * counted.body_executions());
      most = std::max({most, needed, inside});
    }
    cost_.live_registers = std::max(cost_.live_registers, most);
    return most;
  }

  static bool is_innermost(const Block& block) {
    return std::ranges::none_of(block, [](const Statement& s) { return std::holds_alternative<stmt::For>(s); });
  }

  /// Those of the vars that the block sets.
  double registers_of_vars(const Block& block) const {
    std::set<VarId> vars;
    for (const Statement& statement : block) {
      const auto* set = std::get_if<stmt::SetVar>(&statement);
      if (set && program_.vars.at(set->var).varying) vars.insert(set->var);
    }
    double sum = 0;
    for (const VarId var : vars) sum += registers_of(var);
    return sum;
  }

  /// Whether the statement computes its value from indices and constants alone.
  bool is_of_indices(const Statement& statement, const stmt::Let& let) {
    const Operation& operation = program_.values.at(let.id).operation;
    const bool combines = std::holds_alternative<op::Call>(operation) || std::holds_alternative<op::Convert>(operation);
    const auto is_known = [&](ValueId id) { return of_indices_[id] || is_constant(id); };
    of_indices_[let.id] = std::holds_alternative<op::Number>(operation) ||
                          (combines && std::ranges::all_of(operands(program_, statement), is_known));
    return of_indices_[let.id];
  }

  /// The statements in their order, those of inner loops among them.
  static void flatten(const Block& block, std::vector<const Statement*>& statements) {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement))
        flatten(loop->body, statements);
      else
        statements.push_back(&statement);
    }
  }

  /// Values from outside and vars stay in registers during the loop and the loops in it; values of its own from their
  /// definition to their last use.
  double registers_needed(const Block& block) const {
    std::vector<const Statement*> body;
    flatten(block, body);
    std::vector<bool> set_here(program_.vars.size());
    std::vector<Origin> origins(program_.values.size());
    std::vector<std::size_t> last_use(program_.values.size());
    double kept = 0;
    for (std::size_t k = 0; k < body.size(); ++k) {
      for (const ValueId id : operands(program_, *body[k])) {
        if (origins[id] == Origin::unknown && !is_constant(id)) {
          origins[id] = Origin::outside;
          kept += operations_.registers(id);
        }
        last_use[id] = k;
      }
      if (const auto* let = std::get_if<stmt::Let>(body[k])) origins[let->id] = Origin::computed;
      const auto* set = std::get_if<stmt::SetVar>(body[k]);
      if (!set || !program_.vars.at(set->var).varying || set_here[set->var]) continue;
      set_here[set->var] = true;
      kept += registers_of(set->var);
    }
    double live = 0, fullest = 0;
    for (std::size_t k = 0; k < body.size(); ++k) {
      if (const auto* let = std::get_if<stmt::Let>(body[k]); let && holds_register(let->id))
        live += operations_.registers(let->id);
      fullest = std::max(fullest, live);
      for (const ValueId id : operands(program_, *body[k])) {
        if (origins[id] != Origin::computed || last_use[id] != k || !holds_register(id)) continue;
        live -= operations_.registers(id);
        origins[id] = Origin::unknown;  // a statement may read it twice
      }
    }
    return kept + fullest;
  }

  /// Of a value that a block reads.
  enum class Origin : std::uint8_t { unknown, outside, computed };

  bool is_constant(ValueId id) const { return std::holds_alternative<op::Constant>(program_.values.at(id).operation); }
  /// A var's value is in the var's register, and a constant in memory.
  bool holds_register(ValueId id) const {
    return !is_constant(id) && !std::holds_alternative<op::ReadVar>(program_.values.at(id).operation);
  }
  double registers_of(VarId var) const {
    const double bits = program_.vars.at(var).type == ValueType::f64 ? 64 : 32;
    return std::ceil(tree_.lanes() * bits / machine_.vector_bits);
  }

  const LoopTree& tree_;
  const LoopProgram& program_;
  const Machine& machine_;
  const Operations& operations_;
  Cost& cost_;
  std::vector<bool> of_indices_;  // by value
  std::array<double, kOperationClasses> index_operations_{}, spare_operations_{};
};

/// Elements of the partial results of one chunk.
double partial_elements(const LoweredKernel& kernel, const LoopTree& tree) {
  double sum = 0;
  for (std::size_t b = 0; b < kernel.uses.size(); ++b) {
    if (!kernel.uses[b].partial) continue;
    double elements = 1;
    for (const Affine& extent : kernel.program.buffers.at(b).shape) elements *= std::max(0.0, tree.value(extent));
    sum += elements;  // the first axis of the buffer counts the chunks
  }
  return sum;
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

}  // namespace

Cost estimate(const LoweredKernel& kernel, const DimValues& dims, const Machine& machine) {
  Cost cost;
  cost.lanes =
      lane_count(kernel.program, static_cast<int>(machine.vector_bits), static_cast<int>(machine.registers_per_draw));
  const PieceCounts pieces = count_pieces(kernel, dims, cost.lanes);
  cost.pieces = pieces.tiles * pieces.chunks;
  const LoopTree tree(kernel, dims, pieces, cost.lanes);
  const Operations operations(tree, machine);
  OperationCounter(tree, machine, operations, cost).run();
  cost.longest_run = operations.longest_run();
  cost.traffic = count_traffic(tree, machine);
  const double cycle = 1e-9 / machine.gigahertz;
  const double cores = std::min(static_cast<double>(cost.pieces), machine.cores);
  cost.compute = *std::ranges::max_element(cost.ports) * cycle;
  cost.latency = count_latency(tree, machine, operations) * cycle;
  cost.launch = machine.launch_seconds + static_cast<double>(cost.pieces) * machine.piece_seconds;
  if (cores > 1) cost.launch += machine.wake_seconds;
  if (pieces.chunks > 1) cost.combine = partial_elements(kernel, tree) * machine.partial_cycles * cycle;
  double busiest = std::max(cost.compute, cost.latency) / cores;
  for (std::size_t k = 0; k < machine.levels.size(); ++k) {
    const CacheLevel& level = machine.levels[k];
    const double bytes = cost.traffic[k].bytes + (machine.scattered_factor - 1) * cost.traffic[k].scattered;
    cost.levels.push_back(bytes / level.bytes_per_cycle * cycle);
    busiest = std::max({busiest, cost.levels[k] / cores, bytes / level.shared_bytes_per_cycle * cycle});
  }
  cost.seconds = busiest + cost.combine + cost.launch;
  return cost;
}

Cost estimate(const MatrixProduct& product, const DimValues& dims, const Machine& machine) {
  const auto count = [&](const std::vector<Affine>& extents) {
    double all = 1;
    for (const Affine& extent : extents) all *= static_cast<double>(std::max<std::int64_t>(evaluate(extent, dims), 0));
    return all;
  };
  const double lanes = machine.vector_bits / (8 * static_cast<double>(bytes_of(product.definition.dtype)));
  const double batch = count(product.batch);
  const double vectors = batch * count(product.rows) * count(product.columns) * count(product.depth) / lanes;
  Cost cost;
  cost.lanes = static_cast<int>(lanes);
  cost.compute = vectors * machine.of(OperationClass::Arithmetic).cycles / kShareOfPeak * 1e-9 / machine.gigahertz;
  cost.launch = batch * kProductCall;
  cost.seconds = cost.compute + cost.launch;
  return cost;
}

double seconds_on(int cores, const Cost& cost, const Machine& machine) {
  const double shares = std::min(static_cast<double>(cores), static_cast<double>(cost.pieces));
  double busiest = std::max(cost.compute, cost.latency);
  for (const double level : cost.levels) busiest = std::max(busiest, level);
  return busiest / shares + cost.combine + machine.launch_seconds +
         static_cast<double>(cost.pieces) * machine.piece_seconds + (shares > 1 ? machine.wake_seconds : 0);
}

std::string describe(const Cost& cost, const Machine& machine) {
  const auto busiest = static_cast<Port>(std::ranges::max_element(cost.ports) - cost.ports.begin());
  std::string text =
      fmt::format("{}: compute {} ({})", seconds_text(cost.seconds), seconds_text(cost.compute), to_string(busiest));
  for (std::size_t k = 0; k < cost.levels.size(); ++k) {
    if (cost.levels[k] > 0) text += fmt::format(", {} {}", machine.levels.at(k).name, seconds_text(cost.levels[k]));
  }
  text += fmt::format(", latency {}", seconds_text(cost.latency));
  if (cost.combine > 0) text += fmt::format(", partial results {}", seconds_text(cost.combine));
  return text + fmt::format(", launch {}; {} lanes, {} pieces", seconds_text(cost.launch), cost.lanes, cost.pieces);
}

}  // namespace moxie
