#pragma once
// Contractions that definitions hold already, and where they occur in other ones.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/rewrite/patterns/flat_sum.h"

namespace moxie {

/// Elements of tensors whose product, summed over all symbols but the axes of a definition, is what the definition
/// holds. Each subscript is one symbol.
struct KnownContraction {
  std::string name;
  Scope scope;  // its axes and the symbols that are summed over, and the dtype of the definition
  std::vector<Symbol> axes = {};
  std::vector<Expr> factors = {};
};

/// Where a known contraction stands for some of the factors of a sum.
struct KnownPart {
  std::uint64_t factors = 0;  // bit k: factor k of the sum
  Expr read;                  // the element of the definition
};

class KnownContractions {
 public:
  /// Adds the definition if it is a contraction of two tensors or more: of those that it reads, and of those that
  /// these are contractions of. `algebra` is the one of the program.
  void add(const Algebra& algebra, const Definition& definition);
  /// The parts of the sum that are known: what a part sums over, nothing else in the sum depends on.
  std::vector<KnownPart> parts_of(const FlatSum& sum) const;

 private:
  std::vector<KnownContraction> known_;
};

}  // namespace moxie
