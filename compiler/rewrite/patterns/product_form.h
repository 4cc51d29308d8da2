#pragma once
// Which contractions of two tensors are matrix products, or one such product for every element of some axes, of tensors
// as they lie in memory.
#include <optional>
#include <vector>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/band.h"

namespace moxie {

/// One axis of a tensor that a contraction reads: the index that runs along it, and whether that visits all of it.
struct OperandAxis {
  std::optional<Symbol> symbol;  // none: fixed, as the step of a slice is
  bool whole = true;
};
using OperandAxes = std::vector<OperandAxis>;

/// The axes of an access whose subscripts are indices of the scope, each from 0 on; its first subscript may be the same
/// for all elements that `scan` computes at a step, or for all elements. Nothing for any other access.
std::optional<OperandAxes> operand_axes(const Program& program, const Expr& access, const Scope& scope, bool scan);
/// The axes of a tensor of just these indices.
OperandAxes operand_axes(const std::vector<Symbol>& symbols);

/// out[batch,rows,columns] = sum[depth](left[batch,rows,depth] * right[batch,depth,columns]), whatever the order of
/// axes in each tensor: rows, columns and depth lie next to each other in the same order wherever they occur, so that
/// each is one index of a matrix with a constant stride, and one stride of each matrix is 1. An operand need not have
/// all of the batch.
struct ProductForm {
  std::vector<Symbol> batch, rows, columns, depth;
  bool swapped = false;      // the first operand is the right one
  bool along_depth = false;  // both operands lie along the depth
};
/// The form of a contraction over `summed` whose result lies row by row in the order of `axes`, if it has one.
std::optional<ProductForm> product_form(const std::vector<Symbol>& axes, const std::vector<Symbol>& summed,
                                        const OperandAxes& first, const OperandAxes& second, const Scope& scope);

/// Whether all loops of the scope run from 0 to an end that no other index moves.
bool is_box(const Scope& scope);
/// Iterations of the loops over these indices, for the cost model.
double assumed_extent(const std::vector<Symbol>& symbols, const Scope& scope);
/// Whether a library computes the product faster than a kernel.
bool suits_library(const ProductForm& form, const Scope& scope);
/// Whether it does so of the part of the product in a band: the rows are those of the band, and many enough for blocks.
bool suits_band(const ProductForm& form, const Band& band, const Scope& scope);

}  // namespace moxie
