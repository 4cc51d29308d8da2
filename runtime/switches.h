#pragma once
// The environment switches of moxie: one prefix, one table. Nothing else in moxie reads variables with this prefix.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/loop/instrument.h"
#include "runtime/program_options.h"

namespace moxie {

struct Switch {
  std::string_view name;
  std::string_view value;  // "DIR", "N"
  std::string_view meaning;
  /// What is wrong with a value; empty if nothing is.
  std::string (*problem)(std::string_view value);
  /// Whether it changes the code of kernels, so that its value is part of their keys.
  bool changes_code = false;
};

std::span<const Switch> switches();
/// The table as text.
std::string switches_help();
/// Throws TypeError for a MOXIE_ variable that is not in the table but spelt much like one that is, and for a value
/// that is not allowed. Other names belong to other tools.
void check_switches();
/// The value, or an empty string if it is not set. Throws TypeError for a value that is not allowed.
std::string switch_value(std::string_view name);
/// An option of the program's code or, where it is empty, the switch that it stands for. Throws TypeError for a value
/// that the switch does not allow.
std::string option_or_switch(const std::string& option, std::string_view name);
/// Throws TypeError for an option whose value is not allowed.
void check_program_options(const ProgramOptions& options);
/// The passes to leave out: as the options say, else MOXIE_DISABLE.
std::vector<std::string> disabled_passes(const ProgramOptions& options = {});
/// What kernels look for: as the options say, else MOXIE_CHECK.
Checks chosen_checks(const ProgramOptions& options = {});
/// Whether values of inputs must lie in their declared domains: as the options say, else MOXIE_CHECK_INPUTS is not
/// `off`.
bool checks_inputs(const ProgramOptions& options = {});
/// Bytes of workspace above which scans keep checkpoints: as the options say, else MOXIE_MEMORY; the largest number
/// where neither does.
std::int64_t memory_limit(const ProgramOptions& options = {});
/// The parts between commas; none of an empty text.
std::vector<std::string> split_list(std::string_view text);

}  // namespace moxie
