#include "compiler/fuse/matrix_product.h"

#include <algorithm>

#include "compiler/rewrite/algebra.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// Multiply-adds from which a BLAS call beats a loop inside the kernel that needs the product (measured: benchmarks/README.md).
constexpr double kSmallestProduct = 2e6;

/// An operand as a matrix over (outer, inner): whether `tensor` lies as [outer, inner] or transposed.
struct Operand {
  std::string tensor;
  Symbol outer;
  bool transposed;
};

std::optional<Operand> as_matrix(const Expr& access, Symbol inner, const Definition& definition) {
  if (access->kind != NodeKind::Access || access->subscripts.size() != 2) return std::nullopt;
  const auto first = access->subscripts[0].as_symbol();
  const auto second = access->subscripts[1].as_symbol();
  if (!first || !second) return std::nullopt;
  const auto is_axis = [&](Symbol s) { return s.kind() == Symbol::Kind::Axis && s.number() < definition.axes.size(); };
  if (*second == inner && is_axis(*first)) return Operand{access->tensor, *first, false};
  if (*first == inner && is_axis(*second)) return Operand{access->tensor, *second, true};
  return std::nullopt;
}

/// Whether the product reads the operand's whole tensor: rows and columns then lie densely one after the other.
bool covers_tensor(const Program& program, const Operand& operand, const Affine& outer, const Affine& inner) {
  const std::vector<Affine> shape = program.shape_of(operand.tensor);
  return shape[operand.transposed ? 1 : 0] == outer && shape[operand.transposed ? 0 : 1] == inner;
}

bool is_dense(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

}  // namespace

std::optional<MatrixProduct> match_matrix_product(const Program& program, const Definition& definition) {
  if (definition.axes.size() != 2) return std::nullopt;
  Product product = product_of(definition.body);
  if (product.factors.size() != 1 || product.factors[0].power != 1) return std::nullopt;
  const Expr sum = product.factors[0].base;
  if (sum->kind != NodeKind::Reduce || sum->reduce != ReduceKind::Sum) return std::nullopt;
  const auto depth = sum->range.as_extent();
  if (!depth || !is_dense(definition.axes[0]) || !is_dense(definition.axes[1])) return std::nullopt;
  const Affine& rows = definition.axes[0].extent;
  const Affine& columns = definition.axes[1].extent;
  const double work = assumed_extent(sum->range) * assumed_extent(definition.axes[0].range) * assumed_extent(definition.axes[1].range);
  if (work < kSmallestProduct) return std::nullopt;

  const OpenedReduce opened = open(sum);
  const Product body = product_of(opened.body);
  if (body.factors.size() != 2 || body.factors[0].power != 1 || body.factors[1].power != 1) return std::nullopt;
  auto left = as_matrix(body.factors[0].base, opened.index, definition);
  auto right = as_matrix(body.factors[1].base, opened.index, definition);
  if (!left || !right) return std::nullopt;
  if (left->outer == Symbol::axis(1)) std::swap(left, right);
  if (left->outer != Symbol::axis(0) || right->outer != Symbol::axis(1)) return std::nullopt;
  const bool same_dtype = program.dtype_of(left->tensor) == definition.dtype && program.dtype_of(right->tensor) == definition.dtype;
  if (!same_dtype || !covers_tensor(program, *left, rows, *depth) || !covers_tensor(program, *right, columns, *depth)) return std::nullopt;
  // as_matrix() sees [outer, inner]; BLAS wants the right operand as [inner, outer].
  return MatrixProduct{definition, left->tensor, right->tensor, left->transposed, !right->transposed,
                       rows, columns, *depth, product.coefficient * body.coefficient};
}

}  // namespace moxie
