#include "compiler/fuse/shared_loops.h"

#include <algorithm>
#include <set>

#include "compiler/program/index_domain.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

using Loops = std::vector<LoopIndex>;

// ---- Double sums ----

Product factors_with(const Product& product, Symbol a, Symbol b) {
  Product both;
  for (const Factor& factor : product.factors) {
    if (factor.base->depends_on(a) && factor.base->depends_on(b)) both.factors.push_back(factor);
  }
  return both;
}

bool is_sum(const Factor& factor) {
  return factor.power == 1 && factor.base->kind == NodeKind::Reduce && factor.base->reduce == ReduceKind::Sum;
}

/// The factor that is a sum over a range which `index` does not move.
std::vector<Factor>::iterator find_sum(std::vector<Factor>& factors, std::optional<Symbol> index) {
  return std::ranges::find_if(factors, [&](const Factor& factor) {
    return is_sum(factor) && !(index && mentions(factor.base->range, *index));
  });
}

Expr sum_over(const LoopIndex& loop, const Expr& body) {
  return reduce(ReduceKind::Sum, loop.symbol, loop.range, body);
}

/// sum[outer](sum[inner](product)), each factor in the outermost sum that it depends on.
Expr nested(const Algebra& algebra, const LoopIndex& outer, const LoopIndex& inner, const Product& product) {
  Product outside{product.coefficient, {}};
  Product middle;
  Product inside;
  for (const Factor& factor : product.factors) {
    const bool in = factor.base->depends_on(inner.symbol);
    const bool out = factor.base->depends_on(outer.symbol);
    (in ? inside : out ? middle : outside).factors.push_back(factor);
  }
  const Expr sum =
      sum_over(outer, algebra.times(algebra.make_product(middle), sum_over(inner, algebra.make_product(inside))));
  return algebra.times(algebra.make_product(outside), sum);
}

/// What stands in a sum without rounds need not exist, and so must not leave it.
bool may_be_empty(const Range& range) {
  const auto extent = range.as_extent();
  return !extent || !extent->is_constant() || extent->constant() <= 0;
}

/// Exponentials that a loop over `index` computes from round to round by multiplication: their exponents grow evenly.
std::ptrdiff_t progressions_in(const Product& product, Symbol index) {
  const Algebra reals = Algebra::of_reals();
  const auto grows_evenly = [&](const Factor& factor) {
    if (!is_call(factor.base, "exp")) return false;
    const Expr& exponent = factor.base->args[0];
    const Expr next = substitute(exponent, {{index, Affine(index) + Affine(1)}});
    return !reals.normalise(reals.plus(next, reals.scaled(exponent, -1)))->depends_on(index);
  };
  return std::ranges::count_if(product.factors, grows_evenly);
}

/// Whether the sum over `a` is better the outer one. Otherwise equal sums are made the same: the normal form depends on
/// the order of the indices too.
bool goes_outside(const Algebra& algebra, const LoopIndex& a, const LoopIndex& b, const Product& coupling) {
  const std::ptrdiff_t in_a = progressions_in(coupling, a.symbol), in_b = progressions_in(coupling, b.symbol);
  if (in_a != in_b) return in_a < in_b;
  return precedes(algebra.normalise(nested(algebra, a, b, coupling)),
                  algebra.normalise(nested(algebra, b, a, coupling)));
}

std::optional<Expr> nest_sum(const Algebra& algebra, const Expr& expr) {
  if (expr->kind != NodeKind::Reduce || expr->reduce != ReduceKind::Sum) return std::nullopt;
  const OpenedReduce first = open(expr);
  Product product = algebra.product_of(first.body);
  const auto found = find_sum(product.factors, first.index);
  if (found == product.factors.end()) return std::nullopt;
  const OpenedReduce second = open(found->base);
  if (may_be_empty(first.range) || may_be_empty(second.range)) return std::nullopt;
  product.factors.erase(found);
  const Product inner = algebra.product_of(second.body);
  product.coefficient *= inner.coefficient;
  product.factors.insert(product.factors.end(), inner.factors.begin(), inner.factors.end());

  const LoopIndex r{first.index, first.range, {}};
  const LoopIndex t{second.index, second.range, {}};
  const Product coupling = factors_with(product, r.symbol, t.symbol);
  if (coupling.factors.empty()) return std::nullopt;
  if (!goes_outside(algebra, t, r, coupling)) return std::nullopt;
  return algebra.normalise(nested(algebra, t, r, product));
}

