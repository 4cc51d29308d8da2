#include "compiler/rewrite/extract.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/ir/index_domain.h"
#include "compiler/rewrite/algebra.h"

namespace moxie {
namespace {

/// Bounds that hold for all values of the symbols that `stays` does not name: each of these gives way to its own bounds.
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
      if (coefficient == 0) add(bound);
      else for (const Bound& end : (coefficient > 0) == lower ? range.lows : range.highs) {
        add({checked_mul(bound.divisor, end.divisor), rest * end.divisor + end.value * coefficient});
      }
    }
    bounds = std::move(next);
  }
  return bounds;
}

/// Storage is a box: room for the smallest upper bound that no other index moves.
Affine room_for(const Range& range, const Scope& scope) {
  std::optional<Affine> room;
  for (const Bound& bound : widened(range.highs, false, scope, [](Symbol) { return false; })) {
    // Without the division the room is larger than need be, but an affine number.
    const Affine size = bound.value.is_constant() ? Affine(floor_div(bound.value.constant(), bound.divisor) + 1) : bound.value + Affine(1);
    const bool smaller = !room || (size.is_constant() && (!room->is_constant() || size.constant() < room->constant()));
    if (smaller) room = size;
  }
  if (room->is_constant()) return std::max<std::int64_t>(room->constant(), 0);
  return *room;
}

std::string axis_name(const Program& program, const std::vector<AxisDecl>& axes, const Affine& extent) {
  const auto taken = [&](const std::string& name) {
    return std::ranges::count(axes, name, &AxisDecl::name) > 0 || program.find_dim(name) || program.find_input(name) || program.find_definition(name);
  };
  for (const IndexDecl& index : program.indices) {
    if (index.range == Range::extent(extent) && !taken(index.name)) return index.name;
  }
  std::string name = "i" + std::to_string(axes.size());
  while (taken(name)) name += "_";
  return name;
}

/// Whether every access lies inside its tensor by the ranges of the axes and what the body itself says.
class InsideProof {
 public:
  explicit InsideProof(const Program& program) : program_(program) {}

  bool holds(const std::vector<AxisDecl>& axes, const Expr& body) const {
    IndexDomain domain({});
    for (std::uint32_t k = 0; k < axes.size(); ++k) {
      domain.add_range(Symbol::axis(k), axes[k].range);
      if (domain.prove_nonnegative(Symbol::axis(k)) != Proof::Holds) return false;
    }
    Place place{domain, {}};
    return holds(body, place);
  }

 private:
  struct Place {
    IndexDomain domain;
    std::unordered_set<const Node*> done;
  };

  bool holds(const Expr& expr, Place& place) const {
    if (!place.done.insert(expr.get()).second) return true;
    if (expr->kind == NodeKind::Access) return is_inside(expr, place.domain);
    if (expr->kind == NodeKind::Reduce) {
      Place inner{place.domain, {}};
      inner.domain.add_range(Symbol::bound(expr->height), expr->range);
      return holds(expr->args[0], inner);
    }
    if (is_call(expr, "where")) {
      Place yes{place.domain.where(expr->args[0], true), {}};
      Place no{place.domain.where(expr->args[0], false), {}};
      return holds(expr->args[0], place) && holds(expr->args[1], yes) && holds(expr->args[2], no);
    }
    return std::ranges::all_of(expr->args, [&](const Expr& arg) { return holds(arg, place); });
  }

  bool is_inside(const Expr& access, const IndexDomain& domain) const {
    const Definition* definition = program_.find_definition(access->tensor);
    const std::vector<Affine> shape = program_.shape_of(access->tensor);
    const auto element = [&](Symbol s) { return s.kind() == Symbol::Kind::Axis ? &access->subscripts[s.number()] : nullptr; };
    for (std::size_t k = 0; k < shape.size(); ++k) {
      const Range range = definition ? definition->axes[k].range.substitute(element) : Range::extent(shape[k]);
      const Affine& at = access->subscripts[k];
      const auto above = [&](const Bound& low) { return domain.prove_nonnegative(at * low.divisor - low.value) == Proof::Holds; };
      const auto below = [&](const Bound& high) { return domain.prove_nonnegative(high.value - at * high.divisor) == Proof::Holds; };
      if (!std::ranges::all_of(range.lows, above) || !std::ranges::all_of(range.highs, below)) return false;
    }
    return true;
  }

  const Program& program_;
};

}  // namespace

std::optional<Extraction> extract(const Program& program, const Scope& scope, const Expr& expr, const std::string& stem, DType dtype) {
  const std::vector<Symbol> symbols = open_symbols_of(expr, scope);
  const auto becomes_axis = [&](Symbol symbol) { return std::ranges::find(symbols, symbol) != symbols.end(); };
  Replacement to_axes;
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(to_axes, symbol, &std::pair<Symbol, Affine>::first);
    return it == to_axes.end() ? nullptr : &it->second;
  };
  Definition definition{unused_name(program, stem), dtype, {}, {}, false, 0};
  for (const Symbol symbol : symbols) {
    const Range& range = *scope.find(symbol);
    const Range own = {widened(range.lows, true, scope, becomes_axis), widened(range.highs, false, scope, becomes_axis)};
    const Affine room = room_for(range, scope);
    definition.axes.push_back({axis_name(program, definition.axes, room), room, own.substitute(lookup)});
    to_axes.emplace_back(symbol, Symbol::axis(static_cast<std::uint32_t>(definition.axes.size() - 1)));
  }
  definition.body = substitute(expr, to_axes);
  if (!InsideProof(program).holds(definition.axes, definition.body)) return std::nullopt;
  const Expr read = access(definition.name, std::vector<Affine>(symbols.begin(), symbols.end()));
  return Extraction{std::move(definition), read};
}

}  // namespace moxie
