#include "compiler/program/program.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {
namespace {

template <class Items>
auto find_by_name(Items& items, std::string_view name) -> decltype(&items.front()) {
  const auto it = std::ranges::find_if(items, [&](const auto& item) { return item.name == name; });
  return it == items.end() ? nullptr : &*it;
}

[[noreturn]] void throw_unknown_tensor(const Program& program, std::string_view name) {
  std::string known;
  for (const InputDecl& input : program.inputs) known += " " + input.name;
  for (const Definition& definition : program.definitions) known += " " + definition.name;
  throw TypeError("program " + program.name + " has no tensor '" + std::string(name) + "'; it has" + known);
}

}  // namespace

const DimDecl* Program::find_dim(std::string_view wanted) const { return find_by_name(dims, wanted); }
const InputDecl* Program::find_input(std::string_view wanted) const { return find_by_name(inputs, wanted); }
const Definition* Program::find_definition(std::string_view wanted) const { return find_by_name(definitions, wanted); }
Definition* Program::find_definition(std::string_view wanted) { return find_by_name(definitions, wanted); }

std::vector<Affine> Program::shape_of(std::string_view tensor) const {
  if (const InputDecl* input = find_input(tensor)) return input->shape;
  const Definition* definition = find_definition(tensor);
  if (!definition) throw_unknown_tensor(*this, tensor);
  std::vector<Affine> shape;
  for (const AxisDecl& axis : definition->axes) shape.push_back(axis.extent);
  return shape;
}

DType Program::dtype_of(std::string_view tensor) const {
  if (const InputDecl* input = find_input(tensor)) return input->dtype;
  const Definition* definition = find_definition(tensor);
  if (!definition) throw_unknown_tensor(*this, tensor);
  return definition->dtype;
}

ValueDomain Program::domain_of(std::string_view tensor) const {
  if (const InputDecl* input = find_input(tensor)) return input->domain;
  const Definition* definition = find_definition(tensor);
  if (!definition) throw_unknown_tensor(*this, tensor);
  return definition->domain;
}

Program specialise(const Program& program, const DimValues& values) {
  Program result = program;
  Replacement replacement;
  for (DimDecl& dim : result.dims) {
    if (dim.dynamic) continue;
    const auto given = values.find(dim.name);
    if (given != values.end()) {
      if (dim.value && *dim.value != given->second) {
        throw ShapeError("dim " + dim.name + " is fixed at " + std::to_string(*dim.value) + " by the program, but " +
                         std::to_string(given->second) + " was given");
      }
      dim.value = given->second;
    }
    if (!dim.value)
      throw ShapeError("dim " + dim.name + " has no value: no input shows it; give it (--dim " + dim.name + "=...)");
    if (*dim.value < 0) throw ShapeError("dim " + dim.name + " is negative: " + std::to_string(*dim.value));
    replacement.emplace_back(Symbol::dim(dim.name), Affine(*dim.value));
  }
  const auto lookup = [&](Symbol symbol) -> const Affine* {
    const auto it = std::ranges::find(replacement, symbol, &std::pair<Symbol, Affine>::first);
    return it == replacement.end() ? nullptr : &it->second;
  };
  for (IndexDecl& index : result.indices) index.range = index.range.substitute(lookup);
  for (InputDecl& input : result.inputs) {
    for (Affine& extent : input.shape) extent = clamped_extent(extent.substitute(lookup));
  }
  for (Definition& definition : result.definitions) {
    for (AxisDecl& axis : definition.axes) {
      const bool is_whole = axis.range == Range::extent(axis.extent);
      axis.extent = clamped_extent(axis.extent.substitute(lookup));
      axis.range = is_whole ? Range::extent(axis.extent) : axis.range.substitute(lookup);
    }
    definition.body = substitute(definition.body, replacement);
    if (definition.scan) definition.scan->substitute(lookup);
  }
  return result;
}

Program with_dtype(Program program, DType dtype) {
  const DType old = program.default_dtype;
  program.default_dtype = dtype;
  for (InputDecl& input : program.inputs) {
    if (input.dtype == old) input.dtype = dtype;
  }
  for (Definition& definition : program.definitions) {
    if (definition.dtype == old) definition.dtype = dtype;
  }
  return program;
}

}  // namespace moxie
