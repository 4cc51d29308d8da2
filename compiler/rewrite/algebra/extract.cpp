#include "compiler/rewrite/algebra/extract.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>

#include "compiler/analysis/inside_proof.h"
#include "compiler/analysis/value_range.h"
#include "compiler/diff/guards.h"
#include "compiler/expression/functions.h"
#include "compiler/program/placeholders.h"
#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/range_bounds.h"

namespace moxie {
namespace {

/// Bounds that hold for all values of the symbols that `stays` does not name: each of these gives way to its own
/// bounds.
template <class Predicate>
std::vector<Bound> widened(std::vector<Bound> bounds, bool lower, const Scope& scope, const Predicate& stays) {
  for (auto entry = scope.open.rbegin(); entry != scope.open.rend(); ++entry) {
    const auto& [symbol, range] = *entry;
    if (stays(symbol)) continue;
    std::vector<Bound> next;
    const auto add = [&](const Bound& bound) {
      if (std::ranges::find(next, bound) == next.end()) next.push_back(bound);
    };
    for (const Bound& bound : bounds) {
      const std::int64_t coefficient = bound.value.coefficient(symbol);
      const Affine rest = bound.value - Affine(symbol) * coefficient;
      if (coefficient == 0)
        add(bound);
      else
        for (const Bound& end : (coefficient > 0) == lower ? range.lows : range.highs) {
          add({checked_mul(bound.divisor, end.divisor), rest * end.divisor + end.value * coefficient});
        }
    }
    bounds = std::move(next);
  }
  return bounds;
}

/// Whether the axes start at 0 or above and every access lies inside its tensor, by the ranges of the axes and what the
/// body itself says, and is there at this step.
bool stands_alone(const Program& program, const Definition& definition, std::optional<AtStep> at) {
  IndexDomain domain({});
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
    domain.add_range(Symbol::axis(k), definition.axes[k].range);
    if (domain.prove_nonnegative(Symbol::axis(k)) != Proof::Holds) return false;
  }
  return InsideProof(program, Inside::Element, std::move(at)).holds_within(definition.body, domain);
}

/// The range of one of the symbols, where all others take any value.
Range range_among(const std::vector<Symbol>& symbols, Symbol symbol, const Scope& scope) {
  const Range& range = *scope.find(symbol);
  const auto stays = [&](Symbol other) { return is_among(symbols, other); };
  return {widened(range.lows, true, scope, stays), widened(range.highs, false, scope, stays)};
}

/// The open symbols of the expression, outermost first, but for the one along which most of the accesses read
/// neighbours that read elements along several: it comes last, as in these tensors, unless it moves the range of
/// another.
std::vector<Symbol> axis_order(const Expr& expr, const Scope& scope) {
  std::vector<Symbol> symbols = open_symbols_of(expr, scope);
  std::vector<std::ptrdiff_t> votes(symbols.size());
  visit(expr, [&](const Expr& e) {
    if (e->kind != NodeKind::Access || e->subscripts.empty()) return;
    const auto is_read = [&](Symbol symbol) {
      return std::ranges::any_of(e->subscripts, [&](const Affine& subscript) { return subscript.mentions(symbol); });
    };
    if (std::ranges::count_if(symbols, is_read) < 2) return;
    for (std::size_t k = 0; k < symbols.size(); ++k) votes[k] += e->subscripts.back().mentions(symbols[k]);
  });
  const auto most = std::ranges::max_element(votes);
  if (most == votes.end() || std::ranges::count(votes, *most) > 1) return symbols;
  const auto last = symbols.begin() + (most - votes.begin());
  const bool steps = scope.scan && *last == Symbol::axis(0);
  const auto is_moved = [&](Symbol symbol) { return mentions(range_among(symbols, symbol, scope), *last); };
  if (!steps && std::ranges::none_of(symbols, is_moved)) std::rotate(last, last + 1, symbols.end());
  return symbols;
}

/// Whether the expression may have a value because the condition holds. One on other indices chooses among elements of
/// which each would have the same value.
bool may_admit(const Expr& condition, const Expr& expr) {
  const auto is_other_index = [&](Symbol symbol) { return !symbol.is_dim() && !expr->depends_on(symbol); };
  return condition->free_symbols.empty() || !std::ranges::all_of(condition->free_symbols, is_other_index);
}

/// When these conditions hold for some value of an index that the expression does not know: where all of these affine
/// expressions are at least 0, else no element is asked for. `u < t` around what depends on t alone holds for u = 0, if
/// t >= 1. Nothing where that is not known.
std::optional<std::vector<Affine>> when_some_index_admits(const std::vector<Expr>& conditions, const Expr& expr,
                                                          const Scope& scope) {
  std::optional<Symbol> other;
  std::vector<Affine> nonnegative;
  for (const Expr& condition : conditions) {
    const IndexCondition says = conditions_of(condition, true);
    if (!says.rest.empty() || !says.zero.empty()) return std::nullopt;
    std::ranges::copy(says.nonnegative, std::back_inserter(nonnegative));
    for (const Symbol symbol : condition->free_symbols) {
      if (symbol.is_dim() || expr->depends_on(symbol)) continue;
      if (other.value_or(symbol) != symbol) return std::nullopt;
      other = symbol;
    }
  }
  const Range* range = other ? scope.find(*other) : nullptr;
  const auto is_whole = [](const Bound& bound) { return bound.divisor == 1; };
  if (!range || !std::ranges::all_of(range->lows, is_whole) || !std::ranges::all_of(range->highs, is_whole))
    return std::nullopt;
  std::vector<Affine> lows, highs;
  for (const Bound& low : range->lows) lows.push_back(low.value);
  for (const Bound& high : range->highs) highs.push_back(high.value);
  for (const Affine& value : nonnegative) {
    const std::int64_t coefficient = value.coefficient(*other);
    if (coefficient != 1 && coefficient != -1) return std::nullopt;
    const Affine rest = value - Affine(*other) * coefficient;
    coefficient == 1 ? lows.push_back(-rest) : highs.push_back(rest);
  }
  const IndexDomain domain = domain_of(scope);
  std::vector<Affine> when;
  for (const Affine& low : lows) {
    for (const Affine& high : highs)
      if (domain.prove_nonnegative(high - low) != Proof::Holds) when.push_back(high - low);
  }
  return when;
}

/// The open index, but not the step of a scan, that the row mentions beside dims; nothing if there is not just one.
std::optional<Symbol> only_index(const Affine& row, const Scope& scope) {
  std::optional<Symbol> found;
  for (const auto& [symbol, coefficient] : row.terms()) {
    if (symbol.is_dim()) continue;
    const bool steps = scope.scan && symbol == Symbol::axis(0);
    if (found || steps || !scope.find(symbol)) return std::nullopt;
    found = symbol;
  }
  return found;
}

/// Gives the range of an index what the condition says of it, if it says nothing else.
bool narrow(Scope& scope, const Expr& condition) {
  const IndexCondition says = conditions_of(condition, true);
  const bool is_range = says.rest.empty() && says.zero.empty() && says.nonnegative.size() == 1;
  const auto index = is_range ? only_index(says.nonnegative[0], scope) : std::nullopt;
  if (!index) return false;
  for (auto& [symbol, range] : scope.open) {
    if (symbol == *index)
      range = without_idle_bounds(with_bound(std::move(range), symbol, says.nonnegative[0]), symbol, IndexDomain({}));
  }
  return true;
}

/// Whether an expression has no index but those of the sum.
bool depends_within(const Expr& expr, const Expr& sum) {
  return std::ranges::all_of(expr->free_symbols, [&](Symbol s) { return s.is_dim() || sum->depends_on(s); });
}

/// What `index == value` says an index of its is; nothing if that is no integer that the other side and the rest show.
Expr solved_for(Symbol symbol, const Expr& index, const Expr& value) {
  const Affine& affine = index->affine;
  const std::int64_t coefficient = affine.coefficient(symbol);
  const Affine rest = affine - Affine(symbol) * coefficient;
  const std::optional<Affine> integer = affine_of(value);
  if (integer && std::abs(coefficient) == 1) return index_value((*integer - rest) * coefficient);
  if (coefficient != 1) return {};
  return rest == Affine(0) ? value : call("+", {value, index_value(-rest)});
}

/// What `value == i` says, of an index on which neither the sum nor another condition depends: that the value lies in
/// the range of the index, as far as this is not known. Inside of a reduction the terms go where the values say
/// instead.
std::optional<std::vector<Expr>> without_index(const Expr& condition, const std::vector<Expr>& conditions,
                                               const Expr& sum, const Scope& scope) {
  if (!is_call(condition, "==")) return std::nullopt;
  for (std::size_t side = 0; side < 2; ++side) {
    const Expr& index = condition->args[side];
    if (index->kind != NodeKind::IndexValue) continue;
    for (const auto& [symbol, coefficient] : index->affine.terms()) {
      const auto is_tied = [&](const Expr& other) { return other != condition && other->depends_on(symbol); };
      const bool is_free = !sum->depends_on(symbol) && std::ranges::none_of(conditions, is_tied);
      const Range* range = is_free ? scope.find(symbol) : nullptr;
      const auto extent = range ? range->as_extent() : std::nullopt;
      const Expr value = extent ? solved_for(symbol, index, condition->args[1 - side]) : Expr();
      const auto is_of_axis = [](Symbol s) { return s.is_dim() || s.kind() == Symbol::Kind::Axis; };
      if (!value || !std::ranges::all_of(value->free_symbols, is_of_axis) || !depends_within(value, sum)) continue;
      IndexDomain domain({});
      for (const auto& [open, around] : scope.open) domain.add_range(open, around);
      const auto is_known = [&](const Affine& distance) {
        return value->kind == NodeKind::IndexValue && domain.prove_nonnegative(distance) == Proof::Holds;
      };
      std::vector<Expr> bounds;
      if (!is_known(value->affine)) bounds.push_back(call(">=", {value, constant(0)}));
      if (!is_known(*extent - Affine(1) - value->affine)) bounds.push_back(call("<", {value, index_value(*extent)}));
      return bounds;
    }
  }
  return std::nullopt;
}

}  // namespace

