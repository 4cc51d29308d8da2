#pragma once
// What a Program declares of its indices, and the extents that follow from it.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/program/program.h"

namespace moxie {

const IndexDecl* find_index(const Program& program, std::string_view name);

/// `[S,2*N]`
std::string shape_text(const std::vector<Affine>& shape);

bool mentions_only_dims(const Affine& affine);

/// The value of dims that have one in the text, if it is positive.
std::optional<std::int64_t> value_in_text(const Program& program, const Affine& dims);

/// The number of values of an index that starts at 0: as declared, else by the range it has in scope.
std::optional<Affine> index_extent(const Program& program, std::string_view name, const Range* in_scope);

/// The extent of storage of an axis when the text does not give one.
std::optional<Affine> axis_extent(const Program& program, std::string_view name, const Range& range);

}  // namespace moxie
