#include "tests/ptx_emulator/driver/streams.h"

#include <algorithm>
#include <utility>

namespace moxie::ptx {

void Stream::enqueue(Work work) {
  if (capturing_)
    captured_.push_back(std::move(work));
  else
    pending_.push_back(std::move(work));
}

void Stream::drain() {
  while (!pending_.empty()) {
    const Work work = std::move(pending_.front());
    pending_.pop_front();
    try {
      work.run();
    } catch (...) {
      pending_.clear();
      throw;
    }
  }
}

bool Stream::uses(const void* begin, std::uint64_t bytes) const {
  const auto* first = static_cast<const std::byte*>(begin);
  return std::ranges::any_of(pending_, [&](const Work& work) {
    const auto* used = static_cast<const std::byte*>(work.host.begin);
    return used != nullptr && used < first + bytes && first < used + work.host.bytes;
  });
}

void Stream::begin_capture() {
  if (capturing_) throw Fault(Reason::invalid_value, "the stream is being captured already");
  capturing_ = true;
  invalidated_ = false;
}

std::vector<Work> Stream::end_capture() {
  if (!capturing_) throw Fault(Reason::invalid_value, "the stream is not being captured");
  capturing_ = false;
  std::vector<Work> captured = std::exchange(captured_, {});
  if (invalidated_) throw Fault(Reason::capture_invalidated, "a call that cannot be captured ended the capture");
  return captured;
}

void Event::record(Stream& stream) {
  const bool captured = stream.is_capturing();
  const std::uint64_t number = captured ? recorded_ : ++recorded_;
  stream.enqueue({[self = shared_from_this(), number] {
    self->done_ = number;
    self->time_ = Clock::now();
  }});
}

float Event::milliseconds_until(const Event& end) const {
  if (!was_recorded() || !end.was_recorded()) throw Fault(Reason::invalid_handle, "an event was never recorded");
  if (!is_done() || !end.is_done()) throw Fault(Reason::not_ready, "an event is still to come");
  return std::chrono::duration<float, std::milli>(end.time_ - time_).count();
}

}  // namespace moxie::ptx
