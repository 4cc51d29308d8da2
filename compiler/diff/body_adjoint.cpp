#include "compiler/diff/body_adjoint.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <iterator>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>

#include "compiler/analysis/value_range.h"
#include "compiler/diff/chain.h"
#include "compiler/diff/guards.h"
#include "compiler/diff/local_definitions.h"
#include "compiler/diff/open_definition.h"
#include "compiler/diff/reduction_adjoint.h"
#include "compiler/diff/vanishing_sums.h"
#include "compiler/expression/functions.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// The open indices at some place of the body, and what holds of them there. The first `axes` variables are axes of a
/// definition, the others indices of reductions around the place.
struct Scope {
  IterationDomain domain;
  std::size_t axes = 0;
  /// Conditions that are ranges by data of open indices, or say which element data gives. Adjoints are those inside of
  /// the ranges; sums over the indices state the conditions, outermost, where loops run through the ranges alone.
  std::vector<Expr> ranges = {};
  bool operator==(const Scope&) const = default;
};

struct NodeFacts {
  Expr node;                              // keeps the node alive, as its address is the key
  int depth = 0;                          // of the expression; an argument's is smaller
  std::vector<const Node*> active_reads;  // different accesses to active tensors, two at most
};

template <class Row>
void add_missing(std::vector<Row>& rows, const std::vector<Row>& more) {
  for (const Row& row : more) {
    if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
  }
}

/// What a condition on indices leaves out although no range can: single values of them, by a != b, or a choice of
/// ranges.
using Exclusions = std::vector<Expr>;

class BodyAdjoint {
 public:
  BodyAdjoint(ProgramBuilder& builder, const Definition& definition, const ActiveTensors& active,
              Contributions& contributions, Gates& gates)
      : builder_(builder),
        definition_(definition),
        active_(active),
        contributions_(contributions),
        gates_(gates),
        open_(open_definition(definition)),
        local_(builder, definition, open_, "adj.", gates) {}

  void run(const Expr& adjoint, bool gated) {
    root_value_ = substitute(tensor_access(definition_.name, own_axes(definition_.axes.size())), open_.opening);
    send(open_.body, scope_number({open_.domain, definition_.axes.size()}), substitute(adjoint, open_.opening),
         {gated, {}});
    while (!queue_.empty()) {
      const std::size_t next = std::get<2>(queue_.top());
      queue_.pop();
      process(pending_[next]);
    }
  }

 private:
  /// What all of an adjoint passed: a `where` that values decide, or conditions on indices that are no ranges.
  struct Gating {
    bool by_values = false;
    Exclusions exclusions = {};

    bool any() const { return by_values || !exclusions.empty(); }
  };

  struct Pending {
    Expr node;
    std::size_t scope;
    Expr adjoint;
    Gating gating;
  };

  static Gating met(const Gating& a, const Gating& b) {
    Gating both{a.by_values && b.by_values, {}};
    if (!a.any() || !b.any()) return both;
    both.exclusions = a.exclusions;
    std::ranges::copy(b.exclusions, std::back_inserter(both.exclusions));
    return both;
  }

  // ---- The queue: a node is reached after all that use it, and in inner scopes before outer ones ----

  void send(const Expr& node, std::size_t scope, const Expr& adjoint, const Gating& gating) {
    if (adjoint->is_constant(0) || facts(node).active_reads.empty()) return;
    const auto [it, first] = index_of_.try_emplace({node.get(), scope}, pending_.size());
    if (!first) {
      Pending& known = pending_[it->second];
      known.adjoint = accumulate(known.adjoint, adjoint);
      known.gating = met(known.gating, gating);
      return;
    }
    queue_.emplace(facts(node).depth, scopes_[scope].domain.variables.size(), pending_.size());
    pending_.push_back({node, scope, adjoint, gating});
  }

  std::size_t scope_number(const Scope& scope) {
    const auto it = std::ranges::find(scopes_, scope);
    if (it != scopes_.end()) return static_cast<std::size_t>(it - scopes_.begin());
    scopes_.push_back(scope);
    return scopes_.size() - 1;
  }

