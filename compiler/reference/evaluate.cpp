#include "compiler/reference/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/arithmetic/philox.h"
#include "compiler/arithmetic/special_functions.h"
#include "compiler/expression/algebra_form.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/program/scans.h"
#include "compiler/reference/body_plan.h"
#include "compiler/reference/dense.h"
#include "compiler/reference/sorting.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"

namespace moxie {
namespace {

struct RandomState {
  std::uint64_t seed, step;
};

/// Evaluates the body of one definition, element after element.
class BodyEvaluator {
 public:
  BodyEvaluator(const Definition& definition, const DimValues& dims, const std::map<std::string, TensorData>& tensors,
                RandomState random, const Rounding& rounding, EvaluationBudget* budget)
      : definition_(definition),
        plan_(definition, dims, tensors),
        random_(random),
        rounding_(rounding),
        budget_(budget),
        states_(plan_.steps().size()),
        values_(plan_.slots()),
        stamps_(plan_.slots()) {}

  /// Runs `visit(coordinates, value)` over the definition's elements.
  template <class Visit>
  void for_each_element(const Visit& visit) {
    Coordinates element(plan_.axes().size());
    walk(element, 0, visit);
  }

  /// The same over the elements of one step of a scan.
  template <class Visit>
  void for_each_element_at(std::int64_t step, const Visit& visit) {
    Coordinates element(plan_.axes().size());
    element[0] = step;
    move(0, step);
    walk(element, 1, visit);
  }

 private:
  /// What was computed for a step. It stays valid as long as none of the indices it depends on moves, which hoists
  /// invariants out of loops.
  struct StepState {
    std::uint64_t stamp = 0;  // when `value` was computed; 0 is never
    double value = 0;
    std::uint64_t algebra_stamp = 0;
    std::vector<double> algebra;  // LinearAlgebra: the whole result
  };

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

  /// Gives the element that an access reads; its subscripts may depend on values.
  Coordinates element_read(const EvaluationStep& access) {
    Coordinates result = at(access.subscripts);
    for (std::size_t k = 0; k < result.size(); ++k) {
      for (const auto& [argument, coefficient] : access.subscripts[k].values)
        result[k] += coefficient * nearest_exact_integer(value(access.args[argument]));
    }
    return result;
  }

  std::pair<std::int64_t, std::int64_t> at(const SlotRange& range) const {
    if (range.lows.empty() || range.highs.empty())
      throw ShapeError("definition " + definition_.name + " has a range without an end");
    std::int64_t low = std::numeric_limits<std::int64_t>::min();
    std::int64_t high = std::numeric_limits<std::int64_t>::max();
    for (const auto& [divisor, affine] : range.lows) low = std::max(low, ceil_div(at(affine), divisor));
    for (const auto& [divisor, affine] : range.highs) high = std::min(high, floor_div(at(affine), divisor));
    return {low, high};
  }

  template <class Visit>
  void walk(Coordinates& element, std::size_t axis, const Visit& visit) {
    if (axis == element.size()) return visit(element, value(plan_.steps().size() - 1));
    const auto [low, high] = at(plan_.axes()[axis]);
    for (element[axis] = low; element[axis] <= high; ++element[axis]) {
      move(axis, element[axis]);
      walk(element, axis + 1, visit);
    }
  }

  Coordinates element_now() const {
    return {values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(definition_.axes.size())};
  }

  // ---- Values ----

  double value(std::size_t index) {
    const EvaluationStep& step = plan_.steps()[index];
    StepState& state = states_[index];
    if (unmoved_since(state.stamp, step.depends_on)) return state.value;
    spend();
    state.value = round(compute(step, state), step.dtype);
    state.stamp = clock_;
    return state.value;
  }

  void spend() {
    if (!budget_) return;
    if (budget_->operations == 0)
      throw BudgetError(fmt::format(
          "definition {}: evaluating it element by element takes too many operations; choose smaller dims or ranges",
          definition_.name));
    --budget_->operations;
  }

