#pragma once
// Loops around each other whose rounds threads share out by one number.
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie::cuda_text {

/// Loops around each other, counted through: the variable of each has all values below these rounds, in dims. Where a
/// loop's range depends on those around it, or starts later, they hold values outside of it.
struct CountedLoops {
  std::vector<const stmt::For*> loops;
  std::vector<Affine> rounds;
  /// False if the rounds of the loop are not known to be bounded so.
  bool add(const stmt::For& loop);
};

/// Whether the loop has all rounds from 0 to a number that dims alone decide about.
bool has_all_rounds(const stmt::For& loop);

/// The only loop of a block that computes nothing besides but values; null for others.
const stmt::For* only_loop(const Block& block);

}  // namespace moxie::cuda_text
