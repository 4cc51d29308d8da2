#pragma once
// Integers in subscripts that are not affine: quotients and remainders (x[i/2]), and choices (x[min(i+1, N-1)]).
#include <limits>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "compiler/expression/quotients.h"
#include "compiler/program/index_domain.h"
#include "compiler/program/integer_element.h"

namespace moxie {

/// The integers that an expression under construction mentions and that are not affine. Each has a symbol in its place
/// until bind().
class Placeholders {
 public:
  /// floor(value/divisor); an affine expression where it is one, else a symbol, the same for equal quotients.
  Affine floor_of(const Affine& value, std::int64_t divisor);
  /// value - divisor*floor(value/divisor)
  Affine remainder_of(const Affine& value, std::int64_t divisor);
  /// `a` where the condition holds, else `b`: a symbol, the same for equal choices.
  Affine choice_of(const Expr& condition, const IntegerElement& a, const IntegerElement& b);
  bool empty() const { return entries_.empty(); }
  int quotients() const;
  int choices() const { return static_cast<int>(entries_.size()) - quotients(); }
  /// Whether elements of tensors are among what a choice that `value` mentions may give.
  bool may_be_element(const Affine& value) const;
  /// The expression, which mentions the symbols, as sums over quotients, and as a `where` for every choice around what
  /// mentions it.
  Expr bind(const Expr& expr) const { return *bind(expr, std::numeric_limits<double>::infinity()); }
  /// The same; nothing if that has more than `most` nodes as it is written.
  std::optional<Expr> bind(Expr expr, double most) const;
  /// The expression with symbols in the place of its sums over quotients, which bind() makes sums over all that
  /// mentions them.
  Expr lift(const Expr& expr);
  /// Adds what is known of the symbols.
  void add_to(IndexDomain& domain) const;
  /// The expression, in which sums over these quotients are replaced by what they sum.
  Expr share(const Expr& expr) const;

 private:
  struct Choice {
    Expr condition;
    IntegerElement yes, no;
    bool operator==(const Choice&) const = default;
  };
  using Entry = std::variant<Quotient, Choice>;
  Affine symbol_of(const Entry& entry);
  static Expr chosen(const Expr& expr, Symbol symbol, const Choice& choice);

  std::vector<std::pair<Symbol, Entry>> entries_;  // an entry may mention the symbols before its own
};

/// The number of nodes as the expression is written: one that stands at two places counts twice.
double written_nodes(const Expr& expr);

/// The value as a number: a constant, where it is one.
Expr number_of(const Affine& value);

/// floor(value/divisor) or value%divisor, by the mark: `%` or another.
Affine divided_by(std::string_view mark, const Affine& value, std::int64_t divisor, Placeholders& placeholders);
/// The same as a choice of few affine expressions, if the quotient takes few values in the domain: (i+1)%N, of an index
/// i < N, is i+1 or i+1-N.
std::optional<Affine> wrapped_by(std::string_view mark, const Affine& value, const Affine& divisor,
                                 const IndexDomain& domain, Placeholders& placeholders);

/// The expression, where it is a `where`, without branches that no point of the domain takes.
Expr without_dead_branches(const Expr& expr, const IndexDomain& domain);

/// The affine expression that `expr` computes. Elements of tensors are added to `values`, and quotients and choices of
/// indices to `placeholders`, where these are given.
std::optional<Affine> affine_of(const Expr& expr, std::vector<Expr>* values = nullptr,
                                Placeholders* placeholders = nullptr);

/// where(condition, a, b), with the quotients of the condition bound around all of it: so the condition compares affine
/// expressions, which proofs and derivatives understand.
Expr choose_by(const Expr& condition, const Expr& a, const Expr& b);

}  // namespace moxie
