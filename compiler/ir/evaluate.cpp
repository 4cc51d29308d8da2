#include "compiler/ir/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "compiler/ir/dense.h"
#include "compiler/ir/functions.h"
#include "compiler/ir/philox.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using Coordinates = std::vector<std::int64_t>;

struct Tensor {
  Coordinates shape;
  std::vector<double> values;
};

struct RandomState {
  std::uint64_t seed, step;
};

/// An affine expression over slots of the evaluator's index values.
struct SlotAffine {
  std::int64_t constant = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> terms;
};

struct SlotRange {
  std::vector<std::pair<std::int64_t, SlotAffine>> lows, highs;
};

/// A node ready to run. Its value stays valid as long as none of the indices it depends on moves, which hoists invariants out of loops.
struct Step {
  const Node* node = nullptr;
  std::vector<std::size_t> args;        // steps
  std::vector<std::size_t> depends_on;  // slots
  std::vector<SlotAffine> subscripts;
  SlotAffine affine;
  SlotRange range;
  std::size_t bound_slot = 0;
  const Tensor* tensor = nullptr;
  std::uint64_t stamp = 0;  // when `value` was computed; 0 is never
  double value = 0;
  std::vector<double> algebra;        // LinearAlgebra: the whole result
  std::vector<std::size_t> operands;  // LinearAlgebra: slots on which the whole result depends
  std::uint64_t algebra_stamp = 0;
};

/// Evaluates the body of one definition, element after element.
class BodyEvaluator {
 public:
  BodyEvaluator(const Definition& definition, const DimValues& dims, const std::map<std::string, Tensor>& tensors, RandomState random)
      : definition_(definition), dims_(dims), tensors_(tensors), random_(random) {
    const std::size_t slots = definition.axes.size() + definition.body->height + 1;
    values_.resize(slots);
    stamps_.resize(slots);
    root_ = compile(definition.body);
  }

  /// Runs `visit(coordinates, value)` over the definition's elements.
  template <class Visit>
  void for_each_element(const Visit& visit) {
    std::vector<SlotRange> ranges;
    for (const AxisDecl& axis : definition_.axes) ranges.push_back(compile(axis.range));
    Coordinates element(ranges.size());
    walk(ranges, element, 0, visit);
  }

 private:
  // ---- Compiling ----

  std::size_t slot(Symbol symbol) const {
    switch (symbol.kind()) {
      case Symbol::Kind::Axis:
        if (symbol.number() < definition_.axes.size()) return symbol.number();
        break;
      case Symbol::Kind::Bound:
        if (symbol.number() <= definition_.body->height) return definition_.axes.size() + symbol.number();
        break;
      default: break;
    }
    throw TypeError("definition " + definition_.name + " uses " + symbol.name() + ", which stands for nothing there");
  }

