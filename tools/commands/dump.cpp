// moxie dump: what the compiler makes of a Program, stage by stage.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/atomic_file.h"
#include "runtime/dump/dump_compare.h"
#include "runtime/dump/dump_folder.h"
#include "runtime/dump/dump_html.h"
#include "runtime/dump/stages.h"
#include "runtime/dump/summary.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/dump_run.h"
#include "tools/commands/dump_source.h"
#include "tools/commands/kept_files.h"

namespace moxie {
namespace {

struct DumpCommand {
  DumpSource source;
  DumpOptions options;
  std::string folder, page;
  std::string repro;
  bool json = false, measure = false;
};

/// The name of --stage that stands for every stage.
constexpr const char* kAllStages = "all";

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
  if (with_head) fmt::print("# ======== figures\n{}", figures_table(dump));
}

/// Dims without a value are taken for some: whoever gives them sees other kernels.
std::string how_to_give_dims(const std::vector<std::string>& assumed, const DimValues& dims) {
  if (assumed.empty()) return "";
  std::vector<std::string> options;
  for (const std::string& name : assumed) options.push_back(name + "=..");
  return fmt::format("no value was given for {}, and {} was taken; give others with --dim {}", fmt::join(assumed, ", "),
                     dims.at(assumed.front()), fmt::join(options, ","));
}

void print_summary(const Dump& dump) {
  fmt::print("{}\n", summary_text(dump));
  if (const std::string note = how_to_give_dims(dump.assumed, dump.dims); !note.empty()) fmt::print("{}\n", note);
  fmt::print(
      "all stages: --stage all; some of them: --stage schedule,loop,asm; as a page for a browser: --html page.html\n");
}

/// With every stage where `all` is named.
DumpOptions shown(DumpOptions options) {
  if (std::ranges::find(options.stages, kAllStages) != options.stages.end()) options.stages.clear();
  return options;
}

/// Without any choice of what to show, it is the short form, of the device `cpu` unless another one is named.
bool wants_summary(const DumpCommand& command) {
  return command.options.stages.empty() && command.folder.empty() && command.page.empty() && command.repro.empty() &&
         !command.json && is_compiled(command.source);
}

/// Kernels are compiled for the GPU where somebody looks at the code, or at what it takes.
std::string why_no_gpu_code(const DumpCommand& command) {
  const bool prints_stages =
      !command.json && command.folder.empty() && command.page.empty() && !command.options.stages.empty();
  const bool wants_code = std::ranges::any_of(command.options.stages, [](const std::string& stage) {
    return stage == "ptx" || stage == "sass" || stage == kAllStages;
  });
  return prints_stages && !wants_code ? "nobody asked for it" : "";
}

DumpInput load(const DumpCommand& command, bool is_short) {
  DumpSource source = command.source;
  DumpOptions options = shown(command.options);
  options.no_gpu_code = is_short ? "nobody asked for it" : why_no_gpu_code(command);
  if (is_short) options.stages = {"ir"};
  if (is_short && source.device.empty()) source.device = "cpu";
  DumpInput input = load_dump_input(source, options);
  if (!options.kernels.empty() && input.dump.kernels.empty())
    throw UsageError(fmt::format("--kernel {}: there is no kernel with such a name; `moxie dump {}` shows them",
                                 options.kernels, source.program.source));
  return input;
}

const Compilation& needs_run(const DumpInput& input, std::string_view option) {
  if (!input.compilation)
    throw UsageError(fmt::format("{} runs kernels: it needs a formula or the folder of a run", option));
  if (!input.compilation->cpu)
    throw UsageError(
        fmt::format("{} runs kernels on this processor: leave out --device cuda, or name a stage of the "
                    "CPU as well",
                    option));
  return *input.compilation;
}

int run_dump(const DumpCommand& command) {
  if (command.source.program.source.empty())
    throw UsageError(
        "name what to dump: a .mox file, a built-in formula, the folder of a run, a dump, or an entry of the kernel "
        "cache");
  keep_file("--html", command.page, command.source.program.source);
  const bool is_short = wants_summary(command);
  DumpInput input = load(command, is_short);
  if (!command.repro.empty()) {
    const std::string folder = command.folder.empty() ? command.repro + ".repro" : command.folder;
    write_kernel_repro(needs_run(input, "--repro"), input.dump, command.repro, folder);
    fmt::print("sh {}/build.sh  # builds and runs {} alone\n", folder, command.repro);
    return 0;
  }
  if (command.measure) measure_kernels(needs_run(input, "--measure"), input.dump);
  const Dump& dump = input.dump;
  if (!command.folder.empty()) write_dump(dump, command.folder);
  if (!command.page.empty()) atomic_write(command.page, dump_html(dump));
  if (command.json) fmt::print("{}", dump_json(dump, !command.options.stages.empty()));
  if (is_short) {
    print_summary(dump);
    return 0;
  }
  const auto assumed = input.compilation ? input.compilation->assumed : std::vector<std::string>();
  if (!assumed.empty()) fmt::print(stderr, "moxie: {}\n", how_to_give_dims(assumed, dump.dims));
  if (command.folder.empty() && command.page.empty() && !command.json) print_stages(dump, shown(command.options));
  return 0;
}

struct CompareCommand {
  std::string before, after;
  DumpOptions options;
};

/// 1 where the dumps differ, as diff does.
int run_compare(const CompareCommand& command) {
  const std::string text = compare_dumps(read_dump(command.before), read_dump(command.after), shown(command.options));
  fmt::print("{}", text);
  return text.empty() ? 0 : 1;
}

void add_stage_option(OptionParser& parser, std::vector<std::string>& stages) {
  std::vector<std::string> names = {kAllStages};
  std::string help = "which stages to show, or all; if not given, the formula and what its kernels take:";
  for (const Stage& stage : dump_stages()) {
    names.emplace_back(stage.name);
    help += fmt::format("\n  {}: {}", stage.name, stage.purpose);
  }
  parser.add_option("--stage", stages, help).comma_separated().one_of(names);
}

void add_kernel_option(OptionParser& parser, std::string& kernels) {
  parser.add_option("--kernel", kernels, "only kernels in whose names this regular expression is found");
}

}  // namespace

