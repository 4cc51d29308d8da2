#include "compiler/rewrite/patterns/prefix_reduction.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "compiler/expression/moving_end.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/index_domain.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// More elements at each position are not worth it.
constexpr std::int64_t kMaxStep = 8;

/// Reductions of one kind directly inside each other, outermost first, and what they reduce.
struct Chain {
  std::vector<std::pair<Symbol, Range>> loops;
  Expr body;
};

Chain chain_of(const Expr& reduction) {
  Chain chain{{}, reduction};
  while (chain.body->kind == NodeKind::Reduce && chain.body->reduce == reduction->reduce) {
    const OpenedReduce opened = open(chain.body);
    chain.loops.emplace_back(opened.index, opened.range);
    chain.body = opened.body;
  }
  return chain;
}

/// The chain without its loop number k.
Expr without_loop(const Chain& chain, std::size_t k, ReduceKind kind) {
  Expr body = chain.body;
  for (std::size_t loop = chain.loops.size(); loop-- > 0;) {
    if (loop != k) body = reduce(kind, chain.loops[loop].first, chain.loops[loop].second, body);
  }
  return body;
}

/// Whether loop number k of the chain can become the outermost one.
bool can_lead(const Chain& chain, std::size_t k) {
  return std::ranges::none_of(chain.loops, [&](const auto& loop) {
    return mentions(chain.loops[k].second, loop.first) || mentions(loop.second, chain.loops[k].first);
  });
}

/// The range without the bounds that move with the axis.
Range without_moving_end(Range range, Symbol axis) {
  const auto moves = [&](const Bound& bound) { return bound.value.mentions(axis); };
  std::erase_if(range.lows, moves);
  std::erase_if(range.highs, moves);
  return range;
}

bool is_certainly_empty(const Range& range) {
  IndexDomain domain({});
  domain.add_range(Symbol::fresh(), range);
  return domain.is_empty();
}

class Matching {
 public:
  Matching(const Definition& definition, std::uint32_t axis, Symbol reduced, const Range& range, const Expr& body)
      : definition_(definition), axis_(Symbol::axis(axis)), reduced_(reduced), body_(body) {
    end_ = *moving_end(range, axis_, kMaxStep);
    fixed_ = without_moving_end(range, axis_);
    result_.kind = definition.body->reduce;
    result_.axis = axis;
    result_.extent = *definition.axes[axis].range.as_extent();
    result_.backwards = end_.is_high != (end_.step > 0);
  }

  PrefixReduction run() {
    const Affine position(result_.position);
    result_.element = newest(result_.backwards ? result_.extent - Affine(1) - position : position);
    result_.start = before(result_.backwards ? result_.extent - Affine(1) : Affine(0));
    return result_;
  }

 private:
  Affine end_at(const Affine& index) const {
    return end_.value.substitute([&](Symbol symbol) { return symbol == axis_ ? &index : nullptr; });
  }

  /// What the element at `index` has and the one before it has not.
  Expr newest(const Affine& index) const {
    const Affine end = end_at(index);
    std::vector<Expr> elements;
    for (std::int64_t k = 0; k < std::abs(end_.step); ++k)
      elements.push_back(single(end_.is_high ? end - Affine(k) : end + Affine(k)));
    return elements.size() == 1 ? elements.front() : call(combining_function(result_.kind), std::move(elements));
  }

  /// The body at one index, where the ends that do not move admit it.
  Expr single(const Affine& index) const {
    const IndexDomain domain = domain_at_position();
    std::vector<Expr> tests;
    const auto test = [&](const Bound& bound, const char* comparison, std::int64_t sign) {
      const Affine distance = (index * bound.divisor - bound.value) * sign;
      if (domain.prove_nonnegative(distance) == Proof::Holds) return;
      tests.push_back(call(comparison, {index_value(index * bound.divisor), index_value(bound.value)}));
    };
    for (const Bound& low : fixed_.lows) test(low, ">=", 1);
    for (const Bound& high : fixed_.highs) test(high, "<=", -1);
    const Expr value = substitute(body_, {{reduced_, index}});
    if (tests.empty()) return value;
    const Expr inside = tests.size() == 1 ? tests.front() : call("and", tests);
    return call("where", {inside, value, constant(neutral_value(result_.kind))});
  }

  IndexDomain domain_at_position() const {
    IndexDomain domain({});
    for (std::uint32_t k = 0; k < definition_.axes.size(); ++k) {
      if (k != result_.axis) domain.add_range(Symbol::axis(k), definition_.axes[k].range);
    }
    domain.add_range(result_.position, Range::extent(result_.extent));
    return domain;
  }

  /// All that the element at `index` has but its newest.
  Expr before(const Affine& index) const {
    const std::int64_t count = std::abs(end_.step);
    const Affine end = end_at(index);
    Range range = fixed_;
    if (end_.is_high)
      range.highs.push_back({1, end - Affine(count)});
    else
      range.lows.push_back({1, end + Affine(count)});
    if (is_certainly_empty(range)) return constant(neutral_value(result_.kind));
    return reduce(result_.kind, reduced_, range, body_);
  }

  const Definition& definition_;
  const Symbol axis_, reduced_;
  const Expr body_;
  MovingEnd end_;
  Range fixed_;
  PrefixReduction result_;
};

/// Whether elements may continue each other along the axis.
bool is_candidate(const Definition& definition, std::uint32_t axis) {
  const Range& range = definition.axes[axis].range;
  return has_fixed_extent(range) && is_long(range) && std::ranges::none_of(definition.axes, [&](const AxisDecl& other) {
           return mentions(other.range, Symbol::axis(axis));
         });
}

bool has_both_ends(const Range& range) { return !range.lows.empty() && !range.highs.empty(); }

}  // namespace

const char* combining_function(ReduceKind kind) {
  static constexpr const char* kNames[] = {"+", "*", "max", "min"};
  return kNames[static_cast<int>(kind)];
}

std::optional<PrefixReduction> match_prefix(const Definition& definition) {
  const Expr& root = definition.body;
  const bool reduces = root->kind == NodeKind::Reduce && root->reduce <= ReduceKind::Min;
  // Integers are rounded once, when all is reduced.
  if (definition.scan || !is_stored_as_computed(definition.dtype) || !reduces) return std::nullopt;
  const Chain chain = chain_of(root);
  for (std::uint32_t axis = 0; axis < definition.axes.size(); ++axis) {
    if (!is_candidate(definition, axis)) continue;
    for (std::size_t k = 0; k < chain.loops.size(); ++k) {
      const auto& [reduced, range] = chain.loops[k];
      if (!has_both_ends(range) || !moving_end(range, Symbol::axis(axis), kMaxStep) || !can_lead(chain, k)) continue;
      const Expr body = without_loop(chain, k, root->reduce);
      if (!body->depends_on(Symbol::axis(axis))) return Matching(definition, axis, reduced, range, body).run();
    }
  }
  return std::nullopt;
}

}  // namespace moxie
