#include "compiler/schedule/search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <span>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/lower_nest.h"
#include "compiler/schedule/quotients_of_loops.h"
#include "compiler/support/error.h"
#include "compiler/support/parallel.h"

namespace moxie {
namespace {

using StepKind = ScheduleStep::Kind;

/// Schedules whose register tiles are tried: the best without tiles.
constexpr std::size_t kBeamWidth = 3;
/// Seconds of a kernel, or of all steps of its scan, from which register tiles are tried. Those of shorter ones save a
/// twelfth of it (the median over the golden cases, of which they were three quarters of all time for schedules), and
/// take some 15 ms to be lowered: as much as a million launches save.
constexpr double kWorthTiles = 0.2e-6;
/// Loops of a nest that register tiles are tried for, from the innermost outwards.
constexpr std::size_t kTiledLoops = 3;
constexpr std::int64_t kTileFactors[] = {2, 4, 8};
/// Loops up to this long may be one tile; where what they share goes through a long sum, of which each would be a loop
/// otherwise, up to kLongestSumTile.
constexpr std::int64_t kLongestTile = 8, kLongestSumTile = 16;
/// Iterations that are worth splitting over threads: of a loop for each core, and of a reduction for each chunk.
constexpr double kPiecesPerCore = 4, kIterationsPerChunk = 4;
/// Loops that are tiled at once.
constexpr std::size_t kTiles = 2;

/// Of reductions that do not depend on the axis.
int reduction_depth(const Expr& expr, std::optional<Symbol> axis) {
  int depth = 0;
  for (const Expr& arg : expr->args) depth = std::max(depth, reduction_depth(arg, axis));
  return expr->kind == NodeKind::Reduce && !(axis && expr->depends_on(*axis)) ? depth + 1 : depth;
}

class Search {
 public:
  /// The schedules that begin with the steps of `splits`.
  Search(const FusedProgram& fused, const Definition& definition, Schedule splits, const DimValues& extents,
         const Machine& machine)
      : fused_(fused),
        splits_(std::move(splits)),
        plain_(apply(splits_, prepared(fused, plain_nest(std::span(&definition, 1))))),
        extents_(extents),
        machine_(machine) {}

  std::vector<Candidate> run() {
    try_all(schedules_without_tiles(), [&](const Schedule& schedule) { return Trials{trial_of(schedule)}; });
    for (std::size_t tiled = 0; tiled < kTiles; ++tiled) {
      sort();
      try_all(tiled_loops(beam(tiled)), [&](const TiledLoop& loop) { return tiles_of(loop); });
    }
    sort();
    for (auto& [schedule, kernel, cost] : tried_)
      schedule.steps.insert(schedule.steps.begin(), splits_.steps.begin(), splits_.steps.end());
    return std::move(tried_);
  }

 private:
  /// A schedule that was tried, and its kernel where its loops are legal.
  struct Trial {
    std::string text;
    std::optional<Candidate> candidate;
  };
  using Trials = std::vector<Trial>;

  /// A loop of a schedule that may be a register tile.
  struct TiledLoop {
    Schedule schedule;
    const NestLoop* loop;
  };

  const NestRoot& root() const { return plain_.roots.front(); }
  const std::vector<NestLoop>& loops() const { return root().loops; }

  /// How deep reductions are nested that do not depend on the loop: others lie inside its lanes and stay serial.
  int free_depth(const std::string& lanes) const {
    const auto loop = std::ranges::find(loops(), lanes, &NestLoop::name);
    const auto axis = loop == loops().end() ? std::nullopt : std::optional(Symbol::axis(loop->axis));
    return reduction_depth(root().definition.body, axis);
  }

  /// Times the busiest port's share of arithmetic, or of a level's traffic, from which tiles are tried.
  static constexpr double kWorthATile = 1.1;

  /// Times the arithmetic without what depends on indices alone, such as masks, from which tiles are tried that share
  /// it. The gradient of a convolution in three dimensions, at 2.6 times, takes two thirds of the time in tiles; causal
  /// attention, at 1.5 times, takes as long as without, and twice as long to compile.
  static constexpr double kWorthSharedMasks = 2;

