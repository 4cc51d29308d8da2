#pragma once
// Reductions by a monoid as scans: a state for every prefix, over the elements of all indices around.
#include <vector>

#include "compiler/program/monoid.h"
#include "compiler/program/placeholders.h"

namespace moxie {

/// An index around a reduction. As an axis it has `extent` elements, if that is known.
struct OuterIndex {
  std::string name;
  Symbol symbol;
  Range range;
  std::optional<Affine> extent;
};

/// `monoid[index in range](elements)`
struct MonoidReduction {
  std::string index_name;
  Symbol index;
  Range range;
  State elements;
  std::vector<OuterIndex> outer;  // all indices in scope, the outermost first
};

/// The states of all prefixes of a row of elements, over the outer indices that elements depend on.
///
/// One scan takes the elements one after the other. Where their number is known and no outer index gives a scan
/// independent work, they are cut into blocks of kBlock elements: one scan for the prefixes inside all blocks at once,
/// and the states before each block, which are a MonoidScan again. So log(n) scans of kBlock steps take the place of n
/// steps, and derivatives, which are scans in the other direction, do likewise.
struct MonoidScan {
  static constexpr std::int64_t kBlock = 64;

  Monoid monoid;
  Affine count;                        // of elements
  std::optional<std::int64_t> length;  // its value, if that is known
  std::vector<AxisDecl> axes;          // the first is the number of elements in the prefix, the others outer indices
  State elements;                      // the element of number axis(0), from 0; the others are outer indices
  DType dtype = DType::f32;
  bool operator==(const MonoidScan&) const = default;

  /// The definitions, with names that start with `name`. Scans have numbers from `first_scan` on.
  std::vector<Definition> definitions(const std::string& name, std::uint32_t first_scan) const;
  /// The state of the first `at` elements, 0 <= at <= count, at these outer indices.
  State state(const std::string& name, const Affine& at, const std::vector<Affine>& outer) const;

 private:
  bool has_blocks() const;
  MonoidScan within_blocks() const;
  MonoidScan before_blocks(const std::string& within) const;
  State prefix(const std::string& name, const Affine& at, const std::vector<Affine>& outer,
               Placeholders& quotients) const;
};

/// A reduction as a state of a scan.
struct PlaceInScan {
  MonoidScan scan;
  Affine at;
  std::vector<Affine> outer;  // in the symbols around the reduction
  Expr exists;                // a condition: there is such a state; else the identity. Empty: always

  /// The reduced state, where the scan's definitions have this name.
  State state(const std::string& name) const;
};

/// A range with one end that moves with outer indices, on which no element depends, is a prefix of a scan that takes as
/// many steps as there are elements: a suffix takes them from the last to the first, in a monoid that is mirrored. All
/// other ranges that move are conditions, and every step is taken for all outer indices. Throws ShapeError, with
/// what to do, where no bound of the range is known, or no extent of an outer index that elements depend on.
PlaceInScan scan_of(const Program& program, const Monoid& monoid, const MonoidReduction& reduction, DType dtype);

/// The name of a new reduction's definitions, for a definition of this name: `y.welford`, else `y.welford2`, ...
std::string new_scan_name(const Program& program, const Monoid& monoid, const std::string& definition);

}  // namespace moxie
