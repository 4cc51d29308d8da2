#pragma once
// Streams, events and graphs. A stream does everything at once, in the order of the calls; while it captures, it writes
// it down instead.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace moxie::cuda::emulator {

using Step = std::function<void()>;

struct Recording {
  std::vector<Step> steps;
};

class StreamState {
 public:
  /// Does it, or writes it down.
  void enqueue(Step step);
  void begin_capture();
  /// What was recorded since begin_capture(). Other streams that joined by waiting for an event leave it as well.
  Recording end_capture();
  void synchronize() const;
  bool capturing() const { return recording() != nullptr; }

 private:
  friend class EventState;
  std::shared_ptr<Recording> recording() const { return recording_.lock(); }

  std::shared_ptr<Recording> own_;      // begun by this stream
  std::weak_ptr<Recording> recording_;  // where it writes
};

class EventState {
 public:
  void record(const StreamState& stream);
  void synchronize() const;
  /// `stream` waits for it: joins the capture in which it was recorded, if any.
  void hold(StreamState& stream) const;
  float milliseconds_until(const EventState& end) const;

 private:
  std::optional<std::chrono::steady_clock::time_point> time_;
  std::weak_ptr<Recording> recording_;
};

}  // namespace moxie::cuda::emulator
