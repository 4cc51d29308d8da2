#pragma once
// Sums of products, written flat: all indices of nested sums in one list, all factors in another.
#include <functional>
#include <optional>
#include <vector>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// `coefficient` times the sum over `summed` of the product of `factors`.
struct FlatSum {
  Scope scope;  // around it, and its own indices
  std::vector<Symbol> summed = {};
  double coefficient = 1;
  std::vector<Factor> factors = {};
};

bool is_sum(const Expr& expr);
/// The body of the definition, with what `f` gives in the place of sums that stand in no other binder; nothing: as it
/// is.
Expr rewrite_outer_sums(const Definition& definition,
                        const std::function<std::optional<Expr>(const Expr& sum, const Scope& around)>& f);
/// Whether two tensors are multiplied, and both depend on the index of the sum.
bool is_product_of_tensors(const Product& product, Symbol index);
/// A sum, or a product of sums and others; factors that are sums themselves are opened.
/// Indices that nothing depends on are gone where their trip count is a number, which is part of the coefficient then.
FlatSum flat_sum(const Algebra& algebra, const Expr& expr, const Scope& around);

/// The sum of the expression over these of its indices, the first outermost.
Expr summed(const std::vector<Symbol>& symbols, Expr expr, const FlatSum& flat);

/// Whether there are others that nothing depends on: the sum is so many times that of the factors.
bool has_idle_indices(const FlatSum& flat);

}  // namespace moxie
