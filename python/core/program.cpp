#include "python/core/program.h"

#include <algorithm>

#include "compiler/diff/jacobian.h"
#include "compiler/support/error.h"
#include "compiler/text/text_library.h"
#include "ops/catalogue.h"
#include "ops/formula_file.h"
#include "python/core/arrays.h"
#include "python/core/errors.h"

namespace moxie::python {
namespace {

TensorInfo describe(const Program& program, const std::string& name) {
  TensorInfo info{name, numpy_name(program.dtype_of(name)), {}, to_string(program.domain_of(name))};
  for (const Affine& extent : program.shape_of(name)) info.shape.push_back(print(extent));
  return info;
}

}  // namespace

Program parse_formula(const std::string& text, const std::string& file, const std::string& name) {
  try {
    Program program = parse(text, file);
    program.name = name;
    verify_text(program, text, file);
    return program;
  } catch (const Error& error) {
    throw PythonError("FormulaError", error.what(), error.details());
  }
}

Program read_formula(const std::string& path, const std::string& name, const std::vector<std::string>& folders) {
  try {
    Program program = read_program(path, folders);
    program.name = name;
    return program;
  } catch (const Error& error) {
    throw PythonError("FormulaError", error.what(), error.details());
  }
}

Program catalogue_formula(const std::string& name) { return load_op(name); }

std::vector<std::string> catalogue_names() {
  std::vector<std::string> names;
  for (const Op& op : catalogue()) names.emplace_back(op.name);
  return names;
}

std::vector<TensorInfo> inputs_of(const Program& program) {
  std::vector<TensorInfo> infos;
  for (const InputDecl& input : program.inputs) infos.push_back(describe(program, input.name));
  return infos;
}

std::vector<TensorInfo> outputs_of(const Program& program) {
  std::vector<TensorInfo> infos;
  for (const Definition& definition : program.definitions) {
    if (definition.output) infos.push_back(describe(program, definition.name));
  }
  return infos;
}

std::vector<std::vector<Affine>> output_shapes(const Program& program) {
  std::vector<std::vector<Affine>> shapes;
  for (const Definition& definition : program.definitions) {
    if (definition.output) shapes.push_back(program.shape_of(definition.name));
  }
  return shapes;
}

bool is_random(const Program& program) {
  bool found = false;
  for (const Definition& definition : program.definitions)
    visit(definition.body, [&](const Expr& e) { found |= e->kind == NodeKind::Random; });
  return found;
}

Program jacobian_of(const Program& program, const std::vector<std::string>& outputs,
                    const std::vector<std::string>& wrt, const std::string& mode,
                    const std::map<std::string, std::int64_t>& dims) {
  const std::map<std::string, JacobianMode> modes = {
      {"auto", JacobianMode::Automatic}, {"forward", JacobianMode::Forward}, {"reverse", JacobianMode::Reverse}};
  const auto known = modes.find(mode);
  if (known == modes.end())
    throw PythonError("InputError", "there is no mode '" + mode + "' of Jacobians; there are: auto, forward, reverse");
  return jacobian(program, outputs, wrt, known->second, DimValues(dims.begin(), dims.end()));
}

Program with_unit_input(Program program, const std::string& name) {
  const auto input = std::ranges::find(program.inputs, name, &InputDecl::name);
  if (input == program.inputs.end()) throw TypeError("the program has no input '" + name + "'");
  Definition ones{.name = name, .dtype = input->dtype, .axes = {}, .body = constant(1)};
  for (std::size_t axis = 0; axis < input->shape.size(); ++axis)
    ones.axes.push_back({"u" + std::to_string(axis), input->shape[axis], Range::extent(input->shape[axis])});
  program.inputs.erase(input);
  program.definitions.insert(program.definitions.begin(), std::move(ones));
  return program;
}

}  // namespace moxie::python
