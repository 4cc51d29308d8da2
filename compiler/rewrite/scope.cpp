#include "compiler/rewrite/scope.h"

#include <algorithm>
#include <unordered_map>

namespace moxie {

Scope Scope::of(const Definition& definition) {
  Scope scope;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) scope.open.emplace_back(Symbol::axis(k), definition.axes[k].range);
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

bool is_long(const Range& range) { return mentions_dim(range) || (known_extent(range) && *known_extent(range) >= kLongExtent); }

double assumed_extent(const Range& range) {
  if (const auto extent = known_extent(range)) return static_cast<double>(*extent);
  if (mentions_dim(range)) return kAssumedExtent;
  return static_cast<double>(width_guess(range)) * 0.6;  // dependent bounds: a triangle, more or less
}

Expr rewrite_bottom_up(const Expr& expr, const Scope& scope, const std::function<Expr(const Expr&, const Scope&)>& f) {
  std::unordered_map<const Node*, std::pair<Expr, Expr>> done;
  const std::function<Expr(const Expr&)> walk = [&](const Expr& e) -> Expr {
    if (const auto it = done.find(e.get()); it != done.end()) return it->second.second;
    Expr rebuilt;
    if (e->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(e);
      rebuilt = reduce(e->reduce, opened.index, opened.range, rewrite_bottom_up(opened.body, scope.with(opened.index, opened.range), f));
    } else {
      rebuilt = map_children(e, walk);
    }
    const Expr result = f(rebuilt, scope);
    done.emplace(e.get(), std::pair(e, result));
    return result;
  };
  return walk(expr);
}

Expr rewrite_top_down(const Expr& expr, const Scope& scope, const std::function<std::optional<Expr>(const Expr&, const Scope&)>& f) {
  std::unordered_map<const Node*, std::pair<Expr, Expr>> done;
  const std::function<Expr(const Expr&)> walk = [&](const Expr& e) -> Expr {
    if (const auto it = done.find(e.get()); it != done.end()) return it->second.second;
    Expr result;
    if (const auto replaced = f(e, scope)) {
      result = *replaced;
    } else if (e->kind == NodeKind::Reduce) {
      const OpenedReduce opened = open(e);
      result = reduce(e->reduce, opened.index, opened.range, rewrite_top_down(opened.body, scope.with(opened.index, opened.range), f));
    } else {
      result = map_children(e, walk);
    }
    done.emplace(e.get(), std::pair(e, result));
    return result;
  };
  return walk(expr);
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
