#include "tools/aot/generator.h"

#include <map>

#include "tools/commands/aot.h"
#include "tools/commands/command_line.h"

namespace moxie::aot {
namespace {

using Makers = std::map<std::string, Program (*)()>;

/// A function's variable, since programs are registered before main() begins, in any order.
Makers& makers() {
  static Makers registered;
  return registered;
}

Program load(const ProgramChoice& choice) {
  const auto maker = makers().find(choice.source);
  if (maker == makers().end()) return load_program(choice);
  return as_chosen(maker->second(), choice);
}

int run(int argc, char** argv) {
  OptionParser parser(
      "Makes libraries with a plain C interface of the formulas that this program defines, and of moxie's.");
  std::string names;
  for (const auto& [name, make] : makers()) names += (names.empty() ? "Formulas: " : ", ") + name;
  parser.set_footer(names);
  const Work work = add_aot(parser, load);
  return run_command_line(parser, argc, argv, work);
}

}  // namespace

RegisteredProgram::RegisteredProgram(const std::string& name, Program (*make)()) { makers().emplace(name, make); }

int generator_main(int argc, char** argv) {
  return exit_code([&] { return run(argc, argv); });
}

}  // namespace moxie::aot
