#pragma once
// Hand-made LoopPrograms for the tests of this folder.
#include <string>
#include <utility>
#include <vector>

#include "compiler/expression/functions.h"
#include "compiler/loop/loop_program.h"

namespace moxie::samples {

inline Symbol i0() { return Symbol::bound(0); }
inline Symbol i1() { return Symbol::bound(1); }

/// Adds values to a program, together with the statement that computes them.
class Builder {
 public:
  LoopProgram program;
  bool varying = false;  // of the values made from here on
  ValueType type = ValueType::f64;

  ValueId let(Block& block, Operation operation) { return let(block, type, std::move(operation)); }
  ValueId let(Block& block, ValueType result, Operation operation) {
    program.values.push_back({result, varying, std::move(operation)});
    const auto id = static_cast<ValueId>(program.values.size() - 1);
    block.push_back(stmt::Let{id});
    return id;
  }
  ValueId call(Block& block, std::string_view name, std::vector<ValueId> args) {
    const bool truth = function(name).result == ResultType::Truth;
    return let(block, truth ? ValueType::truth : type, op::Call{&function(name), std::move(args)});
  }
  ValueId constant(Block& block, double value) { return let(block, op::Constant{value}); }
};

inline stmt::For loop(Symbol variable, Range range, Block body, std::string name = "") {
  return {variable, std::move(range), false, std::move(body), std::move(name)};
}

inline BufferDecl input(std::string name, std::vector<Affine> shape) {
  std::vector<std::uint32_t> layout;
  for (std::uint32_t axis = 0; axis < shape.size(); ++axis) layout.push_back(axis);
  return {std::move(name), DType::f64, std::move(shape), std::move(layout), false};
}
inline BufferDecl output(std::string name, std::vector<Affine> shape) {
  BufferDecl result = input(std::move(name), std::move(shape));
  result.written = true;
  return result;
}

/// y[n] = sum[r](x[r,n]^2), the columns shared out by %lo0 and %hi0 and held by lanes; x is stored column by column.
inline LoopProgram column_squares() {
  Builder b;
  b.type = ValueType::f32;
  b.program.name = "column_squares";
  b.program.comments = {"y[n] = sum[r](x[r,n]^2)"};
  b.program.arguments = {"N", "%lo0", "%hi0"};
  const Affine n = i0(), r = i1(), columns = Symbol::dim("N");
  b.program.buffers = {input("x", {3, columns}), output("y", {columns})};
  b.program.buffers[0].layout = {1, 0};
  for (BufferDecl& buffer : b.program.buffers) buffer.dtype = DType::f32;
  b.program.vars = {{ValueType::f32, true}};

  b.varying = true;
  Block per_column, per_row;
  per_column.push_back(stmt::SetVar{0, b.constant(per_column, 0)});
  const ValueId x = b.let(per_row, op::Load{0, {r, n}, {}});
  const ValueId sum = b.let(per_row, op::ReadVar{0});
  per_row.push_back(stmt::SetVar{0, b.call(per_row, "+", {sum, b.call(per_row, "*", {x, x})})});
  per_column.push_back(loop(i1(), Range::extent(3), per_row, "r"));
  per_column.push_back(stmt::Store{1, {n}, b.let(per_column, op::ReadVar{0})});

  stmt::For columns_loop = loop(i0(), Range::half_open(Symbol::dim("%lo0"), Symbol::dim("%hi0")), per_column, "n");
  columns_loop.vector = true;
  b.program.body = {columns_loop};
  return b.program;
}

/// y[i] = value(i) for i in 0..size, the value computed by `body` from the builder and the loop's block.
template <class Body>
LoopProgram elementwise(std::int64_t size, const Body& body) {
  Builder b;
  b.program.name = "elementwise";
  b.program.buffers = {output("y", {size})};
  Block block;
  const ValueId value = body(b, block);
  block.push_back(stmt::Store{0, {i0()}, value});
  b.program.body = {loop(i0(), Range::extent(size), block, "i")};
  return b.program;
}

}  // namespace moxie::samples
