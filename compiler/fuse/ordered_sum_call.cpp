#include "compiler/fuse/ordered_sum_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/rewrite/patterns/ordered_sum.h"

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

/// The largest integer that readers compare the counts with; nothing where one does anything else with them.
class LargestCompared {
 public:
  LargestCompared(const Program& program, const std::string& tensor) : tensor_(tensor) {
    for (const Definition& definition : program.definitions) look_at(definition.body, Scope::of(definition));
  }
  std::optional<std::int64_t> value() const { return is_known_ ? largest_ : std::nullopt; }

 private:
  void look_at(const Expr& body, const Scope& around) {
    rewrite_top_down(body, around, [this](const Expr& e, const Scope& scope) -> std::optional<Expr> {
      if (e->kind == NodeKind::Access && e->tensor == tensor_) is_known_ = false;
      const Expr* other = compared_with(e);
      const auto largest = other ? largest_integer(*other, scope) : std::nullopt;
      if (!largest) return std::nullopt;
      largest_ = std::max(largest_.value_or(*largest), *largest);
      return e;
    });
  }

  /// What an element of the tensor is compared with.
  const Expr* compared_with(const Expr& e) const {
    static constexpr std::array kRelations = {"<", "<=", ">", ">=", "==", "!="};
    if (std::ranges::none_of(kRelations, [&](const char* relation) { return is_call(e, relation); })) return nullptr;
    for (std::size_t k = 0; k < 2; ++k) {
      if (e->args[k]->kind == NodeKind::Access && e->args[k]->tensor == tensor_) return &e->args[1 - k];
    }
    return nullptr;
  }

  static std::optional<std::int64_t> largest_integer(const Expr& e, const Scope& scope) {
    if (e->kind == NodeKind::IndexValue) return largest_value(e->affine, scope);
    return e->kind == NodeKind::Constant ? exact_integer(e->value) : std::nullopt;
  }

  const std::string& tensor_;
  bool is_known_ = true;
  std::optional<std::int64_t> largest_;
};

/// The count that may stand for all larger ones.
std::optional<std::int64_t> most_counted(const Program& program, const OrderedSumCall& call) {
  const bool counts = call.weight.tensor.empty() && call.scale.tensor.empty() && call.coefficient == 1;
  if (!counts || call.definition.output) return std::nullopt;
  const auto largest = LargestCompared(program, call.definition.name).value();
  return largest && *largest >= 0 ? std::optional(*largest + 1) : std::nullopt;
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
  call.most = most_counted(program, call);
  return call;
}

}  // namespace

std::string call_text(const OrderedSumCall& call) {
  const std::string most = call.most ? fmt::format(", at most {}", *call.most) : "";
  return fmt::format("{} = ordered sum({}){}", call.definition.name, fmt::join(operands_of(call), ", "), most);
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
