#pragma once
// Where the elements of an access lie in memory, for given extents.
#include <cstdint>
#include <string>
#include <vector>

#include "compiler/fuse/fuse.h"

namespace moxie {

struct Plan;

/// The element of an access where all its indices are 0, and from element to element while one of them moves.
class AccessStrides {
 public:
  AccessStrides(const Plan& plan, const std::string& tensor, std::vector<Affine> subscripts, const DimValues& dims);

  std::int64_t along(Symbol symbol) const;

  std::int64_t first = 0;

 private:
  std::vector<Affine> subscripts_;
  std::vector<std::int64_t> strides_;
};

/// The subscripts of the element that a definition computes.
std::vector<Affine> axes_of(const Definition& definition);
/// The value of an affine expression where all indices are 0.
std::int64_t value_at_zero(const Affine& affine, const DimValues& dims);

}  // namespace moxie
