#include "runtime/algebra_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/expression/algebra_form.h"
#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "runtime/access_strides.h"
#include "runtime/plan.h"

namespace moxie {
namespace {

bool is_element(const Expr& body, Symbol axis) {
  return std::ranges::find(body->subscripts, Affine(axis)) != body->subscripts.end();
}

}  // namespace

AlgebraShape algebra_shape(const Plan& plan, const AlgebraCall& call, const DimValues& dims, const ScanPosition& at) {
  const Definition& definition = call.definition;
  const Expr& body = definition.body;
  const Symbol row = Symbol::bound(body->height), col = Symbol::bound(body->height - 1);
  const bool solves = body->args.size() > 1;
  const AccessStrides matrix(plan, body->args[0]->tensor, body->args[0]->subscripts, dims);
  const AccessStrides rhs(plan, body->args.back()->tensor, body->args.back()->subscripts, dims);
  const AccessStrides out(plan, definition.name, axes_of(definition), dims);
  AlgebraShape shape;
  shape.rows = std::max<std::int64_t>(evaluate(body->size.rows, dims), 0);
  shape.matrix_columns = std::max<std::int64_t>(evaluate(body->size.columns, dims), 0);
  if (shape.rows < shape.matrix_columns)
    throw ShapeError(definition.name + ": " +
                     wrong_shape(body->algebra, std::to_string(shape.rows), std::to_string(shape.matrix_columns)));
  shape.out_rows = shape.rows;
  if (sorts_row(body->algebra)) {
    const AxisDecl& axis = definition.axes[body->subscripts[0].as_symbol()->number()];
    shape.out_rows = std::clamp<std::int64_t>(evaluate(axis.extent, dims), 0, shape.rows);
  }
  const auto first_of = [&](const AccessStrides& operand) {
    return operand.first + (definition.scan ? at.step * operand.along(Symbol::axis(0)) : 0);
  };
  shape.matrix = {first_of(matrix), matrix.along(row), matrix.along(col)};
  if (solves) shape.rhs = {first_of(rhs), rhs.along(row), 0};
  shape.out.first = first_of(out);
  const auto element_stride = [&](std::size_t k) { return out.along(*body->subscripts[k].as_symbol()); };
  if (!body->subscripts.empty()) shape.out.row_stride = element_stride(0);
  if (body->subscripts.size() > 1) shape.out.column_stride = element_stride(1);
  for (std::uint32_t k = definition.scan ? 1 : 0; k < definition.axes.size(); ++k) {
    const Symbol axis = Symbol::axis(k);
    if (is_element(body, axis)) continue;
    shape.batch.push_back({definition.axes[k].name,
                           std::max<std::int64_t>(evaluate(definition.axes[k].extent, dims), 0), matrix.along(axis),
                           solves ? rhs.along(axis) : 0, out.along(axis)});
  }
  const auto columns = std::ranges::max_element(
      shape.batch, {}, [](const AlgebraBatch& loop) { return loop.matrix == 0 ? loop.count : std::int64_t{-1}; });
  if (solves && columns != shape.batch.end() && columns->matrix == 0) {
    shape.columns = columns->count;
    shape.rhs.column_stride = columns->rhs;
    shape.out.column_stride = columns->out;
    shape.batch.erase(columns);
  }
  if (definition.scan) shape.batch.insert(shape.batch.begin(), {definition.axes[0].name, 1, 0, 0, 0, at.step});
  return shape;
}

std::int64_t batch_count(const AlgebraShape& shape) {
  std::int64_t count = 1;
  for (const AlgebraBatch& loop : shape.batch) count = checked_mul(count, loop.count);
  return count;
}

AlgebraElement element_of(const AlgebraShape& shape, std::int64_t number) {
  AlgebraElement element{shape.matrix.first, shape.rhs.first, shape.out.first};
  element.coordinates.resize(shape.batch.size());
  for (std::size_t k = shape.batch.size(); k-- > 0;) {
    const AlgebraBatch& loop = shape.batch[k];
    const std::int64_t step = number % loop.count;
    number /= loop.count;
    element.coordinates[k] = loop.first + step;
    element.matrix += step * loop.matrix;
    element.rhs += step * loop.rhs;
    element.out += step * loop.out;
  }
  return element;
}

void fail_factorisation(const AlgebraCall& call, const AlgebraShape& shape, std::int64_t number, std::int64_t pivot,
                        double value) {
  const AlgebraElement element = element_of(shape, number);
  std::string where;
  for (std::size_t k = 0; k < shape.batch.size(); ++k)
    where += fmt::format("{} = {}, ", shape.batch[k].name, element.coordinates[k]);
  const FactorisationFailure failure = failure_of(algebra_form(call.definition.body->algebra).factorisation);
  if (failure.names_pivot) where += fmt::format("pivot = {}, ", pivot);
  throw DomainError(fmt::format("{}: {}{} (value {}); {}", call.definition.name, failure.what,
                                where.empty() ? "" : " at " + where.substr(0, where.size() - 2),
                                without_nan_sign(value), failure.advice));
}

}  // namespace moxie
