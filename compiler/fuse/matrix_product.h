#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "compiler/fuse/fuse.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/patterns/library_product.h"

namespace moxie {

/// The definition as one matrix product, if it is one and large enough for a library to be faster than a kernel of our
/// own. `algebra` is the one of `program`.
std::optional<MatrixProduct> match_matrix_product(const Algebra& algebra, const Program& program,
                                                  const Definition& definition,
                                                  LibraryOperands operands = LibraryOperands::computed);

/// The range of the depth in MatrixProduct::band.
Range rows_of_product(const Band& band);

/// What the matrix products of a program write and read.
struct ProductTensors {
  std::set<std::string> results, operands;
  std::set<std::string> row_major;  // results, and operands that are read with several axes as one, or slice by slice
  std::set<std::string> algebra;    // definitions of linear algebra, which are results too
};
/// `bands`: whether the library takes products of a band.
ProductTensors product_tensors(const Program& program, bool bands,
                               LibraryOperands operands = LibraryOperands::computed);
/// Adds the linear algebra on large matrices that a library computes: all of it that `is_taken` takes.
void add_library_algebra(const Program& program, ProductTensors& tensors,
                         const std::function<bool(const Definition&)>& is_taken);

}  // namespace moxie
