#pragma once
// SpectralWriter: loops that eigenvalues and singular values are computed by, Jacobi's methods.
#include <bit>
#include <limits>
#include <string>

#include "compiler/ir/dense_eigen.h"
#include "compiler/loop/algebra_writer.h"

namespace moxie {

/// A sweep rotates every pair of rows once, in as many steps as there are rows. A step rotates neighbours, of every
/// second pair at the same time, and exchanges them, so that in the next step each row has another neighbour (Luk and
/// Park, "On parallel Jacobi orderings", SIAM J. Sci. Stat. Comput. 10, 1989). All subscripts are affine and no
/// iteration of a step waits for another.
///
/// Loops cannot end when a value says so, and matrices in other lanes would go on: the number of sweeps is fixed.
class SpectralWriter : public AlgebraWriter {
 public:
  using AlgebraWriter::AlgebraWriter;

 protected:
  /// The smallest k with 2^k >= size.
  std::int64_t doublings() const {
    return static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(size_ - 1)));
  }
  double rounding() const {
    return type_ == ValueType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  }
  ValueId abs(ValueId x) { return nest_.emit_call("abs", {x}); }
  ValueId is_at(const Affine& i, const Affine& j) { return binary("==", position(i), position(j)); }

  void declare_rotations() { cosines_ = vector("cosines"), sines_ = vector("sines"), partial_ = vector("partial"); }

  void store_identity(ArrayId array) {
    parallel_loop(0, size_, [&](Index i) {
      loop(0, size_, [&](Index j) { store(array, {i, j}, choose(is_at(i, j), number(1), number(0))); });
    });
  }

  /// step(0) and step(1), in turn, as often as it takes for `sweeps` sweeps.
  template <class Step>
  void sweep(std::int64_t sweeps, const std::string& what, const Step& step) {
    loop(0, sweeps * ((size_ + 1) / 2), [&](Index) { step(0), step(1); }, {.comment = cited_ + what});
  }

  /// The maximum of term(i, j) over all i and j in first(i)..size, or NaN if one of them is.
  template <class Term, class First>
  ValueId largest(const Term& term, const First& first, const std::string& what) {
    const auto maximum = [&](const Affine& from, const auto& at) {
      const VarId var = variable(number(0));
      loop(from, size_, [&](Index k) { set(var, binary("max", read(var), at(k))); });
      return read(var);
    };
    parallel_loop(
        0, size_, [&](Index i) { store(partial_, {i}, maximum(first(i), [&](Index j) { return term(i, j); })); },
        cited_ + what);
    return maximum(0, [&](Index i) { return load(partial_, {i}); });
  }
  static Affine from_start(Symbol) { return 0; }

  /// Keeps the rotation of pair k by the smaller angle that makes `element` zero, which stands between the elements
  /// at_p and at_q of the diagonal (Golub and Van Loan, Matrix Computations, 8.5).
  void keep_rotation(Index k, ValueId at_p, ValueId at_q, ValueId element, ValueId negligible) {
    const ValueId difference = minus(at_q, at_p);
    const ValueId tau = binary("/", difference, binary("*", number(2), element));
    const ValueId size = abs(tau);
    const ValueId root = nest_.emit_call("sqrt", {binary("+", number(1), binary("*", tau, tau))});
    const ValueId slope = binary("/", number(1), binary("+", size, root));
    const ValueId signed_slope = choose(binary("<", tau, number(0)), nest_.emit_call("neg", {slope}), slope);
    const ValueId is_zero = binary("<=", abs(element), negligible);
    const ValueId tangent = choose(is_zero, number(0), signed_slope);
    const ValueId cosine =
        binary("/", number(1), nest_.emit_call("sqrt", {binary("+", number(1), binary("*", tangent, tangent))}));
    store(cosines_, {k}, cosine);
    store(sines_, {k}, binary("*", tangent, cosine));
  }

  /// Rotates the elements at p and q of pair k, and exchanges them.
  void rotate(ArrayId array, Index k, const std::vector<Affine>& p, const std::vector<Affine>& q) {
    const ValueId cosine = load(cosines_, {k}), sine = load(sines_, {k});
    const ValueId x = load(array, p), y = load(array, q);
    store(array, p, binary("+", binary("*", sine, x), binary("*", cosine, y)));
    store(array, q, minus(binary("*", cosine, x), binary("*", sine, y)));
  }

  /// How many of the values at(k) come before each: those that `before` says, "<" or ">", and equal ones that stand
  /// before it.
  template <class At>
  ArrayId rank(const char* before, const At& at, const std::string& what) {
    const ArrayId ranks = vector("ranks");
    parallel_loop(
        0, size_,
        [&](Index i) {
          const ValueId own = at(i);
          store(ranks, {i}, sum(0, size_, [&](Index k) {
                  const ValueId other = at(k);
                  const ValueId ties =
                      choose(binary("==", other, own),
                             choose(binary("<", position(k), position(i)), number(1), number(0)), number(0));
                  return choose(binary(before, other, own), number(1), ties);
                }));
        },
        cited_ + what);
    return ranks;
  }

  /// The value of at(i) for the i of rank t.
  template <class At>
  ValueId with_rank(ArrayId ranks, Index t, const At& at) {
    const VarId var = variable(number(0));
    loop(0, size_, [&](Index i) { set(var, choose(binary("==", load(ranks, {i}), position(t)), at(i), read(var))); });
    return read(var);
  }

  /// See kLeadingShare.
  template <class At>
  ValueId sign_of(const At& at) {
    const VarId largest = variable(number(0));
    loop(0, size_, [&](Index r) { set(largest, binary("max", read(largest), abs(at(r)))); });
    const ValueId leading = binary("*", read(largest), number(kLeadingShare));
    const VarId sign = variable(number(0));
    loop(0, size_, [&](Index r) {
      const ValueId component = at(r);
      const ValueId own = choose(binary("<", component, number(0)), number(-1), number(1));
      const ValueId leads = choose(binary(">=", abs(component), leading), own, number(0));
      set(sign, choose(binary("==", read(sign), number(0)), leads, read(sign)));
    });
    return read(sign);
  }

  ArrayId cosines_{}, sines_{}, partial_{};
};

}  // namespace moxie
