// moxie run: any Program on tensors from a file.
#include <fmt/format.h>

#include <chrono>

#include "ops/formula_file.h"
#include "runtime/cpu/plugin.h"
#include "runtime/session.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/input_file.h"
#include "tools/commands/kept_files.h"
#include "tools/commands/tensor_files.h"

namespace moxie {
namespace {

struct RunOptions {
  ProgramChoice program;
  DeviceChoice device;
  std::string input, output;
  DerivativeChoice derivatives;
  std::uint64_t seed = 0, step = 0;
  bool stats = false;
};

HostTensor ones(DType dtype, std::vector<std::int64_t> shape) {
  const std::vector<double> values(static_cast<std::size_t>(element_count(shape)), 1.0);
  return make_host_tensor(dtype, std::move(shape), values);
}

double milliseconds(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

int run(const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  check_output_name(options.output, options.input);
  keep_file("--out", options.output, options.program.source);
  const Program program = load_program(options.program);
  require_outputs(program);
  const InputTensors inputs = read_inputs(options.input, program);
  const DimValues dims = dims_of(program, inputs, parse_dims(options.program.dims, program));
  const Program task = with_derivatives(program, options.program.source, options.derivatives, dims);

  const auto device = open_chosen_device(options.device);
  Session session(task, dims, device);
  const double differentiated = milliseconds(start);
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
  write_tensor_file(options.output, results);
  if (options.stats) {
    fmt::print(
        stderr,
        "steps {}, plans made {}, loops tried {}, LLVM compilations {}, overridden kernels {}, workspace {} bytes, "
        "differentiated after {:.1f} ms, done after {:.1f} ms\n",
        session.plan().steps.size(), session.planning().made, session.planning().candidates, llvm_compilations(),
        device->overridden_kernels(), session.workspace_bytes(), differentiated, milliseconds(start));
  }
  return 0;
}

}  // namespace

Work add_run(OptionParser& parser) {
  auto options = std::make_shared<RunOptions>();
  add_program_options(parser, options->program);
  parser.add_option("--in", options->input, "the inputs by name, FILE.safetensors or FILE.npz").required();
  parser.add_option("--out", options->output, "where the outputs go, FILE.safetensors or FILE.npz").required();
  add_derivative_options(parser, options->derivatives);
  add_device_option(parser, options->device);
  add_threads_option(parser, options->device);
  add_tune_option(parser, options->device);
  parser.add_option("--seed", options->seed, "the key of randn and randu").in_range(0, kMaxRandomState).show_default();
  parser.add_option("--step", options->step, "the step that randn and randu start from")
      .in_range(0, kMaxRandomState)
      .show_default();
  parser.add_flag("--stats", options->stats, "print times and the number of compilations to the standard error");
  parser.set_footer(
      "Examples:\n"
      "  moxie run density.mox --in a.safetensors --out b.safetensors --grad density\n"
      "  moxie run density.mox --in a.safetensors --out b.safetensors --jacobian density --wrt point\n"
      "  moxie run gpn.response_variance --in a.safetensors --device cuda-emu --stats\n");
  return [options] { return run(*options); };
}

}  // namespace moxie
