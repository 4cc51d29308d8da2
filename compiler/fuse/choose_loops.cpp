#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "compiler/analysis/value_range.h"
#include "compiler/expression/reductions.h"
#include "compiler/fuse/fuse.h"
#include "compiler/fuse/matrix_product.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/scatter.h"

namespace moxie {
namespace {

/// Loading or storing one lane at a time, against half an operation for a whole vector: two loads a cycle, two
/// operations a cycle, and cache lines of which one element is used, and kernels that cannot join because their lanes
/// lie across each other.
constexpr double kGatherCost = 8 * kAssumedLanes;
constexpr double kLoadCost = 0.5;

enum class Stride { Fixed, Unit, Far };

Stride stride_in(const Expr& access, Symbol index) {
  Stride stride = Stride::Fixed;
  for (std::size_t axis = 0; axis < access->subscripts.size(); ++axis) {
    const std::int64_t coefficient = access->subscripts[axis].coefficient(index);
    if (coefficient == 0) continue;
    stride = axis + 1 == access->subscripts.size() && coefficient == 1 && stride == Stride::Fixed ? Stride::Unit
                                                                                                  : Stride::Far;
  }
  const bool by_value = std::ranges::any_of(access->args, [&](const Expr& value) { return value->depends_on(index); });
  return by_value ? Stride::Far : stride;
}

/// Votes of consumers: the cost of reading a tensor when an axis other than this one is the fastest.
using Votes = std::map<std::string, std::map<std::size_t, double>>;

/// Vector operations of one definition when `vector` runs over lanes; infinite where an inner range would differ
/// between lanes.
class Estimator {
 public:
  Estimator(const Program& program, const std::set<std::string>& row_major, Symbol vector, double rounds)
      : program_(program), row_major_(row_major), vector_(vector), rounds_(rounds) {}

  double operations(const Expr& expr, const Scope& scope) {
    if (!done_.insert(expr.get()).second) return 0;
    if (expr->kind == NodeKind::Reduce) return reduction(expr, scope);
    if (expr->kind == NodeKind::LinearAlgebra) return linear_algebra(expr, scope);
    const double times = times_evaluated(expr, scope);
    if (expr->kind == NodeKind::Access) note_reading(expr, times);
    double total = own_cost(expr) * times;
    for (const Expr& arg : expr->args) total += operations(arg, scope);
    return total;
  }
  Votes votes;

 private:
  double reduction(const Expr& expr, const Scope& scope) {
    const OpenedReduce opened = open(expr);
    if (mentions(opened.range, vector_)) return HUGE_VAL;
    kept_.insert(kept_.end(), {opened.body, opened.position});  // their nodes must outlive done_
    const Scope inner = scope.with(opened.index, opened.range);
    const double position = opened.position ? operations(opened.position, inner) : 0;
    const double total = operations(opened.body, inner) + position + times_evaluated(opened.body, inner);
    return differs_by_values(expr) ? total * kAssumedLanes : total;
  }

  /// Whether it is over a range by data that differs between lanes: each lane is computed by itself then.
  bool differs_by_values(const Expr& expr) const {
    const auto ranged = has_integers(program_) ? ranged_reduce(program_, expr) : std::nullopt;
    return ranged &&
           std::ranges::any_of(ranged->range.bounds, [&](const Expr& bound) { return bound->depends_on(vector_); });
  }

  double linear_algebra(const Expr& expr, const Scope& scope) {
    const OpenedLinearAlgebra opened = open_algebra(expr);
    const Range rows = Range::extent(expr->size.rows), columns = Range::extent(expr->size.columns);
    kept_.insert(kept_.end(), {opened.matrix, opened.rhs});
    double total = operations(opened.matrix, scope.with(opened.row, rows).with(opened.col, columns));
    if (opened.rhs) total += operations(opened.rhs, scope.with(opened.row, rows));
    return total;
  }

  /// Whether the axis that the vector index moves may be the fastest in memory. The steps of a scan never are: each
  /// would write one element of every cache line, and read one of the step before.
  bool may_be_unit(const Expr& access) const {
    const Definition* definition = program_.find_definition(access->tensor);
    if (!definition || definition->output || row_major_.contains(access->tensor)) return false;
    return !definition->scan || !access->subscripts[0].mentions(vector_);
  }

  void note_reading(const Expr& access, double times) {
    if (!may_be_unit(access)) return;
    for (std::size_t axis = 0; axis < access->subscripts.size(); ++axis) {
      if (access->subscripts[axis].mentions(vector_)) votes[access->tensor][axis] += times * kGatherCost;
    }
  }

