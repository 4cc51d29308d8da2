#include "tools/commands/bench_formulas.h"
#include "ops/formula_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "compiler/diff/differentiate.h"
#include "ops/catalogue.h"
#include "tools/commands/command.h"
#include "tools/commands/input_file.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

DimValues all_dims(const Program& program, DimValues dims) {
  std::vector<std::string> missing;
  for (const DimDecl& dim : program.dims) {
    if (dim.value) dims.emplace(dim.name, *dim.value);
    if (!dims.contains(dim.name)) missing.push_back(dim.name);
  }
  if (missing.empty()) return dims;
  throw UsageError(fmt::format("{}: no value for the dim{} {}; add --dim {}=..", program.name,
                               missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), fmt::join(missing, "=..,")));
}

std::vector<std::string> chosen_inputs(const Program& program, const std::string& source,
                                       const std::vector<std::string>& wrt) {
  if (!wrt.empty()) return wrt;
  if (const Op* op = find_op(source)) return differentiable_inputs(*op, program);
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) {
    if (!holds_integers(input.dtype)) names.push_back(input.name);
  }
  return names;
}

/// Sets the gradient or the reason why there is none, which is an error where a gradient was asked for.
void add_gradient(BenchSubject& formula, bool asked) {
  try {
    if (formula.wrt.empty())
      throw CompileError(fmt::format("{} has no inputs to differentiate with respect to", formula.name));
    formula.programs.forward_backward = differentiate(formula.programs.forward, formula.outputs, formula.wrt);
  } catch (const CompileError& error) {
    if (asked) throw;
    formula.no_gradient = error.what();
  }
}

/// Tensors that are not known are made up; where none is known, covariances are the second candidate.
std::vector<TensorValues> candidate_inputs(const BenchSubject& formula, const InputTensors& known) {
  const Program& forward = formula.programs.forward;
  TensorValues inputs = sample_inputs(formula.programs.forward_backward.value_or(forward), formula.dims, 1);
  for (const auto& [name, tensor] : known) inputs[name] = to_doubles(tensor);
  if (!known.empty()) return {inputs};
  TensorValues covariances = inputs;
  if (make_covariances(forward, formula.dims, covariances).empty()) return {inputs};
  return {inputs, covariances};
}

}  // namespace

BenchSubject bench_formula(const ProgramChoice& choice, const std::string& file, const std::vector<std::string>& grad,
                           const std::vector<std::string>& wrt) {
  const Program program = load_program(choice);
  require_outputs(program);
  const InputTensors known = file.empty() ? InputTensors{} : read_inputs(file, program);
  const DimValues given = parse_dims(choice.dims, program);
  BenchSubject formula;
  formula.name = is_file_name(choice.source) ? std::filesystem::path(choice.source).stem().string() : choice.source;
  formula.dims = file.empty() ? all_dims(program, given) : dims_of(program, known, given);
  formula.programs.forward = program;
  formula.outputs = chosen_outputs(program, grad.empty() ? std::vector<std::string>{"all"} : grad);
  formula.wrt = chosen_inputs(program, choice.source, wrt);
  add_gradient(formula, !grad.empty() || !wrt.empty());
  formula.programs.inputs = candidate_inputs(formula, known);
  return formula;
}

}  // namespace moxie
