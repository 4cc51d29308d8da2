// moxie dump: what the compiler makes of a Program, stage by stage.
#include <fmt/format.h>

#include "compiler/diff/differentiate.h"
#include "ops/catalogue.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/common.h"
#include "tools/commands/stages.h"

namespace moxie {
namespace {

struct DumpOptions {
  ProgramChoice program;
  std::vector<std::string> grad, wrt, stages;
};

bool is_wanted(const DumpOptions& options, std::string_view stage) {
  return options.stages.empty() || std::ranges::find(options.stages, stage) != options.stages.end();
}

int dump(const DumpOptions& options) {
  const Program source = load_program(options.program);
  const DimValues dims = parse_dims(options.program.dims, source);
  const Program task = specialise(with_gradients(source, options.program.source, options.grad, options.wrt), dims);
  const Compilation compilation{source, task, make_plan(task, chosen_checks()), dims};
  for (const Stage& stage : stages()) {
    if (!is_wanted(options, stage.name)) continue;
    if (options.stages.size() != 1) fmt::print("# ==== {}: {}\n", stage.name, stage.purpose);
    fmt::print("{}\n", stage.text(compilation));
  }
  return 0;
}

}  // namespace

Work add_dump(CLI::App& app) {
  auto options = std::make_shared<DumpOptions>();
  add_program_options(app, options->program);
  add_gradient_options(app, options->grad, options->wrt);
  std::vector<std::string> names;
  std::string help = "which stages to show, all if not given:";
  for (const Stage& stage : stages()) {
    names.emplace_back(stage.name);
    help += fmt::format("\n  {}: {}", stage.name, stage.purpose);
  }
  app.add_option("--stage", options->stages, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(names));
  return [options] { return dump(*options); };
}

}  // namespace moxie
