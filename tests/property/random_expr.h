#pragma once
// Random expressions of moderate values, every access of which lies inside its tensor by proof or behind a guard.
#include <optional>
#include <string>
#include <vector>

#include "compiler/program/index_domain.h"
#include "compiler/program/placeholders.h"
#include "compiler/program/program.h"
#include "tests/property/random.h"

namespace moxie::test {

/// The indices around an expression and what is known of them.
struct Place {
  struct OpenIndex {
    Symbol symbol;
    Affine extent;  // of the axis or loop; the index's range may be smaller
  };
  std::vector<OpenIndex> indices;
  IndexDomain domain;
  double rounds = 1;         // how often the expression is evaluated
  bool conditional = false;  // whether it may be that it is never evaluated

  Place with(Symbol symbol, const Affine& extent, const Range& range, double size) const;
  Place where(const Expr& condition, bool truth) const {
    return {indices, domain.where(condition, truth), rounds, true};
  }
  std::vector<Symbol> over(const Affine& extent) const;
};

/// The expression with every affine number that substitution left without indices as a plain constant.
Expr with_plain_numbers(const Expr& expr);

class RandomExpr {
 public:
  /// Expressions over the inputs and definitions that `program` has by now; `dims` gives every dim a value.
  RandomExpr(Random& random, const Program& program, const DimValues& dims)
      : random_(random), program_(program), dims_(dims) {}

  Place outermost() const;
  double size_of(const Affine& extent) const;
  /// The extent of some dim, or a small number.
  Affine extent();
  /// A range inside 0..extent that may depend on other indices of that extent. It may be empty unless `filled`.
  Range range(const Place& place, const Affine& extent, bool filled);

  Expr number(const Place& place, int depth);
  Expr bounded(const Place& place, int depth);  // within -1..1
  Expr declared_sine(const Place& place, int depth);
  Expr positive(const Place& place, int depth);  // above 0.1
  /// A read of some tensor; with `wanted`, of an element that moves with this index if any tensor has its extent.
  Expr read(const Place& place, std::optional<Symbol> wanted = {});
  /// A structure that some rewrite is made for.
  Expr idiom(const Place& place);

 private:
  // random_expr.cpp
  std::vector<std::string> tensors() const;
  std::string best_fitting(const Place& place, const std::vector<std::string>& names);
  Affine subscript(const Place& place, const Affine& extent);
  Expr guarded_access(const Place& place, const std::string& tensor, const std::vector<Affine>& subscripts);
  Expr leaf(const Place& place);
  Expr unary(const Place& place, int depth);
  Expr binary(const Place& place, int depth);
  Expr quotient(const Place& place, int depth);
  Expr condition(const Place& place, int depth);
  Expr guard(const Place& place, int depth);
  Expr reduction(const Place& place, int depth);
  Expr draw(const Place& place);

  // random_idioms.cpp
  Expr contraction(const Place& place);
  Expr double_sum(const Place& place);
  Expr read_at_sum(const Place& place, Symbol r, Symbol t);
  Expr pair_kernel(const Place& place, Symbol r, Symbol t);
  Expr pair_weight(const Place& place, Symbol r, Symbol t);
  Expr gaussian(const Place& place);
  Expr split_exponent(const Place& place);
  Expr softmax(const Place& place);
  Expr factored_sum(const Place& place);
  Expr index_polynomial(const Place& place);
  Expr index_test(const Place& place, Symbol index);
  Expr masked_sum(const Place& place);
  Expr algebra_chain(const Place& place);
  Expr divided_read(const Place& place);

  Random& random_;
  const Program& program_;
  const DimValues& dims_;
};

}  // namespace moxie::test
