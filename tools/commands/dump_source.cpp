#include "tools/commands/dump_source.h"
#include "ops/formula_file.h"

#include <fmt/format.h>

#include "compiler/diff/differentiate.h"
#include "learn/training_run.h"
#include "ops/catalogue.h"
#include "runtime/dump/cached_kernel.h"
#include "runtime/dump/dump_folder.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

namespace fs = std::filesystem;

/// A dump from a file, without what nobody wants to see.
Dump selected(Dump dump, const DumpOptions& options) {
  const auto drop = [&](std::vector<StageText>& texts) {
    std::erase_if(texts, [&](const StageText& text) { return !is_wanted(options, text.stage); });
  };
  drop(dump.program);
  for (KernelDump& kernel : dump.kernels) drop(kernel.stages);
  std::erase_if(dump.kernels, [&](const KernelDump& kernel) { return !matches(kernel.name, options.kernels); });
  return dump;
}

/// The step of a training run, compiled as it was there: of batches that are divided, the gradients of a part.
Compilation training_step_of(const fs::path& run, const DumpedDevices& devices, const DumpOptions& options) {
  const SavedModel model = load_model(run / "model.safetensors");
  const Network network = make_network(model.config, model.encoding);
  const StepProgram step = make_step(model.config, network);
  const bool is_divided = !step.gradients.definitions.empty();
  const Program task = specialise(is_divided ? step.gradients : step.program, {});
  const std::size_t rows = is_divided ? model.config.batch / model.config.micro_batches : model.config.batch;
  DimValues dims;
  for (const DimDecl& dim : task.dims) {
    if (dim.dynamic) dims[dim.name] = static_cast<std::int64_t>(rows);
  }
  return compile_for(devices, network.train, task, dims, options);
}

Compilation formula(const DumpSource& source, const DumpedDevices& devices, const DumpOptions& options) {
  const Program written = load_program(source.program);
  std::vector<std::string> assumed;
  const DimValues given = parse_dims(source.program.dims, written);
  const DimValues dims = with_assumed_dims(written, given, assumed);
  const Program task = specialise(with_derivatives(written, source.program.source, source.derivatives, dims), dims);
  Compilation compilation = compile_for(devices, written, task, given, options);
  compilation.assumed = std::move(assumed);
  return compilation;
}

void refuse_program_options(const DumpSource& source, std::string_view what) {
  if (source.derivatives.any() || !source.program.dims.empty() || !source.program.dtype.empty() ||
      !source.program.precision.empty())
    throw UsageError(
        fmt::format("{} is {}: --grad and other derivatives, --wrt, --dim, --dtype and --precision are for formulas",
                    source.program.source, what));
}

DumpInput dumped(Compilation compilation, const DumpOptions& options) {
  Dump dump = make_dump(compilation, options);
  return {std::move(compilation), std::move(dump)};
}

}  // namespace

void add_dump_source_options(OptionParser& parser, DumpSource& source) {
  add_program_options(parser, source.program);
  add_derivative_options(parser, source.derivatives);
  parser
      .add_option("--device", source.device,
                  "show the kernels of this device alone (default: of both, or of the one whose stages are asked for)")
      .one_of({"cpu", "cuda"});
}

bool is_compiled(const DumpSource& source) {
  const fs::path path = source.program.source;
  return find_op(source.program.source) || (!is_dump_folder(path) && path.extension() != ".kernel");
}

/// The name of a built-in formula goes first, whatever files there are: `./NAME` names a file.
DumpInput load_dump_input(const DumpSource& source, const DumpOptions& options) {
  const fs::path path = source.program.source;
  const DumpedDevices devices = source.device.empty() ? devices_of(options.stages)
                                                      : DumpedDevices{source.device == "cpu", source.device == "cuda"};
  if (find_op(source.program.source)) return dumped(formula(source, devices, options), options);
  if (is_dump_folder(path)) {
    refuse_program_options(source, "a dump");
    return {{}, selected(read_dump(path), options)};
  }
  if (path.extension() == ".kernel") {
    refuse_program_options(source, "an entry of the kernel cache");
    return {{}, selected(dump_of_cached_kernel(path), options)};
  }
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return dumped(formula(source, devices, options), options);
  refuse_program_options(source, "a folder of a run");
  return dumped(training_step_of(path, devices, options), options);
}

}  // namespace moxie
