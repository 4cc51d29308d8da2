#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tools/commands/completion.h"

namespace moxie {
namespace {

/// Words up to the innermost command are dropped before its options are completed: _arguments() takes the first word
/// for the name of a program.
constexpr const char* kZshScript = R"(#compdef {0}
# Completion of {0} for zsh; made by `{0} completion zsh`.
{1}
_{0}() {{
  local command={0}
  integer at=2 last=1
  for ((; at < CURRENT; ++at)); do
    case "$command $words[at]" in
      {2})
        command+=" $words[at]"
        last=at ;;
    esac
  done
  words=("${{(@)words[last,-1]}}")
  ((CURRENT -= last - 1))
  _{0}_${{command// /_}}
}}

# Called by the completion system, or read by `source`.
if [[ $funcstack[1] == _{0} ]]; then
  _{0} "$@"
else
  compdef _{0} {0}
fi
)";

std::string quoted_in_zsh(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

/// Text between brackets or colons of a specification.
std::string escaped_in_zsh(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

/// A value takes names of files, unless it takes choices or numbers.
std::string zsh_action(const OptionDescription& option) {
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  return option.value == "TEXT" ? "_files" : " ";
}

/// The specifications of an option's names, each of which excludes the others unless the option may be repeated.
void append_option_to_zsh(const OptionDescription& option, std::string& text) {
  for (const std::string& name : option.names) {
    std::string spec = option.repeats ? "*" : fmt::format("({})", fmt::join(option.names, " "));
    spec += name;
    if (!option.value.empty()) spec += name.starts_with("--") ? "=" : "+";
    spec += "[" + escaped_in_zsh(option.help) + "]";
    if (!option.value.empty()) spec += ":" + option.value + ":" + zsh_action(option);
    text += " \\\n    " + quoted_in_zsh(spec);
  }
}

/// The name of the function for a command: "moxie aot run" is completed by _moxie_moxie_aot_run().
std::string function_of(const std::string& program, const std::string& path) {
  std::string name = "_" + program + "_" + path;
  std::ranges::replace(name, ' ', '_');
  return name;
}

/// Commands, and names of files where the command takes arguments too.
std::string first_word(const CommandDescription& command, const std::string& function, bool has_arguments) {
  std::string text = fmt::format("\n{}_words() {{\n  local -a commands=(", function);
  for (const CommandDescription& below : command.commands)
    text += "\n    " + quoted_in_zsh(escaped_in_zsh(below.name) + ":" + below.summary);
  text += "\n  )\n  _describe -t commands command commands\n";
  return text + (has_arguments ? "  _files\n}\n" : "}\n");
}

struct ZshScript {
  std::string program, functions;
  std::vector<std::string> paths;
};

void append_to_zsh(const CommandDescription& command, const std::string& path, ZshScript& script) {
  const std::string function = function_of(script.program, path);
  std::string options, arguments;
  for (const OptionDescription& option : command.options) {
    if (!option.positional) {
      append_option_to_zsh(option, options);
    } else {
      arguments += " \\\n    " + quoted_in_zsh(fmt::format("{}{}:{}",
                                                           option.repeats    ? "*:"
                                                           : option.required ? ":"
                                                                             : "::",
                                                           escaped_in_zsh(option.names.front()), zsh_action(option)));
    }
  }
  if (!command.commands.empty()) {
    script.functions += first_word(command, function, !arguments.empty());
    arguments = " \\\n    " + quoted_in_zsh("*:command:" + function + "_words");
  }
  script.functions += fmt::format("\n{}() {{\n  _arguments -s{}{}\n}}\n", function, options, arguments);
  for (const CommandDescription& below : command.commands) {
    const std::string path_below = path + " " + below.name;
    script.paths.push_back(path_below);
    append_to_zsh(below, path_below, script);
  }
}

}  // namespace

std::string zsh_completion(const CommandDescription& program) {
  ZshScript script{program.name, {}, {}};
  append_to_zsh(program, program.name, script);
  std::vector<std::string> patterns;
  for (const std::string& path : script.paths) patterns.push_back(quoted_in_zsh(path));
  return fmt::format(kZshScript, program.name, script.functions, fmt::join(patterns, "|"));
}

}  // namespace moxie
