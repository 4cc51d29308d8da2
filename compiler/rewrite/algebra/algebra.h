#pragma once
// Sums of products in normal form. A product is a coefficient times factors raised to integer powers; a sum is a list
// of products with coefficients. Operands stand in the structural order of precedes(), like terms and like factors are
// joined, so that expressions that are equal up to these laws are the same node. Which laws hold is said by the
// precision of the Program; docs/precision.md has the list.
#include <memory>
#include <span>
#include <vector>

#include "compiler/expression/expr.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/node_map.h"
#include "compiler/program/index_domain.h"
#include "compiler/program/program.h"

namespace moxie {

struct Factor {
  Expr base;
  int power = 1;
};

struct Product {
  double coefficient = 1;
  std::vector<Factor> factors;
};

struct Term {
  double coefficient = 1;
  Expr product;  // without a coefficient of its own; the constant 1 for a plain number
};

/// What is known where an expression stands.
struct Surroundings {
  const Program& program;
  IndexDomain domain;
};

class FiniteValues;

/// The laws by which expressions are rewritten. In strict precision these are reassociation, and those which what is
/// known of signs and finite values proves to keep infinities, NaN and cancellation as they are written.
class Algebra {
 public:
  /// As the precision of the program says, which must outlive this.
  explicit Algebra(const Program& program);
  /// All laws of the real numbers, for questions whose answer does not depend on infinities, NaN and rounding.
  static Algebra of_reals() { return Algebra(); }

  Product product_of(const Expr& expr) const;
  std::vector<Term> terms_of(const Expr& expr) const;
  /// Joins, orders and builds. Exponentials of equal dependence merge into one.
  Expr make_product(Product product) const;
  Expr make_sum(std::vector<Term> terms) const;

  Expr times(const Expr& a, const Expr& b) const;
  Expr plus(const Expr& a, const Expr& b) const;
  Expr scaled(const Expr& a, double factor) const;

  /// `sum[index in range](body)` with every factor that does not depend on the index moved out, and sums of terms split
  /// where that sets a factor free. The range may be empty, so a factor that reads a tensor moves only if the
  /// surroundings prove that the element exists without it; without surroundings it stays.
  Expr make_reduction_sum(Symbol index, const Range& range, const Expr& body,
                          const Surroundings* around = nullptr) const;
  /// Whether a sum over an index may become a sum for each of the terms without more digits cancelling than before. A
  /// difference of two exact terms may be exact, however close they are, and stays; one with a product in it is rounded
  /// by as much as sums are.
  bool may_be_summed_apart(const std::vector<Term>& terms) const;

  /// The normal form of a whole expression, bound bodies included. Those without surroundings are kept, so that a body
  /// which grows costs no more than what was added to it.
  Expr normalise(const Expr& expr, const Surroundings* around = nullptr) const;

 private:
  Algebra() = default;
  bool has_all_laws() const { return finite_ == nullptr; }
  bool is_finite(const Expr& expr) const;
  bool is_finite_and_not_zero(const Expr& expr) const;
  bool is_non_negative(const Expr& expr) const;
  bool have_one_sign(std::span<const Expr> exprs) const;
  void multiply_into(Product& product, const Expr& expr, int exponent) const;
  bool multiply_call_into(Product& product, const Expr& expr, int exponent) const;
  void merge_exponentials(std::vector<Factor>& factors) const;
  Expr raised(const Factor& factor) const;
  Term term_of(const Expr& expr) const;
  /// Which parentheses in a sum are opened: of all sums, of those without a difference, or of numbers in indices alone.
  enum class Parentheses : std::uint8_t { All, OfSums, OfIndices };
  void add_terms(std::vector<Term>& terms, const Expr& expr, double coefficient, Parentheses opened) const;
  bool may_distribute(double factor, const Expr& sum) const;
  bool is_finite_product(const Product& product) const;
  /// Finite or NaN.
  bool is_never_infinite(const Product& product) const;
  bool is_never_infinite(const Expr& expr) const;
  Expr plain_sum(Symbol index, const Range& range, const Expr& body, const Surroundings* around) const;
  std::pair<Product, Product> split_by_index(const Product& product, Symbol index, const Range& range,
                                             const Surroundings* around) const;
  Expr normalise_call(const Expr& expr) const;
  friend class Normaliser;

  std::shared_ptr<FiniteValues> finite_;                                 // none: all laws hold
  std::shared_ptr<Results> normal_forms_ = std::make_shared<Results>();  // that were asked for, without surroundings
};

}  // namespace moxie
