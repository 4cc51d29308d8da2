#include "python/core/device.h"

#include <pthread.h>

#include <atomic>

#include "compiler/support/error.h"
#include "runtime/cpu/thread_pool.h"

namespace moxie::python {
namespace {

std::atomic<unsigned> forks = 0;

}  // namespace

unsigned fork_generation() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  return forks.load(std::memory_order_relaxed);
}

DeviceHandle::DeviceHandle(std::string name, DeviceOptions options)
    : name_(std::move(name)), options_(std::move(options)) {
  if (const std::string problem = problem_with_device_name(name_); !problem.empty()) throw DeviceError(problem);
  chosen_threads(options_.threads);
}

std::shared_ptr<Device> DeviceHandle::open() {
  if (const auto* known = device_.get()) return *known;
  return device_.set(open_device(name_, options_));
}

}  // namespace moxie::python