  /// Tiles save loads, loop overhead, waiting and masks; no other arithmetic, and no traffic between caches that lanes
  /// cause.
  static bool gains_by_tiles(const Cost& cost) {
    const auto cycles_of = [&](Port port) { return cost.ports.at(static_cast<std::size_t>(port)); };
    const double busiest = std::ranges::max(cost.ports);
    const double arithmetic = std::max(cycles_of(Port::Arithmetic), cycles_of(Port::Divider));
    const double masks = cost.index_ports.at(static_cast<std::size_t>(Port::Arithmetic));
    const bool has_masks = cycles_of(Port::Arithmetic) > kWorthSharedMasks * (cycles_of(Port::Arithmetic) - masks);
    return cost.latency > cost.compute || busiest > kWorthATile * arithmetic || has_masks;
  }

  /// The objective of a kernel in one piece for each core that waits for nothing but its arithmetic: tiles save no
  /// more.
  double least_in_tiles(const Cost& cost) const {
    const auto cycles_of = [&](Port port) {
      const auto k = static_cast<std::size_t>(port);
      return cost.ports.at(k) - cost.index_ports.at(k);
    };
    const double cycles = std::max(cycles_of(Port::Arithmetic), cycles_of(Port::Divider));
    const double arithmetic = cycles * 1e-9 / machine_.gigahertz;
    const double cores = std::min(static_cast<double>(cost.pieces), machine_.cores);
    return machine_.launch_seconds + arithmetic / cores + arithmetic / machine_.cores;
  }

  /// A first tile saves traffic, too, where elements read what their neighbours read: a second one saves none of what
  /// then stays in the innermost cache (heat in three dimensions, 60 x 60 x 60 in f32: 1.9 ms with one, 3 with two).
  bool saves_traffic(const Cost& cost) const {
    return !cost.levels.empty() && std::ranges::max(cost.levels) > kWorthATile * cost.compute && reads_neighbours();
  }

  /// Whether one tensor is read at several places, as by a stencil.
  bool reads_neighbours() const {
    std::set<std::string> read;
    bool again = false;
    visit(root().definition.body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access) again |= !read.insert(e->tensor).second;
    });
    return again;
  }

  /// In one run of the program.
  double launches() const {
    const Definition& definition = root().definition;
    return definition.scan ? value_of(definition.axes.front().extent) : 1;
  }

  /// The cheapest candidates that register tiles can improve. Schedules with equal kernels count once: lanes of a sum
  /// inside of a vector loop change nothing.
  std::vector<Schedule> beam(std::size_t tiled) const {
    std::vector<const Candidate*> cheapest;
    for (const Candidate& candidate : tried_) {
      const bool is_short = launches() * objective(candidate.cost, machine_) < kWorthTiles;
      if (is_short || cheapest.size() == kBeamWidth) break;
      const auto is_same = [&](const Candidate* other) {
        return other->cost == candidate.cost && other->kernel.program == candidate.kernel.program;
      };
      if (std::ranges::none_of(cheapest, is_same)) cheapest.push_back(&candidate);
    }
    std::vector<Schedule> schedules;
    for (const Candidate* candidate : cheapest) {
      const bool gains = gains_by_tiles(candidate->cost) || (tiled == 0 && saves_traffic(candidate->cost));
      const bool may_win = least_in_tiles(candidate->cost) < objective(cheapest.front()->cost, machine_);
      if ((gains && may_win) || shares_over_axis()) schedules.push_back(candidate->schedule);
    }
    return schedules;
  }

  /// Whether the elements along a short axis share what a long sum goes through.
  bool shares_over_axis() const {
    return sums_long() && std::ranges::any_of(root().definition.axes, [](const AxisDecl& axis) {
             const auto extent = known_extent(axis.range);
             return extent && *extent > 1 && *extent <= kLongestSumTile;
           });
  }

  std::vector<std::string> lane_loops() const {
    std::vector<std::string> names = {""};
    for (const NestLoop& loop : loops()) names.push_back(loop.name);
    return names;
  }

