// moxie aot describe, run and bench: what a library holds, what it computes, and how fast.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "ops/formula_file.h"
#include "tools/commands/aot.h"
#include "tools/commands/aot_library.h"
#include "tools/commands/common.h"
#include "tools/commands/sample_inputs.h"
#include "tools/commands/tensor_files.h"

namespace moxie {
namespace {

struct ToolOptions {
  std::string file, function, input, output;
  std::vector<std::string> dims;
  std::uint64_t seed = 0, step = 0;
};

std::string tensors_text(const aot::Interface& interface, bool outputs) {
  std::string text;
  for (const aot::TensorArgument& tensor : interface.tensors) {
    if (tensor.output != outputs) continue;
    text += fmt::format("\n  {} {}{}: {}", outputs ? "output" : "input ", tensor.name,
                        tensor.shape.empty() ? "" : aot::shape_text(tensor.shape), to_string(tensor.dtype));
    if (tensor.domain != ValueDomain::Any) text += " " + to_string(tensor.domain);
  }
  return text;
}

int describe_library(const ToolOptions& options) {
  const aot::Manifest manifest = manifest_of(options.file);
  fmt::print("library {} for {}, made by moxie {} with {}\n", manifest.library, fmt::join(manifest.targets, ", "),
             manifest.moxie, manifest.compiler);
  for (const aot::FunctionEntry& entry : manifest.functions) {
    std::vector<std::string> dims;
    for (const aot::DimArgument& dim : entry.interface.dims) dims.push_back(dim.name);
    fmt::print("{}({}){}{}\n", entry.interface.name, fmt::join(dims, ", "), tensors_text(entry.interface, false),
               tensors_text(entry.interface, true));
  }
  return 0;
}

int run_library(const ToolOptions& options) {
  check_output_name(options.output, options.input);
  const AotLibrary library(options.file);
  AotCall call(library, library.function(options.function), read_tensor_file(options.input).tensors, options.seed,
               options.step);
  call.run();
  write_tensor_file(options.output, {call.outputs(), {}});
  return 0;
}

AotCall::Tensors sample_tensors(const Program& program, const DimValues& dims) {
  AotCall::Tensors tensors;
  const TensorValues values = sample_inputs(program, dims, 1);
  for (const InputDecl& input : program.inputs)
    tensors[input.name] = make_host_tensor(input.dtype, extents_of(program, input.name, dims), values.at(input.name));
  return tensors;
}

double seconds_of(AotCall& call) {
  const auto start = std::chrono::steady_clock::now();
  call.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int bench_library(const ToolOptions& options) {
  constexpr int kRuns = 101;
  const AotLibrary library(options.file);
  const aot::FunctionEntry& function = library.function(options.function);
  const Program program = parse(function.formula, function.interface.name);
  const DimValues dims = choose_dims(program, parse_dims(options.dims, program));
  AotCall call(library, function, sample_tensors(program, dims), options.seed, options.step);
  const double first = seconds_of(call);
  std::vector<double> times;
  for (int k = 0; k < kRuns; ++k) times.push_back(seconds_of(call));
  std::ranges::sort(times);
  std::string values;
  for (const auto& [name, value] : dims) values += fmt::format(" {}={}", name, value);
  fmt::print("{}{}\n", function.interface.name, values);
  fmt::print("{:<12} {:.3f} ms\n{:<12} {:.3f} ms\n{:<12} {:.4f} ms\n{:<12} {} bytes\n", "load",
             1e3 * library.load_seconds(), "first call", 1e3 * first, "median", 1e3 * times[kRuns / 2], "workspace",
             call.workspace_bytes());
  return 0;
}

OptionParser add_tool(OptionParser& parser, const char* name, const char* summary, ToolOptions& options) {
  OptionParser tool = parser.add_subcommand(name, summary);
  tool.add_option("library", options.file, "a library's folder, manifest or static library").required();
  return tool;
}

void add_function_option(OptionParser& tool, ToolOptions& options) {
  tool.add_option("--function", options.function, "the function; the first one if not given");
  tool.add_option("--seed", options.seed, "of random numbers").in_range(0, kMaxRandomState);
  tool.add_option("--step", options.step, "of random numbers").in_range(0, kMaxRandomState);
}

}  // namespace

Work add_aot(OptionParser& parser) {
  auto options = std::make_shared<ToolOptions>();
  auto chosen = std::make_shared<Work>(add_aot(parser, load_program));
  const auto add = [&](const char* name, const char* summary, int (*work)(const ToolOptions&)) {
    OptionParser tool = add_tool(parser, name, summary, *options);
    tool.on_parsed([=] { *chosen = [=] { return work(*options); }; });
    return tool;
  };
  add("describe", "Show what a library, or a program with one in it, can compute", describe_library);
  OptionParser run_tool = add("run", "Call a function of a library on tensors from a file", run_library);
  run_tool.add_option("--in", options->input, "the inputs by name, FILE.safetensors or FILE.npz").required();
  run_tool.add_option("--out", options->output, "where the outputs go").required();
  add_function_option(run_tool, *options);
  OptionParser bench_tool = add("bench", "Measure a function of a library on random inputs", bench_library);
  bench_tool.add_option("--dim", options->dims, "values of dims, such as S=1024").comma_separated();
  add_function_option(bench_tool, *options);
  return [chosen] { return (*chosen)(); };
}

}  // namespace moxie
