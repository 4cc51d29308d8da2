// The program `moxie`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "compiler/text/source_text.h"
#include "runtime/atomic_file.h"
#include "runtime/switches.h"
#include "tools/commands/command.h"
#include "tools/commands/command_line.h"
#include "tools/commands/completion.h"
#include "tools/commands/manual.h"

namespace moxie {
namespace {

constexpr std::array kCommands = {
    Command{"train", "Train a model and leave a run folder behind", add_train},
    Command{"predict", "Apply a trained model, with uncertainties and calibration figures", add_predict},
    Command{"compare", "Settings and scores of runs side by side", add_compare},
    Command{"experiment", "Repeat an experiment of the paper and write its table", add_experiment},
    Command{"run", "Run a formula on tensors from a file", add_run},
    Command{"check", "Compare devices with the interpreter and gradients with finite differences", add_check},
    Command{"ops", "List the built-in formulas, or print one", add_ops},
    Command{"dump", "Show what the compiler makes of a formula, stage by stage", add_dump},
    Command{"aot", "Make a library with a plain C interface of formulas", add_aot},
    Command{"export", "Make a library with a plain C interface of a trained model", add_export},
    Command{"bench", "Measure formulas and the benchmark cases", add_bench},
    Command{"cache", "List, measure, shrink or empty the kernel cache", add_cache},
    Command{"doctor", "Show what this machine offers, what is missing and how to get it", add_doctor},
};

constexpr const char* kVersion = "moxie " MOXIE_VERSION;
constexpr const char* kHelp = "help";
constexpr const char* kCompletion = "completion";
constexpr const char* kEnvironment = "environment";

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  for (const char* name : {kHelp, kCompletion}) names.emplace_back(name);
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

int show_help(const OptionParser& parser, const std::string& topic) {
  std::vector<std::string> topics = command_names();
  topics.emplace_back(kEnvironment);
  if (topic == kEnvironment) {
    fmt::print("{}", switches_help());
  } else if (topic.empty() || std::ranges::find(topics, topic) != topics.end()) {
    fmt::print("{}", parser.help(topic));
  } else {
    const std::string similar = did_you_mean(topic, topics);
    throw UsageError(fmt::format("there is nothing to say of '{}'; {}choose from: {}", topic,
                                 similar.empty() ? "" : similar + " ", fmt::join(topics, ", ")));
  }
  return 0;
}

struct HelpOptions {
  std::string topic, manual;
};

int help_with(const OptionParser& parser, const HelpOptions& options) {
  if (options.manual.empty()) return show_help(parser, options.topic);
  if (!options.topic.empty())
    throw UsageError(fmt::format("--man writes the pages of all commands; leave out '{}'", options.topic));
  const std::filesystem::path folder = options.manual;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw DataError(fmt::format("cannot make the folder {}: {}", options.manual, error.message()));
  for (const auto& [name, text] : manual_pages(parser.description(), kVersion)) atomic_write(folder / name, text);
  return 0;
}

struct Shell {
  const char* name;
  std::string (*script)(const CommandDescription& program);
};

constexpr std::array kShells = {Shell{"bash", bash_completion}, Shell{"zsh", zsh_completion},
                                Shell{"fish", fish_completion}};

std::vector<std::string> shell_names() {
  std::vector<std::string> names;
  for (const Shell& shell : kShells) names.emplace_back(shell.name);
  return names;
}

int print_completion(const OptionParser& parser, const std::string& name) {
  const auto shell = std::ranges::find(kShells, name, &Shell::name);
  fmt::print("{}", shell->script(parser.description()));
  return 0;
}

int run(int argc, char** argv) {
  OptionParser parser("moxie compiles formulas in index notation, and their derivatives, into fused kernels.", "moxie");
  parser.set_version(kVersion);
  parser.set_footer(
      "`moxie help COMMAND` is about a command, `moxie help environment` about variables of the environment");
  parser.require_subcommand();
  Work work;
  for (const Command& command : kCommands) {
    OptionParser subcommand = parser.add_subcommand(command.name, command.summary);
    subcommand.on_parsed([&work, todo = command.add(subcommand)] { work = todo; });
  }
  HelpOptions help_options;
  OptionParser help = parser.add_subcommand(kHelp, "Explain a command, or the variables of the environment");
  help.add_option("topic", help_options.topic, "a command, or environment");
  help.add_option("--man", help_options.manual, "instead, write the manual pages of all commands to this folder");
  help.on_parsed([&] { work = [&] { return help_with(parser, help_options); }; });
  std::string shell = kShells.front().name;
  OptionParser completion = parser.add_subcommand(
      kCompletion, "Print a script that completes command lines in a shell: source <(moxie completion bash)");
  completion.add_option("shell", shell, "whose script").show_default().one_of(shell_names());
  completion.on_parsed([&] { work = [&] { return print_completion(parser, shell); }; });
  return run_command_line(parser, argc, argv, work, explain_unknown_command);
}

}  // namespace
}  // namespace moxie

int main(int argc, char** argv) {
  return moxie::exit_code([&] { return moxie::run(argc, argv); });
}
