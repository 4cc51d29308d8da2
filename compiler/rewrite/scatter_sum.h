#pragma once
// Sums whose terms go to the element that they name: y[v,n] = sum[s](where(idx[s] == v, e[s,n], 0)).
#include <optional>
#include <span>
#include <vector>

#include "compiler/ir/program.h"

namespace moxie {

/// Added up term by term, each term goes to one element along the targets, and the sum takes as many steps as it has
/// terms, not as many for every element.
struct ScatterSum {
  struct Target {
    Symbol axis;
    Affine element;  // in indices and values, where Symbol::value(k) is values[k]
  };
  std::vector<Target> targets;      // the elements of one axis each
  std::vector<Expr> values;         // elements of integer tensors
  std::vector<OpenedReduce> loops;  // of the sum, outermost first
  Expr term;                        // does not depend on the axes of the targets
};

/// The body as such a sum, if it is one; `axes` are those of the definition, as they stand in the body.
std::optional<ScatterSum> scatter_sum(const Program& program, const Expr& body, std::span<const Symbol> axes);
/// Nothing for a definition of a scan.
std::optional<ScatterSum> scatter_sum(const Program& program, const Definition& definition);

}  // namespace moxie
