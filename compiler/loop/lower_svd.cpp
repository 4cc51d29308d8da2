#include "compiler/loop/lower_svd.h"

#include "compiler/loop/householder_writer.h"
#include "compiler/loop/spectral_writer.h"

namespace moxie {
namespace {

/// A = Q R, then rows of R are rotated until they are orthogonal (Jacobi's method on one side, which takes fewer sweeps
/// on rows of R than on its columns: Drmac and Veselic, "New fast and accurate Jacobi SVD algorithm I", SIAM J. Matrix
/// Anal. Appl. 29, 2008): W R = diag(s) V^T for an orthogonal W, so that U = Q W^T.
class SvdWriter : public SpectralWriter {
 public:
  using SpectralWriter::SpectralWriter;

  SvdArrays run(const std::vector<LoopIndex>& batch, bool wants_vectors) {
    wants_vectors_ = wants_vectors;
    const ArrayId a = tall("matrix");
    if (wants_vectors) turned_ = matrix("rows");
    lengths_ = vector("lengths");
    declare_rotations();
    check_shape();
    load_matrix(a);
    HouseholderWriter reflections(nest_, program_, root_, varying_, a, rows_);
    reflections.reduce([](Index, ValueId) {});
    r_ = reflections.upper();
    const ValueId scale = scale_rows();
    if (wants_vectors) store_identity(turned_);
    sweep(sweeps(), "rotations that make the products of rows smaller", [&](std::int64_t first) { step(first); });
    measure_rows();
    check_products(scale, batch);
    const ArrayId ranks = rank(">", [&](Index k) { return load(lengths_, {k}); }, "the order of the singular values");
    const ArrayId values = ordered_values(ranks, scale);
    return {values, wants_vectors ? vectors(ranks, reflections.orthogonal()) : ArrayId{}};
  }

 private:
  /// Sweeps after which the products of rows were as small as rounding leaves them, of Gaussian matrices, graded ones
  /// (conditions 1e6 and 1e12), of low rank, with two to five different singular values, Hilbert, Vandermonde and
  /// kernel matrices and others, the largest number of all: 4, 7, 11, 14, 17 in double and 4, 5, 7, 8, 9 in single
  /// precision for 4, 8, 16, 32 and 63 columns.
  Sweeps sweeps() const {
    const bool is_double = type_ == ValueType::f64;
    return {.of_one = 1, .of_two = 2, .per_doubling = is_double ? 3 : 1, .more = is_double ? 1 : 4};
  }

  /// Divides R by its largest element, so that squares stay within range. NaN where an element of A is not finite.
  ValueId scale_rows() {
    const auto diagonal = [](Symbol i) { return Affine(i); };
    const ValueId found = largest([&](Index i, Index j) { return abs(load(r_, {i, j})); }, diagonal, "the scale");
    const ValueId scale = choose(binary("==", found, number(0)), number(1), found);
    parallel_loop(0, size_, [&](Index i) {
      loop(i, size_, [&](Index j) { store(r_, {i, j}, binary("/", load(r_, {i, j}), scale)); });
    });
    return scale;
  }

  ValueId row_product(const Affine& p, const Affine& q) {
    return sum(0, size_, [&](Index c) { return binary("*", load(r_, {p, c}), load(r_, {q, c})); });
  }

  /// Rotates and exchanges the pairs (first, first+1), (first+2, first+3), ... of rows.
  void step(std::int64_t first) {
    const Range pairs = this->pairs(first);
    if (pairs == Range::extent(0)) return;
    const auto upper = [&](Index k) { return Affine(k) * 2 + Affine(first); };
    parallel_loop(pairs, [&](Index k) {
      const Affine p = upper(k), q = p + Affine(1);
      const ValueId at_p = row_product(p, p), at_q = row_product(q, q), between = row_product(p, q);
      // Also the rounding of the largest element, which is 1, is negligible.
      const ValueId smaller = binary("max", binary("min", at_p, at_q), number(1));
      const ValueId size = nest_.emit_call("sqrt", {binary("*", binary("max", at_p, at_q), smaller)});
      keep_rotation(k, at_p, at_q, between, binary("*", size, number(rounding() / 2)));
    });
    parallel_loop(0, size_, [&](Index c) {
      loop(pairs, [&](Index k) {
        const Affine p = upper(k), q = p + Affine(1);
        rotate(r_, k, {p, c}, {q, c});
        if (wants_vectors_) rotate(turned_, k, {p, c}, {q, c});
      });
    });
  }

