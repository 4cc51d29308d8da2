#include "compiler/loop/masked_parts.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "compiler/diff/guards.h"
#include "compiler/expression/functions.h"
#include "compiler/loop/kept_values.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

/// The condition on the index as rows >= 0, of which at most one is a lower end and one an upper end.
struct Selection {
  std::optional<Affine> from, to;
};

std::optional<Selection> selection_of(const Expr& condition, Symbol index,
                                      const std::function<bool(const Affine&)>& is_known) {
  const IndexCondition says = conditions_of(condition, true);
  if (!says.rest.empty() || !says.zero.empty()) return std::nullopt;
  Selection selection;
  for (const Affine& row : says.nonnegative) {
    const std::int64_t coefficient = row.coefficient(index);
    std::optional<Affine>& end = coefficient > 0 ? selection.from : selection.to;
    if (std::abs(coefficient) != 1 || end || !is_known(row - Affine(index) * coefficient)) return std::nullopt;
    end = row;
  }
  return selection;
}

}  // namespace

std::vector<MaskedPart> masked_parts(const Expr& body, Symbol index, const Range& range, const IndexDomain& around,
                                     const std::function<bool(const Affine&)>& is_known) {
  if (!is_call(body, "where")) return {};
  // A short loop has few vectors that lie in one part as a whole: one loop with a mask takes as long.
  if (const auto extent = known_extent(range); extent && *extent < kLongExtent) return {};
  const Expr& value = body->args[1];
  const Expr& other = body->args[2];
  if (!is_worth_keeping(value, index) && !is_worth_keeping(other, index)) return {};
  const auto selection = selection_of(body->args[0], index, is_known);
  if (!selection) return {};
  const auto bounded = [&](Range part, const std::optional<Affine>& row) {
    return row ? with_bound(std::move(part), index, *row) : part;
  };
  const auto part = [&](const Range& bounds, const Expr& computed) {
    return MaskedPart{without_idle_bounds(bounds, index, around), computed};
  };
  std::vector<MaskedPart> parts = {part(bounded(bounded(range, selection->from), selection->to), value)};
  for (const auto& row : {selection->from, selection->to}) {
    if (row) parts.push_back(part(bounded(range, -*row - Affine(1)), other));
  }
  return parts;
}

}  // namespace moxie
