#pragma once
// Sums of products in normal form. A product is a coefficient times factors raised to integer powers; a sum is a list
// of products with coefficients. Operands stand in the structural order of precedes(), like terms and like factors are
// joined, so that expressions that are equal up to these laws are the same node.
#include <vector>

#include "compiler/ir/expr.h"
#include "compiler/ir/index_domain.h"
#include "compiler/ir/program.h"

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

Product product_of(const Expr& expr);
std::vector<Term> terms_of(const Expr& expr);
/// Joins, orders and builds. Exponentials of equal dependence merge into one.
Expr make_product(Product product);
Expr make_sum(std::vector<Term> terms);

Expr times(const Expr& a, const Expr& b);
Expr plus(const Expr& a, const Expr& b);
Expr scaled(const Expr& a, double factor);
Expr power(const Expr& a, int exponent);
bool is_call(const Expr& expr, std::string_view function);

/// What is known where an expression stands.
struct Surroundings {
  const Program& program;
  IndexDomain domain;
};

/// `sum[index in range](body)` with every factor that does not depend on the index moved out, and sums of terms split
/// where that sets a factor free. The range may be empty, so a factor that reads a tensor moves only if the
/// surroundings prove that the element exists without it; without surroundings it stays.
Expr make_reduction_sum(Symbol index, const Range& range, const Expr& body, const Surroundings* around = nullptr);

/// The normal form of a whole expression, bound bodies included.
Expr normalise(const Expr& expr, const Surroundings* around = nullptr);

/// Multiply-adds that a random number costs.
constexpr double kRandomCost = 30;
/// Multiply-adds that the call itself costs, without its arguments.
double operation_cost(const Expr& expr);
/// Number of multiply-adds that one evaluation costs, with the loops of reductions counted at `loop_extent` rounds
/// where their extent is not known.
double cost(const Expr& expr, double loop_extent = 16);

}  // namespace moxie
