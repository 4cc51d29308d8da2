#pragma once
// Independent pieces of work on several threads, for compilers.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace moxie {

/// More threads than this gain little and hold a compiler's memory each.
inline constexpr std::size_t kMostCompilers = 8;

/// Calls work(0), ... work(count - 1) from several threads; throws the first exception of the lowest number.
template <class Work>
void in_parallel(std::size_t count, const Work& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const std::size_t processors = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  const std::size_t helpers = std::min({count, processors, kMostCompilers}) - (count > 0 ? 1 : 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < helpers; ++i) threads.emplace_back(run);
    run();
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace moxie
