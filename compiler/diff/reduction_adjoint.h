#pragma once
// Derivatives of reductions with respect to one iteration of their body.
#include <functional>
#include <vector>

#include "compiler/diff/inversion.h"
#include "compiler/program/program.h"

namespace moxie {

/// The place of a reduction that is differentiated.
struct ReductionPlace {
  const IterationDomain& domain;  // of the open indices around the reduction
  const Program& program;
  const std::string& definition;  // the definition whose body has the reduction
  const Expr& body;               // that body, with open indices
  const Expr& whole;              // its value as an access to the definition
  DType dtype;                    // in which the reduction is computed
  /// A value in the indices of `domain` that all iterations read, in a definition of this dtype.
  std::function<Expr(const Expr& value, DType dtype)> store;
  /// The value of the reduction itself.
  std::function<Expr()> value;
};

/// d reduction / d body at one iteration of `loops`. Directly nested extrema (products) are one over a list of indices.
struct ReductionDerivative {
  std::vector<SumLoop> loops;  // outermost first
  Expr body, derivative;
};

/// Linear in the size of the reduction.
///
/// Of the iterations of Max (Min) that give the largest (smallest) value, or NaN, the first takes the whole gradient:
/// the derivative is 1 at its position, which is stored, and 0 elsewhere. Elements are compared nowhere else, as a
/// value that is computed twice may differ in its last bit: so exactly one iteration is the one, whatever rewrites do
/// to the body.
///
/// Of a product, the two factors that are furthest from 1, in proportion, are set apart: NaN, then zeros, then infinite
/// ones, then the largest or smallest. With x1 and x2 for these, and Q for the product of all others, the derivatives
/// are x2*Q, x1*Q, and x1*x2*Q/f for every other factor f. So nothing is divided by zero where one factor or two are
/// zero, in second derivatives too. All is computed in double: with factors in single, no product leaves its range.
///
/// The derivative of a log-sum-exp is the softmax. Where all elements are -inf, such as the log-probabilities of states
/// that a recursion cannot reach, the derivative is 0. If the Program computes the softmax as well, which is NaN there,
/// the derivative reads that.
ReductionDerivative differentiate_reduction(const Expr& reduction, const ReductionPlace& place);

}  // namespace moxie
