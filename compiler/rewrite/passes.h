#pragma once
// The formula passes, in the order in which they run. Each is a pure function from Program to Program that changes no
// value.
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/program.h"
#include "compiler/program/scans.h"

namespace moxie {

struct Pass {
  std::string_view name;
  std::string_view purpose;
  Program (*run)(const Program&);
  /// Whether kernels can only be made of what it leaves, so that it cannot be left out.
  bool needed = false;
};

std::span<const Pass> passes();
/// Their names, each once; those that can be left out.
std::vector<std::string_view> optional_passes();

/// Called with each pass and its result, for dumps and timings.
using PassObserver = std::function<void(const Pass&, const Program& result)>;
/// Runs the passes on a specialised Program; verifies between them. `without` names optional passes to leave out, which
/// shows in which of them a fault lies; other names have no effect.
Program optimise(const Program& program, const PassObserver& observe = {}, std::span<const std::string> without = {});

// One file each, and lift_linear_algebra() of compiler/diff:
Program accurate_sums(const Program& program);          // in accurate precision, sums in single are added up in double
Program narrow_positions(const Program& program);       // positions that singles hold are searched for in single
Program drop_known_conditions(const Program& program);  // conditions that follow from those around them
Program drop_slopes(const Program& program);            // what only derivatives heed is gone once they are taken
Program unroll_scans(const Program& program);         // short recurrences of single elements become straight-line code
Program shorten_diagonals(const Program& program);    // diagonals of two indices by the one of fewer elements
Program reuse_inverses(const Program& program);       // solves with one matrix for many right-hand sides invert it once
Program factor_matrices(const Program& program);      // large matrices are factored once for all that is asked of them
Program sum_before_scatters(const Program& program);  // sums go where values say, not each of their terms
Program store_gathers(const Program& program);        // rows that values select in large products are stored
Program store_matrices(const Program& program);       // what libraries read becomes definitions of its own
Program bound_axes(const Program& program);           // conditions around bodies become ranges of axes
Program bound_reductions(const Program& program);     // conditions become bounds of the reductions that they part
Program split_holes(const Program& program);          // sums that leave one element out are sums before and after it
Program bound_products(const Program& program);       // the same of conditions inside of products and functions
Program solve_conditions(const Program& program);     // sums lose the indices that a condition gives
Program expand_logsumexp(const Program& program);     // shifted by the maximum
Program normalise_bodies(const Program& program);     // sums of products in normal form, sums over products factored
Program inline_proved(const Program& program);        // as inline_definitions, but what is declared and not shown stays
Program inline_definitions(const Program& program);   // element-wise definitions go into the bodies that use them
Program multiply_powers(const Program& program);      // x^a, where `a` is an index of a short range, as a product
Program split_exponentials(const Program& program);  // exp(a+b) -> exp(a)*exp(b) where b does not change in a long loop
Program fold_double_sums(
    const Program& program);  // symmetric double sums to triangles; dependence on r+t only to one sum
Program split_reductions(const Program& program);      // sums over long ranges become definitions of their own
Program split_inner_scatters(const Program& program);  // reductions by value inside of others become definitions
Program split_steps(const Program& program);           // what steps need not wait for is computed before the scan
Program split_summands(const Program& program);        // costly summands of short sums become definitions of their own
Program split_prefixes(const Program& program);        // prefix sums become definitions of their own
Program multiply_prefixes(const Program& program);     // products of positions in the place of prefix sums
Program share_definitions(const Program& program);     // equal definitions become one
Program share_sums(const Program& program);            // sums that several definitions compute become one
Program narrow_definitions(const Program& program);    // symmetric tensors keep one triangle; tensors in r+t one axis
Program order_axes(const Program& program);            // in which order of axes products lie
Program order_contractions(const Program& program);    // sums of several factors, two at a time in the cheapest order
Program split_shifted_sums(const Program& program);    // sums over shifted positions: products, then what meets
Program split_block_sums(const Program& program);      // sums over the block that an element lies in: one axis more
Program store_blocks(const Program& program);          // what is read in blocks of an axis gets an axis of blocks
Program split_ordered_sums(const Program& program);    // sums over the elements below another one, to be sorted
Program split_products(const Program& program);        // sums of products over whole tensors, for a library to multiply
Program share_windows(const Program& program);         // what overlapping windows have in common is computed once
Program split_fills(const Program& program);           // fill values in extrema of what an integer selects
Program scatter_positions(const Program& program);     // positions of extrema whose terms go where values say
Program count_from_zero(const Program& program);       // sums from another fixed number on start at 0
Program split_row_sums(const Program& program);        // sums along rows keep a sum per column first
Program split_scatters(const Program& program);        // costly parts of scattered terms are computed before
Program shorten_sorts(const Program& program);         // sorts keep the first elements, where no others are read
Program tabulate_differences(const Program& program);  // f(i - j) is read from a table of all differences
Program hoist_tables(const Program& program);        // what does not change in a long loop is computed once, before it
Program recompute_elements(const Program& program);  // cheap elements of large tensors, where they are read
Program drop_unused(const Program& program);         // definitions that no output needs

}  // namespace moxie
