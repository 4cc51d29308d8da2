#include <algorithm>

#include "compiler/analysis/value_range.h"
#include "compiler/expression/contraction_path.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/cost.h"
#include "compiler/rewrite/algebra/extract.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/patterns/flat_sum.h"
#include "compiler/rewrite/patterns/ordered_sum.h"
#include "compiler/rewrite/patterns/scatter.h"
#include "compiler/rewrite/products/order_contractions.h"

namespace moxie {
namespace {

/// Whether terms go where values say: to certain elements, or to the elements of a range.
bool is_scatter(const Program& known, const Expr& expr, const Scope& scope) {
  if (expr->kind != NodeKind::Reduce || !has_integers(known)) return false;
  const auto scatter = scatter_of(known, expr, scope);
  return (scatter && scatter->span) || worthwhile_scatter(known, expr, scope);
}

/// Whether a definition with the expression's axes may take memory: it has few elements, or its terms go where values
/// say and it is no larger than what is in memory anyway. In a loop over elements such terms take a step for each.
bool fits_in_memory(const Program& known, const Definition& user, const Expr& expr, const Scope& scope) {
  int long_axes = 0;
  double elements = 1;
  for (const Symbol symbol : open_symbols_of(expr, scope)) {
    const bool steps = user.scan && symbol == Symbol::axis(0);  // all that a scan computes is kept for every step
    if (!steps && is_long(*scope.find(symbol))) ++long_axes;
    elements *= assumed_extent(*scope.find(symbol));
  }
  return long_axes <= 2 || (elements <= room_beside(largest_tensor(known)) && is_scatter(known, expr, scope));
}

/// sum[t](a * sum[s](b)) with a long range of s -> sum[s](sum[t](a * b)): the long sum is the one that is split off,
/// with the fewest elements. Not if its range is data: it is short then, and found as such where nothing is done to it.
/// Nor if its terms go where values say: the factors of elements would keep it from taking a step for each term alone.
std::optional<Expr> long_sum_first(const Program& program, const Algebra& algebra, const Expr& expr,
                                   const Scope& scope) {
  if (expr->kind != NodeKind::Reduce || expr->reduce != ReduceKind::Sum || is_long(expr->range, scope))
    return std::nullopt;
  const OpenedReduce outer = open(expr);
  const Scope inside = scope.with(outer.index, outer.range);
  Product product = algebra.product_of(outer.body);
  const auto inner = std::ranges::find_if(product.factors, [&](const Factor& factor) {
    const Expr& e = factor.base;
    return factor.power == 1 && e->kind == NodeKind::Reduce && e->reduce == ReduceKind::Sum && is_long(e->range) &&
           e->depends_on(outer.index) && !mentions(e->range, outer.index) && !ranged_reduce(program, e) &&
           !worthwhile_scatter(program, e, inside);
  });
  if (inner == product.factors.end()) return std::nullopt;
  const OpenedReduce opened = open(inner->base);
  product.factors.erase(inner);
  const Expr body = algebra.times(algebra.make_product(std::move(product)), opened.body);
  return reduce(ReduceKind::Sum, opened.index, opened.range,
                algebra.make_reduction_sum(outer.index, outer.range, body));
}

/// What a sum over several indices, written as one sum in another, adds up.
const Expr& summand_of(const Expr& expr) {
  const bool is_sum = expr->kind == NodeKind::Reduce && expr->reduce == ReduceKind::Sum;
  return is_sum ? summand_of(expr->args[0]) : expr;
}

/// Whether a library forms the sum faster than the kernel that needs it: a large product of matrices, each element of
/// which is needed often. (Causal linear attention with 32 features took five times as long in one kernel.)
bool is_shared_product(const Algebra& algebra, const Expr& expr, const Scope& scope) {
  constexpr double kLeastReaders = 16, kLeastDepth = 16;  // a vector of readers, and of terms
  if (expr->reduce != ReduceKind::Sum || !has_fixed_extent(expr->range)) return false;
  const OpenedReduce opened = open(expr);
  const double depth = assumed_extent(expr->range);
  return is_product_of_tensors(algebra.product_of(opened.body), opened.index) && depth >= kLeastDepth &&
         iterations(expr, scope, false) >= kLeastReaders && iterations(expr, scope) * depth >= kSmallestProduct;
}

/// Makes the reduction a definition, the last one known so far.
std::optional<Expr> take_out(Program& known, const Definition& user, const Expr& reduction, const Scope& scope) {
  const Guarded guarded = with_guards(reduction, scope);
  auto part =
      extract(known, in_order_of_reads(guarded.scope, guarded.sum), guarded.sum, user.name + ".sum", scope.dtype);
  return part ? std::optional(add_part(known, std::move(*part), user)) : std::nullopt;
}

/// Whether the terms go to elements that a reduction around it runs over.
bool scatters_inside(const Program& known, const Expr& expr, const Scope& scope) {
  const auto scatter = worthwhile_scatter(known, expr, scope);
  const auto is_reduced = [](const Scatter::Target& target) { return target.axis.kind() != Symbol::Kind::Axis; };
  return scatter && std::ranges::any_of(scatter->targets, is_reduced);
}

/// Whether the terms go where values say, and have sums of their own for each element: as definitions these would be
/// computed for all pairs of terms and elements. (The gradient of a softmax over segments took 250 times as long.)
bool sums_for_pairs(const Program& known, const Expr& expr, const Scope& scope) {
  if (expr->kind != NodeKind::Reduce || !has_integers(known)) return false;
  const auto scatter = scatter_of(known, expr, scope);
  if (!scatter) return false;
  const auto is_of_term = [&](const Expr& e) {
    return std::ranges::any_of(scatter->loops, [&](const OpenedReduce& loop) { return e->depends_on(loop.index); });
  };
  bool found = false;
  visit(scatter->loops.back().body, [&](const Expr& e) {
    found = found || (e->kind == NodeKind::Reduce && scatter->depends_on_element(e) && is_of_term(e));
  });
  return found;
}

/// The body with such reductions as definitions. Multiplied by what is around them, they would take a step for each
/// term and each element: infinity times the zero of an element without terms is NaN.
Expr split_inner_scatters(Program& known, const Definition& user) {
  return rewrite_top_down(user.body, Scope::of(user), [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
    const bool splits = scatters_inside(known, expr, scope) && fits_in_memory(known, user, expr, scope);
    return splits ? take_out(known, user, expr, scope) : std::nullopt;
  });
}

class ReductionSplitter {
 public:
  explicit ReductionSplitter(const Program& program) : algebra_(program) {}

