#include "compiler/rewrite/passes.h"

#include <algorithm>
#include <array>

#include "compiler/diff/chosen_rows.h"
#include "compiler/diff/factor_reductions.h"
#include "compiler/diff/gathered_sums.h"
#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/ranged_elements.h"
#include "compiler/diff/repeated_contractions.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/patterns/prefix_reduction.h"

namespace moxie {

namespace {

/// f32(...) where everything is computed in single anyway, or of an element that is single, says nothing; f64(...)
/// likewise.
Expr drop_idle_casts(const Program& program, const Expr& expr, DType computed) {
  for (const DType cast : {DType::f32, DType::f64}) {
    if (!is_call(expr, to_string(cast))) continue;
    const Expr inner = drop_idle_casts(program, expr->args[0], cast);
    const bool is_read = inner->kind == NodeKind::Access && program.dtype_of(inner->tensor) == cast;
    return cast == computed || is_read ? inner : call(to_string(cast), {inner});
  }
  return map_children(expr, [&](const Expr& child) { return drop_idle_casts(program, child, computed); });
}

/// The body of a prefix sum, which it stays: a sign that leaves the sum would make each element a sum of its own.
Expr with_normal_summand(const Algebra& algebra, const Definition& prefix, const Surroundings& around) {
  const OpenedReduce opened = open(prefix.body);
  Surroundings inside = around;
  inside.domain.add_range(opened.index, opened.range);
  return reduce(prefix.body->reduce, opened.index, opened.range, algebra.normalise(opened.body, &inside));
}

bool has_casts(const Expr& expr) {
  bool found = false;
  visit(expr, [&](const Expr& e) { found |= is_call(e, "f32") || is_call(e, "f64"); });
  return found;
}

}  // namespace

Program normalise_bodies(const Program& program) {
  Program result = program;
  const Algebra algebra(program);
  for (Definition& definition : result.definitions) {
    if (has_casts(definition.body))
      definition.body = drop_idle_casts(program, definition.body, computed_dtype(definition.dtype));
    Surroundings around{program, IndexDomain({})};
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
      around.domain.add_range(Symbol::axis(k), definition.axes[k].range);
    Definition normal = definition;
    normal.body = algebra.normalise(definition.body, &around);
    if (match_prefix(definition) && !match_prefix(normal))
      normal.body = with_normal_summand(algebra, definition, around);
    definition = std::move(normal);
  }
  return result;
}

std::span<const Pass> passes() {
  static constexpr std::array list = {
      Pass{"drop-slopes", "what only derivatives heed, stop_gradient and declared slopes, is gone once they are taken",
           drop_slopes},
      Pass{"narrow-positions", "positions of extrema that singles hold are searched for in single", narrow_positions},
      Pass{"leave-scans", "definitions that take no part in a recurrence leave their scans", leave_scans},
      Pass{"unroll-scans", "short recurrences of single elements become straight-line code", unroll_scans},
      Pass{"shorten-diagonals", "scans over the diagonals of two indices keep them by the index of fewer elements",
           shorten_diagonals},
      Pass{"lift-linear-algebra", "every linear algebra node becomes a definition of its own", lift_linear_algebra,
           true},
      Pass{"reuse-inverses", "solves with one matrix for many right-hand sides multiply by its inverse",
           reuse_inverses},
      Pass{"factor-matrices", "large matrices are factored once for all that is asked of them", factor_matrices, true},
      Pass{"name-chosen-rows", "choices among elements of one tensor that values select are one read, by an integer",
           [](const Program& program) { return name_chosen_rows(program, Choosers::IntegersAndQuotients); }},
      Pass{"compute-ranged-elements", "elements that only ranges by data read are computed where they are read",
           compute_ranged_elements},
      Pass{"lift-contractions",
           "sums of products that bodies write out more than once, as a softmax does its argument, are definitions",
           [](const Program& program) { return lift_repeated_contractions(program); }},
      Pass{"solve-conditions", "sums over what an equation between indices or integers selects lose an index",
           solve_conditions},
      Pass{"split-inner-scatters", "reductions whose terms go where values say leave the reductions around them",
           split_inner_scatters},
      Pass{"bound-reductions", "conditions that leave a reduction none but its identity become bounds of its range",
           bound_reductions},
      Pass{"bound-axes",
           "definitions have no elements outside of a condition around their body or of the band that is read",
           bound_axes},
      Pass{"lift-gathered-sums",
           "sums of products over rows that values select are computed for all rows, where each is selected often",
           lift_gathered_sums},
      Pass{"factor-reductions",
           "extrema and log-sum-exps of sums over several indices take two terms at a time, as is cheapest",
           [](const Program& program) { return factor_reductions(program, Ties::Free); }},
      Pass{"expand-logsumexp", "log-sum-exp is shifted by the maximum", expand_logsumexp, true},
      Pass{"multiply-powers", "powers whose exponents are indices of short ranges are products", multiply_powers},
      Pass{"accurate-sums", "in accurate precision, sums in single are added up in double", accurate_sums, true},
      Pass{"normalise", "sums of products in normal form; sums over products factored", normalise_bodies},
      Pass{"inline-proved",
           "element-wise definitions go into the bodies that use them, but for those with a promise that only their "
           "declaration shows",
           inline_proved},
      Pass{"normalise", "sums of products in normal form; sums over products factored", normalise_bodies},
      Pass{"bound-reductions", "conditions that leave a reduction none but its identity become bounds of its range",
           bound_reductions},
      Pass{"split-block-sums",
           "sums for the block that an element lies in have an axis of blocks, and one inside of them",
           split_block_sums},
      Pass{"split-holes", "contractions that leave out one element are sums before and after it", split_holes},
      Pass{"split-exponentials", "factors that do not change in a long loop leave the exponential", split_exponentials},
      Pass{"normalise", "sums of products in normal form; sums over products factored", normalise_bodies},
      Pass{
          "split-fills",
          "extrema of the elements that an integer selects, with a fill value for others, are combined with that value",
          split_fills},
      Pass{"scatter-positions", "positions of extrema whose terms go where values say become definitions of integers",
           scatter_positions},
      Pass{"fold-double-sums", "symmetric double sums become triangles, sums that see only r+t single sums",
           fold_double_sums},
      Pass{"multiply-prefixes",
           "products for all pairs of positions take the place of prefix sums for all pairs of features, where these "
           "take longer",
           multiply_prefixes},
      Pass{"sum-before-scatters", "large sums of products go where values say, and not each of their terms",
           sum_before_scatters},
      Pass{"split-reductions", "sums over long ranges become definitions of their own", split_reductions},
      Pass{"normalise", "sums of products in normal form; sums over products factored", normalise_bodies},
      Pass{"split-reductions", "sums over long ranges become definitions of their own", split_reductions},
      Pass{"split-summands", "costly summands of short sums become definitions of their own", split_summands},
      Pass{"split-prefixes", "prefix sums, and costly elements of theirs, become definitions of their own",
           split_prefixes},
      Pass{"share", "equal definitions become one", share_definitions},
      Pass{"narrow", "symmetric tensors keep one triangle, tensors that see only r+t one axis", narrow_definitions},
      Pass{"inline", "element-wise definitions go into the bodies that use them", inline_definitions},
      Pass{"drop-known-conditions", "conditions that follow from ranges and from conditions around them are gone",
           drop_known_conditions},
      Pass{"normalise", "sums of products in normal form; sums over products factored", normalise_bodies},
      Pass{"share-sums", "sums of many terms that several definitions compute become a definition", share_sums},
      Pass{"split-ordered-sums",
           "sums over the elements that compare below another one become definitions whose keys are sorted",
           split_ordered_sums},
      Pass{"store-gathers", "large products whose rows values select read them from a tensor of their own",
           store_gathers},
      Pass{"order-contractions",
           "sums of products of several tensors are computed two factors at a time, as is cheapest",
           order_contractions},
      Pass{"share-windows", "what overlapping windows have in common is computed once for every position",
           share_windows},
      Pass{
          "split-shifted-sums",
          "sums over shifted positions, as of a convolution's gradient, become products for all positions, and sums of "
          "these",
          split_shifted_sums},
      Pass{"store-blocks", "what contractions read in blocks of an axis is stored with an axis of blocks",
           store_blocks},
      Pass{"order-axes", "products that definitions hold lie as a library writes them from tensors as they lie",
           order_axes},
      Pass{"split-products", "large sums of products become matrix products of tensors", split_products},
      Pass{"bound-reductions", "conditions that leave a reduction none but its identity become bounds of its range",
           bound_products},
      Pass{"count-from-zero", "sums that start at another fixed number count from 0, as chunks and rows of loops do",
           count_from_zero},
      Pass{"split-row-sums", "sums along rows keep a sum per column first", split_row_sums},
      Pass{"split-steps", "what short steps of a scan need not wait for is computed before it, for all steps at once",
           split_steps},
      Pass{"tabulate-differences", "functions of a difference of long indices are read from a table of all differences",
           tabulate_differences},
      Pass{"hoist-tables", "what does not change in a long loop is computed once, before it", hoist_tables},
      Pass{"solve-conditions", "sums over what an equation between indices or integers selects lose an index",
           solve_conditions},
      Pass{"split-scatters", "costly parts of terms that go where values say are computed before, in lanes",
           split_scatters},
      Pass{"shorten-sorts", "sorts of which only the first elements are read find no others", shorten_sorts},
      Pass{"store-matrices", "what libraries read becomes definitions of its own", store_matrices, true},
      Pass{"recompute", "cheap elements of large tensors are computed where they are read", recompute_elements},
      Pass{"share", "equal definitions become one", share_definitions},
      Pass{"drop-unused", "definitions that no output needs are dropped", drop_unused},
      Pass{"leave-scans", "definitions that take no part in a recurrence leave their scans", leave_scans},
  };
  return list;
}

std::vector<std::string_view> optional_passes() {
  std::vector<std::string_view> names;
  for (const Pass& pass : passes()) {
    if (!pass.needed && std::ranges::find(names, pass.name) == names.end()) names.push_back(pass.name);
  }
  return names;
}

Program optimise(const Program& program, const PassObserver& observe, std::span<const std::string> without) {
  Program current = program;
  for (const Pass& pass : passes()) {
    if (!pass.needed && std::ranges::find(without, pass.name) != without.end()) continue;
    Program next = pass.run(current);
    if (next != current) verify(next);
    current = std::move(next);
    if (observe) observe(pass, current);
  }
  return current;
}

}  // namespace moxie
