#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "compiler/analysis/inside_proof.h"
#include "compiler/expression/functions.h"
#include "compiler/program/placeholders.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"

namespace moxie {
namespace {

/// From an exponential on, a load is cheaper.
constexpr double kWorthALoad = 8;

/// A combination of indices through which alone an expression sees them, such as i - j, and the indices of tensors that
/// it reads besides.
struct IndexCombination {
  Affine direction;  // coefficients without a common factor, of which the first is positive
  std::vector<Symbol> others;
};

/// The part of the affine that indices move.
Affine moving_part(const Affine& affine) {
  Affine moving;
  for (const auto& [symbol, coefficient] : affine.terms()) {
    if (!symbol.is_dim()) moving += Affine(symbol) * coefficient;
  }
  return moving;
}

/// How many times the direction the affine moves; nothing where it moves in another way.
std::optional<std::int64_t> multiple_of(const Affine& affine, const Affine& direction) {
  const auto& [symbol, coefficient] = direction.terms().front();
  const std::int64_t multiple = affine.coefficient(symbol) / coefficient;
  return moving_part(affine) == direction * multiple ? std::optional(multiple) : std::nullopt;
}

/// A sum as numbers times what is affine in indices, 0.2*i - 0.2*j, and the other terms.
struct SplitSum {
  std::map<double, Affine> affines;  // by the number, which is positive
  std::vector<Expr> others;
};

/// The number and the affine expression that the term is the product of.
std::optional<std::pair<double, Affine>> scaled_affine(const Expr& term) {
  if (const auto affine = affine_of(term)) return std::pair(1.0, *affine);
  const bool is_negated = is_call(term, "neg");
  const Expr& product = is_negated ? term->args[0] : term;
  if (!is_call(product, "*") || product->args.size() != 2 || product->args[0]->kind != NodeKind::Constant)
    return std::nullopt;
  const double number = product->args[0]->value;
  const auto affine = affine_of(product->args[1]);
  if (!affine || !std::isfinite(number) || number == 0) return std::nullopt;
  return std::pair(std::abs(number), *affine * (is_negated != (number < 0) ? -1 : 1));
}

SplitSum split_sum(const Expr& sum) {
  SplitSum split;
  for (const Expr& arg : sum->args) {
    if (const auto scaled = scaled_affine(arg))
      split.affines[scaled->first] += scaled->second;
    else
      split.others.push_back(arg);
  }
  return split;
}

class CombinationFinder {
 public:
  explicit CombinationFinder(const Scope& scope) : scope_(scope) {}

  std::optional<IndexCombination> find(const Expr& expr) {
    collect(expr);
    if (!fits_ || !direction_ || direction_->terms().size() < 2) return std::nullopt;
    const auto is_apart = [&](Symbol symbol) { return !direction_->mentions(symbol); };
    if (!std::ranges::all_of(others_, is_apart)) return std::nullopt;
    return IndexCombination{*direction_, others_};
  }

 private:
  void collect(const Expr& expr) {
    if (const auto affine = affine_of(expr)) return take(*affine);
    if (expr->kind == NodeKind::Access) {
      fits_ &= !reads_by_value(expr);
      for (const Symbol symbol : open_symbols_of(expr, scope_)) {
        if (!is_among(others_, symbol)) others_.push_back(symbol);
      }
      return;
    }
    fits_ &= expr->kind == NodeKind::Call || expr->kind == NodeKind::Constant;
    const bool is_sum = is_call(expr, "+");
    const SplitSum split = is_sum ? split_sum(expr) : SplitSum{};
    for (const auto& [number, affine] : split.affines) take(affine);
    for (const Expr& arg : is_sum ? split.others : expr->args) {
      if (fits_) collect(arg);
    }
  }

  void take(const Affine& affine) {
    if (!fits_) return;
    const Affine moving = moving_part(affine);
    if (moving.terms().empty()) return;
    if (direction_) {
      fits_ &= multiple_of(moving, *direction_).has_value();
      return;
    }
    std::int64_t divisor = 0;
    for (const auto& term : moving.terms()) divisor = std::gcd(divisor, term.second);
    if (moving.terms().front().second < 0) divisor = -divisor;
    direction_ = Affine(0);
    for (const auto& [symbol, coefficient] : moving.terms()) *direction_ += Affine(symbol) * (coefficient / divisor);
  }

  const Scope& scope_;
  std::optional<Affine> direction_;
  std::vector<Symbol> others_;
  bool fits_ = true;
};

/// The largest or the smallest value that the indices of the scope give the affine, in dims.
std::optional<Affine> end_of(Affine affine, const Scope& scope, bool largest) {
  for (auto it = scope.open.rbegin(); it != scope.open.rend(); ++it) {
    const auto& [symbol, range] = *it;
    const std::int64_t coefficient = affine.coefficient(symbol);
    if (coefficient == 0) continue;
    const std::vector<Bound>& bounds = (coefficient > 0) == largest ? range.highs : range.lows;
    const auto bound = std::ranges::find(bounds, 1, &Bound::divisor);
    if (bound == bounds.end()) return std::nullopt;
    affine = affine.substitute([&](Symbol s) { return s == symbol ? &bound->value : nullptr; });
  }
  return moving_part(affine).terms().empty() ? std::optional(affine) : std::nullopt;
}

/// What conditions and ranges say of the indices.
IndexDomain known_domain(const Scope& scope) {
  IndexDomain domain = domain_of(scope);
  for (const Expr& condition : scope.conditions) domain = domain.where(condition, true);
  return domain;
}

class Tabulator {
 public:
  Tabulator(Program& known, const Definition& user) : program_(known), user_(user) {}

