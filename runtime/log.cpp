#include "runtime/log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "compiler/support/error.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

/// The names of LogLevel::Info and LogLevel::Debug.
constexpr std::array<std::string_view, 2> kLevels = {"info", "debug"};

}  // namespace

LogLevels parse_log_levels(std::string_view text) {
  LogLevels levels{};
  for (const std::string& item : split_list(text)) {
    const std::size_t colon = std::min(item.find(':'), item.size());
    const auto* const channel = std::ranges::find(kLogChannels, std::string_view(item).substr(0, colon));
    if (channel == kLogChannels.end())
      throw TypeError(
          fmt::format("'{}' is no channel; choose from: {}", item.substr(0, colon), fmt::join(kLogChannels, ", ")));
    const std::string_view wanted = colon < item.size() ? std::string_view(item).substr(colon + 1) : kLevels.front();
    const auto* const level = std::ranges::find(kLevels, wanted);
    if (level == kLevels.end())
      throw TypeError(fmt::format("'{}' is no level; choose from: {}", wanted, fmt::join(kLevels, ", ")));
    levels[static_cast<std::size_t>(channel - kLogChannels.begin())] =
        static_cast<LogLevel>(level - kLevels.begin() + 1);
  }
  return levels;
}

bool is_logged(LogChannel channel, LogLevel level) {
  static const LogLevels levels = parse_log_levels(switch_value("MOXIE_LOG"));
  return levels[static_cast<std::size_t>(channel)] >= level;
}

void write_log(LogChannel channel, std::string_view text) {
  const std::string line = fmt::format("moxie {}: {}\n", kLogChannels[static_cast<std::size_t>(channel)], text);
  std::fputs(line.c_str(), stderr);
}

}  // namespace moxie