  double round(double value, DType dtype) const { return rounding_ ? rounding_(value, dtype) : value; }

  double compute(const EvaluationStep& step, StepState& state) {
    switch (step.node->kind) {
      case NodeKind::Constant:
        return step.node->value;
      case NodeKind::IndexValue:
        return static_cast<double>(at(step.affine));
      case NodeKind::Access:
        return load(step);
      case NodeKind::Call:
        return call_value(step);
      case NodeKind::Reduce:
        return reduction(step);
      case NodeKind::LinearAlgebra:
        return algebra_element(step, state);
      case NodeKind::Random:
        return draw(step);
    }
    throw InternalError("unknown kind of node");
  }

  double load(const EvaluationStep& step) {
    const Coordinates element = element_read(step);
    std::int64_t offset = 0;
    for (std::size_t k = 0; k < element.size(); ++k) {
      const std::int64_t i = element[k];
      const std::int64_t extent = step.tensor->shape[k];
      if (i < 0 || i >= extent) {
        throw ShapeError(fmt::format("definition {} at [{}] reads {}[{}], outside its shape [{}]", definition_.name,
                                     fmt::join(element_now(), ","), step.node->tensor, fmt::join(element, ","),
                                     fmt::join(step.tensor->shape, ",")));
      }
      offset = offset * extent + i;
    }
    return step.tensor->values[static_cast<std::size_t>(offset)];
  }

  /// Only the needed branch of `where`, and conditions only up to the one that decides: what lies behind a guard must
  /// not be read. No slope that only derivatives need.
  double call_value(const EvaluationStep& step) {
    const std::string_view name = step.node->function->name;
    if (name == "where") return value(step.args[value(step.args[0]) != 0 ? 1 : 2]);
    if (name == "with_slope") return value(step.args[0]);
    if (name == "and" || name == "or") {
      const bool decisive = name == "or";
      const bool decided =
          std::ranges::any_of(step.args, [&](std::size_t arg) { return (value(arg) != 0) == decisive; });
      return decided == decisive ? 1 : 0;
    }
    std::vector<double> arguments;
    for (const std::size_t arg : step.args) arguments.push_back(value(arg));
    return step.node->function->reference(arguments);
  }

  double reduction(const EvaluationStep& step) {
    if (step.node->reduce == ReduceKind::LogSumExp) return log_sum_exp(step);
    if (extremum_of(step.node->reduce)) return position_of_extremum(step);
    double result = neutral_value(step.node->reduce);
    for_each_term(step, [&](double term) { result = combine(step.node->reduce, result, term, step.dtype); });
    return result;
  }

  template <class Visit>
  void for_each_term(const EvaluationStep& step, const Visit& visit) {
    const auto [low, high] = at(step.range);
    for (std::int64_t i = low; i <= high; ++i) {
      spend();  // also where the term does not move with i
      move(step.bound_slot, i);
      visit(value(step.args[0]));
    }
  }

  double position_of_extremum(const EvaluationStep& step) {
    const ReduceKind kind = step.node->reduce;
    PlacedValue best = no_element(kind);
    for_each_term(step, [&](double term) { best = moxie::combine(kind, best, {term, value(step.args[1])}); });
    return best.position;
  }

  double combine(ReduceKind kind, double so_far, double term, DType dtype) const {
    switch (kind) {
      case ReduceKind::Sum:
        return round(so_far + term, dtype);
      case ReduceKind::Product:
        return round(so_far * term, dtype);
      case ReduceKind::Max:
        return maximum(so_far, term);
      case ReduceKind::Min:
        return minimum(so_far, term);
      default:
        break;  // a log-sum-exp needs the largest term first
    }
    throw InternalError("unknown kind of reduction");
  }

