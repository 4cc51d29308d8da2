#pragma once
#include <optional>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// The definition as one matrix product, if it is one and large enough for a library to be faster than a kernel of our own.
std::optional<MatrixProduct> match_matrix_product(const Program& program, const Definition& definition);

}  // namespace moxie
