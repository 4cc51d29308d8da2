#pragma once
// HouseholderWriter: loops that bring a matrix in scratch into triangular form by reflections.
#include <limits>
#include <string>

#include "compiler/loop/algebra_writer.h"

namespace moxie {

/// Column j becomes a multiple of the unit vector e_j by the reflection I - u u^T / u_j, where u is the column divided
/// by its length, from row j on, plus or minus e_j, so that u_j is at least 1 and (u . u) is twice its magnitude. Of a
/// column of zeros, or of numbers below all normal ones, u is twice e_j. The vectors u stand where the columns stood.
class HouseholderWriter : protected AlgebraWriter {
 public:
  /// Of a matrix with `rows` rows and the columns of the root's.
  HouseholderWriter(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying, ArrayId a,
                    const Affine& rows)
      : AlgebraWriter(nest, program, root, varying), a_(a) {
    rows_ = rows;
    scales_ = vector("scales"), lengths_ = vector("lengths"), signs_ = vector("signs");
  }

  /// Calls check(j, length) for the length of every column from the diagonal on.
  template <class CheckLength>
  void reduce(const CheckLength& check) {
    loop(diagonal(), [&](Symbol j) { reduce_column(j, check); }, {.comment = cited_ + "reflections, column by column"});
  }

  /// The first columns of the product of all reflections, with the signs that make the diagonal of R positive.
  ArrayId orthogonal() {
    const ArrayId q = nest_.new_array("orthogonal", type_, {rows_, size_}, varying_);
    parallel_loop(
        0, size_,
        [&](Index c) {
          loop(0, rows_, [&](Index i) {
            store(q, {i, c}, choose(binary("==", position(i), position(c)), load(signs_, {c}), number(0)));
          });
          loop_down([&](const Affine& j) { reflect(j, q, c); }, "");
        },
        cited_ + "the orthogonal factor, column by column");
    return q;
  }

  ArrayId upper() {
    const ArrayId r = matrix("upper");
    parallel_loop(
        diagonal(),
        [&](Index i) {
          loop(0, i, [&](Index c) { store(r, {i, c}, number(0)); });
          store(r, {i, i}, load(lengths_, {i}));
          loop(Affine(i) + Affine(1), size_,
               [&](Index c) { store(r, {i, c}, binary("*", load(signs_, {i}), load(a_, {i, c}))); });
        },
        cited_ + "the upper factor");
    return r;
  }

 private:
  template <class CheckLength>
  void reduce_column(Index j, const CheckLength& check) {
    const ValueId length = length_below(j);
    check(j, length);
    const ValueId is_zero = binary("<", length, number(smallest_normal()));  // the reciprocal of others is finite
    const ValueId reciprocal = binary("/", number(1), choose(is_zero, number(1), length));
    const ValueId head = choose(is_zero, number(1), binary("*", load(a_, {j, j}), reciprocal));
    const ValueId is_negative = binary("<", head, number(0));
    const ValueId tip = binary("+", head, choose(is_negative, number(-1), number(1)));
    store(lengths_, {j}, length);
    store(signs_, {j}, choose(is_negative, number(1), number(-1)));
    store(scales_, {j}, binary("/", number(1), nest_.emit_call("abs", {tip})));
    parallel_loop(j, rows_, [&](Index i) {
      const ValueId is_first = binary("==", position(i), position(j));
      store(a_, {i, j}, choose(is_first, tip, binary("*", load(a_, {i, j}), reciprocal)));
    });
    parallel_loop(Affine(j) + Affine(1), size_, [&](Index c) { reflect(j, a_, c); });
  }

  /// The columns that have an element on the diagonal: all, unless the matrix is wider than tall. That is an error,
  /// which the caller reports; no loop runs beyond the rows meanwhile.
  Range diagonal() const {
    Range range = Range::extent(size_);
    if (may_be_wide()) range.highs.push_back({1, rows_ - Affine(1)});
    return range;
  }

  double smallest_normal() const {
    return type_ == ValueType::f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  }

  /// The length of column j from row j on: of elements divided by the largest, whose squares stay within range. NaN if
  /// one of them is not finite.
  ValueId length_below(Index j) {
    const VarId largest = variable(number(0));
    loop(j, rows_,
         [&](Index i) { set(largest, binary("max", read(largest), nest_.emit_call("abs", {load(a_, {i, j})}))); });
    const ValueId unit = choose(binary("==", read(largest), number(0)), number(1), read(largest));
    const ValueId square = sum(j, rows_, [&](Index i) {
      const ValueId part = binary("/", load(a_, {i, j}), unit);
      return binary("*", part, part);
    });
    return binary("*", unit, nest_.emit_call("sqrt", {square}));
  }

  /// Reflects column c of x by the vector of column j.
  void reflect(const Affine& j, ArrayId x, Index c) {
    const ValueId product = sum(j, rows_, [&](Index i) { return binary("*", load(a_, {i, j}), load(x, {i, c})); });
    const ValueId multiple = binary("*", product, load(scales_, {j}));
    loop(j, rows_, [&](Index i) { store(x, {i, c}, minus(load(x, {i, c}), binary("*", multiple, load(a_, {i, j})))); });
  }

  ArrayId a_{}, scales_{}, lengths_{}, signs_{};
};

}  // namespace moxie