  double log_sum_exp(const EvaluationStep& step) {
    std::vector<double> terms;
    for_each_term(step, [&](double term) { terms.push_back(term); });
    const double largest = std::accumulate(terms.begin(), terms.end(), neutral_value(ReduceKind::Max), maximum);
    if (std::isinf(largest)) return largest;
    double sum = 0;
    for (const double x : terms) sum = round(sum + std::exp(x - largest), step.dtype);
    return largest + std::log(sum);
  }

  double algebra_element(const EvaluationStep& step, StepState& state) {
    const std::int64_t rows = at(step.affine), columns = at(step.columns);
    if (!unmoved_since(state.algebra_stamp, step.operands)) {
      state.algebra = algebra_result(step, static_cast<std::size_t>(std::max<std::int64_t>(rows, 0)),
                                     static_cast<std::size_t>(std::max<std::int64_t>(columns, 0)));
      state.algebra_stamp = clock_;
    }
    const bool sorted = sorts_row(step.node->algebra);
    std::int64_t offset = 0;
    const std::vector<std::int64_t> element = at(step.subscripts);
    for (std::size_t k = 0; k < element.size(); ++k) {
      const std::int64_t extent = element_extent(step.node->algebra, {rows, columns}, k).constant();
      if (element[k] < 0 || element[k] >= extent) {
        throw ShapeError(fmt::format("definition {} at [{}] takes element [{}] of a {} with {} {}", definition_.name,
                                     fmt::join(element_now(), ","), fmt::join(element, ","), sorted ? "row" : "matrix",
                                     rows, sorted ? "elements" : "rows"));
      }
      offset = offset * extent + element[k];
    }
    return state.algebra[static_cast<std::size_t>(offset)];
  }

  std::vector<double> algebra_result(const EvaluationStep& step, std::size_t rows, std::size_t columns) {
    return sorts_row(step.node->algebra) ? sorted_row(step, rows) : matrix_result(step, rows, columns);
  }

  std::vector<double> sorted_row(const EvaluationStep& step, std::size_t size) {
    std::vector<double> row;
    for (std::size_t i = 0; i < size; ++i) {
      move(step.bound_slot, static_cast<std::int64_t>(i));
      row.push_back(value(step.args[0]));
    }
    return sort_row(step.node->algebra, row);
  }

  std::vector<double> matrix_result(const EvaluationStep& step, std::size_t rows, std::size_t columns) {
    const LinearAlgebraKind kind = step.node->algebra;
    if (rows < columns)
      throw ShapeError(fmt::format("definition {}: {}", definition_.name,
                                   wrong_shape(kind, std::to_string(rows), std::to_string(columns))));
    DenseMatrix matrix(rows, columns);
    std::vector<double> rhs;
    for (std::size_t i = 0; i < rows; ++i) {
      move(step.bound_slot, static_cast<std::int64_t>(i));
      if (step.args.size() > 1) rhs.push_back(value(step.args[1]));
      const std::size_t read = reads_whole_matrix(kind) ? columns : i + 1;
      for (std::size_t j = 0; j < read; ++j) {
        move(step.bound_slot - 1, static_cast<std::int64_t>(j));
        matrix(i, j) = value(step.args[0]);
      }
    }
    std::optional<BadPivot> bad;
    std::vector<double> result = apply(kind, std::move(matrix), std::move(rhs), bad);
    if (bad) {
      const FactorisationFailure failure = failure_of(algebra_form(kind).factorisation);
      throw DeviceError(fmt::format("{} in definition {} at [{}]: {} ({})", to_string(kind), definition_.name,
                                    fmt::join(element_now(), ","), failure.what,
                                    failure.names_pivot
                                        ? fmt::format("pivot {} is {}", bad->row, without_nan_sign(bad->value))
                                        : failure.advice));
    }
    return result;
  }

  double draw(const EvaluationStep& step) const {
    const Coordinates coordinates = at(step.subscripts);
    if (coordinates.size() > kMostDrawAxes) {
      throw CompileError(
          fmt::format("definition {}: a random number is drawn over {} axes; it has at most {} coordinates",
                      definition_.name, coordinates.size(), kMostDrawAxes));
    }
    const PhiloxStream stream(philox_key(random_.seed, step.node->stream, random_.step));
    return step.node->random == RandomKind::Uniform ? stream.uniform(coordinates) : stream.normal(coordinates);
  }