  void measure_rows() {
    parallel_loop(
        0, size_, [&](Index i) { store(lengths_, {i}, nest_.emit_call("sqrt", {row_product(i, i)})); },
        cited_ + "the singular values");
  }

  /// The product of two rows, divided by the larger length, must be as small as the rounding of sums over rows, and the
  /// scale a number.
  void check_products(ValueId scale, const std::vector<LoopIndex>& batch) {
    const std::uint32_t check = declare_check(batch);
    const auto behind = [](Symbol i) { return Affine(i) + Affine(1); };
    const ValueId left = largest(
        [&](Index i, Index j) {
          const ValueId length = binary("max", load(lengths_, {i}), load(lengths_, {j}));
          return binary("/", abs(row_product(i, j)), choose(binary("==", length, number(0)), number(1), length));
        },
        behind, "what is left of their products");
    const ValueId total = binary("+", left, minus(scale, scale));
    check_value(check, batch, std::nullopt, binary("<=", total, rounding_of_sums()), total);
  }

  ArrayId ordered_values(ArrayId ranks, ValueId scale) {
    const ArrayId values = vector("values");
    parallel_loop(0, size_, [&](Index t) {
      store(values, {t}, binary("*", scale, with_rank(ranks, t, [&](Index i) { return load(lengths_, {i}); })));
    });
    return values;
  }

  /// The rows in their order, as columns, have the directions of V: reflections find these, and others in the place of
  /// zeros.
  ArrayId vectors(ArrayId ranks, ArrayId q) {
    const ArrayId columns = matrix("columns"), ordered = matrix("ordered");
    parallel_loop(
        0, size_,
        [&](Index t) {
          loop(0, size_, [&](Index c) {
            store(columns, {c, t}, with_rank(ranks, t, [&](Index i) { return load(r_, {i, c}); }));
            store(ordered, {c, t}, with_rank(ranks, t, [&](Index i) { return load(turned_, {i, c}); }));
          });
        },
        cited_ + "the rows in order");
    HouseholderWriter reflections(nest_, program_, root_, varying_, columns, size_);
    reflections.reduce([](Index, ValueId) {});
    const ArrayId v = reflections.orthogonal();
    parallel_loop(
        0, size_, [&](Index t) { store(partial_, {t}, sign_of([&](Index c) { return load(v, {c, t}); })); },
        cited_ + "the signs of the singular vectors");
    const ArrayId both = nest_.new_array("vectors", type_, {rows_ + size_, size_}, varying_);
    parallel_loop(0, rows_, [&](Index r) {
      loop(0, size_, [&](Index t) {
        const ValueId u = sum(0, size_, [&](Index k) { return binary("*", load(q, {r, k}), load(ordered, {k, t})); });
        store(both, {r, t}, binary("*", u, load(partial_, {t})));
      });
    });
    parallel_loop(0, size_, [&](Index c) {
      loop(0, size_,
           [&](Index t) { store(both, {rows_ + Affine(c), t}, binary("*", load(v, {c, t}), load(partial_, {t}))); });
    });
    return both;
  }

  bool wants_vectors_ = false;
  ArrayId r_{}, turned_{}, lengths_{};
};

}  // namespace

SvdArrays lower_svd(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                    const std::vector<LoopIndex>& batch, bool wants_vectors) {
  return SvdWriter(nest, program, root, varying).run(batch, wants_vectors);
}

}  // namespace moxie
