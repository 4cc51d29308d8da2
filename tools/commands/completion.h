#pragma once
// Completion of command lines by shells.
#include <string>

#include "tools/commands/option_parser.h"

namespace moxie {

/// Scripts that complete commands, options, values of options and names of files. `program` describes the program, by
/// whose name the shell calls it. That of bash is for `source`, that of fish too, that of zsh is a file `_NAME` in a
/// folder of $fpath, or for `source` after `compinit`.
std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);
std::string fish_completion(const CommandDescription& program);

}  // namespace moxie
