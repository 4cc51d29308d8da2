#include "compiler/loop/lower_eigen.h"

#include "compiler/loop/spectral_writer.h"

namespace moxie {
namespace {

/// Jacobi's method.
class EigenWriter : public SpectralWriter {
 public:
  using SpectralWriter::SpectralWriter;

  EigenArrays run(const std::vector<LoopIndex>& batch, bool wants_vectors) {
    wants_vectors_ = wants_vectors;
    a_ = matrix("matrix");
    if (wants_vectors) turned_ = matrix("rows");
    declare_rotations();
    load_symmetric();
    const ValueId scale =
        largest([&](Index i, Index j) { return abs(load(a_, {i, j})); }, from_start, "its largest element");
    const ValueId negligible = binary("*", scale, number(rounding() / 4));
    sweep(sweeps(), "rotations that make what is off the diagonal smaller",
          [&](std::int64_t first) { step(first, negligible); });
    check_diagonal(scale, batch);
    const ArrayId ranks = rank("<", [&](Index k) { return load(a_, {k, k}); }, "the order of the eigenvalues");
    return {ordered_values(ranks), wants_vectors ? ordered_vectors(ranks) : ArrayId{}};
  }

 private:
  /// Sweeps after which the elements off the diagonal were as small as rounding leaves them, of Gaussian and
  /// covariance matrices, graded ones (condition 1e12), projections and matrices with three eigenvalues, of 4 to 160
  /// rows, the largest number of all: 5, 9, 11, 15, 18, 22 in double and 4, 6, 8, 10, 11, 13 in single precision for 4,
  /// 8, 16, 32, 63 and 160 rows.
  Sweeps sweeps() const {
    return {.of_one = 0, .of_two = 1, .per_doubling = type_ == ValueType::f64 ? 3 : 2, .more = 2};
  }

  void load_symmetric() {
    const OpenedLinearAlgebra opened = open_algebra(root_.body);
    nest_.open_loop(opened.row, Range::extent(size_), {}, {.parallel = true, .comment = cited_ + "the matrix"});
    nest_.open_loop(opened.col, Range::half_open(0, Affine(opened.row) + Affine(1)), {}, {.parallel = true});
    const ValueId element = nest_.emit(nest_.guarded(opened.matrix), type_);
    store(a_, {opened.row, opened.col}, element);
    store(a_, {opened.col, opened.row}, element);
    nest_.close_loop();
    nest_.close_loop();
    if (wants_vectors_) store_identity(turned_);
  }

  /// Rotates and exchanges the pairs (first, first+1), (first+2, first+3), ... of rows and columns.
  void step(std::int64_t first, ValueId negligible) {
    const Range pairs = this->pairs(first);
    if (pairs == Range::extent(0)) return;
    const auto upper = [&](Index k) { return Affine(k) * 2 + Affine(first); };
    parallel_loop(pairs, [&](Index k) {
      const Affine p = upper(k), q = p + Affine(1);
      const ValueId element = load(a_, {q, p}), at_q = load(a_, {q, q});
      keep_rotation(k, load(a_, {p, p}), at_q, element, negligible);
    });
    parallel_loop(0, size_, [&](Index j) {
      loop(pairs, [&](Index k) {
        const Affine p = upper(k), q = p + Affine(1);
        rotate(a_, k, {p, j}, {q, j});
        if (wants_vectors_) rotate(turned_, k, {p, j}, {q, j});
      });
    });
    parallel_loop(0, size_, [&](Index i) {
      loop(pairs, [&](Index k) { rotate(a_, k, {i, upper(k)}, {i, upper(k) + Affine(1)}); });
    });
  }

  /// What is left off the diagonal must be as small as the rounding of sums over rows. An element that is not a finite
  /// number leaves a NaN, also where nothing was rotated: it is not its own difference from itself.
  void check_diagonal(ValueId scale, const std::vector<LoopIndex>& batch) {
    const std::uint32_t check = declare_check(batch);
    const ValueId left = largest(
        [&](Index i, Index j) {
          const ValueId element = load(a_, {i, j});
          return choose(is_at(i, j), minus(element, element), abs(element));
        },
        from_start, "what is left off the diagonal");
    const ValueId tolerance = binary("*", scale, rounding_of_sums());
    check_value(check, batch, std::nullopt, binary("<=", left, tolerance), left);
  }

  ArrayId ordered_values(ArrayId ranks) {
    const ArrayId values = vector("values");
    parallel_loop(0, size_,
                  [&](Index t) { store(values, {t}, with_rank(ranks, t, [&](Index i) { return load(a_, {i, i}); })); });
    return values;
  }

  ArrayId ordered_vectors(ArrayId ranks) {
    parallel_loop(
        0, size_, [&](Index i) { store(partial_, {i}, sign_of([&](Index r) { return load(turned_, {i, r}); })); },
        cited_ + "the signs of the eigenvectors");
    const ArrayId vectors = matrix("vectors");
    parallel_loop(0, size_, [&](Index t) {
      loop(0, size_, [&](Index r) {
        const auto signed_component = [&](Index i) { return binary("*", load(partial_, {i}), load(turned_, {i, r})); };
        store(vectors, {r, t}, with_rank(ranks, t, signed_component));
      });
    });
    return vectors;
  }

  bool wants_vectors_ = false;
  ArrayId a_{}, turned_{};  // the eigenvectors are rows of turned_
};

}  // namespace

EigenArrays lower_eigen(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying,
                        const std::vector<LoopIndex>& batch, bool wants_vectors) {
  return EigenWriter(nest, program, root, varying).run(batch, wants_vectors);
}

}  // namespace moxie
