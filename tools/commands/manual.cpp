#include "tools/commands/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <vector>

#include "runtime/switches.h"

namespace moxie {
namespace {

constexpr std::string_view kExamplesHeading = "Examples:\n";
constexpr std::size_t kLineLength = 78;

/// What a letter is in the input of roff, where - is a hyphen and ' and ` are typographic quotes.
std::string_view in_roff(char letter) {
  switch (letter) {
    case '\\':
      return "\\e";
    case '-':
      return "\\-";
    case '\'':
      return "\\(aq";
    case '"':
      return "\\(dq";
    case '^':
      return "\\(ha";
    case '~':
      return "\\(ti";
    default:
      return {};
  }
}

std::string roff(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const std::string_view special = in_roff(letter);
    result += special.empty() ? std::string(1, letter) : std::string(special);
  }
  return result;
}

std::string bold(std::string_view text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(std::string_view text) { return "\\fI" + roff(text) + "\\fR"; }

/// Text for an output line: a period at its start would be a request.
std::string line_of(const std::string& text) { return (text.starts_with('.') ? "\\&" : "") + text + "\n"; }

/// Sentences as lines of input; what stands between backquotes is bold.
std::string prose(std::string_view text) {
  std::string result, line, word;
  bool is_bold = false;
  const auto end_word = [&] {
    if (!line.empty() && line.size() + 1 + word.size() > kLineLength) {
      result += line_of(line);
      line.clear();
    }
    if (!word.empty()) line += (line.empty() ? "" : " ") + word;
    word.clear();
  };
  for (const char letter : text) {
    if (letter == '`') {
      is_bold = !is_bold;
      word += is_bold ? "\\fB" : "\\fR";
    } else if (std::isspace(static_cast<unsigned char>(letter))) {
      end_word();
    } else {
      word += roff(std::string_view(&letter, 1));
    }
  }
  end_word();
  return line.empty() ? result : result + line_of(line);
}

/// Lines as they are.
std::string verbatim(std::string_view text) {
  std::string result = ".nf\n", line;
  std::istringstream lines{std::string(text)};
  while (std::getline(lines, line)) result += line_of(roff(line));
  return result + ".fi\n";
}

/// An option with its value as it is written: "-o, --out=TEXT".
std::string written(const OptionDescription& option) {
  if (option.positional) return italic(option.names.front());
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + bold(name);
  return option.value.empty() ? text : text + "=" + italic(option.value);
}

std::string explain(const OptionDescription& option) {
  std::string text = option.help;
  if (!option.choices.empty()) text += fmt::format(" (one of: {})", fmt::join(option.choices, ", "));
  if (!option.default_value.empty() && option.default_value != "[]")
    text += fmt::format(" (default: {})", option.default_value);
  if (!option.environment.empty()) text += fmt::format(" (environment: {})", option.environment);
  return text;
}

std::string tagged(const std::string& tag, std::string_view text) { return ".TP\n" + line_of(tag) + prose(text); }

/// `[OPTIONS] [model] file...`
std::string synopsis(const CommandDescription& command, const std::string& path) {
  std::string text = line_of(bold(path) + " [" + italic("options") + "]");
  for (const OptionDescription& option : command.options) {
    if (!option.positional) continue;
    const std::string name = italic(option.names.front()) + (option.repeats ? "..." : "");
    text += line_of(option.required ? name : "[" + name + "]");
  }
  if (command.commands.empty()) return text;
  return text + ".br\n" + line_of(bold(path) + " " + italic("command") + " [" + italic("options") + "]");
}

std::string arguments(const CommandDescription& command) {
  std::string text;
  for (const OptionDescription& option : command.options)
    if (option.positional) text += tagged(written(option), explain(option));
  return text;
}

/// The options under their headings; the first heading, of most options, is that of the section.
std::string options(const CommandDescription& command) {
  std::vector<std::string> headings;
  for (const OptionDescription& option : command.options)
    if (!option.positional && std::ranges::find(headings, option.heading) == headings.end())
      headings.push_back(option.heading);
  std::string text;
  for (const std::string& heading : headings) {
    if (heading != headings.front()) text += ".SS " + roff(heading) + "\n";
    for (const OptionDescription& option : command.options)
      if (!option.positional && option.heading == heading) text += tagged(written(option), explain(option));
  }
  return text;
}

std::string section(std::string_view name, const std::string& text) {
  return text.empty() ? "" : fmt::format(".SH {}\n{}", name, text);
}

/// Commands of a command; those below them follow after them.
std::string described_commands(const CommandDescription& command, const std::string& path) {
  std::string text;
  for (const CommandDescription& below : command.commands) {
    const std::string name = path + " " + below.name;
    text += ".SS " + roff(name) + "\n" + synopsis(below, name) + ".PP\n" + prose(below.summary) + arguments(below) +
            options(below) + described_commands(below, name);
  }
  return text;
}

/// What follows the options in the help text: sentences, and examples as they are typed.
std::string footer(const std::string& text) {
  const std::size_t examples = std::min(text.find(kExamplesHeading), text.size());
  std::string result = section("NOTES", prose(text.substr(0, examples)));
  if (examples < text.size()) result += section("EXAMPLES", verbatim(text.substr(examples + kExamplesHeading.size())));
  return result;
}

std::string page_start(const std::string& name, const std::string& summary, const std::string& version) {
  std::string title = name;
  std::ranges::transform(title, title.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return fmt::format(".TH {} 1 \"\" \"{}\"\n", roff(title), roff(version)) +
         section("NAME", prose(name + " - " + summary));
}

std::string environment() {
  std::string text;
  for (const Switch& known : switches()) text += tagged(bold(known.name) + "=" + italic(known.value), known.meaning);
  return text;
}

std::string exit_status() {
  return tagged(bold("0"), "The work is done.") +
         tagged(bold("1"), "It failed, or a check found what it looked for; the standard error stream says why.") +
         tagged(bold("2"), "The command line, or a variable of the environment, is not right.");
}

std::string reference(const std::string& name) { return bold(name) + "(1)"; }

std::string program_page(const CommandDescription& program, const std::string& version) {
  std::string commands;
  for (const CommandDescription& command : program.commands)
    commands += tagged(reference(program.name + "-" + command.name), command.summary);
  return page_start(program.name, program.summary, version) + section("SYNOPSIS", synopsis(program, program.name)) +
         section("COMMANDS", commands) + section("OPTIONS", options(program)) + section("ENVIRONMENT", environment()) +
         section("EXIT STATUS", exit_status()) + footer(program.footer);
}

std::string command_page(const CommandDescription& program, const CommandDescription& command,
                         const std::string& version) {
  const std::string path = program.name + " " + command.name;
  return page_start(program.name + "-" + command.name, command.summary, version) +
         section("SYNOPSIS", synopsis(command, path)) + section("ARGUMENTS", arguments(command)) +
         section("OPTIONS", options(command)) + section("COMMANDS", described_commands(command, path)) +
         footer(command.footer) + section("SEE ALSO", line_of(reference(program.name)));
}

}  // namespace

std::map<std::string, std::string> manual_pages(const CommandDescription& program, const std::string& version) {
  std::map<std::string, std::string> pages;
  pages[program.name + ".1"] = program_page(program, version);
  for (const CommandDescription& command : program.commands)
    pages[fmt::format("{}-{}.1", program.name, command.name)] = command_page(program, command, version);
  return pages;
}

}  // namespace moxie
