#include "compiler/rewrite/patterns/scatter.h"

#include <algorithm>

#include "compiler/analysis/finite_values.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/integer_element.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

bool is_of_kind(ReduceKind kind, const Expr& expr) { return expr->kind == NodeKind::Reduce && expr->reduce == kind; }

class Finder {
 public:
  Finder(const Program& program, std::span<const Symbol> axes) : program_(program), axes_(axes) {}

  std::optional<Scatter> run(const Expr& body) {
    if (body->kind != NodeKind::Reduce || !is_scattered(body->reduce)) return std::nullopt;
    found_.kind = body->reduce;
    if (extremum_of(found_.kind)) {
      if (!open_search(body)) return std::nullopt;
    } else {
      open_loops(body);
    }
    for (const Expr& condition : conditions_) found_.term = masked(condition);
    found_.conditions = conditions_;
    for (const Scatter::Target& target : found_.targets) read_at(target);
    const bool gathers = std::ranges::any_of(
        found_.targets, [](const Scatter::Target& target) { return target.element.mentions_value(); });
    if ((!gathers && !found_.span) ||
        std::ranges::any_of(found_.targets, [&](const auto& target) { return stays(target.axis); }))
      return std::nullopt;
    return std::move(found_);
  }

 private:
  static bool is_scattered(ReduceKind kind) { return kind != ReduceKind::Product && kind != ReduceKind::LogSumExp; }

  void open_loops(Expr body) {
    while (is_of_kind(found_.kind, body)) body = opened(body);
    found_.term = without_targets(body);
    // A reduction stands behind a target's condition that does not depend on its index.
    while (const auto inner = masked_sum(found_.term)) found_.term = without_targets(*inner);
    if (found_.targets.empty()) take_span();
    bound_loops();
    sum_inside();
  }

  /// argmax[s](where(idx[s] == v, e[s], -inf)), whose position is the index itself.
  bool open_search(const Expr& search) {
    const Expr element = with_cast_inside(opened(search));
    const OpenedReduce& loop = found_.loops.back();
    if (loop.position != index_value(loop.index) || !has_fixed_extent(loop.range)) return false;
    found_.term = without_targets(element);
    const Symbol held = Symbol::fresh();
    std::optional<Expr> rival = substitute(element, {{loop.index, Affine(held)}});
    for (const Scatter::Target& target : found_.targets) {
      if (rival) rival = substitute_element(*rival, target.axis, {target.element, found_.values});
    }
    if (!rival || found_.targets.empty()) return false;
    found_.rival = Scatter::Rival{held, std::move(*rival)};
    return true;
  }

  /// What a term that is left out gives.
  double left_out() const { return neutral_value(extremum_of(found_.kind).value_or(found_.kind)); }

  /// Whether the condition leaves a term out where it does not hold.
  bool is_masked(const Expr& expr) const { return is_call(expr, "where") && expr->args[2]->is_constant(left_out()); }

  Expr masked(const Expr& condition) const { return call("where", {condition, found_.term, constant(left_out())}); }

  /// Whether it is masked, or conditions stand in the factors of a product that is to be added up.
  bool has_mask(const Expr& expr) const {
    if (is_masked(expr)) return true;
    return found_.kind == ReduceKind::Sum && (is_call(expr, "*") || is_call(expr, "neg")) &&
           std::ranges::any_of(expr->args, [&](const Expr& arg) { return has_mask(arg); });
  }

  Expr opened(const Expr& reduction) {
    found_.loops.push_back(open(reduction));
    return found_.loops.back().body;
  }