  double own_cost(const Expr& expr) const {
    if (expr->kind == NodeKind::Call) return operation_cost(expr);
    if (expr->kind == NodeKind::Random) return kRandomCost;
    if (expr->kind != NodeKind::Access) return 0;
    return stride_in(expr, vector_) == Stride::Far && !may_be_unit(expr) ? kGatherCost : kLoadCost;
  }

  double times_evaluated(const Expr& expr, const Scope& scope) const {
    double times = expr->depends_on(vector_) ? rounds_ : 1;
    for (const Symbol symbol : open_symbols_of(expr, scope)) {
      if (symbol != vector_) times *= assumed_extent(*scope.find(symbol));
    }
    return times;
  }

  const Program& program_;
  const std::set<std::string>& row_major_;
  Symbol vector_;
  double rounds_;
  std::set<const Node*> done_;
  std::vector<Expr> kept_;
};

struct Candidate {
  int which;
  Symbol symbol;
  Range range;
  bool may_be_sample = false;  // if another one is the vector loop
};

/// Sums that are kept while the reduced loop runs need scratch of a known, moderate size.
bool keeps_known_sums(const Definition& definition) {
  constexpr double kMostSums = 1 << 18;
  double sums = 1;
  for (std::size_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) {
    const Affine& extent = definition.axes[k].extent;
    if (!extent.is_constant()) return false;
    sums *= static_cast<double>(extent.constant());
  }
  return sums <= kMostSums;
}

/// One definition opened for choosing: what may become a loop, and what is computed inside.
struct OpenedDefinition {
  Scope scope;
  std::vector<Candidate> candidates;
  Expr body, element;
  bool algebra = false;
  bool sums_pairs =
      false;  // gathers part of a triangle, with the definitions of whose elements it is to share a kernel
};

bool sums_moved_range(const Expr& body) {
  bool found = false;
  visit(body, [&](const Expr& e) { found |= e->kind == NodeKind::Reduce && !has_fixed_extent(e->range); });
  return found;
}

/// A sum over a range by data is no loop of a kernel: its rounds differ from element to element.
OpenedDefinition open_definition(const Program& program, const Definition& definition) {
  OpenedDefinition opened{
      Scope::of(definition), {}, definition.body, {}, definition.body->kind == NodeKind::LinearAlgebra};
  std::vector<Affine> element;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    // A matrix is factored as a whole: its own axes are no candidates.
    const bool own = opened.algebra && std::ranges::any_of(definition.body->subscripts, [&](const Affine& s) {
                       return s.mentions(Symbol::axis(k));
                     });
    const bool steps = definition.scan && k == 0;  // fixed in every call
    if (!own && !steps) opened.candidates.push_back({static_cast<int>(k), Symbol::axis(k), definition.axes[k].range});
    element.emplace_back(Symbol::axis(k));
  }
  opened.element = tensor_access(definition.name, element);
  // Integers are rounded once, when all is summed.
  const bool combines = opened.body->kind == NodeKind::Reduce && !extremum_of(opened.body->reduce) &&
                        is_stored_as_computed(definition.dtype);
  if (combines && !(has_integers(program) && ranged_reduce(program, opened.body)) &&
      is_over_samples(opened.body, opened.scope) && keeps_known_sums(definition)) {
    const OpenedReduce reduce = open(opened.body);
    opened.scope = opened.scope.with(reduce.index, reduce.range);
    opened.body = reduce.body;
    opened.sums_pairs = sums_moved_range(reduce.body);
    opened.candidates.push_back({LoopChoice::kReduced, reduce.index, reduce.range});
  }
  std::erase_if(opened.candidates, [&](const Candidate& candidate) {
    const bool moves_another = std::ranges::any_of(
        opened.scope.open, [&](const auto& entry) { return mentions(entry.second, candidate.symbol); });
    return !has_fixed_extent(candidate.range) || (moves_another && candidate.which != LoopChoice::kReduced);
  });
  return opened;
}

double vote_against(const Votes& votes, const Definition& definition, int axis) {
  const auto found = votes.find(definition.name);
  if (found == votes.end()) return 0;
  double total = 0;
  for (const auto& [wanted, weight] : found->second) total += static_cast<int>(wanted) == axis ? 0 : weight;
  return total;
}

void add_votes(Votes& votes, const Votes& more) {
  for (const auto& [tensor, axes] : more) {
    for (const auto& [axis, weight] : axes) votes[tensor][axis] += weight;
  }
}

/// The vector axis, unless reads along another would cost more than storing along that one.
int fastest_axis(const Votes& votes, const Definition& definition, int vector) {
  const auto found = votes.find(definition.name);
  if (vector < 0 || found == votes.end() || found->second.empty()) return vector;
  const auto wanted = std::ranges::max_element(found->second, {}, [](const auto& vote) { return vote.second; });
  const auto axis = static_cast<int>(wanted->first);
  if (axis == vector || !has_fixed_extent(definition.axes[wanted->first].range)) return vector;
  const double storing = kGatherCost * assumed_size(definition.axes) / kAssumedLanes;
  return vote_against(votes, definition, vector) > vote_against(votes, definition, axis) + storing ? axis : vector;
}

/// What every candidate for the vector loop would cost.
struct Costs {
  OpenedDefinition opened;
  std::vector<double> operations;  // per candidate
  std::vector<Votes> votes;

