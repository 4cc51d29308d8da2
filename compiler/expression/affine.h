#pragma once
// Affine: an integer combination of symbols plus a constant. Subscripts, loop bounds and shapes are affine.
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/expression/symbol.h"

namespace moxie {

/// Integer arithmetic that throws CompileError instead of wrapping around.
std::int64_t checked_add(std::int64_t a, std::int64_t b);
std::int64_t checked_mul(std::int64_t a, std::int64_t b);
std::int64_t floor_div(std::int64_t a, std::int64_t b);  // b > 0
std::int64_t ceil_div(std::int64_t a, std::int64_t b);   // b > 0

class Affine {
 public:
  using Term = std::pair<Symbol, std::int64_t>;

  Affine() = default;
  Affine(std::int64_t constant) : constant_(constant) {}  // NOLINT: a number is an affine expression
  Affine(Symbol symbol) : terms_{{symbol, 1}} {}          // NOLINT: a symbol is an affine expression

  std::int64_t constant() const { return constant_; }
  /// Sorted by symbol, without zero coefficients.
  const std::vector<Term>& terms() const { return terms_; }
  std::int64_t coefficient(Symbol symbol) const;
  bool is_constant() const { return terms_.empty(); }
  /// The symbol, if the expression is exactly one symbol.
  std::optional<Symbol> as_symbol() const;
  bool mentions(Symbol symbol) const { return coefficient(symbol) != 0; }
  /// Whether it depends on a value that is read from a tensor.
  bool mentions_value() const;

  Affine& operator+=(const Affine& other);
  Affine& operator*=(std::int64_t factor);
  friend Affine operator+(Affine a, const Affine& b) { return a += b; }
  friend Affine operator-(Affine a, Affine b) { return a += (b *= -1); }
  friend Affine operator*(Affine a, std::int64_t factor) { return a *= factor; }
  friend Affine operator-(Affine a) { return a *= -1; }
  bool operator==(const Affine&) const = default;

  /// Every symbol for which `replacement` gives an expression is replaced by it, all at once.
  Affine substitute(const std::function<const Affine*(Symbol)>& replacement) const;
  std::int64_t evaluate(const std::function<std::int64_t(Symbol)>& value) const;
  std::uint64_t hash() const;

 private:
  std::int64_t constant_ = 0;
  std::vector<Term> terms_;
};

/// The extent that a size stands for: one that is known to be negative, as S-2 is where S is 1, counts as 0.
Affine clamped_extent(const Affine& size);

/// One end of a range: the index is at least ceil(value/divisor), or at most floor(value/divisor).
struct Bound {
  std::int64_t divisor = 1;
  Affine value;
  bool operator==(const Bound&) const = default;
};

/// All integers i with i >= ceil(low) for every low and i <= floor(high) for every high (highs are inclusive).
struct Range {
  std::vector<Bound> lows;
  std::vector<Bound> highs;
  bool operator==(const Range&) const = default;

  /// first <= i < last
  static Range half_open(Affine first, const Affine& last) {
    return {{{1, std::move(first)}}, {{1, last - Affine(1)}}};
  }
  static Range extent(const Affine& size) { return half_open(0, size); }
  /// The size N, if the range is exactly 0 <= i < N.
  std::optional<Affine> as_extent() const;
  /// The trip count of 0 <= i < N and of ranges of a constant length; none is known of others.
  std::optional<Affine> known_trip_count() const;
  /// Whether there is at least one iteration, whatever the values of dims and outer indices are.
  bool has_iterations() const;
  Range substitute(const std::function<const Affine*(Symbol)>& replacement) const;
  std::uint64_t hash() const;
};

}  // namespace moxie
