#pragma once
// Nested loops that are collapsed into one, so that threads can share its iterations.
#include <vector>

#include "compiler/loop/loop_program.h"

namespace moxie::cuda_text {

/// Nested loops collapsed into one: each variable takes all values below its trip count, an expression of dims. Of a
/// range that is triangular, or that starts above 0, that is the bounding box.
struct CountedLoops {
  std::vector<const stmt::For*> loops;  // neighbouring iterations are neighbours in the last of them
  std::vector<Affine> rounds;
  const stmt::For* outermost = nullptr;  // around the others
  /// False where the loop has no such trip count.
  bool add(const stmt::For& loop);
  /// Neighbouring iterations become neighbours in loop k.
  void put_last(std::size_t k);
};

/// Whether the range is its own bounding box.
bool has_all_rounds(const stmt::For& loop);

/// The only loop of a block that computes nothing besides but values; null for others.
const stmt::For* only_loop(const Block& block);

}  // namespace moxie::cuda_text
