#pragma once
// Definitions that are one matrix product, or a batch of them, of tensors as they lie in memory.
#include <optional>
#include <vector>

#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/patterns/band.h"
#include "compiler/rewrite/patterns/product_form.h"

namespace moxie {

/// `coefficient` times the product in `form` of two accesses.
struct LibraryProduct {
  double coefficient = 1;
  Scope scope;  // the axes of the definition and the indices of the sum, over all of the operands if that is a band
  Expr first, second;
  OperandAxes first_axes, second_axes;
  ProductForm form;
  std::optional<Band> band = {};  // its row is the only one of the form
};

/// Whether the axis runs over all of its extent.
bool is_dense(const AxisDecl& axis);
/// The axes that one step of a scan computes, or all.
std::vector<Symbol> computed_axes(const Definition& definition);
/// What a library multiplies: tensors of the dtype of the result; or also two of f16, or of bf16, to a result in f32.
enum class LibraryOperands : std::uint8_t { computed, computed_or_halves };

/// The definition as a product that is large enough for a library to be faster than a kernel, if it is one. `algebra`
/// is the one of `program`.
std::optional<LibraryProduct> library_product(const Algebra& algebra, const Program& program,
                                              const Definition& definition,
                                              LibraryOperands operands = LibraryOperands::computed);

}  // namespace moxie
