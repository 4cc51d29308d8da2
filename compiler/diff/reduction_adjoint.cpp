#include "compiler/diff/reduction_adjoint.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "compiler/diff/open_definition.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// Directly nested reductions of one kind, opened.
struct ReductionList {
  std::vector<SumLoop> loops;   // outermost first
  std::vector<IndexBox> boxes;  // of all loops but the outermost
  IterationDomain domain;       // with the loops
  Expr body;
};

ReductionList open_list(const Expr& reduction, const IterationDomain& around) {
  ReductionList list{{}, {}, around, reduction};
  while (list.body->kind == NodeKind::Reduce && list.body->reduce == reduction->reduce) {
    const OpenedReduce opened = open(list.body);
    IterationDomain inner = extended(list.domain, opened.index, opened.range);
    if (!list.loops.empty()) {
      const auto box = box_of(inner, opened.index);
      if (!box) break;
      list.boxes.push_back(*box);
    }
    list.loops.push_back({opened.index, opened.range});
    list.domain = std::move(inner);
    list.body = opened.body;
  }
  return list;
}

Affine extent_of(const IndexBox& box) { return box.high - box.low + Affine(1); }

/// Numbers the iterations in their order.
Expr position_in(const ReductionList& list) {
  Affine position = list.loops[0].index;
  std::size_t k = 0;
  for (; k < list.boxes.size() && extent_of(list.boxes[k]).is_constant(); ++k)
    position = position * extent_of(list.boxes[k]).constant() + Affine(list.loops[k + 1].index) - list.boxes[k].low;
  Expr result = index_value(position);
  for (; k < list.boxes.size(); ++k) {
    result = result * index_value(extent_of(list.boxes[k])) +
             index_value(Affine(list.loops[k + 1].index) - list.boxes[k].low);
  }
  return result;
}

std::optional<double> known_value(const Affine& affine, const std::vector<DimDecl>& dims) {
  double value = static_cast<double>(affine.constant());
  for (const auto& [symbol, coefficient] : affine.terms()) {
    const auto dim = std::ranges::find(dims, symbol, [](const DimDecl& d) { return Symbol::dim(d.name); });
    if (dim == dims.end() || !dim->value) return std::nullopt;
    value += static_cast<double>(coefficient) * static_cast<double>(*dim->value);
  }
  return value;
}

/// Positions are whole numbers, which single holds up to 2^24.
bool are_positions_exact_in_single(const ReductionList& list, const std::vector<DimDecl>& dims) {
  constexpr double kExact = 1 << 24;
  const auto outermost = box_of(list.domain, list.loops[0].index);
  const auto low = outermost ? known_value(outermost->low, dims) : std::nullopt;
  const auto high = outermost ? known_value(outermost->high, dims) : std::nullopt;
  if (!low || !high) return false;
  double largest = std::max(std::abs(*low), std::abs(*high)) + 1;
  for (const IndexBox& box : list.boxes) {
    const auto extent = known_value(extent_of(box), dims);
    if (!extent) return false;
    largest *= std::max(*extent, 1.0);
  }
  return largest <= kExact;
}

Expr reduce_list(ReduceKind kind, const ReductionList& list, Expr body) {
  for (const SumLoop& loop : list.loops | std::views::reverse) body = reduce(kind, loop.index, loop.range, body);
  return body;
}

/// An expression that is computed in `dtype`, for an expression that is computed in `outer`.
Expr computed_in(DType dtype, DType outer, const Expr& expr) {
  return dtype == outer ? expr : call(to_string(dtype), {expr});
}

/// The position of the extremum of `value`, which is computed in `dtype`, for a definition of dtype `outer`.
Expr search_list(ReduceKind kind, const ReductionList& list, Expr value, DType dtype, Expr position, DType outer) {
  for (const SumLoop& loop : list.loops | std::views::reverse) {
    position = reduce(kind, loop.index, loop.range, computed_in(dtype, outer, value), position);
    value = reduce(*extremum_of(kind), loop.index, loop.range, value);
  }
  return position;
}

ReductionDerivative of_extremum(const Expr& reduction, const ReductionPlace& place) {
  const ReductionList list = open_list(reduction, place.domain);
  const DType dtype = are_positions_exact_in_single(list, place.program.dims) ? place.dtype : DType::f64;
  const Expr position = position_in(list);
  const Expr first =
      place.store(search_list(*position_of(reduction->reduce), list, list.body, place.dtype, position, dtype), dtype);
  const Expr is_first = dtype == place.dtype ? call("==", {position, first})
                                             : call("==", {computed_in(dtype, place.dtype, position - first), 0});
  return {list.loops, list.body, call("where", {is_first, 1, 0})};
}

/// Largest for NaN, then for 0, then for infinite numbers, then for what is furthest from 1.
Expr distance_from_one(const Expr& factor) {
  const Expr size = call("abs", {factor});
  return call("where", {call("<", {size, 1}), 1 / size, call("min", {size, std::numeric_limits<double>::max()})});
}

/// A number to divide by in the place of the factor. Where that is zero or infinite, factors that were set apart are
/// too (or NaN), so that a number of the same sign does.
Expr divisor_for(const Expr& factor) {
  constexpr double kLargest = std::numeric_limits<double>::max();
  const Expr finite = call("max", {call("min", {factor, kLargest}), -kLargest});
  return call("where", {call("==", {factor, 0}), 1, finite});
}

