#pragma once
// Adjoints that are exactly zero because values made a `where` take another branch. There the formula may have no
// finite slope (sqrt at 0, exp where it overflows), and 0 times infinity would be NaN: the derivative is 0 instead.
// Conditions on indices that are ranges need none of this: no adjoint is computed outside of them. Others (a != b, or a
// choice of ranges) are looked up again, which costs less than to compare values.
#include <map>
#include <string>

#include "compiler/analysis/finite_values.h"

namespace moxie {

/// Whether the body holds a `where` whose condition depends on values.
bool chooses_by_value(const Expr& body);

class Gates {
 public:
  /// The program, to which definitions may be added, must outlive this.
  explicit Gates(const Program& program) : program_(program), finite_(program, Granted::FiniteInputs) {}

  /// Says that all that arrives at the adjoint `tensor` passed a `where`. If the tensor has a body that conditions on
  /// indices make 0, these are kept.
  void add(const std::string& tensor);
  /// Whether the value of an adjoint may be zero because of what a `where` chose: it is a choice, or reads such.
  bool may_be_zero(const Expr& adjoint) const { return may_be_zero(adjoint, By::AnyChoice); }
  /// local * adjoint, which is 0 where the adjoint is: a choice stays outermost, and elsewhere an infinite or undefined
  /// local derivative counts only if the adjoint is not zero. Just the product where the local derivative is finite.
  Expr chain(const Expr& local, const Expr& adjoint);

 private:
  /// How an adjoint may come to be zero: by any choice, or by one that depends on values.
  enum class By : std::uint8_t { AnyChoice, Values };
  bool may_be_zero(const Expr& adjoint, By by) const;
  /// `known` is a condition that holds around the product.
  Expr chain_singular(const Expr& local, const Expr& adjoint, const Expr& known) const;
  /// A condition on indices without which the adjoint is 0; empty if none is seen.
  Expr condition_of(const Expr& adjoint) const;
  /// The one that all from number `first` on share.
  Expr condition_of_all(const std::vector<Expr>& args, std::size_t first) const;

  const Program& program_;
  struct Gated {
    Expr condition;  // on the axes; empty if none is seen
    bool by_values = true;
  };
  std::map<std::string, Gated, std::less<>> tensors_;
  FiniteValues finite_;
};

}  // namespace moxie