// ---- Loops in common ----

void add_ranges(IndexDomain& domain, const Loops& loops) {
  for (const LoopIndex& loop : loops) domain.add_range(loop.symbol, loop.range);
}

bool contains(const IndexDomain& domain, const LoopIndex& loop) {
  const Affine index(loop.symbol);
  const auto above = [&](const Bound& low) {
    return domain.prove_nonnegative(index * low.divisor - low.value) == Proof::Holds;
  };
  const auto below = [&](const Bound& high) {
    return domain.prove_nonnegative(high.value - index * high.divisor) == Proof::Holds;
  };
  return std::ranges::all_of(loop.range.lows, above) && std::ranges::all_of(loop.range.highs, below);
}

/// Whether both nests run over the same points.
bool same_points(const Loops& a, const Loops& b) {
  IndexDomain in_a({});
  IndexDomain in_b({});
  add_ranges(in_a, a);
  add_ranges(in_b, b);
  return std::ranges::all_of(b, [&](const LoopIndex& loop) { return contains(in_a, loop); }) &&
         std::ranges::all_of(a, [&](const LoopIndex& loop) { return contains(in_b, loop); });
}

Affine renamed(const Affine& affine, const Replacement& names) {
  return affine.substitute([&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(names, symbol, &std::pair<Symbol, Affine>::first);
    return it == names.end() ? nullptr : &it->second;
  });
}

Range renamed(Range range, const Replacement& names) {
  for (auto* bounds : {&range.lows, &range.highs}) {
    for (Bound& bound : *bounds) bound.value = renamed(bound.value, names);
  }
  return range;
}

bool is_axis(const KernelRoot& root, const LoopIndex& loop) {
  return std::ranges::find(root.subscripts, Affine(loop.symbol)) != root.subscripts.end();
}

/// All loops of a root, and those of the sums that it accumulates.
struct Opened {
  Loops loops;
  Product summand;
};

Opened open_sums(const Algebra& algebra, const KernelRoot& root) {
  Opened opened{root.locals, algebra.product_of(root.body)};
  if (root.accumulate != ReduceKind::Sum) return opened;
  for (auto sum = find_sum(opened.summand.factors, {}); sum != opened.summand.factors.end();
       sum = find_sum(opened.summand.factors, {})) {
    const OpenedReduce inner = open(sum->base);
    opened.summand.factors.erase(sum);
    const Product body = algebra.product_of(inner.body);
    opened.summand.coefficient *= body.coefficient;
    opened.summand.factors.insert(opened.summand.factors.end(), body.factors.begin(), body.factors.end());
    opened.loops.push_back({inner.index, inner.range, {}});
  }
  return opened;
}

/// Finds which loops of a root are those of another.
class LoopMatcher {
 public:
  explicit LoopMatcher(const Loops& loops) : loops_(loops) {}

  bool match(const Loops& wanted) {
    chosen_.clear();
    return choose(wanted);
  }
  bool is_chosen(std::size_t k) const { return std::ranges::find(chosen_, k) != chosen_.end(); }

  /// What the loops that were found are called in `wanted`.
  Replacement names(const Loops& wanted) const {
    Replacement names;
    for (std::size_t k = 0; k < chosen_.size(); ++k)
      names.emplace_back(loops_[chosen_[k]].symbol, Affine(wanted[k].symbol));
    return names;
  }

 private:
  bool choose(const Loops& wanted) {
    if (chosen_.size() == wanted.size()) return same_points(wanted, renamed_choice(wanted));
    for (std::size_t k = 0; k < loops_.size(); ++k) {
      if (is_chosen(k)) continue;
      chosen_.push_back(k);
      if (choose(wanted)) return true;
      chosen_.pop_back();
    }
    return false;
  }

