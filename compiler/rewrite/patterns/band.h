#pragma once
// Sums whose range moves with a row of the result, as those over the columns of a triangular or banded matrix.
#include <optional>

#include "compiler/rewrite/algebra/scope.h"

namespace moxie {

/// The range of a sum, an end of which, or both, moves by one from row to row.
struct Band {
  Symbol row;
  Range range;
};

/// The band of a range, if other symbols than one index and dims move no end of it.
std::optional<Band> band_of(const Range& range);

/// The elements of a row, if both ends move: at most the distance between them. Nothing of triangles.
std::optional<std::int64_t> width_of(const Band& band);

/// Bands are parted into blocks that lie in them and corners of 16 rows, which are few only of bands of several times
/// as many rows and elements of a row.
inline constexpr std::int64_t kMinBand = 64;

/// The same seen along the rows: those whose sum has the element `index` of the depth. Only of sums from the diagonal,
/// or from behind it, to the last element.
std::optional<Range> rows_of_triangle(const Band& band, Symbol index);

/// The extent of a tensor in the expression along which the index runs alone.
std::optional<Affine> extent_along(const Program& program, const Expr& expr, Symbol index);

/// The scope with that range for the index, which it has already.
Scope with_range(Scope scope, Symbol index, const Range& range);

}  // namespace moxie
