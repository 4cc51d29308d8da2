#pragma once
// What a subcommand of `moxie` is. One file per command; the table is in main.cpp.
#include <functional>

#include "compiler/support/error.h"
#include "tools/commands/option_parser.h"

namespace moxie {

/// What a command does once its options are known. Gives the exit code: 0, or 1 where the work was done and the answer
/// is no. Failures are thrown: UsageError ends with 2, every other Error with 1.
using Work = std::function<int()>;

struct Command {
  const char* name;
  const char* summary;
  /// Adds the options to the subcommand and gives the work that reads them.
  Work (*add)(OptionParser& parser);
};

Work add_aot(OptionParser& parser);
Work add_bench(OptionParser& parser);
Work add_cache(OptionParser& parser);
Work add_check(OptionParser& parser);
Work add_compare(OptionParser& parser);
Work add_doctor(OptionParser& parser);
Work add_dump(OptionParser& parser);
Work add_experiment(OptionParser& parser);
Work add_export(OptionParser& parser);
Work add_ops(OptionParser& parser);
Work add_predict(OptionParser& parser);
Work add_run(OptionParser& parser);
Work add_train(OptionParser& parser);

}  // namespace moxie