  Expr run(Program& known, const Definition& user) const {
    const Expr root = rewrite_bottom_up(user.body, Scope::of(user), [&](const Expr& expr, const Scope& scope) {
      return long_sum_first(known, algebra_, expr, scope).value_or(expr);
    });
    if (is_ordered_as_a_whole(known, user, root)) return root;
    // Integers and halves are rounded once, when all is summed: their long sums have parts in a definition that is not.
    const bool is_rounded = is_sum(root) && !is_stored_as_computed(user.dtype) &&
                            !ordered_sum(algebra_, root, Scope::of(user));  // its readers see how far it counts
    const std::uint32_t inside = is_rounded ? root->height : summand_of(root)->height;
    return rewrite_top_down(root, Scope::of(user), [&](const Expr& expr, const Scope& scope) -> std::optional<Expr> {
      const bool splits = expr->kind == NodeKind::Reduce && (expr != root || is_rounded) && expr->height <= inside &&
                          (is_long(expr->range, scope) || is_over_samples(expr, scope) ||
                           is_shared_product(algebra_, expr, scope) || worthwhile_scatter(known, expr, scope)) &&
                          fits_in_memory(known, user, expr, scope);
      auto part = splits ? split(known, user, expr, scope) : std::nullopt;
      if (part) return part;
      // A loop over the range of a row visits the pairs that the data select, and so does a scatter: sums in them stay.
      const bool selects_pairs = ranged_reduce(known, expr) || sums_for_pairs(known, expr, scope);
      return selects_pairs ? std::optional(expr) : std::nullopt;
    });
  }

 private:
  /// Whether a sum inside the sum is better left to order-contractions: to take it out would settle what is multiplied
  /// first.
  static bool is_ordered_as_a_whole(Program& known, Definition user, const Expr& root) {
    if (!is_sum(root) || summand_of(root)->height == 0) return false;
    user.body = root;
    return has_cheaper_order(known, user);
  }

  /// Makes the reduction a definition, and first the reductions inside it: else a sum of exponentials would find its
  /// maximum again for every term.
  std::optional<Expr> split(Program& known, const Definition& user, const Expr& expr, const Scope& scope) const {
    const auto read = take_out(known, user, expr, scope);
    if (!read) return std::nullopt;
    Definition added = std::move(known.definitions.back());
    known.definitions.pop_back();
    added.body = run(known, added);
    known.definitions.push_back(std::move(added));
    return read;
  }

  const Algebra algebra_;
};

}  // namespace

Program split_inner_scatters(const Program& program) {
  if (!has_integers(program)) return program;
  return split_bodies(
      program, [](Program& known, const Definition& definition) { return split_inner_scatters(known, definition); });
}

Program split_reductions(const Program& program) {
  const ReductionSplitter splitter(program);
  return split_bodies(program,
                      [&](Program& known, const Definition& definition) { return splitter.run(known, definition); });
}

}  // namespace moxie
