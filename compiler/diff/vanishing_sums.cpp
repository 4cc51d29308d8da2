#include "compiler/diff/vanishing_sums.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "compiler/diff/chain.h"
#include "compiler/expression/functions.h"
#include "compiler/program/index_domain.h"

namespace moxie {
namespace {

/// Nodes that are looked at for one expression, and products that one becomes at most: several times what attention and
/// normalisations take, 30 to 200 and 2 to 6. A long chain of linear definitions is given up.
constexpr int kMostExpandedNodes = 800;
constexpr std::size_t kMostMonomials = 32;
/// Nested sums whose orders are all tried for the one that stands for them.
constexpr std::size_t kMostOrders = 4;
/// Coefficients are sums of a few numbers that were rounded once or twice.
constexpr double kRounding = 1e-13;

struct Power {
  Expr base;
  double exponent = 1;
  auto key() const { return std::pair(base.get(), exponent); }
};

/// A product of powers of different bases, in the order of their nodes.
using Monomial = std::vector<Power>;

struct MonomialOrder {
  bool operator()(const Monomial& a, const Monomial& b) const {
    return std::ranges::lexicographical_compare(a, b, {}, &Power::key, &Power::key);
  }
};

/// A sum of products with coefficients, none of which is zero.
using Polynomial = std::map<Monomial, double, MonomialOrder>;

bool is_integer(double exponent) { return exponent == std::round(exponent); }

/// where(c, 1, 0), which is its own square.
bool is_own_square(const Expr& e) {
  return is_call(e, "where") && e->args[1]->is_constant(1) && e->args[2]->is_constant(0);
}

/// Whether a draw of random numbers is part of the expression: it belongs to the definition that makes it.
bool is_random(const Expr& expr) {
  bool random = false;
  visit(expr, [&](const Expr& e) { random |= e->kind == NodeKind::Random; });
  return random;
}

/// Expands expressions into sums of products. Sums over indices are factors, nested ones over all of their indices at
/// once: a form in which equal sums are the same, however they were nested and wherever their factors stood.
class Expansion {
 public:
  explicit Expansion(const Program& program) : program_(program) {}

  /// Nothing where it became too large.
  std::optional<Polynomial> of(const Expr& expr) {
    nodes_ = 0;
    Polynomial sum = expand(expr);
    return is_exhausted() ? std::nullopt : std::optional(std::move(sum));
  }

 private:
  bool is_exhausted() const { return nodes_ > kMostExpandedNodes; }

  Polynomial expand(const Expr& e) {
    if (++nodes_ > kMostExpandedNodes) return {};
    switch (e->kind) {
      case NodeKind::Constant:
        return number(e->value);
      case NodeKind::IndexValue:
        return expand(e->affine);
      case NodeKind::Access:
        return expand_access(e);
      case NodeKind::Call:
        return expand_call(e);
      case NodeKind::Reduce:
        return e->reduce == ReduceKind::Sum ? expand_sum(e) : single(e);
      default:
        return single(e);
    }
  }

  static Polynomial number(double value) { return value == 0 ? Polynomial() : Polynomial{{Monomial(), value}}; }
  static Polynomial single(const Expr& base, double exponent = 1) { return {{Monomial{{base, exponent}}, 1.0}}; }

  static Polynomial expand(const Affine& affine) {
    Polynomial sum = number(static_cast<double>(affine.constant()));
    for (const auto& [symbol, coefficient] : affine.terms())
      add(sum, single(index_value(symbol)), static_cast<double>(coefficient));
    return sum;
  }

  Polynomial expand_access(const Expr& access) {
    const Definition* definition = program_.find_definition(access->tensor);
    const bool is_open = definition && !definition->scan && is_stored_as_computed(definition->dtype) &&
                         !reads_by_value(access) && !is_random(definition->body);
    return is_open ? expand(substitute(definition->body, axes_by_subscripts(access))) : single(access);
  }

