#pragma once
// Sums, extrema and positions of extrema whose terms go to the element that they name:
// y[v,n] = sum[s](where(idx[s] == v, e[s,n], 0)), y[v] = max[s](where(idx[s] == v, e[s], -inf)), or to a range of them:
// y[k] = sum[s](where(start[s] <= k and k < start[s+1], e[s,k], 0)).
#include <optional>
#include <span>
#include <vector>

#include "compiler/analysis/value_range.h"
#include "compiler/program/program.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// Combined term by term, each term goes to one element along the targets, and the reduction takes as many steps as it
/// has terms, not as many for every element.
struct Scatter {
  struct Target {
    Symbol axis;
    Affine element;  // in indices and values, where Symbol::value(k) is values[k]
  };
  /// The elements of an axis in a range, both ends of which belong to it.
  struct Span {
    Symbol axis;
    std::vector<Affine> lows, highs;  // in indices and values
  };
  /// Whether terms go to certain elements along the axis.
  bool goes_along(Symbol axis) const;
  /// Whether the index, of a loop or of an axis, decides which elements terms go to, or where loops end.
  bool moves_terms(Symbol index) const;
  /// Whether the elements along the axis have sums in the term in common.
  bool has_common_sums(Symbol axis) const;
  /// Whether the expression, which stands in the body, is another one for each element that terms may go to.
  bool depends_on_element(const Expr& expr) const;

  /// What a search compares a term with: the element at the position that is held so far, for the same targets.
  struct Rival {
    Symbol position;
    Expr element;
  };

  ReduceKind kind = ReduceKind::Sum;  // or Max, Min, ArgMax or ArgMin
  std::vector<Target> targets;        // the elements of one axis each
  std::optional<Span> span;           // where there are no targets
  std::vector<Expr> values;           // elements of integer tensors
  std::vector<OpenedReduce> loops;    // the outermost first
  std::optional<Rival> rival;         // only for ArgMax and ArgMin: their single loop runs over positions
  /// Where the index of a loop has to be for the term's conditions to hold, by what stands outside of the loop.
  std::vector<std::pair<Symbol, ValueRange>> ranges;
  std::vector<Expr> conditions;  // what else has to hold where a term counts; they stand in the term
  Expr term;                     // does not depend on the axes of the targets; on that of the span it may
};

/// f32(where(condition, e, left_out)) -> where(condition, f32(e), f32(left_out)), as masks are looked for.
Expr with_cast_inside(const Expr& expr);
/// Whether the definition's dtype holds what has been combined so far: integers, of positions.
bool holds_terms(const Definition& definition);
/// The body as such a reduction, if it is one; `axes` are those of the definition, as they stand in the body.
std::optional<Scatter> scatter_of(const Program& program, const Expr& body, std::span<const Symbol> axes);
/// The same of an expression in the scope, whose axes are the open indices with a fixed extent.
std::optional<Scatter> scatter_of(const Program& program, const Expr& expr, const Scope& scope);
/// Nothing for a definition that reads other steps of itself.
std::optional<Scatter> scatter_of(const Program& program, const Definition& definition);
/// The same of an expression in the scope, with targets: nothing where comparing each term with each element takes no
/// longer than a kernel that combines the terms one by one.
std::optional<Scatter> worthwhile_scatter(const Program& program, const Expr& expr, const Scope& scope);

}  // namespace moxie
