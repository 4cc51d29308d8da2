#pragma once
// FakeGpu: a driver that records what is asked of it. Its memory is the host's, its kernels are functions of a test.
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/platform.h"

namespace moxie::cuda {

struct FakeKernel {
  std::size_t parameters = 0;
  std::function<void(const std::vector<std::uint64_t>&)> body;
};

/// One at a time, from construction to destruction.
class FakeGpu {
 public:
  FakeGpu();
  ~FakeGpu();
  FakeGpu(const FakeGpu&) = delete;
  FakeGpu& operator=(const FakeGpu&) = delete;

  /// Its driver, a compiler that takes every text, and products that are recorded only.
  Platform platform() const;

  std::vector<std::string> calls;          // that enqueue, wait or allocate, with what distinguishes them
  std::map<std::string, Result> failures;  // what calls give instead of doing something, by name
  std::map<std::string, FakeKernel> kernels;
  std::size_t memory = std::size_t{1} << 30;  // bytes that can be had
  std::atomic<int> compilations = 0;
  std::string code = "code";      // what the compiler makes of every text
  std::set<std::string> refused;  // code that cannot be loaded
  std::set<Stream> streams;       // on which something was enqueued; its own is null
  Context context_of_streams = nullptr;

  /// The calls since the last time.
  std::vector<std::string> take_calls();
};

}  // namespace moxie::cuda
