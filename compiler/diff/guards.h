#pragma once
// Conditions on indices: between the form in which the language states them and affine rows.
#include <optional>
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

/// What a condition says: all of `nonnegative` are >= 0, all of `zero` are 0, and all of `rest` (which no affine row
/// can state) are true.
struct IndexCondition {
  std::vector<Affine> nonnegative;
  std::vector<Affine> zero;
  std::vector<Expr> rest;
};

/// The condition that `truth` holds, or that it does not.
IndexCondition conditions_of(const Expr& truth, bool holds);

/// Whether `truth` is a != b, and one of the rows, which are all >= 0, says a < b or a > b.
bool is_apart(const Expr& truth, const std::vector<Affine>& nonnegative);
/// If `truth` is a != b, and one of the rows says a >= b or a <= b: the row that then says a > b or a < b.
std::optional<Affine> one_sided(const Expr& truth, const std::vector<Affine>& nonnegative);

/// where(every row of `zero` is 0 and every row of `nonnegative` is >= 0, body, 0); `body` itself if there is no row.
Expr guarded(const std::vector<Affine>& zero, const std::vector<Affine>& nonnegative, const Expr& body);
/// where(all of `truths`, body, 0)
Expr guarded(const std::vector<Expr>& truths, const Expr& body);

}  // namespace moxie