  double extent_of(const NestLoop& loop) const {
    const auto iterations = iterations_between_dims(root().definition.axes[loop.axis].range);
    return iterations ? value_of(*iterations) : 0;
  }

  /// 0 where it depends on more than dims.
  double value_of(const Affine& extent) const {
    double value = static_cast<double>(extent.constant());
    for (const auto& [symbol, coefficient] : extent.terms()) {
      if (!symbol.is_dim()) return 0;
      value += static_cast<double>(coefficient * extents_.at(symbol.name()));
    }
    return value;
  }

  static std::string reduction_name(int depth) {
    std::string name = "sum";
    for (int k = 1; k < depth; ++k) name += ".sum";
    return name;
  }

  double iterations_of(const NestLoop& loop, const std::string& lanes) const {
    return extent_of(loop) / (loop.name == lanes ? machine_.vector_bits / 32 : 1);
  }

  /// Whether no loop has enough iterations to split it over threads.
  bool needs_chunks(const std::string& lanes) const {
    return root().definition.body->kind == NodeKind::Reduce && std::ranges::all_of(loops(), [&](const NestLoop& loop) {
             return iterations_of(loop, lanes) < kPiecesPerCore * machine_.cores;
           });
  }

  std::vector<Schedule> schedules_without_tiles() const {
    std::vector<Schedule> schedules;
    for (const std::string& lanes : lane_loops()) {
      const int depth = free_depth(lanes);
      for (int k = 0; k <= depth; ++k) {
        schedules.push_back(without_tiles(lanes, k));
        if (needs_chunks(lanes)) schedules.push_back(in_chunks(lanes, k));
      }
    }
    return schedules;
  }

  /// `lanes` innermost, or reductions at a depth in lanes, or both; the outermost loop that has enough iterations for
  /// all cores is split over threads.
  Schedule without_tiles(const std::string& lanes, int depth) const {
    Schedule schedule;
    std::vector<std::string> order;
    for (const NestLoop& loop : loops()) order.push_back(loop.name);
    if (!lanes.empty()) {
      std::erase(order, lanes);
      order.push_back(lanes);
      if (order.size() > 1) schedule.steps.push_back({StepKind::Reorder, order});
      schedule.steps.push_back({StepKind::Lanes, {lanes}});
    }
    if (depth > 0) schedule.steps.push_back({StepKind::Lanes, {reduction_name(depth)}});
    if (const auto split = parallel_loop(lanes)) schedule.steps.push_back({StepKind::Parallel, {*split}});
    return schedule;
  }

  /// The same with a reduction split over threads in the place of a loop: the outermost one with enough iterations.
  Schedule in_chunks(const std::string& lanes, int depth) const {
    Schedule schedule = without_tiles(lanes, depth);
    std::erase_if(schedule.steps, [](const ScheduleStep& step) { return step.kind == StepKind::Parallel; });
    int split = 1;
    const Expr* inner = &root().definition.body;
    for (int k = 1; (*inner)->kind == NodeKind::Reduce; ++k, inner = &(*inner)->args[0]) {
      const auto iterations = iterations_between_dims((*inner)->range);
      if (!iterations) break;
      split = k;
      if (value_of(*iterations) >= kIterationsPerChunk * kMostChunks) break;
    }
    schedule.steps.push_back({StepKind::Rfactor, {reduction_name(split)}, kMostChunks});
    return schedule;
  }

  /// The one with the most iterations; outer ones first, once there are several for each core.
  std::optional<std::string> parallel_loop(const std::string& lanes) const {
    std::optional<std::string> chosen;
    double most = 0;
    for (const NestLoop& loop : loops()) {
      const double useful = std::min(iterations_of(loop, lanes), kPiecesPerCore * machine_.cores);
      if (useful <= most) continue;
      most = useful;
      chosen = loop.name;
    }
    return chosen;
  }

