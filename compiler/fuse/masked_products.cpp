#include "compiler/fuse/masked_products.h"

#include <algorithm>
#include <cstdlib>

#include "compiler/fuse/matrix_product.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/support.h"
#include "compiler/rewrite/patterns/band.h"
#include "compiler/rewrite/patterns/library_product.h"

namespace moxie {
namespace {

/// The depth from which blocks of a band are faster than all of it: of the triangle of an N x N matrix times 1000
/// columns 1.5 times as long for N = 64, 1.3 for 96, as long for 128, 0.75 for 192 and 0.65 for 512 (f32, AVX2, one
/// thread).
constexpr double kMinDepth = 192;

/// Whether the constraint is an end of the axis that another axis and dims decide, and nothing else.
bool is_end(const Affine& constraint, Symbol axis, Symbol row) {
  return std::abs(constraint.coefficient(axis)) == 1 &&
         std::ranges::all_of(constraint.terms(), [&](const Affine::Term& term) {
           return term.first.is_dim() || term.first == axis || term.first == row;
         });
}

/// Where the definition is not zero for each of its rows, by conditions on its axes.
std::optional<Band> nonzero_band(Support& support, const Definition& definition, Symbol row, Symbol axis) {
  IndexDomain domain({});
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
    domain.add_range(Symbol::axis(k), definition.axes[k].range);
  std::vector<Affine> constraints = support.constraints_in(definition.body);
  std::erase_if(constraints, [&](const Affine& constraint) { return !is_end(constraint, axis, row); });
  if (constraints.empty()) return std::nullopt;
  const std::vector<IndexDomain> parts = support.outside(definition.body, 0, domain);
  const auto holds = [](const IndexDomain& part, const Affine& constraint) {
    return part.prove_nonnegative(constraint) == Proof::Holds;
  };
  Range range = definition.axes[axis.number()].range;
  for (const Affine& constraint : constraints) {
    if (std::ranges::all_of(parts, [&](const IndexDomain& part) { return holds(part, constraint); }))
      range = with_bound(std::move(range), axis, constraint);
  }
  return band_of(range);
}

void find_mask(Support& support, const Program& program, MatrixProduct& product) {
  const ProductOperand& left = product.left;
  const Definition* definition = program.find_definition(left.tensor);
  if (product.band || !definition || left.step || left.rows.size() != 1 || left.columns.size() != 1 ||
      !std::ranges::all_of(definition->axes, is_dense))
    return;
  const Symbol row = Symbol::axis(left.rows[0]), axis = Symbol::axis(left.columns[0]);
  if (assumed_extent(definition->axes[left.rows[0]].range) < kMinBand ||
      assumed_extent(definition->axes[left.columns[0]].range) < kMinDepth)
    return;
  const auto band = nonzero_band(support, *definition, row, axis);
  if (!band || band->row != row || width_of(*band).value_or(kMinBand) < kMinBand) return;
  product.band = rows_of_product(*band);
  product.masked = true;
}

}  // namespace

void find_masks(FusedProgram& fused) {
  Support support(fused.program, SupportLaws::Choices);
  for (Step& step : fused.steps) {
    if (auto* product = std::get_if<MatrixProduct>(&step)) find_mask(support, fused.program, *product);
  }
}

}  // namespace moxie