  Polynomial expand_call(const Expr& e) {
    if (is_call(e, "+")) {
      Polynomial sum;
      for (const Expr& arg : e->args) add(sum, expand(arg));
      return sum;
    }
    if (is_call(e, "*")) {
      Polynomial product = number(1);
      for (const Expr& arg : e->args) product = times(product, expand(arg));
      return product;
    }
    if (is_call(e, "neg")) return times(number(-1), expand(e->args[0]));
    if (is_call(e, "/")) return times(expand(e->args[0]), power(e->args[1], -1));
    if (is_call(e, "pow") && e->args[1]->kind == NodeKind::Constant) return power(e->args[0], e->args[1]->value);
    if (is_call(e, "sqrt")) return power(e->args[0], 0.5);
    if (is_call(e, "rsqrt")) return power(e->args[0], -0.5);
    if (is_call(e, "f32") || is_call(e, "f64")) return expand(e->args[0]);
    if (is_call(e, "where") && e->args[2]->is_constant(0) && !is_own_square(e))
      return times(single(call("where", {e->args[0], 1, 0})), expand(e->args[1]));
    return single(e);
  }

  Polynomial power(const Expr& base, double exponent) {
    const Polynomial sum = expand(base);
    if (sum.size() == 1) {
      const auto& [product, coefficient] = *sum.begin();
      const bool whole = product.size() == 1 && product[0].exponent == 1 && coefficient > 0;
      const bool has_indicator = std::ranges::any_of(product, is_own_square, &Power::base);
      if ((is_integer(exponent) || product.empty() || whole) && !has_indicator) {
        Monomial raised = product;
        for (Power& p : raised) p.exponent *= exponent;
        return {{raised, std::pow(coefficient, exponent)}};
      }
    }
    if (exponent == 2) return times(sum, sum);
    return single(base, exponent);
  }

  Polynomial expand_sum(const Expr& e) {
    const OpenedReduce opened = open(e);
    Polynomial result;
    for (const auto& [product, coefficient] : expand(opened.body)) {
      Monomial outer, inner;
      for (const Power& p : product) (p.base->depends_on(opened.index) ? inner : outer).push_back(p);
      add(result, times({{outer, coefficient}}, total(opened.index, opened.range, inner)));
    }
    return result;
  }

  /// The sum of one product, all of whose factors depend on the index.
  Polynomial total(Symbol index, const Range& range, const Monomial& all) {
    const Monomial product = without_implied(all, index, range);
    const auto trips = product.empty() ? range.known_trip_count() : std::nullopt;
    if (trips) return expand(*trips);
    Loops loops = {{index, range}};
    Monomial factors;
    for (const Power& p : product) {
      if (p.exponent != 1 || p.base->kind != NodeKind::Reduce || p.base->reduce != ReduceKind::Sum ||
          !take_apart(p.base, loops, factors))
        factors.push_back(p);
    }
    return single(nested(loops, factors));
  }

  /// Without the conditions that hold in all of the range.
  static Monomial without_implied(Monomial product, Symbol index, const Range& range) {
    std::erase_if(product, [&](const Power& p) {
      if (!is_own_square(p.base)) return false;
      IndexDomain domain({});
      domain.add_range(index, range);
      return domain.where(p.base->args[0], false).is_empty();
    });
    return product;
  }

  using Loops = std::vector<std::pair<Symbol, Range>>;

  /// The loops and factors of a sum that nested() built.
  bool take_apart(const Expr& sum, Loops& loops, Monomial& factors) {
    Loops inner;
    Expr body = sum;
    while (body->kind == NodeKind::Reduce && body->reduce == ReduceKind::Sum) {
      const OpenedReduce opened = open(body);
      inner.emplace_back(opened.index, opened.range);
      body = opened.body;
    }
    const Polynomial products = expand(body);
    if (products.size() != 1 || products.begin()->second != 1) return false;
    loops.insert(loops.end(), inner.begin(), inner.end());
    factors.insert(factors.end(), products.begin()->first.begin(), products.begin()->first.end());
    return true;
  }

  /// The sum with its loops in that order, of all legal ones, whose expression precedes the others.
  Expr nested(const Loops& loops, const Monomial& factors) {
    std::vector<std::size_t> order(loops.size());
    std::iota(order.begin(), order.end(), 0);
    Expr first;
    do {
      ++nodes_;
      const Expr sum = is_legal(loops, order) ? nested(loops, order, factors) : Expr();
      if (sum && (!first || precedes(sum, first))) first = sum;
    } while (loops.size() <= kMostOrders && std::ranges::next_permutation(order).found);
    return first ? first : nested(loops, order, factors);
  }

