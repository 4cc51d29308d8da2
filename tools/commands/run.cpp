// moxie run: any Program on tensors from a file.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "runtime/cpu/plugin.h"
#include "runtime/domain_check.h"
#include "runtime/safetensors.h"
#include "runtime/session.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"

namespace moxie {
namespace {

struct RunOptions {
  ProgramChoice program;
  DeviceChoice device;
  std::string input, output;
  std::vector<std::string> grad, wrt;
  std::uint64_t seed = 0, step = 0;
  bool stats = false;
};

using Tensors = std::map<std::string, HostTensor>;

std::string names_of(const Tensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

/// Throws DataError for a value that is not finite or that the input's declaration forbids.
void check_values(InputDecl input, const HostTensor& tensor, const std::string& file) {
  input.dtype = tensor.dtype;
  if (checks_inputs()) {
    const std::string problem = domain_violation(input, tensor.shape, tensor.data);
    if (!problem.empty()) throw DataError(fmt::format("{}: {}", file, problem));
  }
  const std::vector<double> values = to_doubles(tensor);
  const auto bad = std::ranges::find_if(values, [](double value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  const auto place = static_cast<std::size_t>(bad - values.begin());
  throw DataError(fmt::format("{}: {}{} = {}, but a finite number is expected", file, input.name,
                              element_text(place, tensor.shape), *bad));
}

std::string input_names(const Program& program) {
  std::vector<std::string> names;
  for (const InputDecl& input : program.inputs) names.push_back(input.name);
  return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
}

/// The file's tensors, all of them inputs of the program or cotangents of its definitions.
Tensors read_inputs(const RunOptions& options, const Program& program) {
  Tensors tensors = read_safetensors(options.input).tensors;
  for (const auto& [name, tensor] : tensors) {
    const InputDecl* input = program.find_input(name);
    const bool cotangent = name.starts_with("cot.") && program.find_definition(name.substr(4));
    if (!input && !cotangent) {
      throw DataError(fmt::format("{}: {} has no input '{}'; it reads {}", options.input, program.name, name,
                                  input_names(program)));
    }
    check_values(input ? *input : InputDecl{name, tensor.dtype, {}}, tensor, options.input);
  }
  for (const InputDecl& input : program.inputs) {
    if (tensors.contains(input.name)) continue;
    throw DataError(fmt::format("{}: input {} of {} is missing; the file holds {}", options.input, input.name,
                                program.name, names_of(tensors)));
  }
  return tensors;
}

DimValues dims_of(const Program& program, const Tensors& tensors, const DimValues& given) {
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const InputDecl& input : program.inputs) shapes[input.name] = tensors.at(input.name).shape;
  DimValues dims = dims_from_shapes(program, shapes, given);
  for (const DimDecl& dim : program.dims) {
    if (dim.dynamic || dims.at(dim.name) > 0) continue;
    throw DataError(
        fmt::format("{} = 0, but of the dims of {} only dynamic ones may be empty", dim.name, program.name));
  }
  return dims;
}

HostTensor ones(DType dtype, std::vector<std::int64_t> shape) {
  const std::vector<double> values(static_cast<std::size_t>(element_count(shape)), 1.0);
  return make_host_tensor(dtype, std::move(shape), values);
}

double milliseconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

int run(const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const Program program = load_program(options.program);
  const Tensors inputs = read_inputs(options, program);
  const DimValues dims = dims_of(program, inputs, parse_dims(options.program.dims, program));
  const Program task = with_gradients(program, options.program.source, options.grad, options.wrt);

  const auto device = open_chosen_device(options.device);
  Session session(task, dims, device);
  const double planned = milliseconds(start);
  for (const InputDecl& input : task.inputs) {
    const auto found = inputs.find(input.name);
    session.set(input.name,
                found != inputs.end() ? found->second : ones(input.dtype, extents_of(task, input.name, dims)));
  }
  session.set_random_state(options.seed, options.step);
  session.run();

  TensorFile results;
  results.metadata["program"] = program.name;
  for (const Definition& definition : task.definitions) {
    if (definition.output) results.tensors[definition.name] = session.get(definition.name);
  }
  write_safetensors(options.output, results);
  if (options.stats) {
    fmt::print(stderr,
               "steps {}, LLVM compilations {}, overridden kernels {}, workspace {} bytes, planned after {:.1f} ms, "
               "done after {:.1f} ms\n",
               session.plan().steps.size(), llvm_compilations(), device->overridden_kernels(),
               session.workspace_bytes(), planned, milliseconds(start));
  }
  return 0;
}

}  // namespace

Work add_run(OptionParser& parser) {
  auto options = std::make_shared<RunOptions>();
  add_program_options(parser, options->program);
  parser.add_option("--in", options->input, "the inputs by name, a safetensors file").required();
  parser.add_option("--out", options->output, "where the outputs go, a safetensors file").required();
  add_gradient_options(parser, options->grad, options->wrt);
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  add_tune_option(parser, options->device);
  parser.add_option("--seed", options->seed, "the key of randn and randu").in_range(0, kMaxRandomState).show_default();
  parser.add_option("--step", options->step, "the step that randn and randu start from")
      .in_range(0, kMaxRandomState)
      .show_default();
  parser.add_flag("--stats", options->stats, "print times and the number of compilations to the standard error");
  return [options] { return run(*options); };
}

}  // namespace moxie
