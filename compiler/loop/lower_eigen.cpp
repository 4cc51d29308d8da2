#include "compiler/loop/lower_eigen.h"

#include <bit>
#include <limits>

#include "compiler/ir/dense_eigen.h"
#include "compiler/loop/algebra_writer.h"

namespace moxie {
namespace {

/// Jacobi's method. A sweep rotates every pair of rows and columns once, in as many steps as there are rows. A step
/// rotates neighbours, of every second pair at the same time, and exchanges them, so that in the next step each row has
/// another neighbour (Luk and Park, "On parallel Jacobi orderings", SIAM J. Sci. Stat. Comput. 10, 1989). All
/// subscripts are affine and no round of a step waits for another.
///
/// Loops cannot end when a value says so, and matrices in other lanes would go on: the number of sweeps is fixed.
class EigenWriter : public AlgebraWriter {
 public:
  using AlgebraWriter::AlgebraWriter;

  EigenArrays run(const std::vector<LoopIndex>& batch, bool wants_vectors) {
    wants_vectors_ = wants_vectors;
    a_ = matrix("matrix");
    if (wants_vectors) turned_ = matrix("rows");
    cosines_ = vector("cosines"), sines_ = vector("sines"), partial_ = vector("partial");
    load_symmetric();
    const ValueId scale = largest([&](Index i, Index j) { return abs_at(i, j); }, "its largest element");
    rotate_all(scale);
    check_diagonal(scale, batch);
    const ArrayId ranks = rank();
    return {ordered_values(ranks), wants_vectors ? ordered_vectors(ranks) : ArrayId{}};
  }

 private:
  /// Sweeps after which the elements off the diagonal were as small as rounding leaves them, of Gaussian and
  /// covariance matrices, graded ones (condition 1e12), projections and matrices with three eigenvalues, of 4 to 160
  /// rows, the largest number of all: 5, 9, 11, 15, 18, 22 in double and 4, 6, 8, 10, 11, 13 in single precision for 4,
  /// 8, 16, 32, 63 and 160 rows.
  std::int64_t sweeps() const {
    if (size_ <= 2) return size_ - 1;
    const auto doublings = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(size_ - 1)));
    return type_ == ValueType::f64 ? 3 * doublings + 2 : 2 * doublings + 2;
  }

  double rounding() const {
    return type_ == ValueType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  }

  ValueId abs_at(const Affine& i, const Affine& j) { return nest_.emit_call("abs", {load(a_, {i, j})}); }
  ValueId is_at(const Affine& i, const Affine& j) { return binary("==", position(i), position(j)); }

  void load_symmetric() {
    const OpenedLinearAlgebra opened = open_algebra(root_.body);
    nest_.open_loop(opened.row, Range::extent(size_), {}, {.parallel = true, .comment = cited_ + "the matrix"});
    nest_.open_loop(opened.col, Range::half_open(0, Affine(opened.row) + Affine(1)), {}, {.parallel = true});
    const ValueId element = nest_.emit(nest_.guarded(opened.matrix), type_);
    store(a_, {opened.row, opened.col}, element);
    store(a_, {opened.col, opened.row}, element);
    nest_.close_loop();
    nest_.close_loop();
    if (!wants_vectors_) return;
    parallel_loop(0, size_, [&](Index i) {
      loop(0, size_, [&](Index j) { store(turned_, {i, j}, choose(is_at(i, j), number(1), number(0))); });
    });
  }

  /// The maximum of term(i, j) over all elements, or NaN if one of them is.
  template <class Term>
  ValueId largest(const Term& term, const std::string& what) {
    const auto maximum = [&](const auto& at) {
      const VarId var = variable(number(0));
      loop(0, size_, [&](Index k) { set(var, binary("max", read(var), at(k))); });
      return read(var);
    };
    parallel_loop(
        0, size_, [&](Index i) { store(partial_, {i}, maximum([&](Index j) { return term(i, j); })); }, cited_ + what);
    return maximum([&](Index i) { return load(partial_, {i}); });
  }

  void rotate_all(ValueId scale) {
    const ValueId negligible = binary("*", scale, number(rounding() / 4));
    loop(0, sweeps() * ((size_ + 1) / 2),
         [&](Index) {
           step(0, negligible);
           step(1, negligible);
         },
         {.comment = cited_ + "rotations that make what is off the diagonal smaller"});
  }

  /// Rotates and exchanges the pairs (first, first+1), (first+2, first+3), ...
  void step(std::int64_t first, ValueId negligible) {
    const std::int64_t pairs = (size_ - first) / 2;
    if (pairs <= 0) return;
    const auto upper = [&](Index k) { return Affine(k) * 2 + Affine(first); };
    parallel_loop(0, pairs, [&](Index k) { choose_rotation(k, upper(k), negligible); });
    const auto rotate = [&](ArrayId array, Index k, const auto& at) {
      const ValueId cosine = load(cosines_, {k}), sine = load(sines_, {k});
      const Affine p = upper(k), q = p + Affine(1);
      const ValueId x = load(array, at(p)), y = load(array, at(q));
      store(array, at(p), binary("+", binary("*", sine, x), binary("*", cosine, y)));
      store(array, at(q), minus(binary("*", cosine, x), binary("*", sine, y)));
    };
    using Subscripts = std::vector<Affine>;
    parallel_loop(0, size_, [&](Index j) {
      loop(0, pairs, [&](Index k) {
        rotate(a_, k, [&](const Affine& i) { return Subscripts{i, j}; });
        if (wants_vectors_) rotate(turned_, k, [&](const Affine& i) { return Subscripts{i, j}; });
      });
    });
    parallel_loop(0, size_, [&](Index i) {
      loop(0, pairs, [&](Index k) { rotate(a_, k, [&](const Affine& j) { return Subscripts{i, j}; }); });
    });
  }