  /// The summand of a sum whose conditions may keep its index in a range by data, with the finite factors of that sum;
  /// the element of an extremum.
  std::optional<Expr> masked_sum(const Expr& expr) {
    const auto is_masked_sum = [&](const Expr& e) { return is_of_kind(found_.kind, e) && has_mask(e->args[0]); };
    if (is_masked_sum(expr)) return opened(expr);
    if (found_.kind != ReduceKind::Sum || !is_call(expr, "*") || std::ranges::count_if(expr->args, is_masked_sum) != 1)
      return std::nullopt;
    FiniteValues finite(program_);
    const bool may_enter = program_.precision == Precision::Fast || std::ranges::all_of(expr->args, [&](const Expr& e) {
                             return is_masked_sum(e) || finite.holds(e);
                           });
    if (!may_enter) return std::nullopt;
    std::vector<Expr> factors = expr->args;
    for (Expr& factor : factors) {
      if (is_masked_sum(factor)) factor = opened(factor);
    }
    return with_args(expr, std::move(factors));
  }

  /// What is left of the summand; its conditions become targets, or are kept. A condition leaves a product only if the
  /// other factors are known to be finite: infinity times the zero of the other branch is NaN.
  Expr without_targets(const Expr& expr) {
    if (is_masked(expr)) {
      take(expr->args[0]);
      return without_targets(expr->args[1]);
    }
    const bool adds = found_.kind == ReduceKind::Sum;
    if (!adds || (!is_call(expr, "neg") && !(is_call(expr, "*") && may_leave(expr)))) return expr;
    std::vector<Expr> args;
    for (const Expr& arg : expr->args) args.push_back(without_targets(arg));
    return with_args(expr, std::move(args));
  }

  bool may_leave(const Expr& product) const {
    if (program_.precision == Precision::Fast) return true;
    FiniteValues finite(program_);
    return std::ranges::all_of(product->args, [&](const Expr& factor) {
      const auto is_harmless = [&](const Expr& other) { return other == factor || finite.holds(other); };
      return !has_mask(factor) || std::ranges::all_of(product->args, is_harmless);
    });
  }

  void take(const Expr& condition) {
    if (is_call(condition, "and")) {
      for (const Expr& part : condition->args) take(part);
    } else if (!is_call(condition, "==") || !take_target(condition)) {
      conditions_.push_back(condition);
    }
  }

  bool take_target(const Expr& equation) {
    const std::size_t known = found_.values.size();
    const auto left = integer_of(program_, equation->args[0], found_.values);
    const auto right = integer_of(program_, equation->args[1], found_.values);
    if (left && right) {
      const Affine difference = *left - *right;
      for (const Symbol axis : axes_) {
        const std::int64_t coefficient = difference.coefficient(axis);
        if ((coefficient != 1 && coefficient != -1) || is_target(axis) || !difference.mentions_value()) continue;
        found_.targets.push_back({axis, (difference - Affine(axis) * coefficient) * -coefficient});
        return true;
      }
    }
    found_.values.resize(known);
    return false;
  }

  /// Conditions that hold in a range of one axis: a term goes to all of its elements there.
  void take_span() {
    for (const Symbol axis : axes_) {
      auto range = value_range(program_, conditions_, axis);
      const auto moves = [&](const OpenedReduce& loop) { return mentions(loop.range, axis); };
      if (!range || std::ranges::any_of(found_.loops, moves)) continue;
      found_.span = Scatter::Span{axis, std::move(range->lows), std::move(range->highs)};
      found_.values = std::move(range->values);
      conditions_ = std::move(range->rest);
      return;
    }
  }

  /// Loops whose indices conditions keep in a range by data come behind those that its ends depend on, so that they run
  /// through that range alone: all others keep their order.
  void bound_loops() {
    std::vector<OpenedReduce> waiting = std::move(found_.loops);
    found_.loops.clear();
    while (!waiting.empty()) {
      auto next = std::ranges::find_if(waiting, [&](const OpenedReduce& loop) {
        const auto range = range_by_data(loop);
        return may_open(loop, waiting) && (!range || !depends_on_loops(*range, waiting));
      });
      const bool is_settled = next != waiting.end();
      if (!is_settled)  // ranges that end at each other's indices
        next = std::ranges::find_if(waiting, [&](const OpenedReduce& loop) { return may_open(loop, waiting); });
      if (auto range = is_settled ? range_by_data(*next) : std::nullopt)
        found_.ranges.emplace_back(next->index, std::move(*range));
      found_.loops.push_back(*next);
      waiting.erase(next);
    }
  }

