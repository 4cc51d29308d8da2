#pragma once
// The options of a command line. option_parser.cpp alone includes CLI11: its headers take three seconds to compile.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace moxie {

/// A handle of an option that a parser holds. Each setter gives the same option, for the next setter.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option required(bool required = true) const;
  /// One argument may hold several values with this character between them.
  Option delimiter(char delimiter) const;
  /// Whether arguments after the first one belong to the option too, up to the next option.
  Option allow_extra_args(bool allow) const;
  /// Several values: separated by commas in one argument, or each after the option's name.
  Option comma_separated() const { return delimiter(',').allow_extra_args(false); }
  /// The help text shows the present value of the variable as the default.
  Option show_default() const;
  Option show_default(const std::string& text) const;
  Option one_of(std::span<const std::string> names) const;
  Option one_of(std::initializer_list<std::string> names) const;
  /// Names of which the help text shows some, and `problem` tells what is wrong with others.
  Option one_like(std::span<const std::string_view> names,
                  const std::function<std::string(const std::string&)>& problem) const;
  Option one_of_ignoring_case(std::span<const std::string> names) const;
  Option in_range(std::int64_t minimum, std::int64_t maximum) const;
  /// `problem` gives what is wrong with the text of a value, or an empty text.
  Option check(const std::function<std::string(const std::string&)>& problem) const;
  /// The variable of the environment that holds the value if the option is not given.
  Option environment(const std::string& variable) const;
  /// The heading in the help text.
  Option group(const std::string& heading) const;
  /// Leaves the option out of the help text.
  Option hide() const { return group(""); }

  /// After parsing: whether the option was given, and the texts of its values.
  bool given() const;
  std::vector<std::string> texts() const;

 private:
  CLI::Option* option_;
};

/// An option or a positional argument as help texts show it.
struct OptionDescription {
  std::vector<std::string> names;    // "-o", "--out"; of a positional argument its name
  std::string help, heading;         // the heading of its group in the help text
  std::string value;                 // the kind of its value, as in TEXT; empty for a flag
  std::vector<std::string> choices;  // the only values that are allowed; empty: any
  std::string default_value, environment;
  bool positional = false, required = false, repeats = false;
};

/// A program or a command with all that may stand after it in a command line.
struct CommandDescription {
  std::string name, summary, footer;
  std::vector<OptionDescription> options;  // in the order of the help text
  std::vector<CommandDescription> commands = {};
};

/// A handle of the options of a program or of one of its subcommands.
class OptionParser {
 public:
  explicit OptionParser(const std::string& description, const std::string& program_name = "");

  /// Names are as in "-o,--out"; without a dash, an argument by its position. `Value` is one of those that
  /// option_parser.cpp lists at its end.
  template <class Value>
  Option add_option(const std::string& names, Value& value, const std::string& help);
  /// `set` is called with the text.
  Option add_option_function(const std::string& names, const std::function<void(const std::string&)>& set,
                             const std::string& help);
  Option add_flag(const std::string& names, bool& value, const std::string& help);
  /// The option with this name, which must exist.
  Option option(const std::string& name) const;
  OptionParser add_subcommand(const std::string& name, const std::string& summary);
  void require_subcommand();
  void set_version(const std::string& text);
  void set_footer(const std::string& text);
  /// Called before a help text of this command is made, when the options before --help are known: to hide options.
  void before_help(const std::function<void()>& function);
  /// The help text of this program, or of its command with that name.
  std::string help(const std::string& command = "") const;
  /// What the help text is made of, of this command and of those below it.
  CommandDescription description() const;
  /// Called at the end of parsing if this subcommand was named.
  void on_parsed(const std::function<void()>& function);

  /// False if the arguments only asked for the help text or the version, which is then printed. Throws UsageError.
  bool parse(int argc, const char* const* argv);
  /// After parsing: whether this subcommand was named, or any of its own; and the arguments that nothing took.
  bool parsed() const;
  bool subcommand_parsed() const;
  std::vector<std::string> unknown_arguments() const;

 private:
  explicit OptionParser(CLI::App* subcommand) : app_(subcommand) {}

  std::shared_ptr<CLI::App> owned_;  // of the program only: it owns its subcommands
  CLI::App* app_;
};

}  // namespace moxie