Affine room_for(const Range& range, const Scope& scope) {
  std::optional<Affine> room;
  for (const Bound& bound : widened(range.highs, false, scope, [](Symbol) { return false; })) {
    // Without the division the room is larger than need be, but an affine number.
    const Affine size = bound.value.is_constant() ? Affine(floor_div(bound.value.constant(), bound.divisor) + 1)
                                                  : bound.value + Affine(1);
    const bool smaller = !room || (size.is_constant() && (!room->is_constant() || size.constant() < room->constant()));
    if (smaller) room = size;
  }
  return clamped_extent(*room);
}

Scope in_order_of_reads(Scope scope, const Expr& expr) {
  const std::vector<Symbol> symbols = open_symbols_of(expr, scope);
  std::optional<std::pair<std::string_view, std::vector<Symbol>>> first;  // by the names of tensors
  visit(expr, [&](const Expr& e) {
    if (e->kind != NodeKind::Access || (first && first->first <= e->tensor)) return;
    std::vector<Symbol> order;
    if (scope.scan && is_among(symbols, Symbol::axis(0))) order.push_back(Symbol::axis(0));
    for (const Affine& subscript : e->subscripts) {
      for (const Symbol symbol : symbols) {
        if (subscript.mentions(symbol) && !is_among(order, symbol)) order.push_back(symbol);
      }
    }
    if (order.size() == symbols.size()) first = {e->tensor, std::move(order)};
  });
  const auto moves_a_range = [&](Symbol symbol) {
    return std::ranges::any_of(symbols, [&](Symbol other) { return mentions(*scope.find(other), symbol); });
  };
  if (!first || std::ranges::any_of(symbols, moves_a_range)) return scope;
  const auto is_read = [&](const std::pair<Symbol, Range>& entry) { return is_among(symbols, entry.first); };
  std::ranges::stable_partition(scope.open, std::not_fn(is_read));
  std::ranges::sort(scope.open.end() - std::ssize(symbols), scope.open.end(), {}, [&](const auto& entry) {
    return std::ranges::find(first->second, entry.first) - first->second.begin();
  });
  return scope;
}

