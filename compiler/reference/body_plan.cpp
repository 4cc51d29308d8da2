#include "compiler/reference/body_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/expression/functions.h"
#include "compiler/support/error.h"

namespace moxie {

BodyPlan::BodyPlan(const Definition& definition, const DimValues& dims,
                   const std::map<std::string, TensorData>& tensors)
    : name_(definition.name),
      axis_count_(definition.axes.size()),
      height_(definition.body->height),
      dims_(dims),
      tensors_(tensors) {
  for (const AxisDecl& axis : definition.axes) axes_.push_back(compile(axis.range));
  compile(definition.body, computed_dtype(definition.dtype));
}

std::size_t BodyPlan::slot(Symbol symbol) const {
  switch (symbol.kind()) {
    case Symbol::Kind::Axis:
      if (symbol.number() < axis_count_) return symbol.number();
      break;
    case Symbol::Kind::Bound:
      if (symbol.number() <= height_) return axis_count_ + symbol.number();
      break;
    default:
      break;
  }
  throw TypeError("definition " + name_ + " uses " + symbol.name() + ", which stands for nothing there");
}

SlotAffine BodyPlan::compile(const Affine& affine) const {
  SlotAffine result{affine.constant(), {}};
  for (const auto& [symbol, coefficient] : affine.terms()) {
    if (symbol.is_value()) {
      result.values.emplace_back(symbol.number(), coefficient);
      continue;
    }
    if (!symbol.is_dim()) {
      result.terms.emplace_back(slot(symbol), coefficient);
      continue;
    }
    const auto dim = dims_.find(symbol.name());
    if (dim == dims_.end()) throw ShapeError("dim " + symbol.name() + " has no value");
    result.constant = checked_add(result.constant, checked_mul(coefficient, dim->second));
  }
  return result;
}

SlotRange BodyPlan::compile(const Range& range) const {
  SlotRange result;
  for (const Bound& bound : range.lows) result.lows.emplace_back(bound.divisor, compile(bound.value));
  for (const Bound& bound : range.highs) result.highs.emplace_back(bound.divisor, compile(bound.value));
  return result;
}

const TensorData* BodyPlan::find_tensor(const Node& node) const {
  const auto found = tensors_.find(node.tensor);
  if (found == tensors_.end()) {
    throw TypeError("definition " + name_ + " reads '" + node.tensor + "', which is not defined before it");
  }
  if (found->second.shape.size() != node.subscripts.size()) {
    throw ShapeError(fmt::format("definition {} reads {} with {} subscripts, but it has {} axes", name_, node.tensor,
                                 node.subscripts.size(), found->second.shape.size()));
  }
  return &found->second;
}

bool BodyPlan::is_integer(const Expr& expr) const {
  if (expr->kind == NodeKind::IndexValue || expr->kind == NodeKind::Constant) return true;
  if (expr->kind == NodeKind::Access) return holds_integers(find_tensor(*expr)->dtype);
  return expr->kind == NodeKind::Call && keeps_integers(*expr->function) &&
         std::ranges::all_of(expr->args, [&](const Expr& arg) { return is_integer(arg); });
}

/// The dtype in which the arguments of a node are computed that is itself computed in `dtype`.
DType BodyPlan::argument_dtype(const Expr& expr, DType dtype) const {
  if (expr->kind == NodeKind::Access) return DType::f64;
  if (expr->kind != NodeKind::Call) return dtype;
  for (const DType cast : {DType::f32, DType::f64}) {
    if (expr->function->name == to_string(cast)) return cast;
  }
  const bool compares_integers = expr->function->result == ResultType::Truth &&
                                 std::ranges::all_of(expr->args, [&](const Expr& arg) { return is_integer(arg); });
  return compares_integers ? DType::f64 : dtype;
}

std::size_t BodyPlan::compile(const Expr& expr, DType dtype) {
  if (const auto it = index_of_.find({expr.get(), dtype}); it != index_of_.end()) return it->second;
  EvaluationStep step;
  step.node = expr.get();
  step.dtype = dtype;
  for (const Expr& arg : expr->args) step.args.push_back(compile(arg, argument_dtype(expr, dtype)));
  for (const Symbol symbol : expr->free_symbols) {
    if (!symbol.is_dim()) step.depends_on.push_back(slot(symbol));
  }
  for (const Affine& subscript : expr->subscripts) step.subscripts.push_back(compile(subscript));
  step.affine = compile(expr->kind == NodeKind::LinearAlgebra ? expr->size.rows : expr->affine);
  step.columns = compile(expr->size.columns);
  step.range = compile(expr->range);
  step.bound_slot = axis_count_ + expr->height;
  if (expr->kind == NodeKind::Access) step.tensor = find_tensor(*expr);
  if (expr->kind == NodeKind::LinearAlgebra) step.operands = operand_slots(step);
  steps_.push_back(std::move(step));
  return index_of_[{expr.get(), dtype}] = steps_.size() - 1;
}

std::vector<std::size_t> BodyPlan::operand_slots(const EvaluationStep& step) const {
  std::vector<std::size_t> slots;
  for (const std::size_t arg : step.args) {
    for (const std::size_t s : steps_[arg].depends_on) {
      if (s != step.bound_slot && s != step.bound_slot - 1) slots.push_back(s);
    }
  }
  return slots;
}

}  // namespace moxie
