#include "compiler/program/index_domain.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

constexpr std::size_t kMostSystems = 16;        // a condition that splits a domain further tells nothing
constexpr std::size_t kMostConstraints = 1000;  // beyond it an elimination gives up

// ---- Fourier-Motzkin elimination, with every constraint tightened to integers. ----

/// Constraints `terms + constant >= 0`, of those with equal terms the tightest.
class Constraints {
 public:
  void add(const Affine& affine) {
    std::int64_t divisor = 0;
    for (const auto& term : affine.terms()) divisor = std::gcd(divisor, term.second);
    Terms terms = affine.terms();
    for (auto& term : terms) term.second /= std::max<std::int64_t>(divisor, 1);
    const std::int64_t constant = divisor > 1 ? floor_div(affine.constant(), divisor) : affine.constant();
    if (terms.empty()) {
      contradictory_ |= constant < 0;
      return;
    }
    const auto [entry, added] = bounds_.try_emplace(std::move(terms), constant);
    if (!added) entry->second = std::min(entry->second, constant);
  }

  bool contradictory() const { return contradictory_; }
  bool gave_up() const { return gave_up_; }
  /// Whether a point that satisfies what is left stands for an integer point that satisfied all.
  bool exact() const { return exact_; }

  std::set<Symbol> symbols() const {
    std::set<Symbol> result;
    for (const auto& [terms, constant] : bounds_) {
      for (const auto& term : terms) result.insert(term.first);
    }
    return result;
  }

  /// Eliminates all symbols of which `chosen` is true: those whose elimination loses no integer point first, as what is
  /// left can then be tightened further, and of these the cheapest.
  template <class Predicate>
  void eliminate(Predicate chosen) {
    while (!contradictory_ && !gave_up_) {
      std::optional<Symbol> next;
      std::pair<bool, std::size_t> least;
      for (const Symbol symbol : symbols()) {
        if (!chosen(symbol)) continue;
        const std::pair<bool, std::size_t> price = cost(symbol);
        if (next && price >= least) continue;
        next = symbol;
        least = price;
      }
      if (!next) return;
      eliminate_symbol(*next);
    }
  }

  /// All of them, each >= 0.
  std::vector<Affine> all() const {
    std::vector<Affine> result;
    for (const auto& bound : bounds_) result.push_back(affine(bound));
    return result;
  }

 private:
  using Terms = std::vector<Affine::Term>;

  static Affine affine(const std::pair<const Terms, std::int64_t>& bound) {
    Affine result(bound.second);
    for (const auto& [symbol, coefficient] : bound.first) result += Affine(symbol) * coefficient;
    return result;
  }

  /// Whether eliminating the symbol may keep points that stand for no integer point, and the constraints that it makes.
  std::pair<bool, std::size_t> cost(Symbol symbol) const {
    std::size_t lows = 0;
    std::size_t highs = 0;
    bool units_below = true;
    bool units_above = true;
    for (const auto& bound : bounds_) {
      const auto term = std::ranges::find(bound.first, symbol, &Affine::Term::first);
      if (term == bound.first.end()) continue;
      ++(term->second > 0 ? lows : highs);
      units_below &= term->second < 0 || term->second == 1;
      units_above &= term->second > 0 || term->second == -1;
    }
    return {!units_below && !units_above, lows * highs};
  }

  void eliminate_symbol(Symbol symbol) {
    std::vector<Affine> lows;
    std::vector<Affine> highs;
    for (const auto& bound : std::exchange(bounds_, {})) {
      const Affine constraint = affine(bound);
      const std::int64_t coefficient = constraint.coefficient(symbol);
      if (coefficient > 0)
        lows.push_back(constraint);
      else if (coefficient < 0)
        highs.push_back(constraint);
      else
        add(constraint);
    }
    for (const Affine& low : lows) {
      for (const Affine& high : highs) {
        const std::int64_t a = low.coefficient(symbol);
        const std::int64_t b = -high.coefficient(symbol);
        exact_ &= a == 1 || b == 1;
        add(low * b + high * a);
      }
    }
    gave_up_ = bounds_.size() > kMostConstraints;
  }

  std::map<Terms, std::int64_t> bounds_;
  bool contradictory_ = false;
  bool gave_up_ = false;
  bool exact_ = true;
};

/// Most goals are a fact as it stands, such as 0 <= s for a subscript s; finding that is far cheaper than an
/// elimination.
bool is_among(const std::vector<Affine>& system, const Affine& goal) {
  return std::ranges::any_of(
      system, [&](const Affine& fact) { return fact.terms() == goal.terms() && fact.constant() <= goal.constant(); });
}