  static bool may_open(const OpenedReduce& loop, const std::vector<OpenedReduce>& waiting) {
    return std::ranges::none_of(waiting, [&](const OpenedReduce& other) { return mentions(loop.range, other.index); });
  }

  static bool depends_on_loops(const ValueRange& range, const std::vector<OpenedReduce>& loops) {
    return std::ranges::any_of(range.bounds, [&](const Expr& bound) {
      return std::ranges::count_if(loops, [&](const OpenedReduce& loop) { return bound->depends_on(loop.index); }) > 1;
    });
  }

  std::optional<ValueRange> range_by_data(const OpenedReduce& loop) const {
    auto range = value_range(program_, conditions_, loop.index);
    const auto moves = [&](Symbol axis) {
      return found_.goes_along(axis) &&
             std::ranges::any_of(range->bounds, [&](const Expr& bound) { return bound->depends_on(axis); });
    };
    return range && std::ranges::none_of(axes_, moves) ? std::move(range) : std::nullopt;
  }

  /// A loop whose index does not change which element a term goes to becomes a reduction inside the term: the element
  /// is then updated once, not in every iteration of that loop.
  void sum_inside() {
    const auto is_free = [&](const OpenedReduce& loop) { return !found_.moves_terms(loop.index); };
    if (std::ranges::all_of(found_.loops, is_free)) return;
    for (auto loop = found_.loops.rbegin(); loop != found_.loops.rend(); ++loop) {
      if (is_free(*loop)) add_inside(*loop);
    }
    std::erase_if(found_.loops, is_free);
  }

  void add_inside(const OpenedReduce& loop) {
    const auto is_inside = [&](const Expr& condition) { return condition->depends_on(loop.index); };
    for (const Expr& condition : conditions_) {
      if (is_inside(condition)) found_.term = masked(condition);
    }
    std::erase_if(conditions_, is_inside);
    found_.term = reduce(found_.kind, loop.index, loop.range, found_.term);
  }

  /// The term counts at one element along the axis, which the target gives: what depends on the axis reads that
  /// element.
  void read_at(const Scatter::Target& target) {
    constexpr bool kInScan = true;  // for all that is known here
    if (target.element.mentions(target.axis) || !has_axes_by_value(program_, found_.term, target.axis, kInScan)) return;
    if (auto term = substitute_element(found_.term, target.axis, {target.element, found_.values}))
      found_.term = std::move(*term);
  }

  bool is_target(Symbol axis) const {
    return std::ranges::any_of(found_.targets, [&](const Scatter::Target& t) { return t.axis == axis; });
  }

  /// Whether anything but the target depends on its axis.
  bool stays(Symbol axis) const {
    const auto in_loop = [&](const OpenedReduce& loop) { return mentions(loop.range, axis); };
    const auto in_element = [&](const Scatter::Target& t) { return t.element.mentions(axis); };
    const auto in_value = [&](const Expr& value) { return value->depends_on(axis); };
    return found_.term->depends_on(axis) || std::ranges::any_of(found_.loops, in_loop) ||
           std::ranges::any_of(found_.targets, in_element) || std::ranges::any_of(found_.values, in_value);
  }

  const Program& program_;
  std::span<const Symbol> axes_;
  Scatter found_;
  std::vector<Expr> conditions_;
};

}  // namespace

bool Scatter::goes_along(Symbol axis) const {
  return (span && span->axis == axis) ||
         std::ranges::any_of(targets, [&](const Target& target) { return target.axis == axis; });
}

