#pragma once
// What a subcommand of `moxie` is. One file per command; the table is in main.cpp.
#include <CLI/CLI.hpp>
#include <functional>

#include "compiler/support/error.h"

namespace moxie {

/// What a command does once its options are known. Gives the exit code: 0, or 1 where the work was done and the answer
/// is no. Failures are thrown: UsageError ends with 2, every other Error with 1.
using Work = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;
  /// Adds the options to the subcommand and gives the work that reads them.
  Work (*add)(CLI::App& app);
};

/// Options that are each right but do not go together, or a switch that does not exist.
class UsageError : public Error {
 public:
  using Error::Error;
};

Work add_aot(CLI::App& app);
Work add_bench(CLI::App& app);
Work add_check(CLI::App& app);
Work add_doctor(CLI::App& app);
Work add_dump(CLI::App& app);
Work add_experiment(CLI::App& app);
Work add_export(CLI::App& app);
Work add_ops(CLI::App& app);
Work add_predict(CLI::App& app);
Work add_run(CLI::App& app);
Work add_train(CLI::App& app);

}  // namespace moxie
