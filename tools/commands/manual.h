#pragma once
// Manual pages, as man(1) reads them.
#include <map>
#include <string>

#include "tools/commands/option_parser.h"

namespace moxie {

/// The pages of a program and of its commands by the names of their files: moxie.1, moxie-train.1. Commands of commands
/// are part of the pages of these. `version` stands at the bottom of each page.
std::map<std::string, std::string> manual_pages(const CommandDescription& program, const std::string& version);

}  // namespace moxie
