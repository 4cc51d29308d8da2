#pragma once
// What the runtime says of its work: to a callback of the program, and as lines on the standard error where MOXIE_LOG
// asks for them. Nothing otherwise.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <functional>
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
/// Every channel at this level.
constexpr LogLevels log_levels(LogLevel level) { return {level, level, level}; }

struct LogMessage {
  LogLevel level = LogLevel::Info;  // Info or Debug; what goes wrong is thrown, not logged
  LogChannel channel = LogChannel::Runtime;
  std::string_view text;  // without the end of its line, valid during the call
  std::string_view channel_name() const { return kLogChannels[static_cast<std::size_t>(channel)]; }
};
using LogCallback = std::function<void(const LogMessage&)>;

/// Hands the messages of these levels to the program, for the whole process, in the place of an earlier callback; an
/// empty one ends it. What MOXIE_LOG asks for goes to the standard error all the same.
///
/// The callback is called by whatever thread has something to say, at once and by several at the same time, so it must
/// be thread-safe. What it throws is ignored. What moxie has to say of work that it does in a callback is not handed to
/// it. When the call returns, an earlier callback runs nowhere any more. Throws UsageError inside of a callback.
void set_log_callback(LogCallback callback, const LogLevels& levels = log_levels(LogLevel::Info));

/// Whether MOXIE_LOG, as it was when the process first asked, or the callback wants messages of this level.
bool is_logged(LogChannel channel, LogLevel level = LogLevel::Info);
void write_log(LogChannel channel, std::string_view text, LogLevel level = LogLevel::Info);

template <class... Args>
void log_info(LogChannel channel, fmt::format_string<Args...> text, Args&&... args) {
  if (is_logged(channel)) write_log(channel, fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
void log_debug(LogChannel channel, fmt::format_string<Args...> text, Args&&... args) {
  if (is_logged(channel, LogLevel::Debug))
    write_log(channel, fmt::format(text, std::forward<Args>(args)...), LogLevel::Debug);
}

}  // namespace moxie