  SlotAffine compile(const Affine& affine) const {
    SlotAffine result{affine.constant(), {}};
    for (const auto& [symbol, coefficient] : affine.terms()) {
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

  SlotRange compile(const Range& range) const {
    SlotRange result;
    for (const Bound& bound : range.lows) result.lows.emplace_back(bound.divisor, compile(bound.value));
    for (const Bound& bound : range.highs) result.highs.emplace_back(bound.divisor, compile(bound.value));
    return result;
  }

  const Tensor* find_tensor(const Node& node) const {
    const auto found = tensors_.find(node.tensor);
    if (found == tensors_.end()) {
      throw TypeError("definition " + definition_.name + " reads '" + node.tensor + "', which is not defined before it");
    }
    if (found->second.shape.size() != node.subscripts.size()) {
      throw ShapeError(fmt::format("definition {} reads {} with {} subscripts, but it has {} axes", definition_.name, node.tensor,
                                   node.subscripts.size(), found->second.shape.size()));
    }
    return &found->second;
  }

  std::size_t compile(const Expr& expr) {
    if (const auto it = index_of_.find(expr.get()); it != index_of_.end()) return it->second;
    Step step;
    step.node = expr.get();
    for (const Expr& arg : expr->args) step.args.push_back(compile(arg));
    for (const Symbol symbol : expr->free_symbols) {
      if (!symbol.is_dim()) step.depends_on.push_back(slot(symbol));
    }
    for (const Affine& subscript : expr->subscripts) step.subscripts.push_back(compile(subscript));
    step.affine = compile(expr->kind == NodeKind::LinearAlgebra ? expr->size : expr->affine);
    step.range = compile(expr->range);
    step.bound_slot = definition_.axes.size() + expr->height;
    if (expr->kind == NodeKind::Access) step.tensor = find_tensor(*expr);
    if (expr->kind == NodeKind::LinearAlgebra) step.operands = operand_slots(step);
    steps_.push_back(std::move(step));
    return index_of_[expr.get()] = steps_.size() - 1;
  }

  std::vector<std::size_t> operand_slots(const Step& step) const {
    std::vector<std::size_t> slots;
    for (const std::size_t arg : step.args) {
      for (const std::size_t s : steps_[arg].depends_on) {
        if (s != step.bound_slot && s != step.bound_slot - 1) slots.push_back(s);
      }
    }
    return slots;
  }

  // ---- Indices ----

  void move(std::size_t slot, std::int64_t to) {
    values_[slot] = to;
    stamps_[slot] = ++clock_;
  }

  bool unmoved_since(std::uint64_t stamp, const std::vector<std::size_t>& slots) const {
    return stamp != 0 && std::ranges::all_of(slots, [&](std::size_t s) { return stamps_[s] <= stamp; });
  }

  std::int64_t at(const SlotAffine& affine) const {
    std::int64_t result = affine.constant;
    for (const auto& [slot, coefficient] : affine.terms) result += coefficient * values_[slot];
    return result;
  }

  Coordinates at(const std::vector<SlotAffine>& subscripts) const {
    Coordinates result;
    for (const SlotAffine& subscript : subscripts) result.push_back(at(subscript));
    return result;
  }

  std::pair<std::int64_t, std::int64_t> at(const SlotRange& range) const {
    if (range.lows.empty() || range.highs.empty()) throw ShapeError("definition " + definition_.name + " has a range without an end");
    std::int64_t low = std::numeric_limits<std::int64_t>::min();
    std::int64_t high = std::numeric_limits<std::int64_t>::max();
    for (const auto& [divisor, affine] : range.lows) low = std::max(low, ceil_div(at(affine), divisor));
    for (const auto& [divisor, affine] : range.highs) high = std::min(high, floor_div(at(affine), divisor));
    return {low, high};
  }

  template <class Visit>
  void walk(const std::vector<SlotRange>& ranges, Coordinates& element, std::size_t axis, const Visit& visit) {
    if (axis == ranges.size()) return visit(element, value(root_));
    const auto [low, high] = at(ranges[axis]);
    for (element[axis] = low; element[axis] <= high; ++element[axis]) {
      move(axis, element[axis]);
      walk(ranges, element, axis + 1, visit);
    }
  }

  Coordinates element_now() const {
    return {values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(definition_.axes.size())};
  }

  // ---- Values ----

  double value(std::size_t index) {
    Step& step = steps_[index];
    if (unmoved_since(step.stamp, step.depends_on)) return step.value;
    step.value = compute(step);
    step.stamp = clock_;
    return step.value;
  }

  double compute(Step& step) {
    switch (step.node->kind) {
      case NodeKind::Constant: return step.node->value;
      case NodeKind::IndexValue: return static_cast<double>(at(step.affine));
      case NodeKind::Access: return load(step);
      case NodeKind::Call: return call_value(step);
      case NodeKind::Reduce: return reduction(step);
      case NodeKind::LinearAlgebra: return algebra_element(step);
      case NodeKind::Random: return draw(step);
    }
    throw InternalError("unknown kind of node");
  }

  double load(const Step& step) const {
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < step.subscripts.size(); ++k) {
      const std::int64_t i = at(step.subscripts[k]);
      const std::int64_t extent = step.tensor->shape[k];
      if (i < 0 || i >= extent) {
        throw ShapeError(fmt::format("definition {} at [{}] reads {}[{}], outside its shape [{}]", definition_.name,
                                     fmt::join(element_now(), ","), step.node->tensor, fmt::join(at(step.subscripts), ","),
                                     fmt::join(step.tensor->shape, ",")));
      }
      offset = offset * extent + i;
    }
    return step.tensor->values[static_cast<std::size_t>(offset)];
  }

  /// Only the needed branch of `where`, and conditions only up to the one that decides: what lies behind a guard must not be read.
  double call_value(const Step& step) {
    const std::string_view name = step.node->function->name;
    if (name == "where") return value(step.args[value(step.args[0]) != 0 ? 1 : 2]);
    if (name == "and" || name == "or") {
      const bool decisive = name == "or";
      const bool decided = std::ranges::any_of(step.args, [&](std::size_t arg) { return (value(arg) != 0) == decisive; });
      return decided == decisive ? 1 : 0;
    }
    std::vector<double> arguments;
    for (const std::size_t arg : step.args) arguments.push_back(value(arg));
    return step.node->function->reference(arguments);
  }

  double reduction(const Step& step) {
    const auto [low, high] = at(step.range);
    std::vector<double> terms;
    for (std::int64_t i = low; i <= high; ++i) {
      move(step.bound_slot, i);
      terms.push_back(value(step.args[0]));
    }
    return fold(step.node->reduce, terms);
  }

  static double fold(ReduceKind kind, const std::vector<double>& terms) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    double result = 0;
    switch (kind) {
      case ReduceKind::Sum:
        for (const double x : terms) result += x;
        return result;
      case ReduceKind::Product:
        result = 1;
        for (const double x : terms) result *= x;
        return result;
      case ReduceKind::Max: return terms.empty() ? -infinity : *std::ranges::max_element(terms);
      case ReduceKind::Min: return terms.empty() ? infinity : *std::ranges::min_element(terms);
      case ReduceKind::LogSumExp: {
        const double largest = fold(ReduceKind::Max, terms);
        if (std::isinf(largest)) return largest;
        for (const double x : terms) result += std::exp(x - largest);
        return largest + std::log(result);
      }
    }
    throw InternalError("unknown kind of reduction");
  }

