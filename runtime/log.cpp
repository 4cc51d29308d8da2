#include "runtime/log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <shared_mutex>

#include "compiler/support/error.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

/// The names of LogLevel::Info and LogLevel::Debug.
constexpr std::array<std::string_view, 2> kLevels = {"info", "debug"};

std::size_t number_of(LogChannel channel) { return static_cast<std::size_t>(channel); }

/// The callback, which runs under the shared lock: whoever replaces it waits until it runs nowhere.
class LogReceiver {
 public:
  void replace(LogCallback callback, const LogLevels& levels) {
    if (is_called) throw UsageError("set_log_callback() was called by a log callback; call it elsewhere");
    const std::unique_lock lock(mutex_);
    for (std::size_t k = 0; k < levels.size(); ++k) levels_[k] = callback ? levels[k] : LogLevel::Off;
    callback_ = std::move(callback);
  }
  bool wants(LogChannel channel, LogLevel level) const { return !is_called && levels_[number_of(channel)] >= level; }
  void give(const LogMessage& message) {
    if (!wants(message.channel, message.level)) return;
    const std::shared_lock lock(mutex_);
    if (!callback_) return;
    is_called = true;
    try {
      callback_(message);
    } catch (...) {  // NOLINT(bugprone-empty-catch): a log must not end the work that it tells of
    }
    is_called = false;
  }

 private:
  static inline thread_local bool is_called = false;  // in this thread
  std::shared_mutex mutex_;
  LogCallback callback_;
  std::array<std::atomic<LogLevel>, kLogChannels.size()> levels_{};
};

/// Never destroyed: other destructors of the process may log.
LogReceiver& log_receiver() {
  static auto* const receiver = new LogReceiver;
  return *receiver;
}

bool is_on_stderr(LogChannel channel, LogLevel level) {
  static const LogLevels levels = parse_log_levels(switch_value("MOXIE_LOG"));
  return levels[number_of(channel)] >= level;
}

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

void set_log_callback(LogCallback callback, const LogLevels& levels) {
  log_receiver().replace(std::move(callback), levels);
}

bool is_logged(LogChannel channel, LogLevel level) {
  return is_on_stderr(channel, level) || log_receiver().wants(channel, level);
}

void write_log(LogChannel channel, std::string_view text, LogLevel level) {
  log_receiver().give({level, channel, text});
  if (!is_on_stderr(channel, level)) return;
  const std::string line = fmt::format("moxie {}: {}\n", kLogChannels[number_of(channel)], text);
  std::fputs(line.c_str(), stderr);
}

}  // namespace moxie