Guarded with_guards(const Expr& sum, const Scope& scope) {
  Guarded result{sum, scope};
  if (sum->reduce != ReduceKind::Sum || !may_need_guard(sum)) return result;
  std::vector<Expr> own;
  result.scope.conditions.clear();
  std::vector<Expr> conditions;
  for (const Expr& condition : scope.conditions) add_conjuncts(condition, conditions);
  for (const Expr& condition : conditions) {
    if (const auto bounds = without_index(condition, conditions, sum, scope))
      own.insert(own.end(), bounds->begin(), bounds->end());
    else if (!depends_within(condition, sum))
      result.scope.conditions.push_back(condition);
    else if (!narrow(result.scope, condition))
      own.push_back(condition);
  }
  if (own.empty()) return result;
  const Expr all = own.size() == 1 ? own[0] : call("and", own);
  const OpenedReduce opened = open(sum);
  result.sum = reduce(ReduceKind::Sum, opened.index, opened.range, call("where", {all, opened.body, constant(0)}));
  return result;
}

std::string axis_name(const Program& program, const std::vector<AxisDecl>& axes, const Affine& extent) {
  const auto taken = [&](const std::string& name) {
    return std::ranges::count(axes, name, &AxisDecl::name) > 0 || program.find_dim(name) || program.find_input(name) ||
           program.find_definition(name);
  };
  for (const IndexDecl& index : program.indices) {
    if (index.range == Range::extent(extent) && !taken(index.name)) return index.name;
  }
  std::string name = "i" + std::to_string(axes.size());
  while (taken(name)) name += "_";
  return name;
}

