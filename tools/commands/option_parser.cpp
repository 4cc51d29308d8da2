#include "tools/commands/option_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "compiler/text/source_text.h"
#include "tools/commands/command.h"

namespace moxie {
namespace {

std::vector<std::string> list_of(std::span<const std::string> names) { return {names.begin(), names.end()}; }

/// The innermost command that was named.
const CLI::App& parsed_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : parsed_command(*commands.front());
}

/// Which option was meant, by those of the command; empty where none is alike or no option is unknown.
std::string similar_option(const CLI::App& app) {
  const std::vector<std::string> unknown = app.remaining(true);
  const auto option = std::ranges::find_if(unknown, [](const std::string& word) { return word.starts_with("--"); });
  if (option == unknown.end()) return "";
  std::vector<std::string> known;
  for (const CLI::Option* each : parsed_command(app).get_options()) {
    for (const std::string& name : each->get_lnames()) known.push_back("--" + name);
  }
  const std::string similar = did_you_mean(option->substr(0, option->find('=')), known);
  return similar.empty() ? "" : "\n" + *option + ": " + similar;
}

/// The values of one_of(), which CLI11 shows behind the kind of the value: "TEXT:{cpu,interp}".
std::vector<std::string> choices_in(const std::string& type) {
  const std::size_t open = type.find(":{"), close = type.find('}', open);
  if (open == type.npos || close == type.npos) return {};
  return CLI::detail::split(type.substr(open + 2, close - open - 2), ',');
}

OptionDescription describe(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  OptionDescription result;
  for (const std::string& name : option.get_snames()) result.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) result.names.push_back("--" + name);
  if (option.get_positional()) result.names.push_back(option.get_name(true));
  result.help = option.get_description();
  result.heading = option.get_group();
  if (option.get_items_expected_max() > 0) result.value = type.substr(0, type.find(':'));
  result.choices = choices_in(type);
  result.default_value = option.get_default_str();
  result.environment = option.get_envname();
  result.positional = option.get_positional();
  result.required = option.get_required();
  result.repeats = option.get_items_expected_max() > 1;
  return result;
}

CommandDescription describe(const CLI::App& app) {
  CommandDescription result{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options()) result.options.push_back(describe(*option));
  for (const CLI::App* command : app.get_subcommands({})) {
    result.commands.push_back(describe(*command));
    // CLI11 gives a command the footer of the program unless it has another.
    if (result.commands.back().footer == result.footer) result.commands.back().footer.clear();
  }
  return result;
}

}  // namespace

Option Option::required(bool required) const { return Option(option_->required(required)); }

Option Option::delimiter(char delimiter) const { return Option(option_->delimiter(delimiter)); }

Option Option::allow_extra_args(bool allow) const { return Option(option_->allow_extra_args(allow)); }

Option Option::show_default() const { return Option(option_->capture_default_str()); }

Option Option::show_default(const std::string& text) const { return Option(option_->default_str(text)); }

Option Option::one_of(std::span<const std::string> names) const {
  return Option(option_->check(CLI::IsMember(list_of(names))));
}

Option Option::one_of(std::initializer_list<std::string> names) const {
  return one_of(std::span<const std::string>(names.begin(), names.size()));
}

Option Option::one_like(std::span<const std::string_view> names,
                        const std::function<std::string(const std::string&)>& problem) const {
  const std::string shown = fmt::format("{{{}}}", fmt::join(names, ","));
  return Option(option_->check(CLI::Validator([problem](const std::string& value) { return problem(value); }, shown)));
}

Option Option::one_of_ignoring_case(std::span<const std::string> names) const {
  return Option(option_->check(CLI::IsMember(list_of(names), CLI::ignore_case)));
}

Option Option::in_range(std::int64_t minimum, std::int64_t maximum) const {
  return Option(option_->check(CLI::Range(minimum, maximum)));
}

Option Option::check(const std::function<std::string(const std::string&)>& problem) const {
  return Option(option_->check(problem));
}

Option Option::environment(const std::string& variable) const { return Option(option_->envname(variable)); }

Option Option::group(const std::string& heading) const { return Option(option_->group(heading)); }

bool Option::given() const { return !option_->empty(); }

std::vector<std::string> Option::texts() const { return option_->results(); }

OptionParser::OptionParser(const std::string& description, const std::string& program_name)
    : owned_(std::make_shared<CLI::App>(description, program_name)), app_(owned_.get()) {}

template <class Value>
Option OptionParser::add_option(const std::string& names, Value& value, const std::string& help) {
  return Option(app_->add_option(names, value, help));
}

Option OptionParser::add_option_function(const std::string& names, const std::function<void(const std::string&)>& set,
                                         const std::string& help) {
  return Option(app_->add_option_function<std::string>(names, set, help));
}

Option OptionParser::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help));
}

Option OptionParser::option(const std::string& name) const { return Option(app_->get_option(name)); }

OptionParser OptionParser::add_subcommand(const std::string& name, const std::string& summary) {
  return OptionParser(app_->add_subcommand(name, summary));
}

void OptionParser::require_subcommand() { app_->require_subcommand(1); }

void OptionParser::set_version(const std::string& text) { app_->set_version_flag("--version", text); }

void OptionParser::set_footer(const std::string& text) { app_->footer(text); }

void OptionParser::before_help(const std::function<void()>& function) {
  app_->formatter_fn([function](const CLI::App* app, const std::string& name, CLI::AppFormatMode mode) {
    function();
    return CLI::Formatter().make_help(app, name, mode);
  });
}

std::string OptionParser::help(const std::string& command) const {
  return command.empty() ? app_->help() : app_->get_subcommand(command)->help(app_->get_name());
}

CommandDescription OptionParser::description() const { return describe(*app_); }

void OptionParser::on_parsed(const std::function<void()>& function) { app_->callback(function); }

/// CLI11 has an exit code for each kind of mistake; here every mistake is wrong usage.
bool OptionParser::parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ExtrasError& error) {
    throw UsageError(std::string(error.what()) + similar_option(*app_) + "\nRun with --help for more information.");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::Success))
      throw UsageError(std::string(error.what()) + "\nRun with --help for more information.");
    app_->exit(error);  // prints what --help or --version asked for
    return false;
  }
  return true;
}

bool OptionParser::parsed() const { return app_->parsed(); }

bool OptionParser::subcommand_parsed() const { return !app_->get_subcommands().empty(); }

std::vector<std::string> OptionParser::unknown_arguments() const { return app_->remaining(); }

// The kinds of variables that options write to.
template Option OptionParser::add_option(const std::string&, std::string&, const std::string&);
template Option OptionParser::add_option(const std::string&, std::filesystem::path&, const std::string&);
template Option OptionParser::add_option(const std::string&, int&, const std::string&);
template Option OptionParser::add_option(const std::string&, std::int64_t&, const std::string&);
template Option OptionParser::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option OptionParser::add_option(const std::string&, double&, const std::string&);
template Option OptionParser::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Option OptionParser::add_option(const std::string&, std::vector<std::int64_t>&, const std::string&);
template Option OptionParser::add_option(const std::string&, std::vector<double>&, const std::string&);

}  // namespace moxie