  Expr run() {
    return rewrite_top_down(user_.body, Scope::of(user_),
                            [this](const Expr& expr, const Scope& scope) { return visit_node(expr, scope); });
  }

 private:
  std::optional<Expr> visit_node(const Expr& expr, const Scope& scope) {
    const bool is_function = expr->kind == NodeKind::Call && expr->function->result == ResultType::Number;
    if (!is_function || cost(expr) < kWorthALoad) return std::nullopt;
    const auto combination = CombinationFinder(scope).find(expr);
    if (!combination || !is_repeated(*combination, scope) || waits_for_scan(expr, *combination)) return std::nullopt;
    auto table = table_of(expr, *combination, scope);
    return table ? std::optional(add_part(program_, std::move(*table), user_)) : std::nullopt;
  }

  /// Whether a table without an axis of steps, which stands before the scan, would read what the scan computes.
  bool waits_for_scan(const Expr& expr, const IndexCombination& combination) const {
    if (!user_.scan || is_among(combination.others, Symbol::axis(0))) return false;
    bool waits = false;
    visit(expr, [&](const Expr& e) {
      const Definition* read = e->kind == NodeKind::Access ? program_.find_definition(e->tensor) : nullptr;
      waits |= read && read->scan && read->scan->number == user_.scan->number;
    });
    return waits;
  }

  /// Whether each value of the combination stands for many pairs of indices.
  static bool is_repeated(const IndexCombination& combination, const Scope& scope) {
    return std::ranges::all_of(combination.direction.terms(), [&](const Affine::Term& term) {
      const Range* range = scope.find(term.first);
      return range && std::abs(term.second) == 1 && is_long(*range, scope);
    });
  }

  std::optional<Extraction> table_of(const Expr& expr, const IndexCombination& combination, const Scope& scope) const {
    const Affine& direction = combination.direction;
    auto first = end_of(direction, scope, false);
    const auto last = end_of(direction, scope, true);
    if (!first || !last) return std::nullopt;
    const bool is_positive = known_domain(scope).prove_nonnegative(direction) == Proof::Holds;
    if (is_positive) first = Affine(0);
    Definition table;
    table.name = unused_name(program_, user_.name + ".table");
    table.dtype = scope.dtype;
    table.line = user_.line;
    std::vector<Affine> place;
    Replacement to_axes;
    for (const auto& [symbol, range] : scope.open) {
      if (!is_among(combination.others, symbol)) continue;
      const auto extent = has_fixed_extent(range) ? range.as_extent() : std::nullopt;
      if (!extent) return std::nullopt;
      add_axis(table, *extent, symbol, to_axes);
      place.emplace_back(symbol);
    }
    const Symbol element = Symbol::fresh();
    add_axis(table, *last - *first + Affine(1), element, to_axes);
    place.push_back(direction - *first);
    table.body = substitute(at(expr, direction, Affine(element) + *first), to_axes);
    IndexDomain domain({});
    for (std::uint32_t k = 0; k < table.axes.size(); ++k) domain.add_range(Symbol::axis(k), table.axes[k].range);
    if (!InsideProof(program_, Inside::Element).holds_within(table.body, domain)) return std::nullopt;
    const Expr read = tensor_access(table.name, std::move(place));
    return Extraction{std::move(table), read};
  }

  void add_axis(Definition& table, const Affine& extent, Symbol symbol, Replacement& to_axes) const {
    to_axes.emplace_back(symbol, Affine(Symbol::axis(static_cast<std::uint32_t>(table.axes.size()))));
    table.axes.push_back({axis_name(program_, table.axes, extent), extent, Range::extent(extent)});
  }

  /// The expression where the direction has that value.
  static Expr at(const Expr& expr, const Affine& direction, const Affine& value) {
    if (const auto affine = affine_of(expr)) {
      const Affine moving = moving_part(*affine);
      return moving.terms().empty() ? expr : number_of(*affine - moving + value * *multiple_of(moving, direction));
    }
    const auto in_child = [&](const Expr& child) { return at(child, direction, value); };
    if (!is_call(expr, "+")) return map_children(expr, in_child);
    const SplitSum split = split_sum(expr);
    std::vector<Expr> terms;
    for (const auto& [number, affine] : split.affines) {
      const Expr sum = in_child(number_of(affine));
      terms.push_back(number == 1 ? sum : constant(number) * sum);
    }
    for (const Expr& term : split.others) terms.push_back(in_child(term));
    return terms.size() == 1 ? terms[0] : call("+", std::move(terms));
  }

  Program& program_;
  const Definition& user_;
};

}  // namespace

Program tabulate_differences(const Program& program) {
  return split_bodies(program, [](Program& known, const Definition& definition) {
    const bool is_algebra = definition.body->kind == NodeKind::LinearAlgebra;
    return is_algebra ? definition.body : Tabulator(known, definition).run();
  });
}

}  // namespace moxie
