#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/commands/completion.h"

namespace moxie {
namespace {

/// Commands are told apart by all words that lead to them: "moxie aot describe".
constexpr const char* kFishScript = R"(# Completion of {0} for fish; made by `{0} completion fish`.
function __{0}_at
    set -l command {0}
    set -l words (commandline -opc)
    for word in $words[2..-1]
        switch "$command $word"
            case{1}
                set command "$command $word"
        end
    end
    test "$command" = "$argv"
end
{2})";

std::string quoted_in_fish(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "'";
}

/// An option with a value takes names of files, unless it takes choices or numbers.
std::string fish_value(const OptionDescription& option) {
  if (option.value.empty()) return "";
  if (!option.choices.empty())
    return fmt::format(" -x -a {}", quoted_in_fish(fmt::format("{}", fmt::join(option.choices, " "))));
  return option.value == "TEXT" ? " -r" : " -x";
}

std::string complete_in_fish(const std::string& program, const std::string& path, const OptionDescription& option) {
  std::string line = fmt::format("complete -c {} -n '__{}_at {}'", program, program, path);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  return line + fish_value(option) + " -d " + quoted_in_fish(option.help) + "\n";
}

struct FishScript {
  std::string program, paths, lines;
};

void append_to_fish(const CommandDescription& command, const std::string& path, FishScript& script) {
  bool has_files = false;
  for (const OptionDescription& option : command.options) {
    if (!option.positional) {
      script.lines += complete_in_fish(script.program, path, option);
    } else if (option.choices.empty()) {
      has_files = true;
    } else {
      script.lines +=
          fmt::format("complete -c {} -n '__{}_at {}'{}\n", script.program, script.program, path, fish_value(option));
    }
  }
  if (!has_files)
    script.lines += fmt::format("complete -c {} -n '__{}_at {}' -f\n", script.program, script.program, path);
  for (const CommandDescription& below : command.commands) {
    const std::string name = path + " " + below.name;
    script.lines += fmt::format("complete -c {} -n '__{}_at {}' -a {} -d {}\n", script.program, script.program, path,
                                below.name, quoted_in_fish(below.summary));
    script.paths += " " + quoted_in_fish(name);
    append_to_fish(below, name, script);
  }
}

}  // namespace

std::string fish_completion(const CommandDescription& program) {
  FishScript script{program.name, {}, {}};
  append_to_fish(program, program.name, script);
  return fmt::format(kFishScript, program.name, script.paths, script.lines);
}

}  // namespace moxie
