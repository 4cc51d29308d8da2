#include "compiler/diff/algebra_tangent.h"

#include <algorithm>
#include <map>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/live_definitions.h"
#include "compiler/diff/open_definition.h"
#include "compiler/expression/algebra_form.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// The operation on one matrix, differentiated twice: a Program that takes changes of the operands to that of the
/// result.
struct Transposed {
  Program program;
  std::string result, matrix, rhs;                   // the operation
  std::string tangent, matrix_tangent, rhs_tangent;  // output and inputs; empty where there is none
};

Transposed transposed(const Program& around, const Definition& definition, bool moves_matrix, bool moves_rhs) {
  const Expr& body = definition.body;
  Program one("tangent");
  one.dims = around.dims;
  ProgramBuilder names(one);
  Transposed t{{}, names.free_name("result"), names.free_name("matrix"), names.free_name("rhs"), "", "", ""};
  one.inputs.push_back({t.matrix, definition.dtype, {body->size.rows, body->size.columns}});
  if (body->args.size() > 1) one.inputs.push_back({t.rhs, definition.dtype, {body->size.rows}});

  const Symbol row = Symbol::fresh(), col = Symbol::fresh();
  const Expr rhs = body->args.size() > 1 ? tensor_access(t.rhs, {row}) : Expr();
  const std::size_t rank = body->subscripts.size();
  std::vector<Affine> extents;
  for (std::size_t k = 0; k < rank; ++k) extents.push_back(element_extent(body->algebra, body->size, k));
  one.definitions.push_back(
      {t.result, definition.dtype, names.axes_for(extents),
       linear_algebra(body->algebra, row, col, body->size, tensor_access(t.matrix, {row, col}), rhs, own_axes(rank)),
       true});

  std::vector<std::string> moved;
  if (moves_matrix) moved.push_back(t.matrix);
  if (moves_rhs) moved.push_back(t.rhs);
  const Program adjoint = differentiate(one, {t.result}, moved);
  const std::string cotangent = adjoint.inputs.back().name;
  std::vector<std::string> gradients;
  for (std::size_t k = moved.size(); k > 0; --k)
    gradients.push_back(adjoint.definitions[adjoint.definitions.size() - k].name);
  t.program = differentiate(adjoint, gradients, {cotangent}, false);
  t.tangent = t.program.definitions.back().name;
  const std::size_t inputs = t.program.inputs.size();
  if (moves_rhs) t.rhs_tangent = t.program.inputs[inputs - 1].name;
  if (moves_matrix) t.matrix_tangent = t.program.inputs[inputs - moved.size()].name;
  return t;
}

