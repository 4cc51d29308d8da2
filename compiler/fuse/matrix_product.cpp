#include "compiler/fuse/matrix_product.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/rewrite/patterns/library_matrix.h"

namespace moxie {
namespace {

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

}  // namespace

Range rows_of_product(const Band& band) {
  const Affine row(Symbol::dim(kProductRow));
  return band.range.substitute([&](Symbol symbol) { return symbol == band.row ? &row : nullptr; });
}

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
  if (product.band) text += product.masked ? ", zero outside of a band" : ", a band of the depth for each row";
  if (product.needed) text += ", of which a band is read";
  return text;
}

std::optional<MatrixProduct> match_matrix_product(const Algebra& algebra, const Program& program,
                                                  const Definition& definition, LibraryOperands operands) {
  auto found = library_product(algebra, program, definition, operands);
  if (!found) return std::nullopt;
  if (found->form.swapped) {
    std::swap(found->first, found->second);
    std::swap(found->first_axes, found->second_axes);
  }
  const auto& [batch, rows, columns, depth, swapped, along_depth] = found->form;
  MatrixProduct product{definition,
                        operand_in(found->first->tensor, found->first_axes, batch, rows, depth),
                        operand_in(found->second->tensor, found->second_axes, batch, depth, columns),
                        operand_in(definition.name, result_axes(definition), batch, rows, columns),
                        extents_of(batch, found->scope),
                        extents_of(rows, found->scope),
                        extents_of(columns, found->scope),
                        extents_of(depth, found->scope),
                        found->coefficient};
  product.left.step = step_of(found->first, found->first_axes, definition);
  product.right.step = step_of(found->second, found->second_axes, definition);
  if (definition.scan) product.out.step = Affine(Symbol::dim(kScanStep));
  if (found->band) product.band = rows_of_product(*found->band);
  return product;
}

ProductTensors product_tensors(const Program& program, bool bands, LibraryOperands operands) {
  const Algebra algebra(program);
  ProductTensors tensors;
  for (const Definition& definition : program.definitions) {
    const auto product = match_matrix_product(algebra, program, definition, operands);
    if (!product || (product->band && !bands)) continue;
    tensors.results.insert(definition.name);
    tensors.row_major.insert(definition.name);
    for (const std::string& operand : {product->left.tensor, product->right.tensor}) {
      tensors.operands.insert(operand);
      if (program.shape_of(operand).size() > 2) tensors.row_major.insert(operand);
    }
  }
  return tensors;
}

void add_library_algebra(const Program& program, ProductTensors& tensors,
                         const std::function<bool(const Definition&)>& is_taken) {
  for (const Definition& definition : program.definitions) {
    if (!has_library_matrix(definition) || !std::ranges::all_of(definition.axes, is_dense) || !is_taken(definition))
      continue;
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
