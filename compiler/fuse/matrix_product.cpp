#include "compiler/fuse/matrix_product.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/rewrite/library_matrix.h"
#include "compiler/rewrite/product_form.h"

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

/// The axes of an operand in the dtype of the result.
std::optional<OperandAxes> axes_of(const Program& program, const Factor& factor, const Definition& definition,
                                   const SumOfProduct& sum) {
  const Expr& access = factor.base;
  if (factor.power != 1 || access->kind != NodeKind::Access || program.dtype_of(access->tensor) != definition.dtype ||
      definition.dtype == DType::i32)
    return std::nullopt;
  return operand_axes(program, access, sum.scope, definition.scan.has_value());
}

/// The axes that one step of a scan computes, or all.
std::vector<Symbol> computed_axes(const Definition& definition) {
  std::vector<Symbol> axes;
  for (std::uint32_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) axes.push_back(Symbol::axis(k));
  return axes;
}

std::vector<Affine> extents_of(const std::vector<Symbol>& symbols, const Scope& scope) {
  std::vector<Affine> extents;
  for (const Symbol symbol : symbols) extents.push_back(*scope.find(symbol)->as_extent());
  return extents;
}

std::vector<std::uint32_t> positions_of(const std::vector<Symbol>& symbols, const OperandAxes& axes) {
  std::vector<std::uint32_t> positions;
  for (const Symbol symbol : symbols) {
    const auto axis = std::ranges::find(axes, symbol, &OperandAxis::symbol);
    positions.push_back(static_cast<std::uint32_t>(axis - axes.begin()));
  }
  return positions;
}

ProductOperand operand_in(const std::string& tensor, const OperandAxes& axes, const std::vector<Symbol>& batch,
                          const std::vector<Symbol>& rows, const std::vector<Symbol>& columns) {
  ProductOperand operand{tensor, positions_of(rows, axes), positions_of(columns, axes), {}};
  for (const Symbol symbol : batch) {
    const bool has_axis = std::ranges::find(axes, symbol, &OperandAxis::symbol) != axes.end();
    operand.batch.push_back(has_axis ? std::optional(positions_of({symbol}, axes)[0]) : std::nullopt);
  }
  return operand;
}

/// The step of the slice that is read, where the first axis is fixed.
std::optional<Affine> step_of(const Expr& access, const OperandAxes& axes, const Definition& definition) {
  if (axes.front().symbol) return std::nullopt;
  const Affine step(Symbol::dim(kScanStep));
  const auto at_step = [&](Symbol symbol) { return definition.scan && symbol == Symbol::axis(0) ? &step : nullptr; };
  return access->subscripts[0].substitute(at_step);
}

OperandAxes result_axes(const Definition& definition) {
  OperandAxes axes = operand_axes(computed_axes(definition));
  if (definition.scan) axes.insert(axes.begin(), OperandAxis{});
  return axes;
}

bool is_dense(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

}  // namespace

std::string call_text(const AlgebraCall& call) {
  return fmt::format("{} = {}({})", call.definition.name, to_string(call.definition.body->algebra),
                     fmt::join(operands_of(call), ", "));
}

std::vector<std::string> operands_of(const AlgebraCall& call) {
  std::vector<std::string> names;
  for (const Expr& arg : call.definition.body->args) names.push_back(arg->tensor);
  return names;
}

std::string product_text(const MatrixProduct& product) {
  std::string text = fmt::format("{} = {} x {}", product.definition.name, product.left.tensor, product.right.tensor);
  for (std::size_t k = 0; k < product.batch.size(); ++k)
    text += fmt::format("{}{}", k == 0 ? ", batch " : "*", print(product.batch[k]));
  return text;
}

std::optional<MatrixProduct> match_matrix_product(const Algebra& algebra, const Program& program,
                                                  const Definition& definition) {
  if (!std::ranges::all_of(definition.axes, is_dense)) return std::nullopt;
  const auto sum = open_sum(algebra, definition);
  // A BLAS does not read what it multiplies by 0, and so would lose a NaN.
  if (!sum || sum->coefficient == 0 || sum->product.factors.size() != 2) return std::nullopt;
  const Factor* left = &sum->product.factors[0];
  const Factor* right = &sum->product.factors[1];
  auto left_axes = axes_of(program, *left, definition, *sum);
  auto right_axes = axes_of(program, *right, definition, *sum);
  if (!left_axes || !right_axes) return std::nullopt;
  const auto form = product_form(computed_axes(definition), sum->summed, *left_axes, *right_axes, sum->scope);
  if (!form || !suits_library(*form, sum->scope)) return std::nullopt;
  if (form->swapped) {
    std::swap(left, right);
    std::swap(left_axes, right_axes);
  }
  const auto& [batch, rows, columns, depth, swapped] = *form;
  MatrixProduct product{definition,
                        operand_in(left->base->tensor, *left_axes, batch, rows, depth),
                        operand_in(right->base->tensor, *right_axes, batch, depth, columns),
                        operand_in(definition.name, result_axes(definition), batch, rows, columns),
                        extents_of(batch, sum->scope),
                        extents_of(rows, sum->scope),
                        extents_of(columns, sum->scope),
                        extents_of(depth, sum->scope),
                        sum->coefficient};
  product.left.step = step_of(left->base, *left_axes, definition);
  product.right.step = step_of(right->base, *right_axes, definition);
  if (definition.scan) product.out.step = Affine(Symbol::dim(kScanStep));
  return product;
}

ProductTensors product_tensors(const Program& program) {
  const Algebra algebra(program);
  ProductTensors tensors;
  for (const Definition& definition : program.definitions) {
    const auto product = match_matrix_product(algebra, program, definition);
    if (!product) continue;
    tensors.results.insert(definition.name);
    tensors.row_major.insert(definition.name);
    for (const std::string& operand : {product->left.tensor, product->right.tensor}) {
      tensors.operands.insert(operand);
      if (program.shape_of(operand).size() > 2) tensors.row_major.insert(operand);
    }
  }
  return tensors;
}

void add_library_algebra(const Program& program, ProductTensors& tensors) {
  for (const Definition& definition : program.definitions) {
    if (!has_library_matrix(definition) || !std::ranges::all_of(definition.axes, is_dense)) continue;
    tensors.algebra.insert(definition.name);
    tensors.results.insert(definition.name);
    tensors.row_major.insert(definition.name);
    for (const Expr& operand : definition.body->args) {
      tensors.operands.insert(operand->tensor);
      tensors.row_major.insert(operand->tensor);
    }
  }
}

}  // namespace moxie