Work add_dump(OptionParser& parser) {
  auto command = std::make_shared<DumpCommand>();
  add_dump_source_options(parser, command->source);
  // Not with `dump diff`.
  parser.option("program").required(false);
  add_stage_option(parser, command->options.stages);
  add_kernel_option(parser, command->options.kernels);
  std::vector<std::string> gpus;
  for (const GpuModel& model : gpu_models()) gpus.emplace_back(model.name);
  parser
      .add_option_function(
          "--gpu", [command](const std::string& name) { command->options.gpu = gpu_model(name); },
          "the GPU that figures and code are for; none is needed")
      .show_default(command->options.gpu.name)
      .one_of_ignoring_case(gpus);
  parser.add_option("-o,--out", command->folder, "write a folder of files with a manifest.json instead of printing");
  parser.add_option("--html", command->page,
                    "write one page that links the lines of all stages, for a browser; it needs no network");
  parser.add_flag("--json", command->json, "figures of every kernel as JSON; with --stage also the texts");
  parser.add_flag("--measure", command->measure,
                  "also run everything on this processor, with made-up inputs, for the times of kernels");
  parser.add_option(
      "--repro", command->repro,
      "write a folder that reruns this kernel alone, on the CPU: text, code, inputs, a program in C and a build line");

  auto compare = std::make_shared<CompareCommand>();
  OptionParser diff = parser.add_subcommand(
      "diff", "what changed between two dumps, and what it cost; 1 is the exit code where something did");
  diff.add_option("before", compare->before, "a folder that -o or MOXIE_DUMP wrote").required();
  diff.add_option("after", compare->after, "another one").required();
  add_stage_option(diff, compare->options.stages);
  add_kernel_option(diff, compare->options.kernels);
  return [command, compare, diff] { return diff.parsed() ? run_compare(*compare) : run_dump(*command); };
}

}  // namespace moxie
