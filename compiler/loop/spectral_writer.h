#pragma once
// SpectralWriter: loops that eigenvalues and singular values are computed by, Jacobi's methods.
#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "compiler/loop/algebra_writer.h"
#include "compiler/reference/dense_eigen.h"

namespace moxie {

/// A sweep rotates every pair of rows once, in as many steps as there are rows. A step rotates neighbours, of every
/// second pair at the same time, and exchanges them, so that in the next step each row has another neighbour (Luk and
/// Park, "On parallel Jacobi orderings", SIAM J. Sci. Stat. Comput. 10, 1989). All subscripts are affine and no
/// iteration of a step waits for another.
///
/// Loops cannot end when a value says so, and matrices in other lanes would go on: the number of sweeps follows from
/// the size.
class SpectralWriter : public AlgebraWriter {
 public:
  using AlgebraWriter::AlgebraWriter;

 protected:
  /// Sweeps for matrices of one row, of two, and of n > 2 rows: per_doubling*d + more, where d is the smallest number
  /// with 2^d >= n.
  struct Sweeps {
    std::int64_t of_one, of_two, per_doubling, more;
  };
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

  /// step(0) and step(1), in turn, as often as it takes for all sweeps.
  template <class Step>
  void sweep(const Sweeps& sweeps, const std::string& what, const Step& step) {
    const auto steps = [&](Index) { step(0), step(1); };
    LoopTraits traits{.comment = cited_ + what};
    if (size_.is_constant()) {
      const std::int64_t n = size_.constant();
      loop(0, count(sweeps, n) * ((n + 1) / 2), steps, std::move(traits));
      return;
    }
    loop(
        sets_of_sweeps(sweeps),
        [&](Index) { loop(0, sweeps.per_doubling, [&](Index) { loop(every_second(size_ - Affine(1)), steps); }); },
        std::move(traits));
  }

  /// The pairs of neighbours of which the first is first, first+2, first+4, ...
  Range pairs(std::int64_t first) const { return every_second(size_ - Affine(first + 2)); }

  /// What rounding may leave of sums over rows, relative to the matrix.
  ValueId rounding_of_sums() {
    if (size_.is_constant()) return number(8 * static_cast<double>(size_.constant()) * rounding());
    return binary("*", number(8 * rounding()), position(size_));
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

 private:
  static std::int64_t count(const Sweeps& sweeps, std::int64_t size) {
    if (size <= 1) return sweeps.of_one;
    if (size == 2) return sweeps.of_two;
    return sweeps.per_doubling * std::bit_width(static_cast<std::uint64_t>(size - 1)) + sweeps.more;
  }

  /// Sweeps of a size that is not known, per_doubling at a time. The smallest d with 2^d >= n is the least of
  /// k + ceil(n/2^k) - 1 over all k, so that bounds of a range give it.
  Range sets_of_sweeps(const Sweeps& sweeps) const {
    constexpr int kLargest = 30;  // 2^30 rows, and more sweeps than are needed beyond
    const std::int64_t more = ceil_div(sweeps.more, sweeps.per_doubling);
    Range range{{{1, 0}}, {}};
    for (int k = 0; k <= kLargest; ++k) {
      const std::int64_t power = std::int64_t{1} << k;
      range.highs.push_back({power, size_ + Affine(power - 1 + power * (k - 2 + more))});
    }
    return range;
  }

  /// 0, 1, ... as long as twice that is at most `last`.
  static Range every_second(const Affine& last) {
    if (last.is_constant()) return Range::extent(std::max<std::int64_t>(last.constant() + 2, 0) / 2);
    return {{{1, 0}}, {{2, last}}};
  }
};

}  // namespace moxie
