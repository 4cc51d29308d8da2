// moxie dump: what the compiler makes of a Program, stage by stage.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/atomic_file.h"
#include "runtime/dump/dump_folder.h"
#include "runtime/dump/dump_html.h"
#include "runtime/dump/stages.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/dump_source.h"

namespace moxie {
namespace {

struct DumpCommand {
  DumpSource source;
  DumpOptions options;
  std::string folder, page;
  bool json = false;
};

void print_stage(const StageText& text, const std::string& kernel, bool with_head) {
  const std::string name = kernel.empty() ? text.title : fmt::format("{} of {}", text.title, kernel);
  if (with_head) fmt::print("# ==== {}\n", name);
  fmt::print("{}\n", text.missing.empty() ? text.text : fmt::format("# no {}: {}", text.stage, text.missing));
}

/// By stage, as the pipeline has them.
void print_stages(const Dump& dump, const DumpOptions& options) {
  const bool with_head = options.stages.size() != 1;
  for (const Stage& stage : dump_stages()) {
    if (!is_wanted(options, stage.name)) continue;
    if (with_head) fmt::print("# ======== {}: {}\n", stage.name, stage.purpose);
    for (const StageText& text : dump.program) {
      if (text.stage == stage.name) print_stage(text, "", with_head || stage.name == "rewrite");
    }
    for (const KernelDump& kernel : dump.kernels) {
      const StageText* text = find_stage(kernel.stages, stage.name);
      if (text) print_stage(*text, kernel.name, with_head);
    }
  }
  if (with_head) fmt::print("# ======== figures\n{}", figures_table(dump.kernels, dump.gpu));
}

/// Kernels are compiled for the GPU where somebody looks at the code, or at what it takes.
std::string why_no_gpu_code(const DumpCommand& command) {
  const bool prints_stages = !command.json && command.folder.empty() && command.page.empty() && !command.options.stages.empty();
  const bool wants_code = std::ranges::any_of(command.options.stages, [](const std::string& stage) { return stage == "ptx" || stage == "sass"; });
  return prints_stages && !wants_code ? "nobody asked for it" : "";
}

int run_dump(const DumpCommand& command) {
  DumpOptions options = command.options;
  options.schedule = switch_value("MOXIE_SCHEDULE");
  options.no_gpu_code = why_no_gpu_code(command);
  const Dump dump = load_dump(command.source, options);
  if (!command.folder.empty()) write_dump(dump, command.folder);
  if (!command.page.empty()) atomic_write(command.page, dump_html(dump));
  if (command.json) fmt::print("{}", dump_json(dump, !command.options.stages.empty()));
  if (command.folder.empty() && command.page.empty() && !command.json) print_stages(dump, command.options);
  return 0;
}

void add_stage_option(CLI::App& app, std::vector<std::string>& stages) {
  std::vector<std::string> names;
  std::string help = "which stages to show, all if not given:";
  for (const Stage& stage : dump_stages()) {
    names.emplace_back(stage.name);
    help += fmt::format("\n  {}: {}", stage.name, stage.purpose);
  }
  app.add_option("--stage", stages, help)->delimiter(',')->allow_extra_args(false)->check(CLI::IsMember(names));
}

}  // namespace

Work add_dump(CLI::App& app) {
  auto command = std::make_shared<DumpCommand>();
  add_dump_source_options(app, command->source);
  add_stage_option(app, command->options.stages);
  app.add_option("--kernel", command->options.kernels, "only kernels in whose names this regular expression is found");
  std::vector<std::string> gpus;
  for (const GpuModel& model : gpu_models()) gpus.emplace_back(model.name);
  app.add_option("--gpu", command->options.gpu, "the GPU that figures and code are for; none is needed")
      ->capture_default_str()
      ->check(CLI::IsMember(gpus, CLI::ignore_case));
  app.add_option("-o,--out", command->folder, "write a folder of files with a manifest.json instead of printing");
  app.add_option("--html", command->page, "write one page that links the lines of all stages, for a browser; it needs no network");
  app.add_flag("--json", command->json, "figures of every kernel as JSON; with --stage also the texts");
  return [command] { return run_dump(*command); };
}

}  // namespace moxie