  double algebra_element(Step& step) {
    const auto rows = at(step.affine);
    if (!unmoved_since(step.algebra_stamp, step.operands)) {
      step.algebra = algebra_result(step, static_cast<std::size_t>(std::max<std::int64_t>(rows, 0)));
      step.algebra_stamp = clock_;
    }
    std::int64_t offset = 0;
    for (const std::int64_t i : at(step.subscripts)) {
      if (i < 0 || i >= rows) {
        throw ShapeError(fmt::format("definition {} at [{}] takes element [{}] of a matrix with {} rows", definition_.name,
                                     fmt::join(element_now(), ","), fmt::join(at(step.subscripts), ","), rows));
      }
      offset = offset * rows + i;
    }
    return step.algebra[static_cast<std::size_t>(offset)];
  }

  std::vector<double> algebra_result(const Step& step, std::size_t rows) {
    DenseMatrix matrix(rows);
    std::vector<double> rhs;
    for (std::size_t i = 0; i < rows; ++i) {
      move(step.bound_slot, static_cast<std::int64_t>(i));
      if (step.args.size() > 1) rhs.push_back(value(step.args[1]));
      for (std::size_t j = 0; j <= i; ++j) {  // the lower triangle is all that is read
        move(step.bound_slot - 1, static_cast<std::int64_t>(j));
        matrix(i, j) = value(step.args[0]);
      }
    }
    std::optional<BadPivot> bad;
    std::vector<double> result = apply(step.node->algebra, std::move(matrix), std::move(rhs), bad);
    if (bad) {
      throw DeviceError(fmt::format("{} in definition {} at [{}]: the matrix is not positive definite (pivot {} is {})",
                                    to_string(step.node->algebra), definition_.name, fmt::join(element_now(), ","), bad->row, bad->value));
    }
    return result;
  }

