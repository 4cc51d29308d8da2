#pragma once
// GraphCache: work that is enqueued again and again, recorded once as a CUDA graph.
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/cuda/gpu.h"

namespace moxie::cuda {

class GraphCache {
 public:
  explicit GraphCache(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  /// Enqueues what `enqueue` does, as one graph. It is called where no graph for these addresses is at hand: tensors
  /// that feed each other exchange their memory from step to step, so that a training loop has two. Where many
  /// addresses have come, as memory of a caller does, only those are recorded that come again soon. Throws what it
  /// throws.
  void launch(const std::vector<DevicePointer>& addresses, const std::function<void()>& enqueue);

 private:
  struct Recording {
    std::vector<DevicePointer> addresses;
    GraphExec exec = nullptr;
  };
  GraphExec record(const std::function<void()>& enqueue) const;
  bool comes_again(const std::vector<DevicePointer>& addresses);

  std::shared_ptr<Gpu> gpu_;
  std::deque<Recording> recordings_;                   // the oldest first
  std::deque<std::vector<DevicePointer>> unrecorded_;  // addresses of late runs without a recording, the oldest first
};

}  // namespace moxie::cuda
