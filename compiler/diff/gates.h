#pragma once
// Adjoints that are exactly zero because values made a `where` take another branch. There the formula may have no
// finite slope (sqrt at 0, exp where it overflows), and 0 times infinity would be NaN: the derivative is 0 instead.
// Conditions on indices alone need none of this: they part ranges, and no adjoint is computed outside of them.
#include <set>
#include <string>

#include "compiler/ir/finite_values.h"

namespace moxie {

/// Whether the expression depends on more than indices and dims.
bool depends_on_values(const Expr& expr);
/// Whether the body holds a `where` whose condition does.
bool chooses_by_value(const Expr& body);

class Gates {
 public:
  /// The program, to which definitions may be added, must outlive this.
  explicit Gates(const Program& program) : finite_(program, Granted::FiniteInputs) {}

  /// Says that all that arrives at the adjoint `tensor` passed a `where`.
  void add(const std::string& tensor) { tensors_.insert(tensor); }
  /// Whether the value of an adjoint may be zero because of what a `where` chose: it is a choice, or reads such.
  bool may_be_zero(const Expr& adjoint) const;
  /// local * adjoint, which is 0 where the adjoint is: a choice stays outermost, and elsewhere an infinite or undefined
  /// local derivative counts only if the adjoint is not zero. Just the product where the local derivative is finite.
  Expr chain(const Expr& local, const Expr& adjoint);

 private:
  Expr chain_singular(const Expr& local, const Expr& adjoint) const;

  std::set<std::string, std::less<>> tensors_;
  FiniteValues finite_;
};

}  // namespace moxie
