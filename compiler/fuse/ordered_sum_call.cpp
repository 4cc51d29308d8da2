#include "compiler/fuse/ordered_sum_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "compiler/rewrite/ordered_sum.h"

namespace moxie {
namespace {

/// An operand that is an element of a tensor in the dtype of the sum; an empty one where there is no factor.
std::optional<OrderedOperand> ordered_operand(const Program& program, const OrderedSum& sum, const Expr& expr,
                                              DType dtype) {
  if (!expr) return OrderedOperand{};
  if (expr->kind != NodeKind::Access || reads_by_value(expr) || program.dtype_of(expr->tensor) != dtype)
    return std::nullopt;
  const Affine element(kOrderedElement);
  const auto closed = [&](Symbol symbol) { return symbol == sum.element ? &element : nullptr; };
  OrderedOperand operand{expr->tensor, {}, false};
  std::ranges::transform(expr->subscripts, std::back_inserter(operand.subscripts),
                         [&](const Affine& subscript) { return subscript.substitute(closed); });
  return operand;
}

bool fills_box(const AxisDecl& axis) { return axis.range.as_extent() == axis.extent; }

std::optional<OrderedSumCall> ordered_call(const Algebra& algebra, const Program& program, const Definition& definition,
                                           const DimValues& extents) {
  if (definition.scan || !std::ranges::all_of(definition.axes, fills_box)) return std::nullopt;
  const Scope scope = Scope::of(definition);
  const auto sum = ordered_sum(algebra, definition.body, scope);
  if (!sum) return std::nullopt;
  std::vector<Symbol> axes;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) axes.push_back(Symbol::axis(k));
  if (!is_faster_sorted(*sum, axes, scope, extents, kAssumedExtent)) return std::nullopt;
  const auto operand = [&](const Expr& expr) { return ordered_operand(program, *sum, expr, scope.dtype); };
  const auto key = operand(sum->key), query = operand(sum->query), weight = operand(sum->weight.value),
             scale = operand(sum->scale.value);
  if (!key || !query || !weight || !scale) return std::nullopt;
  OrderedSumCall call{definition, sum->count, *key, *query, *weight, *scale, {sum->above, sum->with_equal}};
  call.weight.multiplies_zeros = sum->weight.multiplies_zeros;
  call.scale.multiplies_zeros = sum->scale.multiplies_zeros;
  call.coefficient = sum->coefficient;
  if (sum->tie) {
    call.selection.tie_limit = sum->tie->limit;
    call.selection.tie_below = sum->tie->below;
  }
  return call;
}

}  // namespace

std::string call_text(const OrderedSumCall& call) {
  return fmt::format("{} = ordered sum({})", call.definition.name, fmt::join(operands_of(call), ", "));
}

std::vector<std::string> operands_of(const OrderedSumCall& call) {
  std::vector<std::string> names;
  for (const OrderedOperand* operand : {&call.key, &call.query, &call.weight, &call.scale}) {
    if (!operand->tensor.empty()) names.push_back(operand->tensor);
  }
  return names;
}

OrderedSumCalls ordered_sum_calls(const Program& program, const DimValues& extents) {
  const Algebra algebra(program);
  OrderedSumCalls calls;
  for (const Definition& definition : program.definitions) {
    if (auto call = ordered_call(algebra, program, definition, extents))
      calls.emplace(definition.name, std::move(*call));
  }
  return calls;
}

void add_ordered_sums(const OrderedSumCalls& calls, ProductTensors& tensors) {
  for (const auto& [name, call] : calls) {
    tensors.results.insert(name);
    tensors.row_major.insert(name);
    for (const std::string& operand : operands_of(call)) {
      tensors.operands.insert(operand);
      tensors.row_major.insert(operand);
    }
  }
}

}  // namespace moxie