  double draw(const Step& step) const {
    const Coordinates coordinates = at(step.subscripts);
    if (coordinates.size() > 4) {
      throw CompileError(fmt::format("definition {}: a random number is drawn over {} axes; the generator counts at most 4",
                                     definition_.name, coordinates.size()));
    }
    PhiloxCounter counter{};
    std::ranges::transform(coordinates, counter.begin(), [](std::int64_t c) { return static_cast<std::uint32_t>(c); });
    const PhiloxCounter words = philox4x32_10(counter, philox_key(random_.seed, step.node->stream, random_.step));
    return step.node->random == RandomKind::Uniform ? uniform_from_word(words[0]) : normal_from_words(words[0], words[1]);
  }

  const Definition& definition_;
  const DimValues& dims_;
  const std::map<std::string, Tensor>& tensors_;
  RandomState random_;
  std::vector<Step> steps_;
  std::unordered_map<const Node*, std::size_t> index_of_;
  std::size_t root_ = 0;
  std::vector<std::int64_t> values_;
  std::vector<std::uint64_t> stamps_;
  std::uint64_t clock_ = 1;
};

Coordinates shape_values(const std::vector<Affine>& shape, const DimValues& dims) {
  const auto dim_value = [&](Symbol symbol) {
    const auto it = dims.find(symbol.name());
    if (it == dims.end()) throw ShapeError("dim " + symbol.name() + " has no value");
    return it->second;
  };
  Coordinates result;
  for (const Affine& extent : shape) result.push_back(std::max<std::int64_t>(0, extent.evaluate(dim_value)));
  return result;
}

std::size_t element_count(const Coordinates& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count = checked_mul(count, extent);
  return static_cast<std::size_t>(count);
}

std::size_t offset_of(const Coordinates& element, const Coordinates& shape) {
  std::int64_t offset = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) offset = offset * shape[k] + element[k];
  return static_cast<std::size_t>(offset);
}

Tensor input_tensor(const InputDecl& input, const DimValues& dims, const TensorValues& inputs) {
  const auto given = inputs.find(input.name);
  if (given == inputs.end()) throw ShapeError("input " + input.name + " is missing");
  Coordinates shape = shape_values(input.shape, dims);
  if (given->second.size() != element_count(shape)) {
    throw ShapeError(fmt::format("input {} has {} elements, but its shape [{}] needs {}", input.name, given->second.size(),
                                 fmt::join(shape, ","), element_count(shape)));
  }
  return {std::move(shape), given->second};
}

Tensor definition_tensor(const Definition& definition, const DimValues& dims, const std::map<std::string, Tensor>& tensors,
                         RandomState random) {
  std::vector<Affine> extents;
  for (const AxisDecl& axis : definition.axes) extents.push_back(axis.extent);
  Tensor result{shape_values(extents, dims), {}};
  result.values.resize(element_count(result.shape));
  BodyEvaluator(definition, dims, tensors, random).for_each_element([&](const Coordinates& element, double value) {
    for (std::size_t k = 0; k < element.size(); ++k) {
      if (element[k] >= 0 && element[k] < result.shape[k]) continue;
      throw ShapeError(fmt::format("definition {} has element [{}] outside its box [{}]", definition.name, fmt::join(element, ","),
                                   fmt::join(result.shape, ",")));
    }
    result.values[offset_of(element, result.shape)] = value;
  });
  return result;
}

/// The given values and those that the program itself fixes.
DimValues known_dims(const Program& program, const DimValues& given) {
  DimValues dims = given;
  for (const DimDecl& dim : program.dims) {
    if (dim.value) dims.emplace(dim.name, *dim.value);
  }
  return dims;
}

}  // namespace

TensorValues evaluate(const Program& program, const DimValues& given_dims, const TensorValues& inputs, std::uint64_t seed,
                      std::uint64_t step) {
  const DimValues dims = known_dims(program, given_dims);
  std::map<std::string, Tensor> tensors;
  for (const InputDecl& input : program.inputs) tensors.emplace(input.name, input_tensor(input, dims, inputs));
  TensorValues results;
  for (const Definition& definition : program.definitions) {
    Tensor tensor = definition_tensor(definition, dims, tensors, {seed, step});
    results[definition.name] = tensor.values;
    tensors.emplace(definition.name, std::move(tensor));
  }
  return results;
}

}  // namespace moxie