  const NodeFacts& facts(const Expr& node) {
    if (const auto it = facts_.find(node.get()); it != facts_.end()) return it->second;
    NodeFacts result{node, 0, {}};
    if (node->kind == NodeKind::Access && active_.contains(node->tensor)) result.active_reads.push_back(node.get());
    for (const Expr& arg : node->args) {
      const NodeFacts& below = facts(arg);
      result.depth = std::max(result.depth, below.depth + 1);
      for (const Node* read : below.active_reads) {
        const bool known = std::ranges::find(result.active_reads, read) != result.active_reads.end();
        if (!known && result.active_reads.size() < 2) result.active_reads.push_back(read);
      }
    }
    return facts_.emplace(node.get(), std::move(result)).first->second;
  }

  // ---- One node ----

  void process(const Pending& pending) {
    const auto& [node, scope, adjoint, gating] = pending;
    if (node->kind == NodeKind::Access) {
      const Scope& open = scopes_[scope];
      contributions_.add(builder_.program(), open.domain, node, guarded(open.ranges, to_sum(pending)), dtype_,
                         gating.any() || !open.ranges.empty());
      return;
    }
    if (close(pending)) return;
    switch (node->kind) {
      case NodeKind::Call:
        return pass_call(pending);
      case NodeKind::Reduce:
        return pass_reduction(pending);
      case NodeKind::LinearAlgebra:
        throw InternalError("linear algebra inside an expression was not lifted before differentiation");
      default:
        return;
    }
  }

  void pass_call(const Pending& pending) {
    const Expr& node = pending.node;
    if (node->function->name == "where") {
      pass_branch(pending, true, node->args[1]);
      pass_branch(pending, false, node->args[2]);
      return;
    }
    if (node->function->result == ResultType::Truth) return;
    for (std::size_t i = 0; i < node->args.size(); ++i) {
      if (facts(node->args[i]).active_reads.empty()) continue;
      const Expr local = node->function->derivative(node->args, value_of(node), i);
      send(node->args[i], pending.scope, pass_on(local, pending.adjoint, pending.gating), pending.gating);
    }
  }

  Expr pass_on(const Expr& local, const Expr& adjoint, const Gating& gating) {
    return gating.any() ? gates_.chain(local, adjoint) : chain(local, adjoint);
  }

  /// Conditions on indices narrow the scope; any other guards the adjoint.
  void pass_branch(const Pending& choice, bool holds, const Expr& branch) {
    if (facts(branch).active_reads.empty()) return;
    const Expr& truth = choice.node->args[0];
    IndexCondition condition = conditions_of(truth, holds);
    Scope narrowed = scopes_[choice.scope];
    add_missing(narrowed.domain.nonnegative, condition.nonnegative);
    add_missing(narrowed.domain.zero, condition.zero);
    std::erase_if(condition.rest, [&](const Expr& part) {
      const auto row = one_sided(part, narrowed.domain.nonnegative);
      if (row) add_missing(narrowed.domain.nonnegative, std::vector{*row});
      return row.has_value();
    });
    take_ranges(condition.rest, narrowed);
    const bool by_values = std::ranges::any_of(condition.rest, depends_on_values);
    Gating gating{choice.gating.by_values || by_values, choice.gating.exclusions};
    std::ranges::copy_if(condition.rest, std::back_inserter(gating.exclusions), std::not_fn(depends_on_values));
    std::erase_if(gating.exclusions, [&](const Expr& known) { return is_apart(known, narrowed.domain.nonnegative); });
    send(branch, scope_number(narrowed), guarded(condition.rest, choice.adjoint), gating);
  }

  /// Moves ranges by data of open indices, and the elements that data gives, from the conditions to the scope.
  void take_ranges(std::vector<Expr>& conditions, Scope& scope) const {
    for (const Symbol variable : scope.domain.variables) {
      std::erase_if(conditions, [&](const Expr& condition) {
        const bool gives = gives_index(builder_.program(), condition, variable);
        if (gives) add_missing(scope.ranges, std::vector{condition});
        return gives;
      });
      const auto range = value_range(builder_.program(), conditions, variable);
      if (!range) continue;
      add_missing(scope.ranges, range->bounds);
      conditions = range->rest;
    }
  }