  /// The smaller angle that makes element (p+1, p) zero (Golub and Van Loan, Matrix Computations, 8.5).
  void choose_rotation(Index k, const Affine& p, ValueId negligible) {
    const Affine q = p + Affine(1);
    const ValueId element = load(a_, {q, p});
    const ValueId difference = minus(load(a_, {q, q}), load(a_, {p, p}));
    const ValueId tau = binary("/", difference, binary("*", number(2), element));
    const ValueId size = nest_.emit_call("abs", {tau});
    const ValueId root = nest_.emit_call("sqrt", {binary("+", number(1), binary("*", tau, tau))});
    const ValueId slope = binary("/", number(1), binary("+", size, root));
    const ValueId signed_slope = choose(binary("<", tau, number(0)), nest_.emit_call("neg", {slope}), slope);
    const ValueId is_zero = binary("<=", nest_.emit_call("abs", {element}), negligible);
    const ValueId tangent = choose(is_zero, number(0), signed_slope);
    const ValueId cosine =
        binary("/", number(1), nest_.emit_call("sqrt", {binary("+", number(1), binary("*", tangent, tangent))}));
    store(cosines_, {k}, cosine);
    store(sines_, {k}, binary("*", tangent, cosine));
  }

  /// What is left off the diagonal must be as small as the rounding of sums over rows. An element that is not a finite
  /// number leaves a NaN, also where nothing was rotated: it is not its own difference from itself.
  void check_diagonal(ValueId scale, const std::vector<LoopIndex>& batch) {
    const std::uint32_t check = declare_check(batch);
    const ValueId left = largest(
        [&](Index i, Index j) {
          const ValueId element = load(a_, {i, j});
          return choose(is_at(i, j), minus(element, element), nest_.emit_call("abs", {element}));
        },
        "what is left off the diagonal");
    const ValueId tolerance = binary("*", scale, number(8 * static_cast<double>(size_) * rounding()));
    check_value(check, batch, std::nullopt, binary("<=", left, tolerance), left);
  }

  /// How many eigenvalues come before each: smaller ones, and equal ones that stand before it.
  ArrayId rank() {
    const ArrayId ranks = vector("ranks");
    parallel_loop(
        0, size_,
        [&](Index i) {
          const ValueId own = load(a_, {i, i});
          store(ranks, {i}, sum(0, size_, [&](Index k) {
                  const ValueId other = load(a_, {k, k});
                  const ValueId ties =
                      choose(binary("==", other, own),
                             choose(binary("<", position(k), position(i)), number(1), number(0)), number(0));
                  return choose(binary("<", other, own), number(1), ties);
                }));
        },
        cited_ + "the order of the eigenvalues");
    return ranks;
  }

  /// The value of at(i) for the i of rank t.
  template <class At>
  ValueId with_rank(ArrayId ranks, Index t, const At& at) {
    const VarId var = variable(number(0));
    loop(0, size_, [&](Index i) { set(var, choose(binary("==", load(ranks, {i}), position(t)), at(i), read(var))); });
    return read(var);
  }

  ArrayId ordered_values(ArrayId ranks) {
    const ArrayId values = vector("values");
    parallel_loop(0, size_,
                  [&](Index t) { store(values, {t}, with_rank(ranks, t, [&](Index i) { return load(a_, {i, i}); })); });
    return values;
  }

  ArrayId ordered_vectors(ArrayId ranks) {
    parallel_loop(
        0, size_, [&](Index i) { store(partial_, {i}, sign_of_row(i)); }, cited_ + "the signs of the eigenvectors");
    const ArrayId vectors = matrix("vectors");
    parallel_loop(0, size_, [&](Index t) {
      loop(0, size_, [&](Index r) {
        const auto signed_component = [&](Index i) { return binary("*", load(partial_, {i}), load(turned_, {i, r})); };
        store(vectors, {r, t}, with_rank(ranks, t, signed_component));
      });
    });
    return vectors;
  }

  /// See kLeadingShare.
  ValueId sign_of_row(Index i) {
    const VarId largest = variable(number(0));
    loop(0, size_,
         [&](Index r) { set(largest, binary("max", read(largest), nest_.emit_call("abs", {load(turned_, {i, r})}))); });
    const ValueId leading = binary("*", read(largest), number(kLeadingShare));
    const VarId sign = variable(number(0));
    loop(0, size_, [&](Index r) {
      const ValueId component = load(turned_, {i, r});
      const ValueId own = choose(binary("<", component, number(0)), number(-1), number(1));
      const ValueId leads = choose(binary(">=", nest_.emit_call("abs", {component}), leading), own, number(0));
      set(sign, choose(binary("==", read(sign), number(0)), leads, read(sign)));
    });
    return read(sign);
  }

  bool wants_vectors_ = false;
  ArrayId a_{}, turned_{}, cosines_{}, sines_{}, partial_{};  // the eigenvectors are rows of turned_
};

}  // namespace

EigenArrays lower_eigen(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                        const std::vector<LoopIndex>& batch, bool wants_vectors) {
  return EigenWriter(nest, program, root, varying).run(batch, wants_vectors);
}

}  // namespace moxie
