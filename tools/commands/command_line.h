#pragma once
// What every program with commands does with its arguments and with exceptions.
#include <functional>

#include "tools/commands/command.h"

namespace moxie {

/// Parses the arguments and does the work that they ask for; `explain` may throw a UsageError that says more of a
/// mistake than the parser does. Gives the exit code.
int run_command_line(OptionParser& parser, int argc, char** argv, const Work& work,
                     const std::function<void(const OptionParser&)>& explain = {});

/// What `run` gives, or the code of what it throws, with the message on the standard error stream.
int exit_code(const std::function<int()>& run);

}  // namespace moxie
