#include "compiler/analysis/value_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/expression/functions.h"

namespace moxie {
namespace {

/// Errors of functions, and of sums of at most so many terms.
constexpr double kFunctionError = 0x1p-20, kSumError = 0x1p-12;
constexpr std::int64_t kMaxSummed = 2048;
/// Elements that are stored in fewer bits than they are computed in are rounded by this at most, to bf16.
constexpr double kStorageError = 0x1p-8;

/// Dims and positions along axes are never negative; what a reduction runs over may be.
Interval range_of_index(const Affine& value) {
  Interval range = Interval::at(static_cast<double>(value.constant()));
  for (const auto& [symbol, coefficient] : value.terms()) {
    const bool counts = symbol.kind() == Symbol::Kind::Dim || symbol.kind() == Symbol::Kind::Axis;
    range = range + Interval::at(static_cast<double>(coefficient)) * (counts ? Interval::at_least(0) : Interval::all());
  }
  return range;
}

Interval range_of_elements(DType dtype) {
  return holds_integers(dtype) ? Interval::between(info_of(dtype).low, info_of(dtype).high) : Interval::all();
}

/// Integers are rounded, and NaN becomes the smallest of them.
Interval stored(const Interval& range, DType dtype) {
  if (holds_integers(dtype)) return range_of_elements(dtype);
  return is_stored_as_computed(dtype) ? range : widened(range, kStorageError);
}

/// The values of a monotone function, from those at both ends of the argument's range.
Interval between_ends(const ScalarFunction& function, const Interval& argument) {
  const auto end = [&](double x) { return function.reference(std::array{x}); };
  const bool rises = function.growth != Growth::Falls;
  const double low = end(rises ? argument.low : argument.high), high = end(rises ? argument.high : argument.low);
  if (std::isnan(low) || std::isnan(high)) return function.values;
  const bool strictly = function.growth != Growth::RisesInSteps;
  const Interval between{low, high, strictly && (rises ? argument.low_open : argument.high_open),
                         strictly && (rises ? argument.high_open : argument.low_open)};
  return common(function.values, widened(between, kFunctionError));
}

Interval raised(const Interval& base, double exponent) {
  const auto end = [&](double x) { return std::pow(x, exponent); };
  const Interval power{end(base.low), end(base.high), base.low_open, base.high_open};
  return exponent == 2 ? rounded(power) : widened(power, kFunctionError);
}

Interval magnitude(const Interval& x) { return common(Interval::at_least(0), larger(x, -x)); }

}  // namespace

Interval range_of(const Expr& expr, const Program& program) { return ValueRanges(program).of(expr); }

Interval ValueRanges::of(const Expr& expr) {
  if (const auto found = nodes_.find(expr.get()); found != nodes_.end()) return found->second.second;
  const Interval range = of_node(expr);
  nodes_.emplace(expr.get(), std::pair(expr, range));
  return range;
}

Interval ValueRanges::of_node(const Expr& expr) {
  switch (expr->kind) {
    case NodeKind::Constant:
      return std::isnan(expr->value) ? Interval::all() : Interval::at(expr->value);
    case NodeKind::IndexValue:
      return range_of_index(expr->affine);
    case NodeKind::Access:
      return of_tensor(expr->tensor);
    case NodeKind::Call:
      return of_call(expr);
    case NodeKind::Reduce:
      return of_reduction(expr);
    case NodeKind::LinearAlgebra:
    case NodeKind::Random:
      break;
  }
  return Interval::all();
}

Interval ValueRanges::of_tensor(const std::string& name) {
  if (const auto found = tensors_.find(name); found != tensors_.end()) return found->second;
  const InputDecl* input = program_.find_input(name);
  const Definition* definition = input ? nullptr : program_.find_definition(name);
  const Interval range = input        ? common(range_of_elements(input->dtype), Interval::of(input->domain))
                         : definition ? of_definition(*definition)
                                      : Interval::all();
  return tensors_[name] = range;
}

/// A declaration is taken at its word, as for inputs; the formula may prove more.
Interval ValueRanges::of_definition(const Definition& definition) {
  const Interval declared = Interval::of(definition.domain);
  return definition.scan ? declared : common(declared, stored(of(definition.body), definition.dtype));
}

Interval ValueRanges::of_reduction(const Expr& expr) {
  if (expr->reduce == ReduceKind::ArgMax || expr->reduce == ReduceKind::ArgMin) return Interval::all();
  const Interval body = of(expr->args[0]);
  const bool may_be_empty = !expr->range.has_iterations();
  switch (expr->reduce) {
    case ReduceKind::Sum: {
      const auto trips = expr->range.known_trip_count();
      if (trips && trips->is_constant() && trips->constant() <= kMaxSummed)
        return widened(Interval::at(static_cast<double>(std::max<std::int64_t>(0, trips->constant()))) * body,
                       kSumError);
      return is_non_negative(body)   ? Interval::at_least(0)
             : is_non_positive(body) ? Interval::at_most(0)
                                     : Interval::all();
    }
    case ReduceKind::Max:
      return may_be_empty ? Interval{-Interval::kInf, body.high, false, body.high_open} : body;
    case ReduceKind::Min:
      return may_be_empty ? Interval{body.low, Interval::kInf, body.low_open, false} : body;
    case ReduceKind::Product:
      return is_non_negative(body) ? Interval::at_least(0) : Interval::all();
    default:
      return Interval::all();
  }
}

Interval ValueRanges::of_call(const Expr& expr) {
  const std::string_view name = expr->function->name;
  const auto arg = [&](std::size_t k) { return of(expr->args[k]); };
  const auto fold = [&](auto combine) {
    Interval range = arg(0);
    for (std::size_t k = 1; k < expr->args.size(); ++k) range = combine(range, arg(k));
    return range;
  };
  if (name == "+") return fold([](const Interval& a, const Interval& b) { return a + b; });
  if (name == "*") return fold([](const Interval& a, const Interval& b) { return a * b; });
  if (name == "/") return arg(0) * reciprocal(arg(1));
  if (name == "neg") return -arg(0);
  if (name == "pow") return of_power(expr->args[0], expr->args[1]);
  if (name == "min") return fold(smaller);
  if (name == "max") return fold(larger);
  if (name == "abs") return magnitude(arg(0));
  if (name == "relu") return larger(arg(0), Interval::at(0));
  if (name == "f32" || name == "f64" || name == "stop_gradient" || name == "with_slope") return arg(0);
  if (name == "where")
    return hull(of_branch(expr->args[1], expr->args[0], true), of_branch(expr->args[2], expr->args[0], false));
  const ScalarFunction& function = *expr->function;
  if (function.growth == Growth::Unknown || function.arity != 1) return function.values;
  const Interval argument = arg(0);
  return lies_within(argument, Interval::between(function.domain.low, function.domain.high))
             ? between_ends(function, argument)
             : function.values;
}

/// In `where(x <= a, b, x)` with a >= 0 the second branch is more than 0, since x > a there.
Interval ValueRanges::of_branch(const Expr& branch, const Expr& condition, bool holds) {
  const Interval range = of(branch);
  if (condition->kind != NodeKind::Call || condition->args.size() != 2) return range;
  const std::string_view name = condition->function->name;
  const bool is_less = name == "<" || name == "<=";
  if (!is_less && name != ">" && name != ">=") return range;
  const bool strictly = (name == "<" || name == ">") == holds;
  const bool is_left = branch == condition->args[0];
  if (!is_left && branch != condition->args[1]) return range;
  const Interval other = of(condition->args[is_left ? 1 : 0]);
  const bool is_above = (is_less == holds) != is_left;
  const Interval shown = is_above ? Interval{other.low, Interval::kInf, strictly || other.low_open, false}
                                  : Interval{-Interval::kInf, other.high, false, strictly || other.high_open};
  return common(shown, range);
}

Interval ValueRanges::of_power(const Expr& base, const Expr& exponent) {
  const Interval range = of(base);
  if (exponent->kind != NodeKind::Constant) return is_positive(range) ? Interval::above(0) : Interval::all();
  const double size = std::abs(exponent->value);
  const auto raise = [&]() -> Interval {
    if (size == 0) return Interval::at(1);
    if (std::fmod(size, 2) == 0) return raised(magnitude(range), size);
    return is_non_negative(range) || std::trunc(size) == size ? raised(range, size) : Interval::all();
  };
  return exponent->value < 0 ? reciprocal(raise()) : raise();
}

}  // namespace moxie
