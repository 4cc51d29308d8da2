#include "compiler/diff/jacobian.h"

#include <algorithm>

#include "compiler/diff/active_tensors.h"
#include "compiler/diff/differentiate.h"
#include "compiler/diff/program_builder.h"
#include "compiler/diff/seeds.h"
#include "compiler/diff/tangents.h"

namespace moxie {
namespace {

double element_count(const Program& program, const std::vector<std::string>& tensors, const DimValues& dims) {
  constexpr std::int64_t kUnknown = 1000;
  const auto value_of = [&](Symbol dim) {
    const auto given = dims.find(dim.name());
    if (given != dims.end()) return given->second;
    const DimDecl* declared = program.find_dim(dim.name());
    return declared && declared->value ? *declared->value : kUnknown;
  };
  double total = 0;
  for (const std::string& tensor : tensors) {
    double count = 1;
    for (const Affine& extent : program.shape_of(tensor)) count *= static_cast<double>(extent.evaluate(value_of));
    total += count;
  }
  return total;
}

std::string name_of(const std::string& output, const std::string& input) { return "jac." + output + "." + input; }

/// By forward mode, with respect to one input.
Program add_columns(const Program& program, const std::vector<std::string>& outputs, const std::string& input) {
  const std::vector<Symbol> seeds = seeds_for(program, input);
  std::vector<std::string> names;
  for (const std::string& output : outputs) names.push_back(ProgramBuilder(program).free_name(name_of(output, input)));
  const Program derived = tangents(program, outputs, {input}, true, names);
  return with_seed_axes(with_seeds(derived, seeds), seeds, input, names, SeedAxes::Last);
}

/// By reverse mode, of one output.
Program add_rows(const Program& program, const std::string& output, const std::vector<std::string>& inputs) {
  const std::vector<Symbol> seeds = seeds_for(program, output);
  Program derived = differentiate(program, {output}, inputs);
  std::vector<std::string> names;
  const std::size_t first = derived.definitions.size() - inputs.size();
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    names.push_back(ProgramBuilder(derived).free_name(name_of(output, inputs[k])));
    derived.definitions[first + k].name = names.back();
  }
  return with_seed_axes(with_seeds(derived, seeds), seeds, output, names, SeedAxes::First);
}

}  // namespace

Program jacobian(const Program& program, const std::vector<std::string>& outputs, const std::vector<std::string>& wrt,
                 JacobianMode mode, const DimValues& dims, bool keep_outputs) {
  check_derivative_names(program, outputs, wrt);
  const std::vector<std::string> inputs = wrt.empty() ? real_inputs(program) : wrt;
  if (mode == JacobianMode::Automatic) {
    const bool few = element_count(program, inputs, dims) <= element_count(program, outputs, dims);
    mode = few ? JacobianMode::Forward : JacobianMode::Reverse;
  }
  Program result = prepared_for_derivatives(program, keep_outputs);
  if (mode == JacobianMode::Forward) {
    for (const std::string& input : inputs) result = add_columns(result, outputs, input);
  } else {
    for (const std::string& output : outputs) result = add_rows(result, output, inputs);
  }
  return result;
}

Program hessian_products(const Program& program, const std::vector<std::string>& outputs,
                         const std::vector<std::string>& wrt, bool keep_outputs) {
  const std::vector<std::string> inputs = wrt.empty() ? real_inputs(program) : wrt;
  const Program gradient = differentiate(program, outputs, inputs, keep_outputs);
  std::vector<std::string> gradients, names;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    gradients.push_back(gradient.definitions[gradient.definitions.size() - inputs.size() + k].name);
    names.push_back("hvp." + inputs[k]);
  }
  return tangents(gradient, gradients, inputs, true, names);
}

}  // namespace moxie