/// Brings that Program in, for every matrix of a batch.
class AlgebraTangent {
 public:
  AlgebraTangent(ProgramBuilder& builder, const Definition& definition, const AccessTangent& tangent_of)
      : builder_(builder), definition_(definition), operands_(open_algebra(definition.body)) {
    for (const Affine& subscript : definition.body->subscripts) elements_.push_back(subscript.as_symbol()->number());
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (std::ranges::find(elements_, k) == elements_.end()) batch_.push_back(k);
      if (definition.axes[k].range.as_extent() != definition.axes[k].extent) {
        throw CompileError("definition " + definition.name +
                           " computes linear algebra on part of its axes; it can be differentiated only if "
                           "every axis runs over its whole extent");
      }
    }
    matrix_tangent_ = tangent_of(operands_.matrix);
    rhs_tangent_ = operands_.rhs ? tangent_of(operands_.rhs) : Expr(0);
  }

  Expr run() {
    const bool moves_matrix = !matrix_tangent_->is_constant(0), moves_rhs = !rhs_tangent_->is_constant(0);
    if (!moves_matrix && !moves_rhs) return 0;
    transposed_ = transposed(builder_.program(), definition_, moves_matrix, moves_rhs);
    for (const Definition& part : live_definitions(transposed_.program, {transposed_.tangent})) {
      if (part.name == transposed_.tangent) return with_batch(part.body, result_place());
      if (part.name != transposed_.result) add(part);
    }
    throw InternalError("the transpose of linear algebra has no result");
  }

 private:
  /// What stands for the axes of the batch, in the order of the definition, and for those of one matrix.
  struct Place {
    std::vector<Affine> batch, matrix;
  };

  Place result_place() const {
    Place place;
    for (const std::uint32_t axis : batch_) place.batch.emplace_back(Symbol::axis(axis));
    for (const std::uint32_t axis : elements_) place.matrix.emplace_back(Symbol::axis(axis));
    return place;
  }

  void add(const Definition& part) {
    Place place;
    std::vector<Affine> extents;
    std::vector<std::string> preferred;
    for (const std::uint32_t axis : batch_) {
      place.batch.emplace_back(Symbol::axis(static_cast<std::uint32_t>(extents.size())));
      extents.push_back(definition_.axes[axis].extent);
      preferred.push_back(definition_.axes[axis].name);
    }
    for (const AxisDecl& axis : part.axes) {
      place.matrix.emplace_back(Symbol::axis(static_cast<std::uint32_t>(extents.size())));
      extents.push_back(axis.extent);
    }
    const std::string name = builder_.free_name("tan." + definition_.name + "." + std::to_string(names_.size() + 1));
    names_.emplace(part.name, name);
    builder_.add_definition({name, part.dtype, builder_.axes_for(extents, preferred), with_batch(part.body, place),
                             false, definition_.line, definition_.scan});
  }

  Expr with_batch(const Expr& expr, const Place& place) const {
    Replacement own;
    for (std::uint32_t k = 0; k < place.matrix.size(); ++k) own.emplace_back(Symbol::axis(k), place.matrix[k]);
    return reading_batch(substitute(expr, own), place);
  }

  Expr reading_batch(const Expr& expr, const Place& place) const {
    if (expr->kind != NodeKind::Access)
      return map_children(expr, [&](const Expr& child) { return reading_batch(child, place); });
    const auto at = [&](const Expr& operand) {
      Replacement element;
      for (std::size_t k = 0; k < batch_.size(); ++k) element.emplace_back(Symbol::axis(batch_[k]), place.batch[k]);
      element.emplace_back(operands_.row, expr->subscripts[0]);
      if (expr->subscripts.size() > 1) element.emplace_back(operands_.col, expr->subscripts[1]);
      return substitute(operand, element);
    };
    if (expr->tensor == transposed_.matrix) return at(operands_.matrix);
    if (expr->tensor == transposed_.rhs) return at(operands_.rhs);
    if (expr->tensor == transposed_.matrix_tangent) return at(matrix_tangent_);
    if (expr->tensor == transposed_.rhs_tangent) return at(rhs_tangent_);
    if (expr->tensor == transposed_.result) return result_at(expr->subscripts, place);
    std::vector<Affine> subscripts = place.batch;
    subscripts.insert(subscripts.end(), expr->subscripts.begin(), expr->subscripts.end());
    return tensor_access(names_.at(expr->tensor), std::move(subscripts));
  }

  Expr result_at(const std::vector<Affine>& element, const Place& place) const {
    std::vector<Affine> subscripts(definition_.axes.size());
    for (std::size_t k = 0; k < batch_.size(); ++k) subscripts[batch_[k]] = place.batch[k];
    for (std::size_t k = 0; k < elements_.size(); ++k) subscripts[elements_[k]] = element[k];
    return tensor_access(definition_.name, std::move(subscripts));
  }

  ProgramBuilder& builder_;
  const Definition& definition_;
  OpenedLinearAlgebra operands_;
  Expr matrix_tangent_, rhs_tangent_;
  std::vector<std::uint32_t> elements_, batch_;  // axes of the definition
  Transposed transposed_;
  std::map<std::string, std::string> names_;  // what a part of the transpose is called here
};

}  // namespace

Expr algebra_tangent(ProgramBuilder& builder, const Definition& definition, const AccessTangent& tangent_of) {
  return AlgebraTangent(builder, definition, tangent_of).run();
}

}  // namespace moxie
