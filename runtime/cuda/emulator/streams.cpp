#include "runtime/cuda/emulator/streams.h"

#include <utility>

#include "runtime/cuda/emulator/driver_error.h"

namespace moxie::cuda::emulator {

void StreamState::enqueue(Step step) {
  if (const auto target = recording())
    target->steps.push_back(std::move(step));
  else
    step();
}

void StreamState::begin_capture() {
  if (capturing()) throw DriverError(kCaptureUnsupported, "the stream is capturing already");
  own_ = std::make_shared<Recording>();
  recording_ = own_;
}

Recording StreamState::end_capture() {
  if (!own_) throw DriverError(kCaptureUnmatched, "a capture ends where it began, and this stream has begun none");
  Recording recorded = std::move(*own_);
  own_.reset();  // and with it the way there of all streams that have joined
  return recorded;
}

void StreamState::synchronize() const {
  if (capturing()) throw DriverError(kCaptureUnsupported, "a stream that is capturing cannot be waited for");
}

void EventState::record(const StreamState& stream) {
  recording_ = stream.recording_;
  time_.reset();
  if (!stream.capturing()) time_ = std::chrono::steady_clock::now();
}

void EventState::synchronize() const {
  if (recording_.lock()) throw DriverError(kCaptureUnsupported, "an event that is being captured cannot be waited for");
}

void EventState::hold(StreamState& stream) const {
  const auto recording = recording_.lock();
  if (!recording && stream.capturing())
    throw DriverError(kCaptureIsolation, "a stream that is capturing waits for an event from outside of the capture");
  if (recording && stream.capturing() && stream.recording() != recording)
    throw DriverError(kCaptureIsolation, "two captures would become one");
  if (recording) stream.recording_ = recording_;
}

float EventState::milliseconds_until(const EventState& end) const {
  if (!time_ || !end.time_)
    throw DriverError(kInvalidHandle, "the time between events that were not both recorded outside of captures");
  return std::chrono::duration<float, std::milli>(*end.time_ - *time_).count();
}

}  // namespace moxie::cuda::emulator
