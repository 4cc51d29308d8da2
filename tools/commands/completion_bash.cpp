#include "tools/commands/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace moxie {
namespace {

/// Commands are told apart by all words that lead to them: "moxie aot describe".
constexpr const char* kBashScript = R"(# Completion of {0} for bash; made by `{0} completion bash`.
_{0}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} command={0} words next
  for next in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$command $next" in
{1}    esac
  done
  case $command in
{2}  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  [[ $word == -* ]] || COMPREPLY+=($(compgen -f -- "$word"))
}}
complete -o filenames -F _{0} {0}
)";

struct Cases {
  std::string commands, words;
};

void append_cases(const CommandDescription& command, const std::string& path, Cases& cases) {
  std::vector<std::string> words;
  for (const OptionDescription& option : command.options)
    std::ranges::copy_if(option.names, std::back_inserter(words),
                         [](const std::string& name) { return name.starts_with("--"); });
  for (const CommandDescription& below : command.commands) words.push_back(below.name);
  cases.words += fmt::format("    \"{}\") words=\"{}\" ;;\n", path, fmt::join(words, " "));
  for (const CommandDescription& below : command.commands) {
    const std::string name = path + " " + below.name;
    cases.commands += fmt::format("      \"{0}\") command=\"{0}\" ;;\n", name);
    append_cases(below, name, cases);
  }
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  Cases cases;
  append_cases(program, program.name, cases);
  return fmt::format(kBashScript, program.name, cases.commands, cases.words);
}

}  // namespace moxie