  /// One more loop of each schedule.
  std::vector<TiledLoop> tiled_loops(const std::vector<Schedule>& schedules) const {
    std::vector<TiledLoop> result;
    for (const Schedule& schedule : schedules) {
      const auto names_loop = [&](StepKind kind, const std::string& name) {
        return std::ranges::any_of(
            schedule.steps, [&](const ScheduleStep& step) { return step.kind == kind && step.loops.front() == name; });
      };
      std::size_t tiled = 0;
      for (auto loop = loops().rbegin(); loop != loops().rend() && tiled < kTiledLoops; ++loop) {
        if (names_loop(StepKind::Lanes, loop->name) || names_loop(StepKind::Unroll, loop->name)) continue;
        result.push_back({schedule, &*loop});
        ++tiled;
      }
    }
    return result;
  }

  /// Tiles of 2, 4 and 8 are tried in this order until one costs clearly more than the one before it. A tile of 2 may
  /// cost 1 % more than no tile where a tile of 4 saves 20 %. With a factor of 1.02, 104 of 106 formulas
  /// (benchmarks/peers and the suite) keep the schedules that a factor of 1.1 finds in 1.3 times the time.
  Trials tiles_of(const TiledLoop& tiled) const {
    constexpr double kClearly = 1.02;
    Trials trials;
    const auto cost_of_tile = [&](std::int64_t factor) {
      Schedule more = tiled.schedule;
      more.steps.insert(more.steps.begin(), {StepKind::Unroll, {tiled.loop->name}, factor});
      if (const auto seen = seen_.find(print(more)); seen != seen_.end()) return seen->second;
      trials.push_back(trial_of(more));
      return cost_of(trials.back());
    };
    std::optional<double> smaller = seen_.at(print(tiled.schedule));
    std::int64_t longest = 0;
    for (const std::int64_t factor : tile_factors(*tiled.loop)) {
      const std::optional<double> cost = cost_of_tile(factor);
      longest = factor;
      if (cost && smaller && *cost > kClearly * *smaller) break;
      smaller = cost;
    }
    const bool is_long_enough = extent_of(*tiled.loop) >= 2 * static_cast<double>(longest);
    if (is_long_enough && !trials.empty() && trials.back().candidate &&
        may_lengthen_runs(trials.back().candidate->cost, longest))
      cost_of_tile(2 * longest);
    return trials;
  }

  /// Whether a tile of this length has lane runs as long as the tile and shorter than a cache line: the rest of the
  /// line may be evicted before the next tile reads it.
  bool may_lengthen_runs(const Cost& cost, std::int64_t tile) const {
    const bool is_whole_tile = static_cast<std::int64_t>(cost.longest_run) == std::min<std::int64_t>(tile, cost.lanes);
    return is_whole_tile && static_cast<double>(2 * tile * bytes_of(root().definition.dtype)) <= machine_.line_bytes;
  }

  bool sums_long() const {
    const Expr& body = root().definition.body;
    return body->kind == NodeKind::Reduce && is_long(body->range);
  }

  /// Of a short loop those that leave no iterations over, which would compute once more what all of them share.
  std::vector<std::int64_t> tile_factors(const NestLoop& loop) const {
    std::vector<std::int64_t> factors(std::begin(kTileFactors), std::end(kTileFactors));
    const auto extent = known_extent(root().definition.axes[loop.axis].range);
    if (!extent || *extent < 2 || *extent > (sums_long() ? kLongestSumTile : kLongestTile)) return factors;
    std::erase_if(factors, [&](std::int64_t factor) { return *extent % factor != 0; });
    if (factors.empty() || factors.back() != *extent) factors.push_back(*extent);
    return factors;
  }

  /// What is not legal here is no candidate.
  Trial trial_of(const Schedule& schedule) const {
    Trial trial{print(schedule), {}};
    try {
      LoweredKernel kernel = lower(fused_, apply(schedule, plain_));
      Cost cost = estimate(kernel, extents_, machine_);
      trial.candidate = {schedule, std::move(kernel), std::move(cost)};
    } catch (const CompileError&) {
    }
    return trial;
  }

  std::optional<double> cost_of(const Trial& trial) const {
    return trial.candidate ? std::optional(objective(trial.candidate->cost, machine_)) : std::nullopt;
  }

