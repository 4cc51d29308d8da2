#include "compiler/rewrite/algebra/scope.h"

#include <algorithm>

#include "compiler/expression/node_map.h"
#include "compiler/rewrite/algebra/algebra.h"

namespace moxie {

Scope Scope::of(const Definition& definition) {
  Scope scope;
  scope.dtype = computed_dtype(definition.dtype);
  scope.scan = definition.scan;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    scope.open.emplace_back(Symbol::axis(k), definition.axes[k].range);
  return scope;
}

const Range* Scope::find(Symbol symbol) const {
  const auto it = std::ranges::find(open, symbol, &std::pair<Symbol, Range>::first);
  return it == open.end() ? nullptr : &it->second;
}

Scope Scope::with(Symbol symbol, const Range& range) const {
  Scope inner = *this;
  inner.open.emplace_back(symbol, range);
  return inner;
}

Scope Scope::where(const Expr& condition) const {
  Scope inner = *this;
  inner.conditions.push_back(condition);
  return inner;
}

Scope Scope::in(DType computed) const {
  Scope inner = *this;
  inner.dtype = computed;
  return inner;
}

std::optional<std::int64_t> known_extent(const Range& range) {
  const auto extent = range.as_extent();
  if (extent && extent->is_constant()) return std::max<std::int64_t>(extent->constant(), 0);
  return std::nullopt;
}

namespace {

bool mentions_dim(const Range& range) {
  const auto mentions = [](const Bound& bound) {
    return std::ranges::any_of(bound.value.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
  };
  return std::ranges::any_of(range.lows, mentions) || std::ranges::any_of(range.highs, mentions);
}

/// The width of a range between its constant parts, where outer indices move both ends or only one of them.
std::int64_t width_guess(const Range& range) {
  std::int64_t low = 0;
  for (const Bound& bound : range.lows) low = std::max(low, ceil_div(bound.value.constant(), bound.divisor));
  std::int64_t high = -1;
  for (const Bound& bound : range.highs) high = std::max(high, floor_div(bound.value.constant(), bound.divisor));
  return std::max<std::int64_t>(high - low + 1, 1);
}

}  // namespace

bool is_long(const Range& range) {
  if (const auto count = range.known_trip_count(); count && count->is_constant() && count->constant() < kLongExtent)
    return false;
  return mentions_dim(range) || (known_extent(range) && *known_extent(range) >= kLongExtent);
}

namespace {

std::optional<std::int64_t> extreme(const Range& range, const Scope& scope, bool largest);

/// The largest (smallest) value where the scope's indices move it; nothing where a dim does, too.
std::optional<std::int64_t> extreme(const Affine& affine, const Scope& scope, bool largest) {
  std::int64_t result = affine.constant();
  for (const auto& [symbol, coefficient] : affine.terms()) {
    const Range* range = scope.find(symbol);
    const auto end = range ? extreme(*range, scope, (coefficient > 0) == largest) : std::nullopt;
    if (!end) return std::nullopt;
    result = checked_add(result, checked_mul(coefficient, *end));
  }
  return result;
}

/// The largest (smallest) index of the range.
std::optional<std::int64_t> extreme(const Range& range, const Scope& scope, bool largest) {
  std::optional<std::int64_t> result;
  for (const Bound& bound : largest ? range.highs : range.lows) {
    const auto value = extreme(bound.value, scope, largest);
    if (!value) return std::nullopt;
    const std::int64_t end = largest ? floor_div(*value, bound.divisor) : ceil_div(*value, bound.divisor);
    result = !result ? end : largest ? std::min(*result, end) : std::max(*result, end);
  }
  return result;
}

/// The most indices between two ends that move alike, such as those of a band, or of every second position.
std::optional<std::int64_t> width_of_band(const Range& range) {
  std::optional<std::int64_t> width;
  for (const Bound& low : range.lows) {
    for (const Bound& high : range.highs) {
      const Affine difference = high.value - low.value;
      if (low.divisor != high.divisor || !difference.is_constant()) continue;
      const std::int64_t most = floor_div(difference.constant(), low.divisor) + 1;
      width = std::min(width.value_or(most), most);
    }
  }
  return width;
}

}  // namespace

double longest_extent(const Range& range, const Scope& scope) {
  if (const auto count = range.known_trip_count(); count && count->is_constant())
    return static_cast<double>(count->constant());
  if (const auto width = width_of_band(range)) return static_cast<double>(*width);
  const auto low = extreme(range, scope, false);
  const auto high = extreme(range, scope, true);
  return low && high ? static_cast<double>(*high - *low + 1) : kAssumedExtent;
}

std::optional<std::int64_t> largest_value(const Affine& affine, const Scope& scope) {
  return extreme(affine, scope, true);
}

double iterations(const Expr& expr, const Scope& scope, bool depends) {
  double result = 1;
  for (const auto& [symbol, range] : scope.open) {
    if (expr->depends_on(symbol) == depends) result *= longest_extent(range, scope);
  }
  return result;
}

bool is_long(const Range& range, const Scope& scope) { return longest_extent(range, scope) >= kLongExtent; }

bool mentions(const Range& range, Symbol symbol) {
  const auto in = [&](const Bound& bound) { return bound.value.mentions(symbol); };
  return std::ranges::any_of(range.lows, in) || std::ranges::any_of(range.highs, in);
}

bool has_fixed_extent(const Range& range) {
  const auto extent = range.as_extent();
  return extent && std::ranges::all_of(extent->terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
}

bool has_axes_by_value(const Program& program, const Expr& expr, Symbol index, bool in_scan) {
  bool result = true;
  visit(expr, [&](const Expr& e) {
    const Definition* definition = e->kind == NodeKind::Access ? program.find_definition(e->tensor) : nullptr;
    for (std::size_t k = 0; definition && k < e->subscripts.size(); ++k) {
      const bool is_step = k == 0 && definition->scan && in_scan;
      if (e->subscripts[k].mentions(index)) result &= has_fixed_extent(definition->axes[k].range) && !is_step;
    }
  });
  return result;
}

double assumed_extent(const Range& range) {
  if (const auto extent = known_extent(range)) return static_cast<double>(*extent);
  if (const auto count = range.known_trip_count(); count && count->is_constant())
    return static_cast<double>(count->constant());
  if (const auto width = width_of_band(range)) return static_cast<double>(std::max<std::int64_t>(*width, 1));
  if (mentions_dim(range)) return kAssumedExtent;
  return static_cast<double>(width_guess(range)) * 0.6;  // dependent bounds: a triangle, more or less
}

double assumed_size(const std::vector<AxisDecl>& axes) {
  double size = 1;
  for (const AxisDecl& axis : axes) size *= assumed_extent(Range::extent(axis.extent));
  return size;
}

double largest_tensor(const Program& program) {
  double largest = 1;
  for (const InputDecl& input : program.inputs) {
    double size = 1;
    for (const Affine& extent : input.shape) size *= assumed_extent(Range::extent(extent));
    largest = std::max(largest, size);
  }
  for (const Definition& definition : program.definitions) {
    if (definition.output) largest = std::max(largest, assumed_size(definition.axes));
  }
  return largest;
}

namespace {

/// The dtype that f32(...) or f64(...) fixes for what stands inside.
std::optional<DType> cast_of(const Expr& expr) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    if (is_call(expr, to_string(dtype))) return dtype;
  }
  return std::nullopt;
}

}  // namespace

Expr rewrite_bottom_up(const Expr& expr, const Scope& scope, const std::function<Expr(const Expr&, const Scope&)>& f) {
  Results done;
  const std::function<Expr(const Expr&)> walk = [&](const Expr& e) -> Expr {
    if (const Expr* known = done.find(e)) return *known;
    Expr rebuilt;
    if (e->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(e);
      const Scope inside = scope.with(opened.index, opened.range);
      rebuilt = map_opened(e, opened, [&](const Expr& child) { return rewrite_bottom_up(child, inside, f); });
    } else if (const auto dtype = cast_of(e); dtype && dtype != scope.dtype) {
      rebuilt = with_args(e, {rewrite_bottom_up(e->args[0], scope.in(*dtype), f)});
    } else {
      rebuilt = map_children(e, walk);
    }
    const Expr result = f(rebuilt, scope);
    done.emplace(e, result);
    return result;
  };
  return walk(expr);
}

bool may_need_guard(const Expr& expr) {
  bool found = expr->gathers;
  visit(expr, [&](const Expr& e) {
    found |= e->kind == NodeKind::Access &&
             !std::ranges::all_of(e->subscripts, [](const Affine& s) { return s.as_symbol().has_value(); });
  });
  return found;
}

namespace {

/// Whether a condition may guard accesses: it compares indices and, where subscripts depend on values, elements.
bool may_guard(const Expr& condition, bool gathers) {
  bool may = true;
  visit(condition, [&](const Expr& e) {
    may &= e->kind == NodeKind::Constant || e->kind == NodeKind::IndexValue || e->kind == NodeKind::Call ||
           (gathers && e->kind == NodeKind::Access);
  });
  return may;
}

bool is_guard(const Expr& expr) {
  return is_call(expr, "where") && may_need_guard(expr) && may_guard(expr->args[0], expr->gathers);
}

}  // namespace

Expr rewrite_top_down(const Expr& expr, const Scope& scope,
                      const std::function<std::optional<Expr>(const Expr&, const Scope&)>& f) {
  Results done;
  const std::function<Expr(const Expr&)> walk = [&](const Expr& e) -> Expr {
    if (const Expr* known = done.find(e)) return *known;
    Expr result;
    if (const auto replaced = f(e, scope)) {
      result = *replaced;
    } else if (e->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(e);
      const Scope inside = scope.with(opened.index, opened.range);
      result = map_opened(e, opened, [&](const Expr& child) { return rewrite_top_down(child, inside, f); });
    } else if (const auto dtype = cast_of(e); dtype && dtype != scope.dtype) {
      result = with_args(e, {rewrite_top_down(e->args[0], scope.in(*dtype), f)});
    } else if (is_guard(e)) {
      const Expr& condition = e->args[0];
      result = with_args(e, {condition, rewrite_top_down(e->args[1], scope.where(condition), f),
                             rewrite_top_down(e->args[2], scope.where(call("not", {condition})), f)});
    } else {
      result = map_children(e, walk);
    }
    done.emplace(e, result);
    return result;
  };
  return walk(expr);
}

bool is_among(const std::vector<Symbol>& symbols, Symbol symbol) {
  return std::ranges::find(symbols, symbol) != symbols.end();
}

bool depends_on_any(const Expr& expr, const std::vector<Symbol>& symbols) {
  return std::ranges::any_of(symbols, [&](Symbol symbol) { return expr->depends_on(symbol); });
}

std::vector<Symbol> open_symbols_of(const Expr& expr, const Scope& scope) {
  std::vector<Symbol> symbols;
  for (const auto& [symbol, range] : scope.open) {
    if (expr->depends_on(symbol)) symbols.push_back(symbol);
  }
  return symbols;
}

std::string unused_name(const Program& program, const std::string& stem) {
  const auto used = [&](const std::string& name) { return program.find_input(name) || program.find_definition(name); };
  if (!used(stem)) return stem;
  for (int k = 1;; ++k) {
    const std::string name = stem + "." + std::to_string(k);
    if (!used(name)) return name;
  }
}

}  // namespace moxie