  void pass_reduction(const Pending& pending) {
    const auto& [node, scope, adjoint, gating] = pending;
    const Scope around = scopes_[scope];
    const ReductionDerivative local = differentiate_reduction(
        node, {around.domain, builder_.program(), definition_.name, open_.body, root_value_, dtype_,
               [&](const Expr& value, DType dtype) { return stored(value, around, dtype); },
               [&] { return stored(value_of(node), around, dtype_); }});
    // What a sum of sums multiplies is left to the rewrites, which factor it.
    const Expr once = node->reduce == ReduceKind::Sum ? computed_once(adjoint, scope) : stored(adjoint, around, dtype_);
    Scope inner = around;
    for (const SumLoop& loop : local.loops) inner.domain = extended(inner.domain, loop.index, loop.range);
    send(local.body, scope_number(inner), pass_on(local.derivative, once, gating), gating);
  }

  Expr stored(const Expr& expr, const Scope& scope, DType dtype) {
    const auto depends = [&](Symbol variable) { return expr->depends_on(variable); };
    return are_pairs(scope.ranges, scope.domain, depends) ? expr : local_.stored(expr, scope.domain, dtype);
  }

  /// Whether variables for which the predicate holds are an element of a range by data and the row that has the range:
  /// only these pairs are ever looked at, and a tensor would have all.
  template <class Predicate>
  static bool are_pairs(const std::vector<Expr>& ranges, const IterationDomain& domain, const Predicate& holds) {
    return std::ranges::any_of(ranges, [&](const Expr& range) {
      return std::ranges::count_if(domain.variables, [&](Symbol v) { return range->depends_on(v) && holds(v); }) > 1;
    });
  }

  /// The value of the whole body stands in the definition itself. (A body that ignores an axis may be passed without
  /// that axis.)
  Expr value_of(const Expr& node) const {
    const bool is_value =
        is_whole_value(open_.body, node) && std::ranges::includes(node->free_symbols, root_value_->free_symbols);
    return is_value ? root_value_ : node;
  }

  /// Stores an adjoint that has reductions of its own in a definition, because every iteration of another reduction is
  /// about to read it. An adjoint with more axes than the definition that is differentiated stays where it is, and the
  /// rewrites may store it later; but not if it has a sum over a range by data, which they cannot take out.
  Expr computed_once(const Expr& expr, std::size_t scope) {
    const Scope& open = scopes_[scope];
    const bool is_left = open.domain.variables.size() > open.axes && !has_ranged_reduce(builder_.program(), expr);
    if (expr->height == 0 || is_left || !open.ranges.empty()) return expr;
    const auto boxes = local_.boxes_for(open.domain, open.domain.variables);
    if (!boxes) return expr;
    const Expr body = gather(local_.project(open.domain, open.domain.variables, *boxes), expr);
    const Expr read = local_.let(open.domain.variables, *boxes, body, dtype_);
    stored_.insert_or_assign({expr.get(), scope}, std::pair(expr, read));
    return read;
  }

  /// The adjoint of an access. Where it is to be summed over open indices, what was stored for another sum is read: of
  /// relu(b[f] + sum[..](..)), the gradient of b needs no sum again.
  Expr to_sum(const Pending& pending) const {
    const auto known = stored_.find({pending.adjoint.get(), pending.scope});
    const auto is_fixed = [&](Symbol variable) { return pending.node->depends_on(variable); };
    const bool is_summed = !std::ranges::all_of(scopes_[pending.scope].domain.variables, is_fixed);
    return known != stored_.end() && is_summed ? known->second.second : pending.adjoint;
  }

  // ---- Closing: summing an adjoint over the open indices that the node does not depend on ----

