#pragma once
// The environment switches of moxie: one prefix, one table. Command line tools check them at the start and hand their
// values on as options; the library itself reads the two that name folders.
#include <span>
#include <string>
#include <string_view>

namespace moxie {

struct Switch {
  std::string_view name;
  std::string_view value;  // "DIR", "N"
  std::string_view meaning;
  /// What is wrong with a value; empty if nothing is.
  std::string (*problem)(std::string_view value);
};

std::span<const Switch> switches();
/// The table as text.
std::string switches_help();
/// Throws TypeError for a MOXIE_ variable that is not in the table, with the list of those that are, and for a value
/// that is not allowed.
void check_switches();
/// The value, or an empty string if it is not set.
std::string switch_value(std::string_view name);

}  // namespace moxie