  /// Whether no loop's range depends on a loop inside of it.
  static bool is_legal(const Loops& loops, const std::vector<std::size_t>& order) {
    for (std::size_t outer = 0; outer < order.size(); ++outer) {
      for (std::size_t inner = outer + 1; inner < order.size(); ++inner) {
        const auto moves = [&](const Bound& bound) { return bound.value.mentions(loops[order[inner]].first); };
        const Range& range = loops[order[outer]].second;
        if (std::ranges::any_of(range.lows, moves) || std::ranges::any_of(range.highs, moves)) return false;
      }
    }
    return true;
  }

  /// The factors stand in an order that depends on that of the loops, not on the numbers of their symbols.
  static Expr nested(const Loops& loops, const std::vector<std::size_t>& order, const Monomial& factors) {
    Replacement renamed;
    for (const std::size_t k : order) renamed.emplace_back(loops[k].first, Symbol::fresh());
    const auto lookup = [&](Symbol symbol) -> const Affine* {
      const auto found = std::ranges::find(renamed, symbol, &Replacement::value_type::first);
      return found == renamed.end() ? nullptr : &found->second;
    };
    std::vector<Expr> powers;
    for (const Power& p : factors) {
      const Expr base = substitute(p.base, renamed);
      powers.push_back(p.exponent == 1 ? base : call("pow", {base, p.exponent}));
    }
    std::ranges::sort(powers, precedes);
    Expr sum = powers.empty() ? Expr(1) : powers.size() == 1 ? powers[0] : call("*", powers);
    for (std::size_t k = order.size(); k-- > 0;)
      sum = reduce(ReduceKind::Sum, *renamed[k].second.as_symbol(), loops[order[k]].second.substitute(lookup), sum);
    return sum;
  }

  static void add(Polynomial& sum, const Polynomial& terms, double factor = 1) {
    for (const auto& [product, coefficient] : terms) {
      double& total = sum[product];
      const double largest = std::max(std::abs(total), std::abs(factor * coefficient));
      total += factor * coefficient;
      if (std::abs(total) <= kRounding * largest) sum.erase(product);
    }
  }

  Polynomial times(const Polynomial& a, const Polynomial& b) {
    if (a.size() * b.size() > kMostMonomials) nodes_ = kMostExpandedNodes + 1;
    Polynomial result;
    if (is_exhausted()) return result;
    for (const auto& [left, x] : a) {
      for (const auto& [right, y] : b) add(result, {{times(left, right), x * y}});
    }
    return result;
  }

  static Monomial times(Monomial product, const Monomial& other) {
    for (const Power& p : other) {
      const auto at = std::ranges::lower_bound(product, p.base.get(), {}, [](const Power& q) { return q.base.get(); });
      if (at == product.end() || at->base != p.base) {
        product.insert(at, p);
      } else if (!is_own_square(p.base)) {
        at->exponent += p.exponent;
        if (at->exponent == 0) product.erase(at);
      }
    }
    return product;
  }

  const Program& program_;
  int nodes_ = 0;
};

void add_terms(const Expr& expr, std::vector<Expr>& terms) {
  if (!is_call(expr, "+")) return terms.push_back(expr);
  for (const Expr& arg : expr->args) add_terms(arg, terms);
}

/// Whether terms may cancel: only an expression that sums over an index is expanded.
bool may_vanish(const Expr& expr) {
  bool sums = false;
  visit(expr, [&](const Expr& e) { sums |= e->kind == NodeKind::Reduce && e->reduce == ReduceKind::Sum; });
  return sums;
}

}  // namespace

Expr without_vanishing_sums(const Program& program, const Expr& expr) {
  if (!may_vanish(expr)) return expr;
  Expansion expansion(program);
  const auto vanishes = [&](const Expr& e) {
    const auto sum = expansion.of(e);
    return sum && sum->empty();
  };
  if (vanishes(expr)) return 0;
  std::vector<Expr> terms;
  add_terms(expr, terms);
  if (terms.size() == 1) return expr;
  Expr result = 0;
  std::size_t kept = 0;
  for (const Expr& term : terms) {
    if (may_vanish(term) && vanishes(term)) continue;
    result = accumulate(result, term);
    ++kept;
  }
  return kept == terms.size() ? expr : result;
}

}  // namespace moxie
