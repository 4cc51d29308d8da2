#include "compiler/rewrite/patterns/library_product.h"

#include <algorithm>

namespace moxie {
namespace {

/// `coefficient` times the sum of a product over one index or several.
struct SumOfProduct {
  double coefficient = 1;
  Scope scope;
  std::vector<Symbol> summed;
  Product product;
};

std::optional<SumOfProduct> open_sum(const Algebra& algebra, const Definition& definition) {
  SumOfProduct sum{1, Scope::of(definition), {}, algebra.product_of(definition.body)};
  while (sum.product.factors.size() == 1 && sum.product.factors[0].power == 1) {
    const Expr nested = sum.product.factors[0].base;
    if (nested->kind != NodeKind::Reduce || nested->reduce != ReduceKind::Sum) break;
    const OpenedReduce opened = open(nested);
    sum.coefficient *= sum.product.coefficient;
    sum.scope = sum.scope.with(opened.index, opened.range);
    sum.summed.push_back(opened.index);
    sum.product = algebra.product_of(opened.body);
  }
  sum.coefficient *= sum.product.coefficient;
  return sum.summed.empty() ? std::nullopt : std::optional(std::move(sum));
}

/// The elements that both factors have along the index, if it is known which has fewer: more are not summed.
std::optional<Affine> common_extent(const Program& program, const Product& product, Symbol index) {
  const auto first = extent_along(program, product.factors[0].base, index);
  const auto second = extent_along(program, product.factors[1].base, index);
  if (!first || !second || !(*first - *second).is_constant()) return std::nullopt;
  return (*first - *second).constant() < 0 ? first : second;
}

/// The band of a sum over one index, whose range in the scope becomes all of the operands; nothing of other sums.
std::optional<Band> box_band(const Program& program, SumOfProduct& sum) {
  if (sum.summed.size() != 1) return std::nullopt;
  const auto band = band_of(*sum.scope.find(sum.summed[0]));
  const auto extent = band ? common_extent(program, sum.product, sum.summed[0]) : std::nullopt;
  if (!extent) return std::nullopt;
  sum.scope = with_range(std::move(sum.scope), sum.summed[0], Range::extent(*extent));
  return band;
}

/// The axes of an operand.
std::optional<OperandAxes> axes_of(const Program& program, const Factor& factor, const Definition& definition,
                                   const Scope& scope) {
  if (factor.power != 1 || factor.base->kind != NodeKind::Access) return std::nullopt;
  return operand_axes(program, factor.base, scope, definition.scan.has_value());
}

/// Whether the library multiplies tensors of these dtypes to such a result.
bool suits_dtypes(DType first, DType second, DType result, LibraryOperands operands) {
  if (first != second) return false;
  const bool are_halves = operands == LibraryOperands::computed_or_halves && is_half(first) && result == DType::f32;
  return are_halves || (first == result && is_stored_as_computed(result));
}

}  // namespace

bool is_dense(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

std::vector<Symbol> computed_axes(const Definition& definition) {
  std::vector<Symbol> axes;
  for (std::uint32_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) axes.push_back(Symbol::axis(k));
  return axes;
}

std::optional<LibraryProduct> library_product(const Algebra& algebra, const Program& program,
                                              const Definition& definition, LibraryOperands operands) {
  if (!std::ranges::all_of(definition.axes, is_dense)) return std::nullopt;
  auto sum = open_sum(algebra, definition);
  // A BLAS does not read what it multiplies by 0, and so would lose a NaN.
  if (!sum || sum->coefficient == 0 || sum->product.factors.size() != 2) return std::nullopt;
  const Factor& first = sum->product.factors[0];
  const Factor& second = sum->product.factors[1];
  const std::optional<Band> band = box_band(program, *sum);
  const auto first_axes = axes_of(program, first, definition, sum->scope);
  const auto second_axes = axes_of(program, second, definition, sum->scope);
  if (!first_axes || !second_axes) return std::nullopt;
  const DType first_dtype = program.dtype_of(first.base->tensor), second_dtype = program.dtype_of(second.base->tensor);
  if (!suits_dtypes(first_dtype, second_dtype, definition.dtype, operands)) return std::nullopt;
  auto form = product_form(computed_axes(definition), sum->summed, *first_axes, *second_axes, sum->scope);
  if (!form || !suits_library(*form, sum->scope)) return std::nullopt;
  if (band && !suits_band(*form, *band, sum->scope)) return std::nullopt;
  return LibraryProduct{sum->coefficient, std::move(sum->scope), first.base,       second.base,
                        *first_axes,      *second_axes,          std::move(*form), band};
}

}  // namespace moxie
