#pragma once
// KernelShape: what a LoopProgram's loops mean for the threads of a block: which of them are shared out, and which
// arrays a thread has for itself.
#include <set>
#include <vector>

#include "compiler/codegen/cuda/counted_loops.h"
#include "compiler/codegen/cuda/team_reductions.h"
#include "compiler/loop/lower.h"

namespace moxie::cuda_text {

struct ArrayShape {
  bool per_thread = false;       // else one for all rows of a block
  bool known_subscripts = true;  // if the loops over `variables` are unrolled
  std::int64_t elements = 0;     // that are stored
  std::set<Symbol> variables;    // loops in its subscripts
};

struct KernelShape {
  bool lanes_reduce = false;  // the vector loop is the one over samples: its sums are combined over lanes
  /// The loops whose rounds are all elements: the vector loop is the last. Empty where the elements are the rounds of
  /// the vector loop alone.
  CountedLoops elements;
  const stmt::For* vector_loop = nullptr;
  const stmt::For* sample_loop = nullptr;     // bounds are the arguments of a chunk; not the vector loop
  std::set<const stmt::For*> shared_out;      // loops whose rounds go to the rows of a block
  std::int64_t shared_rounds = 0;             // the most rounds of one of them, where known
  Reductions reductions, uniform_reductions;  // that a team, or the lanes of a row, can share out
  std::vector<ArrayShape> arrays;
  bool draws_random = false;
  bool has_partials = false;  // parts of sums, one for each chunk
  /// Rows have sums of their own, which are combined where they are stored.
  bool combines_rows() const { return has_partials && sample_loop; }
};

KernelShape kernel_shape(const LoweredKernel& kernel);

/// KernelShape::elements.
CountedLoops element_loops(const LoweredKernel& kernel);
/// All elements are the rounds of these ranges; none where a kernel has a single element.
std::vector<Range> element_ranges(const LoweredKernel& kernel);
std::optional<std::int64_t> constant_elements(const LoweredKernel& kernel);
/// All that the chunks of a kernel share are the rounds of these ranges.
std::vector<Range> chunked_ranges(const LoweredKernel& kernel);

/// Of a table that the kernel reads by the index of the vector loop: the axis that it stands on.
std::size_t lane_axis(const LoopProgram& program, BufferId table, Symbol vector);

/// Whether the kernel has the loops of lower_scatter, in which a warp, as a processor's thread, looks among all terms
/// for those of its rows.
bool searches_terms(const LoweredKernel& kernel);
/// Of the loop over terms of such a kernel, the one inside over those of a warp's rows that a term goes to: its bounds
/// say which these are. Null for other loops.
const stmt::For* own_rows(const stmt::For& terms);

/// The rounds of a loop with constant bounds.
std::optional<std::int64_t> constant_rounds(const Range& range);
/// Values computed in a block itself, without the blocks of loops in it, are visited in order.
template <class Visitor>
void visit_statements(const Block& block, const Visitor& visitor) {
  for (const Statement& statement : block) {
    visitor(statement);
    if (const auto* loop = std::get_if<stmt::For>(&statement)) visit_statements(loop->body, visitor);
  }
}

}  // namespace moxie::cuda_text