  const Definition& definition_;
  const BodyPlan plan_;
  const RandomState random_;
  const Rounding& rounding_;
  EvaluationBudget* const budget_;
  std::vector<StepState> states_;
  std::vector<std::int64_t> values_;   // by slot
  std::vector<std::uint64_t> stamps_;  // by slot: when the index moved last
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

TensorData input_tensor(const InputDecl& input, const DimValues& dims, const TensorValues& inputs) {
  const auto given = inputs.find(input.name);
  if (given == inputs.end()) throw ShapeError("input " + input.name + " is missing");
  Coordinates shape = shape_values(input.shape, dims);
  if (given->second.size() != element_count(shape)) {
    throw ShapeError(fmt::format("input {} has {} elements, but its shape [{}] needs {}", input.name,
                                 given->second.size(), fmt::join(shape, ","), element_count(shape)));
  }
  return {std::move(shape), given->second, input.dtype};
}

TensorData empty_tensor(const Definition& definition, const DimValues& dims) {
  std::vector<Affine> extents;
  for (const AxisDecl& axis : definition.axes) extents.push_back(axis.extent);
  TensorData result{shape_values(extents, dims), {}, definition.dtype};
  result.values.resize(element_count(result.shape));
  return result;
}

void store(const Definition& definition, const Coordinates& element, double value, TensorData& tensor) {
  for (std::size_t k = 0; k < element.size(); ++k) {
    if (element[k] >= 0 && element[k] < tensor.shape[k]) continue;
    throw ShapeError(fmt::format("definition {} has element [{}] outside its box [{}]", definition.name,
                                 fmt::join(element, ","), fmt::join(tensor.shape, ",")));
  }
  tensor.values[offset_of(element, tensor.shape)] = stored_value(definition.dtype, value);
}

/// The definitions of one scan take every step together; a definition by itself takes one.
void compute_group(std::span<const Definition> group, const DimValues& dims, std::map<std::string, TensorData>& tensors,
                   RandomState random, const Rounding& rounding, EvaluationBudget* budget) {
  for (const Definition& definition : group) tensors.emplace(definition.name, empty_tensor(definition, dims));
  std::deque<BodyEvaluator> bodies;
  for (const Definition& definition : group) bodies.emplace_back(definition, dims, tensors, random, rounding, budget);
  const auto store_in = [&](std::size_t k) {
    return [&, k](const Coordinates& element, double value) {
      store(group[k], element, value, tensors.at(group[k].name));
    };
  };
  if (!group[0].scan) return bodies[0].for_each_element(store_in(0));
  const std::int64_t steps = tensors.at(group[0].name).shape.at(0);
  for (std::int64_t n = 0; n < steps; ++n) {
    const std::int64_t step = group[0].scan->backwards ? steps - 1 - n : n;
    for (std::size_t k = 0; k < group.size(); ++k) bodies[k].for_each_element_at(step, store_in(k));
  }
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

double rounded(double value, DType dtype) { return dtype == DType::f32 ? static_cast<float>(value) : value; }

TensorValues evaluate(const Program& program, const DimValues& given_dims, const TensorValues& inputs,
                      std::uint64_t seed, std::uint64_t step, const Rounding& rounding, EvaluationBudget* budget) {
  const DimValues dims = known_dims(program, given_dims);
  std::map<std::string, TensorData> tensors;
  for (const InputDecl& input : program.inputs) tensors.emplace(input.name, input_tensor(input, dims, inputs));
  TensorValues results;
  for (const std::span<const Definition> group : groups_of(program)) {
    compute_group(group, dims, tensors, {seed, step}, rounding, budget);
    for (const Definition& definition : group) results[definition.name] = tensors.at(definition.name).values;
  }
  return results;
}

}  // namespace moxie