  /// The trials of all pieces of work, on several threads, and in their order.
  template <class Piece, class Try>
  void try_all(const std::vector<Piece>& pieces, const Try& trials_of) {
    std::vector<Trials> trials(pieces.size());
    in_parallel(pieces.size(), [&](std::size_t k) { trials[k] = trials_of(pieces[k]); });
    for (Trial& trial : std::views::join(trials)) {
      const bool is_new = seen_.try_emplace(trial.text, cost_of(trial)).second;
      if (is_new && trial.candidate) tried_.push_back(std::move(*trial.candidate));
    }
  }

  /// The cheapest first. Ties, which are common where memory limits the time, go to candidates without lane runs, then
  /// to the one with the least other work: tests/schedule/kernels/transpose.mox took 0.27 ms with stores of 16 bytes,
  /// 0.11 with stores of whole lines, 0.077 with loads of whole lines (AVX2, MOXIE_SCHEDULE="y: ..").
  void sort() {
    std::ranges::stable_sort(tried_, {}, [&](const Candidate& candidate) {
      const Cost& cost = candidate.cost;
      const double cycles = std::reduce(cost.ports.begin(), cost.ports.end());
      const double moving = std::reduce(cost.levels.begin(), cost.levels.end());
      const double besides = cost.longest_run == 0 ? 0 : cycles * 1e-9 / machine_.gigahertz + moving;
      return std::pair(objective(cost, machine_), besides);
    });
  }

  const FusedProgram& fused_;
  const Schedule splits_;
  const Nest plain_;
  const DimValues& extents_;
  const Machine& machine_;
  std::map<std::string, std::optional<double>> seen_;  // schedules that were tried, and what they cost
  std::vector<Candidate> tried_;
};

/// Loops in which quotients of axes cost nothing.
Schedule splits_for_quotients(const Definition& definition) {
  Schedule splits;
  const Nest nest = plain_nest(std::span(&definition, 1));
  const auto divisors = divisors_of_axes(definition);
  for (const NestLoop& loop : nest.roots.front().loops) {
    if (const auto divisor = divisors.find(loop.axis); divisor != divisors.end())
      splits.steps.push_back({StepKind::Split, {loop.name}, divisor->second});
  }
  return splits;
}

}  // namespace

/// The share of the time of the other cache levels that the slowest does not hide. Of two plans of a stencil in 128^3
/// points that need L3 alike, the one that needs L2 twice as long takes 3.1 ms for 1.3; a whole share made the sums of
/// a mixture of Gaussians and a selective scan slower by a third.
constexpr double kHiddenLevels = 0.1;

double objective(const Cost& cost, const Machine& machine) {
  const double most = cost.levels.empty() ? 0 : std::ranges::max(cost.levels);
  const double all = std::accumulate(cost.levels.begin(), cost.levels.end(), 0.0);
  const double moving = most + kHiddenLevels * (all - most);
  const double fastest = std::min(cost.seconds, seconds_on(1, cost, machine));
  return fastest + (std::max(cost.compute, cost.latency) + moving) / machine.cores;
}

Candidate candidate(const FusedProgram& fused, const Definition& definition, const Schedule& schedule,
                    const DimValues& extents, const Machine& machine) {
  Candidate result = candidate(fused, apply(schedule, plain_nest(std::span(&definition, 1))), extents, machine);
  result.schedule = schedule;
  return result;
}

Candidate candidate(const FusedProgram& fused, const Nest& nest, const DimValues& extents, const Machine& machine) {
  LoweredKernel kernel = lower(fused, nest);
  Cost cost = estimate(kernel, extents, machine);
  return {{}, std::move(kernel), std::move(cost)};
}

std::vector<Candidate> search(const FusedProgram& fused, const Definition& definition, const DimValues& extents,
                              const Machine& machine) {
  std::vector<Candidate> candidates = Search(fused, definition, {}, extents, machine).run();
  const Schedule splits = splits_for_quotients(definition);
  if (splits.steps.empty()) return candidates;
  std::ranges::move(Search(fused, definition, splits, extents, machine).run(), std::back_inserter(candidates));
  std::ranges::stable_sort(candidates, {}, [&](const Candidate& tried) { return objective(tried.cost, machine); });
  return candidates;
}

}  // namespace moxie
