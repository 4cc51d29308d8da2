#include "runtime/dump/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/dump/code_stages.h"
#include "runtime/dump/line_parsers.h"
#include "runtime/dump/plan_text.h"
#include "runtime/dump/text_diff.h"
#include "runtime/given_schedules.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

/// Where a dim has no value, this one is taken.
constexpr std::int64_t kAssumedExtent = 256;

StageText program_stage(const std::string& stage, const Program& program) {
  StageText text{stage, stage, ".mox"};
  text.text = print(program);
  return text;
}

/// The Program after every pass that changed it.
std::vector<StageText> rewrite_stages(const Program& task, const StageText& before_all, const ProgramOptions& options) {
  std::vector<StageText> stages;
  Program before = task;
  const StageText* previous = &before_all;
  int number = 0;
  optimise(
      task,
      [&](const Pass& pass, const Program& result) {
        ++number;
        if (result == before) return;
        StageText stage{"rewrite", fmt::format("rewrite.{:02}_{}", number, pass.name), ".mox"};
        stage.preamble = fmt::format("# {}: {}\n", pass.name, pass.purpose);
        stage.text = print(result);
        stage.origin = previous->title;
        stage.lines = lines_by_name(stage.text, previous->text);
        stage.diff = text_diff(previous->text, stage.text, 0);
        stages.push_back(std::move(stage));
        before = result;
        previous = &stages.back();
      },
      disabled_passes(options));
  return stages;
}

StageText plain_stage(const std::string& name, std::string text) {
  StageText stage{name, name, ".txt"};
  stage.text = std::move(text);
  return stage;
}

/// Dims that are known, and those that are assumed.
DimValues complete_dims(const Compilation& compilation, std::vector<std::string>& assumed) {
  DimValues dims = compilation.dims;
  assumed = compilation.assumed;
  for (const std::string& name : assumed) dims[name] = kAssumedExtent;
  for (const DimDecl& dim : compilation.task.dims) {
    if (dims.contains(dim.name)) continue;
    if (!dim.dynamic && dim.value) continue;
    dims[dim.name] = kAssumedExtent;
    assumed.push_back(dim.name);
  }
  return dims;
}

/// The kernels of both plans by their names: those of the processor in its order, and then those that only a GPU has.
std::vector<DumpedKernel> chosen_kernels(const Compilation& compilation, const std::string& filter) {
  std::vector<DumpedKernel> kernels;
  const auto add = [&](const std::optional<Plan>& plan, const LoweredKernel* DumpedKernel::* device) {
    for (const PlanStep& step : plan ? std::span(plan->steps) : std::span<const PlanStep>()) {
      for (const LoweredKernel* kernel : kernels_of(step)) {
        const std::string& name = kernel->program.name;
        if (!matches(name, filter)) continue;
        const auto known = std::ranges::find(kernels, name, &DumpedKernel::name);
        (known == kernels.end() ? kernels.emplace_back(DumpedKernel{name}) : *known).*device = kernel;
      }
    }
  };
  add(compilation.cpu, &DumpedKernel::cpu);
  add(compilation.gpu, &DumpedKernel::gpu);
  return kernels;
}

}  // namespace

bool is_wanted(const DumpOptions& options, std::string_view stage) {
  return options.stages.empty() || std::ranges::find(options.stages, stage) != options.stages.end();
}

bool matches(const std::string& name, const std::string& filter) {
  try {
    return filter.empty() || std::regex_search(name, std::regex(filter));
  } catch (const std::regex_error& error) {
    throw TypeError(fmt::format("'{}' is no regular expression for names of kernels: {}", filter, error.what()));
  }
}

const StageText* find_stage(const std::vector<StageText>& stages, std::string_view title) {
  const auto found = std::ranges::find(stages, title, &StageText::title);
  return found == stages.end() ? nullptr : &*found;
}

DimValues with_assumed_dims(const Program& program, DimValues dims, std::vector<std::string>& assumed) {
  for (const DimDecl& dim : program.dims) {
    if (dim.dynamic || dim.value || !dims.try_emplace(dim.name, kAssumedExtent).second) continue;
    assumed.push_back(dim.name);
  }
  return dims;
}

Compilation compile_for(const DumpedDevices& devices, Program source, Program task, DimValues dims,
                        const DumpOptions& options) {
  Compilation compilation{std::move(source), std::move(task), {}, {}, std::move(dims), {}};
  const Checks checks = chosen_checks(options.programs);
  if (devices.cpu) {
    const Machine machine = cpu_machine(host_machine(), {.cache_directory = options.cache_directory});
    compilation.cpu = make_plan(compilation.task, checks,
                                {.machine = &machine,
                                 .given = given_schedules(options.schedule).nests,
                                 .extents = extent_classes(compilation.dims)},
                                disabled_passes(options.programs));
  }
  if (devices.gpu) {
    const PlanTarget gpu{.products = Products::blas_and_solver,
                         .gpu = limits_of(options.gpu),
                         .extents = extent_classes(compilation.dims)};
    const DimValues sizes = matrix_sizes(compilation.task, gpu, compilation.dims);
    compilation.gpu =
        make_plan(specialise_all(compilation.task, sizes), checks, gpu, disabled_passes(options.programs));
  }
  return compilation;
}

Dump make_dump(const Compilation& compilation, const DumpOptions& options) {
  Dump dump;
  dump.name = compilation.source.name;
  dump.gpu = options.gpu.name;
  dump.gpu_is_assumed = options.gpu_is_assumed;
  dump.dims = complete_dims(compilation, dump.assumed);
  DimValues dims = dump.dims;
  for (const auto* plan : {&compilation.cpu, &compilation.gpu}) {
    if (*plan) dims = with_slice_dims(**plan, std::move(dims));
  }
  std::vector<StageText> texts = {program_stage("ir", compilation.source), program_stage("diff", compilation.task)};
  texts[1].origin = "ir";
  texts[1].lines = lines_by_name(texts[1].text, texts[0].text);
  std::ranges::move(rewrite_stages(compilation.task, texts[1], options.programs), std::back_inserter(texts));
  const std::string optimised = texts.back().text, title = texts.back().title;
  const GivenByUser given = given_schedules(options.schedule);
  texts.push_back(plain_stage("fuse", fuse_text(compilation)));
  texts.push_back(plain_stage("schedule", schedule_text(compilation, dims, limits_of(options.gpu), given)));
  std::ranges::copy_if(texts, std::back_inserter(dump.program),
                       [&](const StageText& text) { return is_wanted(options, text.stage); });
  dump.kernels =
      dump_kernels(compilation, chosen_kernels(compilation, options.kernels), {optimised, title}, dims, options);
  return dump;
}

}  // namespace moxie
