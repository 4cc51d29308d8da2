#pragma once
// IndexDomain: what is known of the indices at one place of an expression, and proofs from it.
#include <vector>

#include "compiler/expression/expr.h"

namespace moxie {

enum class Proof : std::uint8_t { Holds, Fails, Unknown };

/// The integer points that satisfy one of several systems of affine inequalities. Several, because a condition such as
/// `i != 0` splits a domain.
class IndexDomain {
 public:
  /// Values that are known for some dims.
  explicit IndexDomain(Replacement known) : known_(std::move(known)) {}

  void add_range(Symbol symbol, const Range& range);
  void add_nonnegative(const Affine& affine);
  /// The part of the domain in which the condition has the given truth value; parts of it that are not affine tell
  /// nothing.
  IndexDomain where(const Expr& condition, bool truth) const;

  /// Whether there is certainly no point in it.
  bool is_empty() const { return prove_nonnegative(Affine(-1)) == Proof::Holds; }
  /// Whether `affine` >= 0 everywhere. Fails: not so for some point, whatever the (positive) values of dims that are
  /// not known for which there are points at all; or not provable although all of them are known. Unknown: it depends
  /// on dims.
  Proof prove_nonnegative(const Affine& affine) const;

 private:
  using System = std::vector<Affine>;  // every entry is >= 0

  Affine with_known(const Affine& affine) const;
  /// The points of `systems` at which the condition has the given truth value.
  std::vector<System> restricted(const std::vector<System>& systems, const Expr& condition, bool truth) const;
  std::vector<System> restricted_by_all(std::vector<System> systems, const Expr& condition, bool truth) const;
  std::vector<System> restricted_by_any(const std::vector<System>& systems, const Expr& condition, bool truth) const;

  Replacement known_;
  std::vector<System> systems_ = {{}};
};

}  // namespace moxie
