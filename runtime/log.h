#pragma once
// What the runtime says of its work where MOXIE_LOG asks for it: lines on the standard error, none otherwise.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace moxie {

enum class LogChannel : std::uint8_t { Cache, Codegen, Runtime };
enum class LogLevel : std::uint8_t { Off, Info, Debug };

inline constexpr std::array<std::string_view, 3> kLogChannels = {"cache", "codegen", "runtime"};
/// By LogChannel.
using LogLevels = std::array<LogLevel, kLogChannels.size()>;

/// `cache,runtime:debug`: channels, each with a level if not `info`. Throws TypeError for an unknown channel or level,
/// with the list of the known ones.
LogLevels parse_log_levels(std::string_view text);
/// Whether MOXIE_LOG, as it was when the process first asked, wants lines of this level.
bool is_logged(LogChannel channel, LogLevel level = LogLevel::Info);
void write_log(LogChannel channel, std::string_view text);

template <class... Args>
void log_info(LogChannel channel, fmt::format_string<Args...> text, Args&&... args) {
  if (is_logged(channel)) write_log(channel, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void log_debug(LogChannel channel, fmt::format_string<Args...> text, Args&&... args) {
  if (is_logged(channel, LogLevel::Debug)) write_log(channel, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace moxie