ReductionDerivative of_product(const Expr& reduction, const ReductionPlace& place) {
  const ReductionList list = open_list(reduction, place.domain);
  const auto store = [&](const Expr& value) { return place.store(value, DType::f64); };
  const auto search = [&](const Expr& value, const Expr& position) {
    return store(search_list(ReduceKind::ArgMax, list, value, DType::f64, position, DType::f64));
  };
  const Expr position = position_in(list);
  const Expr factor = computed_in(place.dtype, DType::f64, list.body);
  const Expr distance = distance_from_one(factor);
  const Expr is_first = call("==", {position, search(distance, position)});
  const Expr second = search(call("where", {is_first, -1, distance}), call("where", {is_first, HUGE_VAL, position}));
  const Expr is_second = call("==", {position, second});
  const Expr x1 = store(reduce_list(ReduceKind::Sum, list, call("where", {is_first, factor, 0})));
  const Expr x2 = store(reduce_list(ReduceKind::Sum, list, call("where", {is_second, factor, 0})) +
                        call("where", {call("<", {second, HUGE_VAL}), 0, 1}));
  const Expr others =
      store(reduce_list(ReduceKind::Product, list, call("where", {call("or", {is_first, is_second}), 1, factor})));
  const Expr elsewhere = x1 / divisor_for(factor) * others * x2;
  const Expr derivative = call("where", {is_first, x2 * others, call("where", {is_second, x1 * others, elsewhere})});
  return {list.loops, list.body, computed_in(DType::f64, place.dtype, derivative)};
}

ReductionDerivative of_one_loop(const Expr& reduction, double derivative) {
  const OpenedReduce opened = open(reduction);
  return {{{opened.index, opened.range}}, opened.body, derivative};
}

/// Whether expr is a sum of which one term is -total.
template <class IsTotal>
bool subtracts(const Expr& expr, const IsTotal& is_total) {
  if (is_call(expr, "neg")) return is_total(expr->args[0]);
  const auto does = [&](const Expr& term) { return subtracts(term, is_total); };
  return is_call(expr, "+") && std::ranges::any_of(expr->args, does);
}

/// Whether exponentials are divided by that of this log-sum-exp: those of a softmax, which its derivative reads again.
bool is_normaliser(const Expr& reduction, const ReductionPlace& place) {
  const auto is_total = [&](const Expr& term) {
    return term == reduction || (term->kind == NodeKind::Access && term->tensor == place.definition);
  };
  const auto is_divided = [&](const Expr& body) {
    bool found = false;
    visit(body, [&](const Expr& e) { found |= is_call(e, "exp") && subtracts(e->args[0], is_total); });
    return found;
  };
  return is_divided(place.body) || std::ranges::any_of(place.program.definitions, is_divided, &Definition::body);
}

/// The softmax of `element` as an element of the definition, where that is this softmax and nothing else.
std::optional<Expr> read_softmax(const Expr& reduction, const Expr& element, const SumLoop& loop,
                                 const ReductionPlace& place) {
  const std::vector<AxisDecl>& axes = place.program.find_definition(place.definition)->axes;
  const std::vector<Affine>& open = place.whole->subscripts;
  const auto axis_value = [&](Symbol symbol) {
    return symbol.kind() == Symbol::Kind::Axis ? &open.at(symbol.number()) : nullptr;
  };
  const auto is_open = [&](Symbol symbol) {
    const auto& variables = place.domain.variables;
    return symbol.is_dim() || symbol == loop.index || std::ranges::find(variables, symbol) != variables.end();
  };
  const Expr softmax = softmax_element(element, reduction);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const Replacement at_loop = {{*open[k].as_symbol(), Affine(loop.index)}};
    const Expr read = substitute(place.whole, at_loop);
    if (axes[k].range.substitute(axis_value) == loop.range && substitute(place.body, at_loop) == softmax &&
        std::ranges::all_of(read->free_symbols, is_open))
      return read;
  }
  return std::nullopt;
}

/// That of directly nested ones needs no result but the outermost.
ReductionDerivative of_log_sum_exp(const Expr& reduction, const ReductionPlace& place) {
  ReductionDerivative result{{}, reduction, {}};
  while (result.body->kind == NodeKind::Reduce && result.body->reduce == ReduceKind::LogSumExp) {
    const OpenedReduce opened = open(result.body);
    result.loops.push_back({opened.index, opened.range});
    result.body = opened.body;
  }
  if (result.loops.size() == 1) {
    if (const auto softmax = read_softmax(reduction, result.body, result.loops[0], place)) {
      result.derivative = *softmax;
      return result;
    }
  }
  const Expr total = place.value();
  const bool divides = is_normaliser(reduction, place);
  result.derivative =
      call("exp", {result.body - (divides ? total : call("max", {total, -largest_number(place.dtype)}))});
  return result;
}

}  // namespace

ReductionDerivative differentiate_reduction(const Expr& reduction, const ReductionPlace& place) {
  if (position_of(reduction->reduce)) return of_extremum(reduction, place);
  if (reduction->reduce == ReduceKind::Product) return of_product(reduction, place);
  if (reduction->reduce == ReduceKind::LogSumExp) return of_log_sum_exp(reduction, place);
  // Positions are constant.
  return of_one_loop(reduction, reduction->reduce == ReduceKind::Sum ? 1 : 0);
}

}  // namespace moxie
