#include "runtime/cuda/graph_cache.h"

#include <algorithm>

namespace moxie::cuda {
namespace {

/// Enough for the two of a training loop; what needs more has addresses that do not come again.
constexpr std::size_t kMostRecordings = 4;
/// A recording takes several times as long as the launches themselves. Twice the recordings, so that a program which
/// alternates between a few buffers has its runs recorded at their second turn.
constexpr std::size_t kRemembered = 2 * kMostRecordings;

/// Other calls of the thread go on as always: libraries may load what they need on the way.
constexpr int kRelaxedCapture = 2;

}  // namespace

GraphCache::~GraphCache() {
  for (const Recording& recording : recordings_) gpu_->driver().GraphExecDestroy(recording.exec);
}

void GraphCache::launch(const std::vector<DevicePointer>& addresses, const std::function<void()>& enqueue) {
  auto known = std::ranges::find(recordings_, addresses, &Recording::addresses);
  if (known == recordings_.end() && recordings_.size() == kMostRecordings && !comes_again(addresses)) return enqueue();
  if (known == recordings_.end()) {
    const GraphExec exec = record(enqueue);
    if (recordings_.size() == kMostRecordings) {
      gpu_->driver().GraphExecDestroy(recordings_.front().exec);
      recordings_.pop_front();
    }
    known = recordings_.insert(recordings_.end(), {addresses, exec});
  }
  gpu_->check(gpu_->driver().GraphLaunch(known->exec, gpu_->stream()), "launching a graph");
}

/// Whether addresses without a recording have come of late; remembers them.
bool GraphCache::comes_again(const std::vector<DevicePointer>& addresses) {
  const auto seen = std::ranges::find(unrecorded_, addresses);
  const bool again = seen != unrecorded_.end();
  if (again) unrecorded_.erase(seen);
  if (!again) unrecorded_.push_back(addresses);
  if (unrecorded_.size() > kRemembered) unrecorded_.pop_front();
  return again;
}

GraphExec GraphCache::record(const std::function<void()>& enqueue) const {
  const Driver& driver = gpu_->driver();
  gpu_->check(driver.StreamBeginCapture(gpu_->stream(), kRelaxedCapture), "beginning to record a graph");
  Graph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    if (driver.StreamEndCapture(gpu_->stream(), &graph) == 0 && graph != nullptr) driver.GraphDestroy(graph);
    throw;
  }
  gpu_->check(driver.StreamEndCapture(gpu_->stream(), &graph), "recording a graph");
  GraphExec exec = nullptr;
  const Result error = driver.GraphInstantiate(&exec, graph, 0);
  driver.GraphDestroy(graph);
  gpu_->check(error, "making a graph ready");
  return exec;
}

}  // namespace moxie::cuda