  std::size_t cheapest() const {
    return static_cast<std::size_t>(std::ranges::min_element(operations) - operations.begin());
  }
  /// The candidate that runs over `range`, if there is exactly one.
  std::optional<std::size_t> over(const Range& range) const {
    std::optional<std::size_t> found;
    for (std::size_t k = 0; k < opened.candidates.size(); ++k) {
      if (opened.candidates[k].range != range) continue;
      if (found) return std::nullopt;
      found = k;
    }
    return found;
  }
};

/// Whether some loop can be the vector loop.
bool is_possible(const Costs& costs) {
  return !costs.operations.empty() && costs.operations[costs.cheapest()] < HUGE_VAL;
}

Costs estimate(const Program& program, const std::set<std::string>& row_major, const Definition& definition,
               const Votes& votes) {
  Costs costs{open_definition(program, definition), {}, {}};
  const bool fixed = definition.output || row_major.contains(definition.name);
  for (const Candidate& candidate : costs.opened.candidates) {
    Estimator estimator(program, row_major, candidate.symbol,
                        std::ceil(assumed_extent(candidate.range) / kAssumedLanes));
    double operations = estimator.operations(costs.opened.body, costs.opened.scope);
    if (!fixed)
      operations += vote_against(votes, definition, candidate.which);
    else
      operations += estimator.operations(costs.opened.element, costs.opened.scope);
    costs.operations.push_back(operations);
    costs.votes.push_back(std::move(estimator.votes));
  }
  return costs;
}

/// The sample loop that goes with candidate `vector`: the reduced index if there is one, else the longest axis.
int sample_loop(const OpenedDefinition& opened, std::size_t vector) {
  int sample = LoopChoice::kNone;
  double longest = 0;
  for (std::size_t k = 0; k < opened.candidates.size(); ++k) {
    const Candidate& candidate = opened.candidates[k];
    if (k == vector || opened.algebra || !candidate.may_be_sample) continue;
    const double extent = candidate.which == LoopChoice::kReduced ? HUGE_VAL : assumed_extent(candidate.range);
    if (extent > longest) {
      longest = extent;
      sample = candidate.which;
    }
  }
  return sample;
}

const Range* range_of(const OpenedDefinition& opened, int which) {
  const auto it = std::ranges::find(opened.candidates, which, &Candidate::which);
  return it == opened.candidates.end() ? nullptr : &it->range;
}

/// Definitions over the same two loops share a kernel only if they agree on which of them is the vector loop: the pair
/// decides together.
class PairOrientation {
 public:
  PairOrientation(const std::map<std::string, Costs>& costs) {  // NOLINT
    for (const auto& [name, cost] : costs) {
      if (const auto pair = pair_of(cost)) add(cost, *pair);
    }
  }

  std::size_t vector_of(const Costs& cost) const {
    if (const auto pair = pair_of(cost)) {
      for (const Total& total : totals_) {
        if (!(total.a == pair->first && total.b == pair->second) &&
            !(total.a == pair->second && total.b == pair->first))
          continue;
        const auto wanted = cost.over(total.prefers_a() ? total.a : total.b);
        if (wanted && cost.operations[*wanted] < HUGE_VAL) return *wanted;
      }
    }
    return cost.cheapest();
  }

 private:
  struct Total {
    Range a, b;
    double operations_a = 0, operations_b = 0;
    bool a_is_summed = false, b_is_summed = false;  // by some definition
    bool prefers_a() const { return a_is_summed != b_is_summed ? b_is_summed : operations_a <= operations_b; }
  };

  /// Vector and sample range, with the cheapest vector loop that leaves a sample loop. Sums of pairs may do without.
  static std::optional<std::pair<Range, Range>> pair_of(const Costs& cost) {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < cost.opened.candidates.size(); ++k) {
      if (sample_loop(cost.opened, k) == LoopChoice::kNone && !cost.opened.sums_pairs) continue;
      if (!best || cost.operations[k] < cost.operations[*best]) best = k;
    }
    if (!best || sample_loop(cost.opened, *best) == LoopChoice::kNone) return std::nullopt;
    return std::pair(cost.opened.candidates[*best].range, *range_of(cost.opened, sample_loop(cost.opened, *best)));
  }