  /// True if the adjoint was summed over some indices and sent again; it meets others of the same node there.
  bool close(const Pending& pending) {
    const auto& [node, scope, adjoint, gating] = pending;
    const Scope& open = scopes_[scope];
    std::vector<Symbol> kept, kept_with_axes;
    for (std::size_t k = 0; k < open.domain.variables.size(); ++k) {
      const Symbol variable = open.domain.variables[k];
      if (node->depends_on(variable)) kept.push_back(variable);
      if (node->depends_on(variable) || k < open.axes) kept_with_axes.push_back(variable);
    }
    if (kept_with_axes.size() < open.domain.variables.size()) return close_reductions(pending, open, kept_with_axes);
    // A single access below sums over everything by itself; a tensor of its own would be shared by nobody. Choices by
    // value, though, stand between that sum and the slope of a reduction, which would be passed on for each term.
    const bool is_shared =
        facts(node).active_reads.size() > 1 || (node->kind == NodeKind::Reduce && pending.gating.any());
    return kept.size() < open.domain.variables.size() && is_shared && !needs_steps(node, kept) &&
           close_axes(pending, open, in_read_order(kept, node));
  }

  /// The variables in the order in which the node reads them, which is then the order of the stored adjoint's axes. The
  /// step of a scan stays the first axis.
  std::vector<Symbol> in_read_order(const std::vector<Symbol>& variables, const Expr& node) const {
    std::vector<Symbol> order;
    const auto add = [&](Symbol symbol) {
      if (is_among(variables, symbol) && !is_among(order, symbol)) order.push_back(symbol);
    };
    if (local_.step()) add(*local_.step());
    visit(node, [&](const Expr& e) {
      for (const Affine& subscript : e->subscripts) {
        for (const auto& [symbol, coefficient] : subscript.terms()) add(symbol);
      }
    });
    std::ranges::for_each(variables, add);
    return order;
  }

  /// Whether the node reads steps of its own scan, not by the step alone: adjoints of that scan then need the sum over
  /// some of the steps before all of them are there.
  bool needs_steps(const Expr& node, const std::vector<Symbol>& kept) const {
    if (!local_.step() || std::ranges::find(kept, *local_.step()) != kept.end()) return false;
    const Program& program = builder_.program();
    const std::optional<Scan> scan = program.find_definition(definition_.name)->scan;  // not that of the adjoints
    bool reads = false;
    visit(node, [&](const Expr& e) {
      const Definition* read = e->kind == NodeKind::Access ? program.find_definition(e->tensor) : nullptr;
      reads |= read && (read->name == definition_.name || (scan && read->scan == scan));
    });
    return reads;
  }

  bool close_reductions(const Pending& pending, const Scope& open, const std::vector<Symbol>& kept) {
    const auto closed = close_to(pending, open, kept);
    if (!closed) return false;
    send(pending.node, scope_number({closed->domain, open.axes, closed->ranges}),
         without_vanishing_sums(builder_.program(), sum_over(closed->dropped, closed->term)), closed->gating);
    return true;
  }

  bool close_axes(const Pending& pending, const Scope& open, const std::vector<Symbol>& kept) {
    const auto closed = close_to(pending, open, kept);
    if (!closed) return false;
    const Expr sum = without_vanishing_sums(builder_.program(), gather(closed->dropped, closed->term));
    if (sum->is_constant(0)) return true;
    if (are_pairs(closed->ranges, closed->domain, [](Symbol) { return true; })) {
      const auto axes = static_cast<std::size_t>(std::ranges::count_if(
          std::span(open.domain.variables).first(open.axes), [&](Symbol v) { return is_among(kept, v); }));
      send(pending.node, scope_number({closed->domain, axes, closed->ranges}), sum, closed->gating);
      return true;
    }
    const Expr read = local_.let(kept, closed->boxes, sum, dtype_);
    send(pending.node, scope_number({closed->domain, kept.size(), closed->ranges}), read, closed->gating);
    return true;
  }

