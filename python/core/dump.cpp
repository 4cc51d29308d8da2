#include "python/core/dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/dump/dump.h"
#include "runtime/dump/dump_html.h"
#include "runtime/dump/stages.h"

namespace moxie::python {
namespace {

void check_stages(const std::vector<std::string>& stages) {
  std::vector<std::string_view> known;
  for (const Stage& stage : dump_stages()) known.push_back(stage.name);
  for (const std::string& stage : stages) {
    if (std::ranges::find(known, stage) == known.end())
      throw TypeError(fmt::format("there is no stage '{}'; choose of: {}", stage, fmt::join(known, ", ")));
  }
}

void append(const StageText& text, const std::string& kernel, bool with_head, std::string& result) {
  if (with_head)
    result +=
        kernel.empty() ? fmt::format("# ==== {}\n", text.title) : fmt::format("# ==== {} of {}\n", text.title, kernel);
  result += text.missing.empty() ? text.text : fmt::format("# no {}: {}", text.stage, text.missing);
  result += "\n";
}

/// By stage, as the pipeline has them.
std::string text_of(const Dump& dump, const DumpOptions& options) {
  std::string result;
  for (const Stage& stage : dump_stages()) {
    if (!is_wanted(options, stage.name)) continue;
    for (const StageText& text : dump.program) {
      if (text.stage == stage.name) append(text, "", text.title != stage.name, result);
    }
    for (const KernelDump& kernel : dump.kernels) {
      const StageText* text = find_stage(kernel.stages, stage.name);
      if (text) append(*text, kernel.name, true, result);
    }
  }
  return result;
}

DumpedDevices devices_for(const DumpRequest& request) {
  if (request.device.empty()) return devices_of(request.stages);
  if (request.device != "cpu" && request.device != "cuda")
    throw TypeError(fmt::format("kernels are shown for the devices cpu and cuda, not for '{}'", request.device));
  return {request.device == "cpu", request.device == "cuda"};
}

}  // namespace

std::string dump_of(const Program& source, const Program& task, const DimValues& dims, const DumpRequest& request) {
  check_stages(request.stages);
  DumpOptions options;
  options.stages = request.stages;
  options.kernels = request.kernels;
  const auto needs_gpu_code = [](const std::string& stage) { return stage == "ptx" || stage == "sass"; };
  if (!request.page && std::ranges::none_of(request.stages, needs_gpu_code))
    options.no_gpu_code = "no stage of GPU code was asked for";
  DimValues statics;
  for (const auto& [name, value] : dims) {
    const DimDecl* dim = task.find_dim(name);
    if (dim && !dim->dynamic) statics[name] = value;
  }
  const Compilation compilation = compile_for(devices_for(request), source, specialise(task, statics), dims, options);
  const Dump dump = make_dump(compilation, options);
  return request.page ? dump_html(dump) : text_of(dump, options);
}

}  // namespace moxie::python