Constraints constraints_on_dims(const std::vector<Affine>& system) {
  Constraints result;
  for (const Affine& fact : system) result.add(fact);
  result.eliminate([](Symbol symbol) { return !symbol.is_dim(); });
  return result;
}

/// Whether no positive dims satisfy `constraints`.
bool has_no_dims(Constraints constraints) {
  for (const Symbol dim : constraints.symbols()) constraints.add(dim);
  constraints.eliminate([](Symbol) { return true; });
  return constraints.contradictory();
}

/// Whether for all dims for which `system` has points, some of them are counterexamples.
bool has_counterexamples_everywhere(const std::vector<Affine>& system, const Constraints& counterexamples) {
  if (!counterexamples.exact() || counterexamples.gave_up()) return false;
  const Constraints points = constraints_on_dims(system);
  return std::ranges::all_of(counterexamples.all(), [&](const Affine& needed) {
    Constraints without = points;
    without.add(Affine(-1) - needed);
    return has_no_dims(without);
  });
}

/// The largest number that coefficient * symbol is known to reach, by facts that mention nothing but the symbol.
std::optional<std::int64_t> least_multiple(const std::vector<Affine>& system, Symbol symbol, std::int64_t coefficient) {
  std::optional<std::int64_t> least;
  for (const Affine& fact : system) {  // a*symbol + c >= 0
    if (fact.terms().size() != 1 || fact.terms()[0].first != symbol) continue;
    const std::int64_t a = fact.terms()[0].second;
    if ((a > 0) != (coefficient > 0)) continue;
    const std::int64_t end = a > 0 ? ceil_div(-fact.constant(), a) : floor_div(fact.constant(), -a);
    std::int64_t multiple = 0;
    if (__builtin_mul_overflow(coefficient, end, &multiple)) return std::nullopt;
    least = std::max(least.value_or(multiple), multiple);
  }
  return least;
}

/// Whether the ends of each symbol's own range show that the goal is not negative: most goals need no elimination.
bool follows_from_ends(const std::vector<Affine>& system, const Affine& goal) {
  std::int64_t least = goal.constant();
  for (const auto& [symbol, coefficient] : goal.terms()) {
    const auto part = least_multiple(system, symbol, coefficient);
    if (!part || __builtin_add_overflow(least, *part, &least)) return false;
  }
  return least >= 0;
}

/// Whether the points that satisfy `system` and not `goal` >= 0 are none (Holds), certainly some (Fails), or some for
/// some dims.
Proof prove(const std::vector<Affine>& system, const Affine& goal) {
  if (is_among(system, goal) || follows_from_ends(system, goal)) return Proof::Holds;
  std::vector<Affine> refuting = system;
  refuting.push_back(Affine(-1) - goal);
  const Constraints counterexamples = constraints_on_dims(refuting);
  if (counterexamples.contradictory()) return Proof::Holds;
  const auto has_dims = [](const Affine& fact) {
    return std::ranges::any_of(fact.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
  };
  if (std::ranges::none_of(refuting, has_dims)) return Proof::Fails;
  if (has_no_dims(counterexamples)) return Proof::Holds;
  return has_counterexamples_everywhere(system, counterexamples) ? Proof::Fails : Proof::Unknown;
}

// ---- Conditions ----

std::optional<Affine> affine_value(const Expr& expr) {
  if (expr->kind == NodeKind::IndexValue) return expr->affine;
  if (expr->kind != NodeKind::Constant) return std::nullopt;
  const auto integer = exact_integer(expr->value);
  return integer ? std::optional(Affine(*integer)) : std::nullopt;
}

struct Comparison {
  std::string_view name, opposite;
  std::vector<std::vector<Affine>> (*systems)(const Affine& difference);
};

/// The alternatives for left - right under each comparison.
const std::array<Comparison, 6> kIndexComparisons = {{
    {"<", ">=", [](const Affine& d) { return std::vector<std::vector<Affine>>{{Affine(-1) - d}}; }},
    {">=", "<", [](const Affine& d) { return std::vector<std::vector<Affine>>{{d}}; }},
    {">", "<=", [](const Affine& d) { return std::vector<std::vector<Affine>>{{d - Affine(1)}}; }},
    {"<=", ">", [](const Affine& d) { return std::vector<std::vector<Affine>>{{-d}}; }},
    {"==", "!=", [](const Affine& d) { return std::vector<std::vector<Affine>>{{d, -d}}; }},
    {"!=", "==", [](const Affine& d) { return std::vector<std::vector<Affine>>{{d - Affine(1)}, {Affine(-1) - d}}; }},
}};

const Comparison* find_comparison(std::string_view name) {
  const auto it = std::ranges::find(kIndexComparisons, name, &Comparison::name);
  return it == kIndexComparisons.end() ? nullptr : &*it;
}

/// Whether a fact of `system` contradicts `fact` by itself.
bool is_contradicted(const std::vector<Affine>& system, const Affine& fact) {
  const Affine opposite = -fact;
  return std::ranges::any_of(system, [&](const Affine& known) {
    return known.terms() == opposite.terms() && known.constant() < opposite.constant();
  });
}

/// `system` and `facts`; nothing where one of its own facts contradicts them.
std::optional<std::vector<Affine>> with_facts(std::vector<Affine> system, const std::vector<Affine>& facts) {
  for (const Affine& fact : facts) {
    if (is_contradicted(system, fact)) return std::nullopt;
    if (!is_among(system, fact)) system.push_back(fact);
  }
  return system;
}

/// The points of some system of `a` and some of `b`. Systems without points are left out: t != 0 splits 0 <= t once
/// only, and nested conditions repeat themselves.
std::vector<std::vector<Affine>> combine(const std::vector<std::vector<Affine>>& a,
                                         const std::vector<std::vector<Affine>>& b) {
  std::vector<std::vector<Affine>> result;
  for (const std::vector<Affine>& left : a) {
    for (const std::vector<Affine>& right : b) {
      if (auto both = with_facts(left, right)) result.push_back(std::move(*both));
    }
  }
  if (result.size() > kMostSystems)
    std::erase_if(result, [](const auto& system) { return prove(system, Affine(-1)) == Proof::Holds; });
  return result.size() > kMostSystems ? a : result;
}

}  // namespace