  /// What is left when the indices that are not kept are summed over.
  struct Closed {
    std::vector<IndexBox> boxes;  // of the indices that are kept
    Preimage dropped;
    IterationDomain domain;
    std::vector<Expr> ranges;
    Expr term;
    Gating gating;
  };

  std::optional<Closed> close_to(const Pending& pending, const Scope& open, const std::vector<Symbol>& kept) const {
    auto boxes = local_.boxes_for(open.domain, kept);
    if (!boxes) return std::nullopt;
    Preimage dropped = local_.project(open.domain, kept, *boxes);
    if (!is_defined_everywhere(dropped)) return std::nullopt;
    std::vector<Expr> stay, leave;
    for (const Expr& range : open.ranges) {
      const bool stays = std::ranges::all_of(open.domain.variables,
                                             [&](Symbol v) { return !range->depends_on(v) || is_among(kept, v); });
      (stays ? stay : leave).push_back(range);
    }
    IterationDomain domain = remaining_domain(open.domain, kept, *boxes, dropped);
    const Gating gating{pending.gating.by_values || !leave.empty(), pending.gating.exclusions};
    return Closed{std::move(*boxes),
                  std::move(dropped),
                  std::move(domain),
                  std::move(stay),
                  guarded(leave, pending.adjoint),
                  gating};
  }

  static bool is_among(const std::vector<Symbol>& symbols, Symbol symbol) {
    return std::ranges::find(symbols, symbol) != symbols.end();
  }

  /// Between the steps of a quotient the node need not have a value.
  static bool is_defined_everywhere(const Preimage& dropped) { return dropped.quotients.empty(); }

  /// What is still known of the kept variables once the others are gone.
  static IterationDomain remaining_domain(const IterationDomain& domain, const std::vector<Symbol>& kept,
                                          const std::vector<IndexBox>& boxes, const Preimage& dropped) {
    IterationDomain remaining{kept, {}, dropped.zero};
    const auto mentions_dropped = [&](const Affine& row) {
      return std::ranges::any_of(domain.variables, [&](Symbol v) { return row.mentions(v) && !is_among(kept, v); });
    };
    std::ranges::copy_if(domain.nonnegative, std::back_inserter(remaining.nonnegative), std::not_fn(mentions_dropped));
    for (std::size_t k = 0; k < kept.size(); ++k) {
      add_missing(remaining.nonnegative, std::vector{Affine(kept[k]) - boxes[k].low, boxes[k].high - Affine(kept[k])});
    }
    add_missing(remaining.nonnegative, dropped.nonnegative);
    add_missing(remaining.nonnegative, dropped.derived);
    return remaining;
  }

  struct PlaceHash {
    std::size_t operator()(const std::pair<const Node*, std::size_t>& place) const {
      return std::hash<const Node*>()(place.first) ^ (place.second * 0x9E3779B97F4A7C15ULL);
    }
  };

  ProgramBuilder& builder_;
  const Definition& definition_;
  const DType dtype_ = computed_dtype(definition_.dtype);
  const ActiveTensors& active_;
  Contributions& contributions_;
  Gates& gates_;
  const OpenDefinition open_;
  LocalDefinitions local_;
  Expr root_value_;
  std::deque<Scope> scopes_;  // deques, as references outlive additions
  std::deque<Pending> pending_;
  std::unordered_map<std::pair<const Node*, std::size_t>, std::size_t, PlaceHash> index_of_;
  /// Adjoints that were stored, by node and scope: the expression, which keeps the node alive, and what reads it.
  std::unordered_map<std::pair<const Node*, std::size_t>, std::pair<Expr, Expr>, PlaceHash> stored_;
  std::priority_queue<std::tuple<int, std::size_t, std::size_t>> queue_;  // depth, open indices, number
  std::unordered_map<const Node*, NodeFacts> facts_;
};

}  // namespace

void differentiate_body(ProgramBuilder& builder, const Definition& definition, const Expr& adjoint,
                        const ActiveTensors& active, Contributions& contributions, Gates& gates, bool gated) {
  BodyAdjoint(builder, definition, active, contributions, gates).run(adjoint, gated);
}

}  // namespace moxie
