#pragma once
#include <optional>
#include <set>
#include <string>

#include "compiler/fuse/fuse.h"

namespace moxie {

/// Multiply-adds from which a BLAS call beats a loop inside the kernel that needs the product (measured: benchmarks/README.md).
inline constexpr double kSmallestProduct = 2e6;

/// The definition as one matrix product, if it is one and large enough for a library to be faster than a kernel of our own.
std::optional<MatrixProduct> match_matrix_product(const Program& program, const Definition& definition);

struct ProductTensors {
  std::set<std::string> results;    // of matrix products
  std::set<std::string> row_major;  // these, and what matrix products read with several axes as one, or slice by slice
};
ProductTensors product_tensors(const Program& program);

}  // namespace moxie
