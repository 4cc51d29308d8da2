#include "compiler/loop/paired_rounds.h"

#include <algorithm>

#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// Whether the work has an inner loop, of its own or of a sum, that every round of a loop over `index` runs through
/// alike.
bool shares_inner_loop(const Work& work, Symbol index) {
  bool shares = !work.loops.empty();
  visit(work.body, [&](const Expr& e) { shares |= e->kind == NodeKind::Reduce && e->depends_on(index); });
  return shares;
}

/// Whether two rounds may run together: no inner loop runs elsewhere in the next round, or has loops of its own inside.
bool may_pair(const Work& work, Symbol index) {
  bool fixed = work.loops.size() + work.body->height <= 1 && (!work.accumulate || work.accumulate == ReduceKind::Sum);
  for (const LoopIndex& loop : work.loops) fixed &= !mentions(loop.range, index);
  visit(work.body, [&](const Expr& e) { fixed &= e->kind != NodeKind::Reduce || !mentions(e->range, index); });
  return fixed;
}

Work at_round(Work work, Symbol index, const Affine& round) {
  work.body = substitute(work.body, {{index, round}});
  const auto lookup = [&](Symbol symbol) { return symbol == index ? &round : nullptr; };
  for (Affine& subscript : work.subscripts) subscript = subscript.substitute(lookup);
  return work;
}

}  // namespace

std::vector<Work> in_pairs(const std::vector<Work>& works, Symbol index, Symbol pair) {
  std::vector<Work> paired;
  for (const Work& work : works) {
    Work even = at_round(work, index, Affine(pair) * 2);
    Work odd = at_round(work, index, Affine(pair) * 2 + Affine(1));
    const bool same_place = work.accumulate && even.subscripts == odd.subscripts;
    if (same_place) even.body = even.body + odd.body;
    paired.push_back(std::move(even));
    if (!same_place) paired.push_back(std::move(odd));
  }
  return paired;
}

std::optional<Range> range_of_pairs(const Range& range, const std::vector<Work>& works, Symbol index) {
  const auto extent = range.as_extent();
  if (!extent || !extent->is_constant() || extent->constant() % 2 != 0) return std::nullopt;
  const bool may = std::ranges::all_of(works, [&](const Work& work) { return may_pair(work, index); });
  const bool pays = std::ranges::any_of(works, [&](const Work& work) { return shares_inner_loop(work, index); });
  return may && pays ? std::optional(Range::extent(extent->constant() / 2)) : std::nullopt;
}

}  // namespace moxie