Expr with_cast_inside(const Expr& expr) {
  const bool is_cast = is_call(expr, "f32") || is_call(expr, "f64");
  if (!is_cast || !is_call(expr->args[0], "where")) return expr;
  std::vector<Expr> args = expr->args[0]->args;
  args[1] = with_cast_inside(with_args(expr, {args[1]}));
  const bool is_number = args[2]->kind == NodeKind::Constant;
  if (is_number && is_call(expr, "f32")) args[2] = constant(static_cast<float>(args[2]->value));
  if (!is_number) args[2] = with_args(expr, {args[2]});
  return with_args(expr->args[0], std::move(args));
}

bool holds_terms(const Definition& definition) {
  const Expr& body = definition.body;
  const bool searches = body->kind == NodeKind::Reduce && extremum_of(body->reduce);
  if (!searches) return is_stored_as_computed(definition.dtype);
  return definition.dtype == DType::i32 || definition.dtype == DType::i64;
}

std::optional<Scatter> scatter_of(const Program& program, const Expr& body, std::span<const Symbol> axes) {
  if (!has_integers(program)) return std::nullopt;
  return Finder(program, axes).run(body);
}

std::optional<Scatter> scatter_of(const Program& program, const Definition& definition) {
  const bool is_carried = definition.scan && reads(definition, definition.name);
  if (is_carried || !holds_terms(definition)) return std::nullopt;
  std::vector<Symbol> axes;
  for (std::uint32_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) {
    const AxisDecl& axis = definition.axes[k];
    if (axis.range == Range::extent(axis.extent)) axes.push_back(Symbol::axis(k));
  }
  return scatter_of(program, definition.body, axes);
}

bool Scatter::moves_terms(Symbol index) const {
  const auto in_value = [&](const Expr& value) { return value->depends_on(index); };
  const auto in_ends = [&](const std::vector<Affine>& ends) {
    return std::ranges::any_of(ends, [&](const Affine& end) { return end.mentions(index); });
  };
  const auto in_target = [&](const Scatter::Target& target) { return target.element.mentions(index); };
  const auto in_range = [&](const auto& range) {
    return range.first == index || std::ranges::any_of(range.second.bounds, in_value);
  };
  const auto in_loop = [&](const OpenedReduce& loop) { return mentions(loop.range, index); };
  return std::ranges::any_of(values, in_value) || std::ranges::any_of(targets, in_target) ||
         (span && (in_ends(span->lows) || in_ends(span->highs))) || std::ranges::any_of(ranges, in_range) ||
         std::ranges::any_of(loops, in_loop);
}

bool Scatter::has_common_sums(Symbol axis) const {
  bool found = false;
  visit(term, [&](const Expr& e) {
    const auto counts = [&](const OpenedReduce& loop) { return e->depends_on(loop.index); };
    found = found || (e->kind == NodeKind::Reduce && !e->depends_on(axis) && std::ranges::any_of(loops, counts));
  });
  return found;
}

bool Scatter::depends_on_element(const Expr& expr) const {
  const auto is_read = [&](const Target& target) { return expr->depends_on(target.axis); };
  return std::ranges::any_of(targets, is_read) || (span && expr->depends_on(span->axis));
}

std::optional<Scatter> scatter_of(const Program& program, const Expr& expr, const Scope& scope) {
  std::vector<Symbol> axes;
  for (const auto& [symbol, range] : scope.open) {
    if (has_fixed_extent(range) && expr->depends_on(symbol)) axes.push_back(symbol);
  }
  return scatter_of(program, expr, axes);
}

std::optional<Scatter> worthwhile_scatter(const Program& program, const Expr& expr, const Scope& scope) {
  constexpr double kLeastTerms = 8, kLeastComparisons = 4096;
  auto scatter = scatter_of(program, expr, scope);
  if (!scatter || scatter->targets.empty()) return std::nullopt;
  double terms = 1, elements = 1;
  for (const OpenedReduce& loop : scatter->loops) terms *= longest_extent(loop.range, scope);
  for (const Scatter::Target& target : scatter->targets) elements *= assumed_extent(*scope.find(target.axis));
  if (terms < kLeastTerms || terms * elements < kLeastComparisons) return std::nullopt;
  return scatter;
}

}  // namespace moxie
