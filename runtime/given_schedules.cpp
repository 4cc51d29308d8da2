#include "runtime/given_schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <system_error>

#include "compiler/support/error.h"
#include "compiler/support/trim.h"
#include "runtime/private_file.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

std::string read_schedules(const std::string& file) {
  std::string text;
  try {
    const auto found = read_regular_file(file);
    if (!found) throw DataError(fmt::format("there is no file of schedules {}", file));
    text = *found;
  } catch (const std::system_error& error) {
    throw DataError(fmt::format("cannot read the schedules of {}: {}", file, error.code().message()));
  }
  bool in_comment = false;
  for (char& c : text) {
    in_comment = c != '\n' && (in_comment || c == '#');
    if (in_comment) c = ' ';
    if (c == '\n') c = ';';
  }
  return text;
}

void add_nest(GivenSchedules& nests, std::string_view part) {
  const std::size_t colon = part.find(':');
  if (colon == part.npos)
    throw ParseError(
        fmt::format("the schedule `{}` does not say whose it is: write NAME: {}, with the name of a "
                    "definition",
                    part, part));
  const std::string name(trimmed(part.substr(0, colon)));
  try {
    nests[name] = parse_schedule(part.substr(colon + 1));
  } catch (const ParseError& error) {
    throw ParseError(fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace

GivenByUser parse_given_schedules(std::string_view text) {
  std::string from_file;
  if (text.starts_with('@')) text = from_file = read_schedules(std::string(text.substr(1)));
  GivenByUser given;
  std::string gpu;
  while (!text.empty()) {
    const std::string_view part = trimmed(text.substr(0, text.find(';')));
    text.remove_prefix(std::min(text.find(';'), text.size() - 1) + 1);
    if (part.find('(') != part.npos)
      add_nest(given.nests, part);
    else if (!part.empty())
      gpu += fmt::format("{}{}", gpu.empty() ? "" : ";", part);
  }
  std::erase_if(gpu, is_space);
  given.gpu = parse_cuda_preferences(gpu);
  return given;
}

GivenByUser given_schedules(const std::string& option) {
  return parse_given_schedules(option.empty() ? switch_value("MOXIE_SCHEDULE") : option);
}

}  // namespace moxie
