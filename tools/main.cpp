// The program `moxie`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "compiler/ir/source_text.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/command_line.h"

namespace moxie {
namespace {

constexpr std::array kCommands = {
    Command{"train", "Train a model and leave a run folder behind", add_train},
    Command{"predict", "Apply a trained model, with uncertainties and calibration figures", add_predict},
    Command{"experiment", "Repeat an experiment of the paper and write its table", add_experiment},
    Command{"run", "Run a formula on tensors from a file", add_run},
    Command{"check", "Compare devices with the interpreter and gradients with finite differences", add_check},
    Command{"ops", "List the built-in formulas, or print one", add_ops},
    Command{"dump", "Show what the compiler makes of a formula, stage by stage", add_dump},
    Command{"aot", "Make a library with a plain C interface of formulas", add_aot},
    Command{"export", "Make a library with a plain C interface of a trained model", add_export},
    Command{"bench", "Measure formulas and the benchmark cases", add_bench},
    Command{"doctor", "Show what this machine offers, what is missing and how to get it", add_doctor},
};

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return names;
}

/// A word that is no command is most often a misspelt one.
void explain_unknown_command(const OptionParser& parser) {
  const auto unknown = parser.unknown_arguments();
  if (parser.subcommand_parsed() || unknown.empty() || unknown[0].starts_with('-')) return;
  const std::string similar = did_you_mean(unknown[0], command_names());
  throw UsageError(fmt::format("there is no command '{}'; {}choose from: {}", unknown[0],
                               similar.empty() ? "" : similar + " ", fmt::join(command_names(), ", ")));
}

int run(int argc, char** argv) {
  OptionParser parser("moxie compiles formulas in index notation, and their derivatives, into fused kernels.", "moxie");
  parser.set_version("moxie " MOXIE_VERSION);
  parser.set_footer(switches_help());
  parser.require_subcommand();
  Work work;
  for (const Command& command : kCommands) {
    OptionParser subcommand = parser.add_subcommand(command.name, command.summary);
    subcommand.on_parsed([&work, todo = command.add(subcommand)] { work = todo; });
  }
  return run_command_line(parser, argc, argv, work, explain_unknown_command);
}

}  // namespace
}  // namespace moxie

int main(int argc, char** argv) {
  return moxie::exit_code([&] { return moxie::run(argc, argv); });
}
