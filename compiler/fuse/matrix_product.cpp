#include "compiler/fuse/matrix_product.h"

#include <algorithm>

#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// `coefficient` times the sum of a product over one index or several.
struct SumOfProduct {
  double coefficient = 1;
  Scope scope;  // the axes of the definition and the indices of the sum
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

/// An access as a matrix: `outer` axes of the result and `inner`, summed indices, each next to each other, and before
/// them perhaps the step of a slice.
struct Operand {
  std::string tensor;
  std::vector<Symbol> outer, inner;
  bool transposed = false;  // lies as [inner, outer]
  std::optional<Affine> step;
};

/// The first subscript, if it is the same for all elements of the result.
std::optional<Affine> slice_of(const Expr& access, const Definition& definition) {
  if (access->subscripts.size() < 3) return std::nullopt;
  const Affine step(Symbol::dim(kScanStep));
  const auto at_step = [&](Symbol symbol) { return definition.scan && symbol == Symbol::axis(0) ? &step : nullptr; };
  const Affine first = access->subscripts[0].substitute(at_step);
  const bool fixed = std::ranges::all_of(first.terms(), [](const Affine::Term& term) { return term.first.is_dim(); });
  return fixed ? std::optional(first) : std::nullopt;
}

std::optional<Operand> as_matrix(const Program& program, const Factor& factor, const Definition& definition,
                                 const SumOfProduct& sum) {
  const Expr& access = factor.base;
  if (factor.power != 1 || access->kind != NodeKind::Access || program.dtype_of(access->tensor) != definition.dtype)
    return std::nullopt;
  Operand operand{access->tensor, {}, {}, false, slice_of(access, definition)};
  const std::vector<Affine> shape = program.shape_of(access->tensor);
  bool last_is_inner = false;
  int changes = 0;
  const std::size_t first = operand.step ? 1 : 0;
  for (std::size_t k = first; k < access->subscripts.size(); ++k) {
    const auto symbol = access->subscripts[k].as_symbol();
    const Range* range = symbol ? sum.scope.find(*symbol) : nullptr;
    if (!range || range->as_extent() != shape[k])
      return std::nullopt;  // covers the tensor, so that rows lie densely one after the other
    const bool is_inner = std::ranges::find(sum.summed, *symbol) != sum.summed.end();
    if (k == first)
      operand.transposed = is_inner;
    else if (is_inner != last_is_inner)
      ++changes;
    last_is_inner = is_inner;
    (is_inner ? operand.inner : operand.outer).push_back(*symbol);
  }
  return changes == 1 ? std::optional(std::move(operand)) : std::nullopt;
}

/// The axes that one step of a scan computes, or all.
std::vector<Symbol> computed_axes(const Definition& definition) {
  std::vector<Symbol> axes;
  for (std::uint32_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) axes.push_back(Symbol::axis(k));
  return axes;
}

double rounds(const Scope& scope, const Definition& definition) {
  double total = 1;
  for (const auto& [symbol, range] : scope.open) {
    if (!definition.scan || symbol != Symbol::axis(0)) total *= assumed_extent(range);
  }
  return total;
}

std::vector<Affine> extents_of(const std::vector<Symbol>& symbols, const Scope& scope) {
  std::vector<Affine> extents;
  for (const Symbol symbol : symbols) extents.push_back(*scope.find(symbol)->as_extent());
  return extents;
}

bool is_dense(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

}  // namespace

std::optional<MatrixProduct> match_matrix_product(const Algebra& algebra, const Program& program,
                                                  const Definition& definition) {
  if (!std::ranges::all_of(definition.axes, is_dense)) return std::nullopt;
  const auto sum = open_sum(algebra, definition);
  // A BLAS does not read what it multiplies by 0, and so would lose a NaN.
  if (!sum || sum->coefficient == 0 || sum->product.factors.size() != 2 ||
      rounds(sum->scope, definition) < kSmallestProduct)
    return std::nullopt;
  auto left = as_matrix(program, sum->product.factors[0], definition, *sum);
  auto right = as_matrix(program, sum->product.factors[1], definition, *sum);
  if (!left || !right) return std::nullopt;
  const std::vector<Symbol> axes = computed_axes(definition);
  if (right->outer.front() == axes.front()) std::swap(left, right);
  std::vector<Symbol> outer = left->outer;
  outer.insert(outer.end(), right->outer.begin(), right->outer.end());
  if (outer != axes || left->inner != right->inner || left->inner.size() != sum->summed.size()) return std::nullopt;
  // As operands lie as [outer, inner] where not transposed, BLAS wants the right one as [inner, outer].
  return MatrixProduct{definition,
                       left->tensor,
                       right->tensor,
                       left->transposed,
                       !right->transposed,
                       extents_of(left->outer, sum->scope),
                       extents_of(right->outer, sum->scope),
                       extents_of(left->inner, sum->scope),
                       sum->coefficient,
                       left->step,
                       right->step};
}

ProductTensors product_tensors(const Program& program) {
  const Algebra algebra(program);
  ProductTensors tensors;
  for (const Definition& definition : program.definitions) {
    const auto product = match_matrix_product(algebra, program, definition);
    if (!product) continue;
    tensors.results.insert(definition.name);
    tensors.row_major.insert(definition.name);
    for (const std::string& operand : {product->left, product->right}) {
      tensors.operands.insert(operand);
      if (program.shape_of(operand).size() > 2) tensors.row_major.insert(operand);
    }
  }
  return tensors;
}

}  // namespace moxie