Affine IndexDomain::with_known(const Affine& affine) const {
  return affine.substitute([&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(known_, symbol, &std::pair<Symbol, Affine>::first);
    return it == known_.end() ? nullptr : &it->second;
  });
}

void IndexDomain::add_nonnegative(const Affine& affine) {
  for (System& system : systems_) system.push_back(with_known(affine));
}

void IndexDomain::add_range(Symbol symbol, const Range& range) {
  for (const Bound& low : range.lows) add_nonnegative(Affine(symbol) * low.divisor - low.value);
  for (const Bound& high : range.highs) add_nonnegative(high.value - Affine(symbol) * high.divisor);
}

IndexDomain IndexDomain::where(const Expr& condition, bool truth) const {
  IndexDomain result = *this;
  result.systems_ = restricted(systems_, condition, truth);
  return result;
}

std::vector<IndexDomain::System> IndexDomain::restricted(const std::vector<System>& systems, const Expr& condition,
                                                         bool truth) const {
  if (condition->kind != NodeKind::Call) return systems;
  const std::string_view name = condition->function->name;
  if (name == "not") return restricted(systems, condition->args[0], !truth);
  if (name == "and" || name == "or") {
    const bool all = (name == "and") == truth;
    return all ? restricted_by_all(systems, condition, truth) : restricted_by_any(systems, condition, truth);
  }
  const Comparison* comparison = find_comparison(name);
  if (!comparison) return systems;
  const std::optional<Affine> left = affine_value(condition->args[0]);
  const std::optional<Affine> right = affine_value(condition->args[1]);
  if (!left || !right) return systems;
  if (!truth) comparison = find_comparison(comparison->opposite);
  return combine(systems, comparison->systems(with_known(*left - *right)));
}

std::vector<IndexDomain::System> IndexDomain::restricted_by_all(std::vector<System> systems, const Expr& condition,
                                                                bool truth) const {
  for (const Expr& arg : condition->args) systems = restricted(systems, arg, truth);
  return systems;
}

std::vector<IndexDomain::System> IndexDomain::restricted_by_any(const std::vector<System>& systems,
                                                                const Expr& condition, bool truth) const {
  std::vector<System> result;
  for (const Expr& arg : condition->args)
    std::ranges::move(restricted(systems, arg, truth), std::back_inserter(result));
  return result.size() > kMostSystems ? systems : result;
}

Proof IndexDomain::prove_nonnegative(const Affine& affine) const {
  const Affine goal = with_known(affine);
  Proof worst = Proof::Holds;
  for (const System& system : systems_) {
    const Proof proof = prove(system, goal);
    if (proof == Proof::Fails) return proof;
    if (proof == Proof::Unknown) worst = proof;
  }
  return worst;
}

}  // namespace moxie
