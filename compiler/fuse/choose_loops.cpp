#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "compiler/fuse/fuse.h"
#include "compiler/ir/functions.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// Loading one lane at a time, against one vector load.
constexpr double kGatherCost = 1.0;  // per lane

using Layouts = std::map<std::string, std::vector<std::uint32_t>>;

enum class Stride { Fixed, Unit, Far };

Stride stride_in(const Program& program, const Expr& access, Symbol index, const Layouts& layouts) {
  const std::size_t rank = access->subscripts.size();
  const auto found = layouts.find(access->tensor);
  Stride stride = Stride::Fixed;
  for (std::size_t position = 0; position < rank; ++position) {
    const std::size_t axis = found == layouts.end() ? position : found->second[position];
    const std::int64_t coefficient = access->subscripts[axis].coefficient(index);
    if (coefficient == 0) continue;
    stride = position + 1 == rank && coefficient == 1 && stride == Stride::Fixed ? Stride::Unit : Stride::Far;
  }
  (void)program;
  return stride;
}

/// Vector operations of one definition when `vector` runs over lanes; infinite where an inner range would differ between lanes.
class Estimator {
 public:
  Estimator(const Program& program, Symbol vector, double rounds, const Layouts& layouts)
      : program_(program), vector_(vector), rounds_(rounds), layouts_(layouts) {}

  double operations(const Expr& expr, const Scope& scope) {
    if (!done_.insert(expr.get()).second) return 0;
    if (expr->kind == NodeKind::Reduce) return reduction(expr, scope);
    double total = own_cost(expr) * times_evaluated(expr, scope);
    for (const Expr& arg : expr->args) total += operations(arg, scope);
    return total;
  }

 private:
  double reduction(const Expr& expr, const Scope& scope) {
    const OpenedReduce opened = open(expr);
    for (const auto* bounds : {&opened.range.lows, &opened.range.highs}) {
      for (const Bound& bound : *bounds) {
        if (bound.value.mentions(vector_)) return HUGE_VAL;
      }
    }
    kept_.push_back(opened.body);  // its nodes must outlive done_
    return operations(opened.body, scope.with(opened.index, opened.range)) +
           times_evaluated(opened.body, scope.with(opened.index, opened.range));
  }

  double own_cost(const Expr& expr) const {
    if (expr->kind == NodeKind::Call) return expr->function->cost;
    if (expr->kind == NodeKind::Random) return 30;
    if (expr->kind != NodeKind::Access) return 0;
    const Stride stride = stride_in(program_, expr, vector_, layouts_);
    return stride == Stride::Far ? kGatherCost * kAssumedLanes : 0.5;
  }

  double times_evaluated(const Expr& expr, const Scope& scope) const {
    double times = expr->depends_on(vector_) ? rounds_ : 1;
    for (const Symbol symbol : open_symbols_of(expr, scope)) {
      if (symbol != vector_) times *= assumed_extent(*scope.find(symbol));
    }
    return times;
  }

  const Program& program_;
  Symbol vector_;
  double rounds_;
  const Layouts& layouts_;
  std::set<const Node*> done_;
  std::vector<Expr> kept_;
};

struct Candidate {
  int which;
  Symbol symbol;
  Range range;
};

double estimate(const Program& program, const Expr& body, const Expr& store, const Scope& scope, const Candidate& vector, const Layouts& layouts) {
  for (const auto& [symbol, range] : scope.open) {
    if (symbol == vector.symbol) continue;
    for (const auto* bounds : {&range.lows, &range.highs}) {
      for (const Bound& bound : *bounds) {
        if (bound.value.mentions(vector.symbol)) return HUGE_VAL;
      }
    }
  }
  const double rounds = std::ceil(assumed_extent(vector.range) / kAssumedLanes);
  Estimator estimator(program, vector.symbol, rounds, layouts);
  // A store is one more access; the body is accumulated or stored at every element.
  return estimator.operations(body, scope) + estimator.operations(store, scope);
}

/// Sums that are kept while the reduced loop runs need scratch of a known, moderate size.
bool keeps_known_sums(const Definition& definition) {
  constexpr double kMostSums = 1 << 18;
  double sums = 1;
  int unknown = 0;
  for (const AxisDecl& axis : definition.axes) {
    if (!axis.extent.is_constant()) ++unknown;
    else sums *= static_cast<double>(axis.extent.constant());
  }
  return unknown == 0 && sums <= kMostSums;
}

}  // namespace

LoopChoice choose_loops(const Program& program, const Definition& definition, const Layouts& layouts) {
  Scope scope = Scope::of(definition);
  std::vector<Candidate> candidates;
  std::vector<Affine> element;
  const bool algebra = definition.body->kind == NodeKind::LinearAlgebra;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    // A matrix is factored as a whole: its own axes are no candidates.
    const bool own = algebra && std::ranges::any_of(definition.body->subscripts, [&](const Affine& s) { return s.mentions(Symbol::axis(k)); });
    if (!own) candidates.push_back({static_cast<int>(k), Symbol::axis(k), definition.axes[k].range});
    element.emplace_back(Symbol::axis(k));
  }
  Expr body = definition.body;
  if (body->kind == NodeKind::Reduce && is_long(body->range) && keeps_known_sums(definition)) {
    const OpenedReduce opened = open(body);
    scope = scope.with(opened.index, opened.range);
    body = opened.body;
    candidates.push_back({LoopChoice::kReduced, opened.index, opened.range});
  }
  const Expr store = access(definition.name, element);
  LoopChoice best;
  best.operations = HUGE_VAL;
  for (const Candidate& candidate : candidates) {
    if (!candidate.range.as_extent()) continue;
    const double operations = estimate(program, body, store, scope, candidate, definition.output ? Layouts{} : layouts);
    if (operations < best.operations) best = {candidate.which, LoopChoice::kNone, operations};
  }
  double longest = 0;
  if (algebra) return best.vector == LoopChoice::kNone ? LoopChoice{} : best;
  for (const Candidate& candidate : candidates) {
    if (candidate.which == best.vector || !candidate.range.as_extent() || !is_long(candidate.range)) continue;
    // The reduced index must be one of the two shared loops; among axes the longest one wins.
    const double extent = candidate.which == LoopChoice::kReduced ? HUGE_VAL : assumed_extent(candidate.range);
    if (extent > longest) {
      longest = extent;
      best.sample = candidate.which;
    }
  }
  return best;
}

}  // namespace moxie
