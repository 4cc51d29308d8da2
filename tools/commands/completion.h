#pragma once
// Completion of command lines by the shell.
#include <string>

#include "tools/commands/option_parser.h"

namespace moxie {

/// A bash script that completes commands, options and names of files, as `source` reads it. For zsh after
/// `autoload -U bashcompinit && bashcompinit`.
std::string bash_completion(const OptionParser& parser, const std::string& program);

}  // namespace moxie