  Loops renamed_choice(const Loops& wanted) const {
    Loops choice;
    for (std::size_t k = 0; k < chosen_.size(); ++k)
      choice.push_back({wanted[k].symbol, renamed(loops_[chosen_[k]].range, names(wanted)), {}});
    return choice;
  }

  const Loops& loops_;
  std::vector<std::size_t> chosen_;  // for each of the wanted loops
};

SharedLoops placed(const Algebra& algebra, const KernelRoot& root, const Opened& opened, const LoopMatcher& matcher,
                   const Loops& prefix) {
  SharedLoops shared{root, {}};
  const Replacement names = matcher.names(prefix);
  shared.root.locals = prefix;
  shared.root.body = substitute(algebra.make_product(opened.summand), names);
  for (Affine& subscript : shared.root.subscripts) subscript = renamed(subscript, names);
  for (std::size_t k = 0; k < opened.loops.size(); ++k) {
    if (matcher.is_chosen(k)) continue;
    shared.inner.push_back(opened.loops[k]);
    shared.inner.back().range = renamed(opened.loops[k].range, names);
  }
  return shared;
}

/// Whether the kernel has the innermost part of this double sum inside a double sum of its own.
bool is_computed(const Kernel& kernel, const Expr& double_sum) {
  const Expr& innermost = double_sum->args[0]->args[0];
  bool found = false;
  for (const KernelRoot& root : kernel.roots) visit(root.body, [&](const Expr& e) { found |= e == innermost; });
  return found;
}

/// Axes first, or two loops in that order in which the kernel already computes the factors that depend on both.
void order(const Algebra& algebra, const Kernel& kernel, const KernelRoot& root, Loops& loops) {
  std::ranges::stable_partition(loops, [&](const LoopIndex& loop) { return is_axis(root, loop); });
  if (loops.size() != 2 || mentions(loops[1].range, loops[0].symbol)) return;
  const Product coupling = factors_with(algebra.product_of(root.body), loops[0].symbol, loops[1].symbol);
  if (coupling.factors.empty()) return;
  const auto known = [&](const LoopIndex& a, const LoopIndex& b) {
    return is_computed(kernel, algebra.normalise(nested(algebra, a, b, coupling)));
  };
  if (!known(loops[0], loops[1]) && known(loops[1], loops[0])) std::swap(loops[0], loops[1]);
}

}  // namespace

Expr nest_sums(const Algebra& algebra, const Expr& expr) {
  return rewrite_bottom_up(expr, {}, [&](const Expr& e, const Scope&) { return nest_sum(algebra, e).value_or(e); });
}

SharedLoops in_shared_loops(const Algebra& algebra, const Kernel& kernel, const KernelRoot& root) {
  const Opened opened = open_sums(algebra, root);
  LoopMatcher matcher(opened.loops);
  for (std::size_t count = opened.loops.size(); count > 0; --count) {
    for (const KernelRoot& host : kernel.roots) {
      if (host.accumulate || host.locals.size() < count) continue;
      const Loops prefix(host.locals.begin(), host.locals.begin() + static_cast<std::ptrdiff_t>(count));
      if (matcher.match(prefix)) return placed(algebra, root, opened, matcher, prefix);
    }
  }
  return {root, {}};
}

KernelRoot with_inner_loops(const Algebra& algebra, const Kernel& kernel, SharedLoops shared) {
  KernelRoot root = std::move(shared.root);
  root.body = algebra.normalise(root.body);
  order(algebra, kernel, root, shared.inner);
  const auto last_axis = std::ranges::find_if(shared.inner.rbegin(), shared.inner.rend(),
                                              [&](const LoopIndex& loop) { return is_axis(root, loop); });
  const auto sums = last_axis.base();
  root.locals.insert(root.locals.end(), shared.inner.begin(), sums);
  for (auto loop = shared.inner.end(); loop != sums;) {
    --loop;
    root.body = algebra.make_reduction_sum(loop->symbol, loop->range, root.body);
  }
  root.body = nest_sums(algebra, algebra.normalise(root.body));
  return root;
}

}  // namespace moxie
