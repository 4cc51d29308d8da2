#include "compiler/diff/adjoint_bounds.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "compiler/diff/chain.h"
#include "compiler/diff/guards.h"
#include "compiler/diff/known_ranges.h"
#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// `value` where the condition holds, and 0 elsewhere.
struct MaskedTerm {
  IndexCondition condition;
  Expr value;
};

MaskedTerm masked_term_of(const Expr& expr) {
  const bool is_choice = is_call(expr, "where") && expr->args[2]->is_constant(0) && !depends_on_values(expr->args[0]);
  return is_choice ? MaskedTerm{conditions_of(expr->args[0], true), expr->args[1]} : MaskedTerm{{}, expr};
}

void add_masked_terms(const Expr& expr, std::vector<MaskedTerm>& summands) {
  if (is_call(expr, "+"))
    for (const Expr& arg : expr->args) add_masked_terms(arg, summands);
  else
    summands.push_back(masked_term_of(expr));
}

/// The last axis, if there are several.
std::optional<Symbol> bounded_axis(const Affine& row) {
  std::optional<Symbol> last;
  int count = 0;
  for (const auto& [symbol, coefficient] : row.terms()) {
    if (symbol.kind() != Symbol::Kind::Axis) continue;
    ++count;
    if (!last || symbol.number() > last->number()) last = symbol;
  }
  return count > 1 ? last : std::nullopt;
}

std::vector<Affine> shared_rows(const std::vector<MaskedTerm>& summands) {
  std::vector<Affine> rows;
  std::ranges::copy_if(summands.front().condition.nonnegative, std::back_inserter(rows), [&](const Affine& row) {
    const auto has_it = [&](const MaskedTerm& summand) {
      return std::ranges::find(summand.condition.nonnegative, row) != summand.condition.nonnegative.end();
    };
    return bounded_axis(row) && std::ranges::all_of(summands, has_it);
  });
  return rows;
}

/// row >= 0 as a bound of its last axis.
void add_bound(std::vector<AxisDecl>& axes, const Affine& row) {
  const Symbol axis = *bounded_axis(row);
  const std::int64_t coefficient = row.coefficient(axis);
  const Affine rest = row - Affine(axis) * coefficient;
  Range& range = axes[axis.number()].range;
  if (coefficient > 0)
    range.lows.push_back({coefficient, -rest});
  else
    range.highs.push_back({-coefficient, rest});
}

Expr without_rows(MaskedTerm summand, const std::vector<Affine>& rows) {
  auto& [nonnegative, zero, rest] = summand.condition;
  std::erase_if(nonnegative, [&](const Affine& row) { return std::ranges::find(rows, row) != rows.end(); });
  return guarded(zero, nonnegative, guarded(rest, summand.value));
}

}  // namespace

BoundedAdjoint with_bounds(const std::vector<DimDecl>& dims, const std::vector<AxisDecl>& axes, const Expr& adjoint) {
  std::vector<MaskedTerm> summands;
  add_masked_terms(adjoint, summands);
  const std::vector<Affine> rows = shared_rows(summands);
  if (rows.empty()) return {axes, adjoint};
  BoundedAdjoint result{axes, 0};
  for (const Affine& row : rows) add_bound(result.axes, row);
  KnownRanges known(dims);
  for (std::uint32_t k = 0; k < axes.size(); ++k) {
    Range& range = result.axes[k].range;
    range = known.without_redundant(range);
    known.add(Symbol::axis(k), range);
  }
  for (MaskedTerm& summand : summands) result.body = accumulate(result.body, without_rows(std::move(summand), rows));
  return result;
}

}  // namespace moxie
