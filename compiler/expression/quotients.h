#pragma once
// Floor division of indices. floor(a/d) is the one integer q with d*q <= a < d*(q+1): the index of a sum over a range
// with one iteration. a%d is a - d*q. So every rule for sums, their derivatives among them, holds for both.
#include <optional>

#include "compiler/expression/expr.h"

namespace moxie {

/// floor(value/divisor), with a positive divisor.
struct Quotient {
  Affine value;
  std::int64_t divisor = 1;
  bool operator==(const Quotient&) const = default;

  /// The range whose one iteration it is.
  Range range() const;
};

/// floor(value/divisor), with a positive divisor, where that is affine: where it divides all that moves the value.
std::optional<Affine> exact_quotient(const Affine& value, std::int64_t divisor);
/// The quotient that is the only iteration of a range of that form.
std::optional<Quotient> as_quotient(const Range& range);

}  // namespace moxie