  void add(const Costs& cost, const std::pair<Range, Range>& pair) {
    auto total = std::ranges::find_if(totals_, [&](const Total& t) {
      return (t.a == pair.first && t.b == pair.second) || (t.a == pair.second && t.b == pair.first);
    });
    if (total == totals_.end()) total = totals_.insert(totals_.end(), Total{pair.first, pair.second});
    const auto a = cost.over(total->a);
    const auto b = cost.over(total->b);
    if (!a || !b) return;
    // A sum runs best along the sample loop, in registers, with an element of its own per lane.
    total->a_is_summed |= cost.opened.candidates[*a].which == LoopChoice::kReduced;
    total->b_is_summed |= cost.opened.candidates[*b].which == LoopChoice::kReduced;
    // A definition that knows one orientation only does not decide for the others.
    if (cost.operations[*a] == HUGE_VAL || cost.operations[*b] == HUGE_VAL) return;
    total->operations_a += cost.operations[*a];
    total->operations_b += cost.operations[*b];
  }

  std::vector<Total> totals_;
};

/// The sample loop along the longest target, and lanes along the last axis that is none and settles none: all lanes add
/// to the same rows. Rather along one whose lanes have sums in common.
LoopChoice loops_of_scatter(const Definition& definition, const Scatter& sum) {
  LoopChoice choice;
  double longest = 0;
  bool has_common_sums = false;
  for (std::size_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) {
    const Range& range = definition.axes[k].range;
    const Symbol axis = Symbol::axis(static_cast<std::uint32_t>(k));
    const bool is_target = sum.goes_along(axis);
    if (is_target && assumed_extent(range) > longest) {
      longest = assumed_extent(range);
      choice.sample = static_cast<int>(k);
    }
    const auto depends = [&](const Expr& value) { return value->depends_on(axis); };
    const bool settles =
        std::ranges::any_of(sum.values, depends) || std::ranges::any_of(sum.ranges, [&](const auto& range_of_loop) {
          return std::ranges::any_of(range_of_loop.second.bounds, depends);
        });
    if (is_target || settles || !has_fixed_extent(range)) continue;
    const bool in_common = assumed_extent(range) >= kAssumedLanes && sum.has_common_sums(axis);
    if (in_common || !has_common_sums) choice.vector = choice.fastest = static_cast<int>(k);
    has_common_sums = has_common_sums || in_common;
  }
  return choice;
}

/// Samples are what sums are over, and long axes.
void find_samples(std::map<std::string, Costs>& costs) {
  std::vector<Range> summed;
  const auto is_summed = [&](const Range& range) { return std::ranges::find(summed, range) != summed.end(); };
  for (const auto& [name, cost] : costs) {
    for (const Candidate& candidate : cost.opened.candidates) {
      if (candidate.which == LoopChoice::kReduced && !is_summed(candidate.range)) summed.push_back(candidate.range);
    }
  }
  for (auto& [name, cost] : costs) {
    for (Candidate& candidate : cost.opened.candidates)
      candidate.may_be_sample = is_long(candidate.range) || is_summed(candidate.range);
  }
}

}  // namespace

std::map<std::string, LoopChoice> choose_loops(const Program& program, const ProductTensors& fixed) {
  std::map<std::string, Costs> costs;
  std::map<std::string, LoopChoice> scatters;
  Votes votes;
  for (auto it = program.definitions.rbegin(); it != program.definitions.rend(); ++it) {
    if (const auto sum = scatter_of(program, *it)) scatters.emplace(it->name, loops_of_scatter(*it, *sum));
    if (fixed.results.contains(it->name) || scatters.contains(it->name)) {
      costs.emplace(it->name, Costs{});
      continue;
    }
    Costs cost = estimate(program, fixed.row_major, *it, votes);
    if (!cost.operations.empty()) {
      add_votes(votes, cost.votes[cost.cheapest()]);
    }
    costs.emplace(it->name, std::move(cost));
  }
  find_samples(costs);
  // Once all have chosen, tensors lie as they are read then, which need not be as each definition alone would read
  // them.
  const PairOrientation orientation(costs);
  Votes final_votes;
  for (const auto& [name, cost] : costs) {
    if (is_possible(cost)) add_votes(final_votes, cost.votes[orientation.vector_of(cost)]);
  }
  std::map<std::string, LoopChoice> choices = std::move(scatters);
  for (const auto& [name, cost] : costs) {
    if (!is_possible(cost)) {
      choices.try_emplace(name);
      continue;
    }
    const std::size_t vector = orientation.vector_of(cost);
    const int which = cost.opened.candidates[vector].which;
    choices[name] = {which, sample_loop(cost.opened, vector), cost.operations[vector],
                     fastest_axis(final_votes, *program.find_definition(name), which)};
  }
  return choices;
}

}  // namespace moxie
