// Messages of the runtime, handed to a program.
#include "runtime/log.h"

#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

/// Takes messages as long as it lives.
class Collector {
 public:
  explicit Collector(const LogLevels& levels) {
    set_log_callback(
        [this](const LogMessage& message) {
          const std::scoped_lock lock(mutex_);
          counts_[{std::string(message.channel_name()), message.level}] += 1;
          texts_.emplace_back(message.text);
        },
        levels);
  }
  ~Collector() { set_log_callback({}); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  int count(const std::string& channel, LogLevel level) { return counts_[{channel, level}]; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, LogLevel>, int> counts_;
  std::vector<std::string> texts_;
};

void say_all() {
  log_info(LogChannel::Cache, "kept {}", 1);
  log_debug(LogChannel::Cache, "stored {}", 2);
  log_info(LogChannel::Codegen, "compiled {}", 3);
  log_debug(LogChannel::Runtime, "placed {}", 4);
}

}  // namespace

TEST_CASE("a callback is handed the messages of the channels and levels that it asks for") {
  say_all();
  {
    Collector collector(parse_log_levels("cache:debug,runtime"));
    CHECK(is_logged(LogChannel::Cache, LogLevel::Debug));
    CHECK_FALSE(is_logged(LogChannel::Codegen));
    CHECK_FALSE(is_logged(LogChannel::Runtime, LogLevel::Debug));
    say_all();
    CHECK(collector.texts() == std::vector<std::string>{"kept 1", "stored 2"});
    CHECK(collector.count("cache", LogLevel::Info) == 1);
    CHECK(collector.count("cache", LogLevel::Debug) == 1);
  }
  CHECK_FALSE(is_logged(LogChannel::Cache));
  say_all();
}

TEST_CASE("what a callback throws, and what moxie says of its own work, ends nothing") {
  int calls = 0;
  set_log_callback([&](const LogMessage&) {
    ++calls;
    say_all();
    CHECK_THROWS_WITH_AS(set_log_callback({}), doctest::Contains("by a log callback"), UsageError);
    throw std::runtime_error("full disk");
  });
  say_all();
  set_log_callback({});
  say_all();
  CHECK(calls == 2);
}

TEST_CASE("threads hand over messages at the same time, and none comes after the callback is replaced") {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> before = 0, after = 0;
    std::atomic<bool> ended = false, late = false;
    set_log_callback([&](const LogMessage&) {
      ++before;
      if (ended) late = true;
    });
    std::vector<std::thread> threads;
    for (int k = 0; k < 3; ++k) {
      threads.emplace_back([] {
        for (int n = 0; n < 200; ++n) say_all();
      });
    }
    set_log_callback([&](const LogMessage&) { ++after; });
    ended = true;
    for (std::thread& thread : threads) thread.join();
    set_log_callback({});
    CHECK(before + after == 3 * 200 * 2);
    CHECK_FALSE(late);
  }
}

TEST_CASE("a session tells of its plans and kernels") {
  Collector collector(log_levels(LogLevel::Info));
  const Program program = parse("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = 2*x[n]\n", "twice");
  const auto device = test::test_device("cpu");
  if (!device) return;
  Session session(program, {}, device);
  session.set("x", std::vector<float>{1, 2}, {2});
  session.run();
  CHECK(collector.count("codegen", LogLevel::Info) > 0);
  CHECK(collector.count("runtime", LogLevel::Info) > 0);
}
