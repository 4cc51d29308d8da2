#include "tools/commands/input_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/error.h"
#include "compiler/support/nan.h"
#include "runtime/domain_check.h"
#include "runtime/plan.h"
#include "runtime/switches.h"
#include "tools/commands/tensor_files.h"

namespace moxie {
namespace {

std::string names_of(const InputTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

/// Throws DataError for a value that is not finite, not even as the input is stored, or that its declaration forbids.
void check_values(InputDecl input, const HostTensor& given, const std::string& file) {
  const DType stored = input.dtype;
  const bool becomes_real = holds_integers(given.dtype) && !holds_integers(input.dtype);
  const HostTensor tensor = becomes_real ? make_host_tensor(DType::f64, given.shape, to_doubles(given)) : given;
  input.dtype = tensor.dtype;
  if (auto violation = domain_violation(input, tensor.shape, tensor.data)) {
    violation->file = file;
    throw DataError(fmt::format("{}: {}", file, violation->problem), *violation);
  }
  const std::vector<double> values = to_doubles(tensor);
  const double largest = largest_number(computed_dtype(stored));
  const auto is_bad = [&](double value) {
    const bool is_finite = std::abs(value) <= largest && std::isfinite(stored_value(stored, value));
    return !std::isfinite(value) || (!holds_integers(stored) && !is_finite);
  };
  const auto bad = std::ranges::find_if(values, is_bad);
  if (bad == values.end()) return;
  const auto place = static_cast<std::size_t>(bad - values.begin());
  if (std::isfinite(*bad))
    throw DataError(fmt::format("{}: {}{} = {:g}, which {} has no finite number for; compute in double, --dtype f64",
                                file, input.name, element_text(place, tensor.shape), *bad, info_of(stored).name));
  throw DataError(fmt::format("{}: {}{} = {}, but a finite number is expected (MOXIE_CHECK_INPUTS=off takes any)", file,
                              input.name, element_text(place, tensor.shape), without_nan_sign(*bad)));
}

std::string input_names(const Program& program) {
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) names.push_back(input.name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

InputTensors read_inputs(const std::string& file, const Program& program) {
  InputTensors tensors = read_tensor_file(file).tensors;
  for (const auto& [name, tensor] : tensors) {
    const InputDecl* input = program.find_input(name);
    const bool cotangent = name.starts_with("cot.") && program.find_definition(name.substr(4));
    const bool tangent = name.starts_with("tan.") && program.find_input(name.substr(4));
    if (!input && !cotangent && !tangent) {
      throw DataError(
          fmt::format("{}: {} has no input '{}'; it reads {}", file, program.name, name, input_names(program)));
    }
    if (checks_inputs()) check_values(input ? *input : InputDecl{name, tensor.dtype, {}}, tensor, file);
  }
  for (const InputDecl& input : program.inputs) {
    if (tensors.contains(input.name)) continue;
    throw DataError(fmt::format("{}: input {} of {} is missing; the file holds {}", file, input.name, program.name,
                                names_of(tensors)));
  }
  return tensors;
}

DimValues dims_of(const Program& program, const InputTensors& tensors, const DimValues& given) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const InputDecl& input : program.inputs) shapes[input.name] = tensors.at(input.name).shape;
  DimValues dims = dims_from_shapes(program, shapes, given);
  for (const DimDecl& dim : program.dims) {
    const auto value = dims.find(dim.name);  // who makes a plan asks for those that have none
    if (dim.dynamic || value == dims.end() || value->second > 0) continue;
    throw DataError(
        fmt::format("{} = 0, but of the dims of {} only dynamic ones may be empty", dim.name, program.name));
  }
  return dims;
}

}  // namespace moxie
