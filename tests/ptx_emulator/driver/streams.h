#pragma once
// Streams that run late: what is enqueued waits until the host waits. Events and graphs.
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/ptx_emulator/fault.h"

namespace moxie::ptx {

/// Memory of the host that work reads or writes.
struct HostRange {
  const void* begin = nullptr;
  std::uint64_t bytes = 0;
};

struct Work {
  std::function<void()> run;
  HostRange host = {};
};

class Stream {
 public:
  /// Runs later, or becomes part of the graph that is being captured.
  void enqueue(Work work);
  /// Runs all that is enqueued. Throws what the work throws, and then has nothing left.
  void drain();
  void forget() { pending_.clear(); }
  /// Whether work that is enqueued uses memory of the host between these addresses.
  bool uses(const void* begin, std::uint64_t bytes) const;

  void begin_capture();
  bool is_capturing() const { return capturing_; }
  /// A call that cannot be captured ends the capture without a graph.
  void invalidate_capture() { invalidated_ = true; }
  /// Throws Fault(capture_invalidated).
  std::vector<Work> end_capture();

 private:
  std::deque<Work> pending_;
  std::vector<Work> captured_;
  bool capturing_ = false, invalidated_ = false;
};

class Event : public std::enable_shared_from_this<Event> {
 public:
  void record(Stream& stream);
  bool is_done() const { return done_ == recorded_; }
  bool was_recorded() const { return recorded_ > 0; }
  float milliseconds_until(const Event& end) const;

 private:
  using Clock = std::chrono::steady_clock;
  std::uint64_t recorded_ = 0, done_ = 0;
  Clock::time_point time_;
};

}  // namespace moxie::ptx
