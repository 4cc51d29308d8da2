#pragma once
// The diagonal form of an integer matrix, which solves systems of linear equations over the integers.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moxie {

class IntMatrix {
 public:
  IntMatrix(std::size_t rows, std::size_t cols) : rows_(rows), cols_(cols), values_(rows * cols) {}
  static IntMatrix identity(std::size_t n);

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::int64_t& operator()(std::size_t i, std::size_t j) { return values_[i * cols_ + j]; }
  std::int64_t operator()(std::size_t i, std::size_t j) const { return values_[i * cols_ + j]; }
  bool operator==(const IntMatrix&) const = default;

 private:
  std::size_t rows_, cols_;
  std::vector<std::int64_t> values_;
};

/// left * A * right = diagonal, with left and right unimodular and `rank` positive entries at the top of the diagonal,
/// zeros elsewhere. The divisors need not divide each other, as they would in Smith's normal form: solving does not ask
/// for it.
struct SmithForm {
  IntMatrix left, diagonal, right;
  std::size_t rank;
};

/// Throws CompileError when an entry leaves 64 bits.
SmithForm smith_form(const IntMatrix& a);

}  // namespace moxie
