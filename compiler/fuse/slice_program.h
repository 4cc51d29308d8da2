#pragma once
// The Program of one slice.
#include "compiler/fuse/slice_group.h"
#include "compiler/fuse/slices.h"

namespace moxie {

/// One part for the members of the group, with the given blocks of its axes: those of one element are no axes of its
/// tensors. Results that others read are outputs, named as views are. Nothing where names are taken. `products` are the
/// definitions that a library adds to what is there, `seed` and `axes` those that the group was made for.
std::optional<ProgramPart> slice_program(const Program& program, const SliceGroup& group,
                                         const std::set<std::string>& products, const std::string& seed,
                                         const std::vector<std::uint32_t>& axes,
                                         const std::vector<std::int64_t>& blocks, const DimValues& extents);

}  // namespace moxie
