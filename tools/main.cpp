// The program `moxie`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <system_error>

#include "runtime/switches.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

constexpr std::array kCommands = {
    Command{"train", "Train a model and leave a run folder behind", add_train},
    Command{"predict", "Apply a trained model, with uncertainties and calibration figures", add_predict},
    Command{"run", "Run a formula on tensors from a file", add_run},
    Command{"check", "Compare devices with the interpreter and gradients with finite differences", add_check},
    Command{"ops", "List the built-in formulas, or print one", add_ops},
    Command{"dump", "Show what the compiler makes of a formula, stage by stage", add_dump},
    Command{"aot", "Make a library with a plain C interface of formulas", add_aot},
    Command{"bench", "Measure the benchmark cases", add_bench},
    Command{"doctor", "Show what this machine offers, what is missing and how to get it", add_doctor},
};

constexpr int kFailure = 1;
constexpr int kWrongUsage = 2;
constexpr const char* kOutOfMemory = "out of memory; use smaller dims or batches";

std::vector<std::string_view> command_names() {
  std::vector<std::string_view> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return names;
}

int fail(std::string_view message, int code) {
  fmt::print(stderr, "moxie: {}\n", message);
  return code;
}

/// CLI11 has codes of its own for each kind of mistake; here they are all wrong usage.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) return app.exit(error);  // --help, --version
  if (const auto unknown = app.remaining();
      app.get_subcommands().empty() && !unknown.empty() && !unknown[0].starts_with('-')) {
    return fail(fmt::format("there is no command '{}'; choose from: {}", unknown[0], fmt::join(command_names(), ", ")),
                kWrongUsage);
  }
  return fail(fmt::format("{}\nRun with --help for more information.", error.what()), kWrongUsage);
}

int run(int argc, char** argv) {
  CLI::App app("moxie compiles formulas in index notation, and their derivatives, into fused kernels.", "moxie");
  app.set_version_flag("--version", "moxie " MOXIE_VERSION);
  app.footer(switches_help());
  app.require_subcommand(1);
  Work work;
  for (const Command& command : kCommands) {
    CLI::App* subcommand = app.add_subcommand(command.name, command.summary);
    subcommand->callback([&work, todo = command.add(*subcommand)] { work = todo; });
  }
  try {
    check_switches();
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error);
  } catch (const Error& error) {
    return fail(error.what(), kWrongUsage);
  }
  const int code = work();
  if (std::fflush(stdout) != 0)
    throw DataError("cannot write to the standard output: " + std::generic_category().message(errno));
  return code;
}

}  // namespace
}  // namespace moxie

int main(int argc, char** argv) {
  try {
    return moxie::run(argc, argv);
  } catch (const moxie::UsageError& error) {
    return moxie::fail(error.what(), moxie::kWrongUsage);
  } catch (const std::bad_alloc&) {
    return moxie::fail(moxie::kOutOfMemory, moxie::kFailure);
  } catch (const std::length_error&) {
    return moxie::fail(moxie::kOutOfMemory, moxie::kFailure);
  } catch (const std::exception& error) {
    return moxie::fail(error.what(), moxie::kFailure);
  }
}
