#pragma once
// What is known to be a finite number, from declared domains.
#include <map>
#include <string>
#include <unordered_map>

#include "compiler/ir/program.h"
#include "compiler/ir/signs.h"

namespace moxie {

/// Whether expressions are numbers, neither infinite nor NaN, wherever tensors obey their declared domains (which hold
/// finite numbers only). Overflow counts as rounding, but for exponentials, which must be known not to grow.
/// Answers are kept, so that shared subexpressions are looked at once.
class FiniteValues {
 public:
  /// The program must outlive this.
  explicit FiniteValues(const Program& program) : program_(program), signs_(program) {}

  bool holds(const Expr& expr);
  Sign sign_of(const Expr& expr) { return signs_.of(expr); }
  /// Whether the formula of a definition shows what proofs take from its declared domain: finite values, of this sign.
  bool shows_domain_of(const Definition& definition);

 private:
  bool compute(const Expr& expr);
  bool compute_call(const Expr& expr);
  bool compute_access(const Expr& access);
  bool all_of(const std::vector<Expr>& exprs);

  const Program& program_;
  Signs signs_;
  /// Keeps the key alive, so that no other node can take its address.
  std::unordered_map<const Node*, std::pair<Expr, bool>> done_;
  std::map<std::string, bool, std::less<>> tensors_;
};

}  // namespace moxie
