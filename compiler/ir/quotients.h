#pragma once
// Floor division and remainder of indices. floor(a/d) is the one integer q with d*q <= a < d*(q+1): the index of a sum
// over a range with one iteration. a%d is a - d*q. So every rule for sums, their derivatives among them, holds for
// both.
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ir/expr.h"

namespace moxie {

/// floor(value/divisor), with a positive divisor.
struct Quotient {
  Affine value;
  std::int64_t divisor = 1;
  bool operator==(const Quotient&) const = default;

  /// The range whose one iteration it is.
  Range range() const;
};

/// The quotient that is the only iteration of a range of that form.
std::optional<Quotient> as_quotient(const Range& range);

/// The quotients that an expression under construction mentions: each stands for its value until bind().
class Quotients {
 public:
  /// floor(value/divisor); an affine expression where it is one, else a symbol, the same for equal quotients.
  Affine floor_of(const Affine& value, std::int64_t divisor);
  /// value - divisor*floor(value/divisor)
  Affine remainder_of(const Affine& value, std::int64_t divisor);
  bool empty() const { return entries_.empty(); }
  int size() const { return static_cast<int>(entries_.size()); }
  /// The expression, which mentions the symbols, as sums over them.
  Expr bind(Expr expr) const;
  /// Adds the ranges of the symbols to something that has add_range(symbol, range).
  template <class Domain>
  void add_to(Domain& domain) const {
    for (const auto& [symbol, quotient] : entries_) domain.add_range(symbol, quotient.range());
  }
  /// The expression, in which sums over these quotients are replaced by what they sum.
  Expr share(const Expr& expr) const;

 private:
  std::vector<std::pair<Symbol, Quotient>> entries_;  // a value may mention the symbols before its own
};

/// The number floor(value/divisor) or value%divisor, by the mark: `%` or another.
Expr divided(std::string_view mark, const Affine& value, std::int64_t divisor);

/// The affine expression that `expr` computes. Elements of tensors are added to `values`, and quotients of indices to
/// `quotients`, where these are given.
std::optional<Affine> affine_of(const Expr& expr, std::vector<Expr>* values = nullptr, Quotients* quotients = nullptr);

/// where(condition, a, b), with the quotients of the condition bound around all of it: so the condition compares affine
/// expressions, which proofs and derivatives understand.
Expr choose_by(const Expr& condition, const Expr& a, const Expr& b);

}  // namespace moxie