std::optional<Extraction> extract(const Program& program, const Scope& scope, const Expr& expr, const std::string& stem,
                                  DType dtype, ExtractedAxes axes) {
  // Its conditions would stay behind: the subscripts that they admit are not known.
  std::vector<Expr> admitting;
  std::ranges::copy_if(scope.conditions, std::back_inserter(admitting),
                       [&](const Expr& condition) { return may_admit(condition, expr); });
  Expr guarded = expr;
  if (expr->gathers && !admitting.empty()) {
    const auto when = when_some_index_admits(admitting, expr, scope);
    if (!when) return std::nullopt;
    for (const Affine& value : *when)
      guarded = call("where", {call(">=", {index_value(value), constant(0)}), guarded, constant(0)});
  }
  // An index of a matrix that the body holds has no range here; once that is a definition of its own, it is an axis.
  const auto is_unknown = [&](Symbol symbol) { return symbol.kind() == Symbol::Kind::Free && !scope.find(symbol); };
  if (std::ranges::any_of(expr->free_symbols, is_unknown)) return std::nullopt;
  const std::vector<Symbol> symbols =
      axes == ExtractedAxes::as_open ? open_symbols_of(expr, scope) : axis_order(expr, scope);
  Replacement to_axes;
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(to_axes, symbol, &std::pair<Symbol, Affine>::first);
    return it == to_axes.end() ? nullptr : &it->second;
  };
  Definition definition{unused_name(program, stem), dtype, {}, {}, false, 0};
  std::vector<Affine> subscripts;
  Scope alone;  // the ranges that are left when all other indices are gone
  for (const Symbol symbol : symbols) {
    const Range own = range_among(symbols, symbol, scope);
    const bool steps = scope.scan && symbol == Symbol::axis(0);
    const Affine first = steps ? Affine(0) : fixed_start(own);
    const Range from_zero = shifted(own, -first);
    const Affine room = room_for(from_zero, alone);
    alone = alone.with(symbol, own);
    definition.axes.push_back({axis_name(program, definition.axes, room), room, from_zero.substitute(lookup)});
    to_axes.emplace_back(symbol, first + Symbol::axis(static_cast<std::uint32_t>(definition.axes.size() - 1)));
    subscripts.push_back(Affine(symbol) - first);
  }
  definition.body = substitute(guarded, to_axes);
  std::optional<AtStep> at;
  if (scope.scan) {
    const bool steps = !symbols.empty() && symbols[0] == Symbol::axis(0);
    // What has no steps is computed before the first, when the scan has nothing to read yet.
    if (!steps && reads_scan(program, expr, *scope.scan)) return std::nullopt;
    at = {*scope.scan, steps ? Symbol::axis(0) : Symbol::fresh()};
  }
  if (!stands_alone(program, definition, std::move(at))) return std::nullopt;
  const Expr read = tensor_access(definition.name, std::move(subscripts));
  return Extraction{std::move(definition), read};
}

namespace {

/// Makes the part step along with what it was taken out of.
void join_scan(Extraction& part, const Definition& user) {
  Definition& definition = part.definition;
  const bool steps = user.scan && !definition.axes.empty() && part.read->subscripts[0] == Affine(Symbol::axis(0));
  if (!steps) return;
  definition.scan = user.scan;
  definition.recomputed = user.recomputed;
  const std::string& step = user.axes[0].name;
  const auto same = std::ranges::find(definition.axes, step, &AxisDecl::name);
  if (same != definition.axes.end()) same->name = definition.axes[0].name;
  definition.axes[0].name = step;
}

}  // namespace

Expr add_part(Program& program, Extraction part, const Definition& user) {
  part.definition.line = user.line;
  join_scan(part, user);
  program.definitions.push_back(std::move(part.definition));
  return part.read;
}

Program split_bodies(const Program& program, const BodySplitter& split) {
  Program known = program, result = program;
  result.definitions.clear();
  for (const std::span<const Definition> group : groups_of(program)) {
    std::vector<Definition> members;
    for (Definition definition : group) {
      const auto parts = static_cast<std::ptrdiff_t>(known.definitions.size());
      definition.body = split(known, definition);
      // Parts that do not step stand before the scan.
      for (auto part = known.definitions.begin() + parts; part != known.definitions.end(); ++part)
        (part->scan == definition.scan ? members : result.definitions).push_back(*part);
      members.push_back(std::move(definition));
    }
    std::ranges::move(members, std::back_inserter(result.definitions));
  }
  return leave_scans(result);
}

}  // namespace moxie
