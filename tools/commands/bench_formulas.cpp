#include "tools/commands/bench_formulas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "compiler/diff/differentiate.h"
#include "ops/catalogue.h"
#include "tools/commands/check_sample.h"
#include "tools/commands/command.h"
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

std::vector<std::string> chosen_outputs(const Program& program, const std::vector<std::string>& grad) {
  const bool all = grad.empty() || (grad == std::vector<std::string>{"all"} && !program.find_definition("all"));
  return all ? outputs_of(program) : grad;
}

std::vector<std::string> chosen_inputs(const Program& program, const std::string& source,
                                       const std::vector<std::string>& wrt) {
  if (!wrt.empty()) return wrt;
  if (const Op* op = find_op(source)) return differentiable_inputs(*op, program);
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) names.push_back(input.name);
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

}  // namespace

BenchSubject bench_formula(const ProgramChoice& choice, const std::vector<std::string>& grad,
                           const std::vector<std::string>& wrt) {
  const Program program = load_program(choice);
  BenchSubject formula;
  formula.name = is_file_name(choice.source) ? std::filesystem::path(choice.source).stem().string() : choice.source;
  formula.dims = all_dims(program, parse_dims(choice.dims, program));
  formula.programs.forward = program;
  formula.outputs = chosen_outputs(program, grad);
  formula.wrt = chosen_inputs(program, choice.source, wrt);
  add_gradient(formula, !grad.empty() || !wrt.empty());
  const Program& largest = formula.programs.forward_backward.value_or(program);
  const TensorValues any = sample_inputs(largest, formula.dims, 1);
  TensorValues covariances = any;
  formula.programs.inputs = {any};
  if (!make_covariances(program, formula.dims, covariances).empty())
    formula.programs.inputs.push_back(std::move(covariances));
  return formula;
}

}  // namespace moxie
