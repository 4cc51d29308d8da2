#pragma once
// What is known of the symbols in scope, and a sound (not complete) test of inequalities from it.
#include <map>
#include <utility>
#include <vector>

#include "compiler/expression/affine.h"
#include "compiler/program/program.h"

namespace moxie {

class KnownRanges {
 public:
  /// Nothing is known but the values of the program's fixed dims, and that no extent is negative.
  explicit KnownRanges(const std::vector<DimDecl>& dims);

  /// A symbol in scope of those added before, whose bounds may mention them.
  void add(Symbol symbol, const Range& range);
  /// A dim that is at least one, since an element along it exists.
  void add_positive(const Affine& extent);

  /// True only if `affine` >= 0 holds for every value the symbols can take.
  bool nonnegative(const Affine& affine) const;
  /// The range without the bounds that others of it imply.
  Range without_redundant(const Range& range) const;

 private:
  bool nonnegative_in(const Affine& affine, std::size_t symbols) const;
  bool nonnegative_in_dims(const Affine& affine) const;
  std::vector<Bound> tightest(const std::vector<Bound>& bounds, int sign) const;

  std::map<Symbol, std::int64_t> smallest_;  // dims
  std::map<Symbol, std::int64_t> fixed_;     // dims
  std::vector<std::pair<Symbol, Range>> ranges_;
};

/// What exists when an element of a tensor does: its axes lie within their ranges, and its extents are positive.
KnownRanges known_inside(const Program& program, const std::vector<Affine>& extents,
                         const std::vector<Range>& axis_ranges);

}  // namespace moxie
