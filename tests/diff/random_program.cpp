#include "random_program.h"

#include <algorithm>

namespace moxie::test {

Affine RandomProgram::subscript(const Scope& scope, std::int64_t extent) {
  while (true) {
    Affine result;
    std::int64_t low = 0, high = 0;
    for (const Interval& index : scope) {
      if (between(0, 1) == 0) continue;
      const std::int64_t c = pick<std::int64_t>({1, 1, -1, 2});
      result += Affine(index.symbol) * c;
      low += c * (c > 0 ? index.low : index.high);
      high += c * (c > 0 ? index.high : index.low);
    }
    if (high - low < extent) return result + Affine(between(-low, extent - 1 - high));
  }
}

Expr RandomProgram::read(const Scope& scope) {
  const Shape& tensor = pick(tensors_);
  std::vector<Affine> subscripts;
  for (const std::int64_t extent : tensor.extents) subscripts.push_back(subscript(scope, extent));
  return tensor_access(tensor.name, subscripts);
}

Expr RandomProgram::guard(const Scope& scope, int depth) {
  const Expr first = expression(scope, depth - 1);
  const Expr second = between(0, 1) == 0 ? Expr(0) : expression(scope, depth - 1);
  if (scope.empty() || between(0, 4) == 0) return call("where", {call("<", {read(scope), 0.1}), first, second});
  const Expr left = index_value(Affine(pick(scope).symbol) * between(1, 2));
  const Expr right = index_value(Affine(pick(scope).symbol) + Affine(between(-1, 1)));
  const Expr test = call(pick<std::string>({"<", "<=", ">", ">=", "==", "!="}), {left, right});
  const int form = static_cast<int>(between(0, 5));
  if (form == 0) return call("where", {call("not", {test}), first, second});
  if (form == 1) return call("where", {call("and", {test, call("<", {read(scope), 0.2})}), first, second});
  return call("where", {test, first, second});
}

Expr RandomProgram::reduction(const Scope& scope, int depth) {
  const Symbol index = Symbol::fresh();
  const std::int64_t extent = between(1, 3);
  Range range = Range::extent(extent);
  if (!scope.empty() && between(0, 2) == 0) {
    auto& bounds = between(0, 1) == 0 ? range.lows : range.highs;
    bounds.push_back({between(1, 2), Affine(pick(scope).symbol)});
  }
  Scope inner = scope;
  inner.push_back({index, 0, extent - 1});
  using enum ReduceKind;
  const ReduceKind kind = pick<ReduceKind>({Sum, Sum, Sum, Product, Max, Min, LogSumExp});
  // An empty maximum is infinite; only sums and products have triangular ranges.
  const bool may_be_empty = kind == Sum || kind == Product;
  return reduce(kind, index, may_be_empty ? range : Range::extent(extent), expression(inner, depth - 1));
}

Expr RandomProgram::expression(const Scope& scope, int depth) {
  const std::int64_t choice = between(0, 99);
  if (depth == 0 || choice < 20) return read(scope);
  if (choice < 40)
    return call(pick<std::string>({"neg", "sin", "tanh", "sigmoid", "exp", "abs", "relu", "softplus"}),
                {expression(scope, depth - 1)});
  if (choice < 68) {
    return call(pick<std::string>({"+", "*", "*", "max", "min"}),
                {expression(scope, depth - 1), expression(scope, depth - 1)});
  }
  if (choice < 72) return expression(scope, depth - 1) / (Expr(2) + call("sin", {expression(scope, depth - 1)}));
  if (choice < 76) return call("pow", {expression(scope, depth - 1), 2});
  if (choice < 88) return guard(scope, depth);
  return reduction(scope, depth);
}

Program RandomProgram::make() {
  Program program;
  tensors_.clear();
  for (const char* name : {"x", "y"}) {
    Shape shape{name, {}};
    for (std::int64_t rank = between(1, 2); rank > 0; --rank) shape.extents.push_back(between(3, 5));
    program.inputs.push_back({name, DType::f64, {shape.extents.begin(), shape.extents.end()}, ValueDomain::Any});
    tensors_.push_back(shape);
    if (between(0, 1) == 0) break;
  }
  program.default_dtype = DType::f64;
  const std::int64_t count = between(1, 3);
  for (std::int64_t k = 0; k < count; ++k) {
    Definition definition{"f" + std::to_string(k), DType::f64, {}, {}, k + 1 == count, 0};
    Scope scope;
    Shape shape{definition.name, {}};
    for (std::int64_t rank = between(0, 2); rank > 0; --rank) {
      const std::int64_t extent = between(1, 4);
      const auto position = static_cast<std::uint32_t>(scope.size());
      definition.axes.push_back({"a" + std::to_string(position), extent, Range::extent(extent)});
      scope.push_back({Symbol::axis(position), 0, extent - 1});
      shape.extents.push_back(extent);
    }
    definition.body = expression(scope, static_cast<int>(between(1, 4)));
    program.definitions.push_back(definition);
    tensors_.push_back(shape);
  }
  return program;
}

}  // namespace moxie::test
