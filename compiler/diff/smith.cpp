#include "compiler/diff/smith.h"

#include <optional>
#include <utility>

#include "compiler/expression/affine.h"

namespace moxie {

IntMatrix IntMatrix::identity(std::size_t n) {
  IntMatrix result(n, n);
  for (std::size_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}

namespace {

/// (x, y) := (a x + b y, c x + d y), with determinant 1 or -1.
struct RowCombination {
  std::int64_t a, b, c, d;

  void apply(std::int64_t& x, std::int64_t& y) const {
    const std::int64_t first = checked_add(checked_mul(a, x), checked_mul(b, y));
    y = checked_add(checked_mul(c, x), checked_mul(d, y));
    x = first;
  }
};

constexpr RowCombination kSwap{0, 1, 1, 0};

void combine_rows(IntMatrix& m, std::size_t i, std::size_t j, const RowCombination& combination) {
  for (std::size_t k = 0; k < m.cols(); ++k) combination.apply(m(i, k), m(j, k));
}

void combine_columns(IntMatrix& m, std::size_t i, std::size_t j, const RowCombination& combination) {
  for (std::size_t k = 0; k < m.rows(); ++k) combination.apply(m(k, i), m(k, j));
}

/// Makes `entry` zero against a positive `pivot`, which becomes their greatest common divisor (extended Euclid).
RowCombination elimination(std::int64_t pivot, std::int64_t entry) {
  if (entry % pivot == 0) return {1, 0, checked_mul(entry / pivot, -1), 1};
  std::int64_t a = pivot, b = entry, p = 1, q = 0, next_p = 0, next_q = 1;
  while (b != 0) {
    const std::int64_t quotient = a / b;
    a = std::exchange(b, a - quotient * b);
    p = std::exchange(next_p, p - quotient * next_p);
    q = std::exchange(next_q, q - quotient * next_q);
  }
  if (a < 0) a = -a, p = -p, q = -q;
  return {p, q, checked_mul(entry / a, -1), pivot / a};
}

std::int64_t magnitude(std::int64_t value) { return value < 0 ? checked_mul(value, -1) : value; }

class Diagonaliser {
 public:
  explicit Diagonaliser(const IntMatrix& a)
      : form_{IntMatrix::identity(a.rows()), a, IntMatrix::identity(a.cols()), 0} {}

  SmithForm run() {
    while (const auto pivot = smallest_entry()) {
      const std::size_t t = form_.rank;
      if (pivot->first != t) rows(t, pivot->first, kSwap);
      if (pivot->second != t) columns(t, pivot->second, kSwap);
      make_pivot_positive();
      while (clear_column() | clear_row()) {
      }
      ++form_.rank;
    }
    return std::move(form_);
  }

 private:
  void rows(std::size_t i, std::size_t j, const RowCombination& combination) {
    combine_rows(form_.diagonal, i, j, combination);
    combine_rows(form_.left, i, j, combination);
  }
  void columns(std::size_t i, std::size_t j, const RowCombination& combination) {
    combine_columns(form_.diagonal, i, j, combination);
    combine_columns(form_.right, i, j, combination);
  }

  /// A small pivot keeps the numbers small.
  std::optional<std::pair<std::size_t, std::size_t>> smallest_entry() const {
    std::optional<std::pair<std::size_t, std::size_t>> best;
    const IntMatrix& s = form_.diagonal;
    for (std::size_t i = form_.rank; i < s.rows(); ++i) {
      for (std::size_t j = form_.rank; j < s.cols(); ++j) {
        if (s(i, j) == 0) continue;
        if (!best || magnitude(s(i, j)) < magnitude(s(best->first, best->second))) best = {i, j};
      }
    }
    return best;
  }

  void make_pivot_positive() {
    const std::size_t t = form_.rank;
    if (form_.diagonal(t, t) > 0) return;
    for (IntMatrix* m : {&form_.diagonal, &form_.right}) {
      for (std::size_t k = 0; k < m->rows(); ++k) (*m)(k, t) = checked_mul((*m)(k, t), -1);
    }
  }

  /// True if there was anything to clear.
  bool clear_column() {
    const std::size_t t = form_.rank;
    bool changed = false;
    for (std::size_t i = t + 1; i < form_.diagonal.rows(); ++i) {
      if (form_.diagonal(i, t) == 0) continue;
      rows(t, i, elimination(form_.diagonal(t, t), form_.diagonal(i, t)));
      changed = true;
    }
    return changed;
  }
  bool clear_row() {
    const std::size_t t = form_.rank;
    bool changed = false;
    for (std::size_t j = t + 1; j < form_.diagonal.cols(); ++j) {
      if (form_.diagonal(t, j) == 0) continue;
      columns(t, j, elimination(form_.diagonal(t, t), form_.diagonal(t, j)));
      changed = true;
    }
    return changed;
  }

  SmithForm form_;
};

}  // namespace

SmithForm smith_form(const IntMatrix& a) { return Diagonaliser(a).run(); }

}  // namespace moxie
