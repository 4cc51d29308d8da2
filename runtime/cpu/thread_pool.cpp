#include "runtime/cpu/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {
namespace {

constexpr int kOnEveryMachine = 64;

int processors() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

/// Rounds of looking for work before a worker sleeps: some tens of microseconds, the time between two kernels of a
/// training step.
constexpr int kSpins = 4000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

int maximum_threads() { return std::max(kOnEveryMachine, processors()); }

int chosen_threads(int threads) {
  if (threads < 0 || threads > maximum_threads())
    throw TypeError(fmt::format("{} threads: expected a number from 1 to {}, or 0 for all {} processors", threads,
                                maximum_threads(), processors()));
  return threads > 0 ? threads : processors();
}

ThreadPool::ThreadPool(int threads) : ranges_(static_cast<std::size_t>(threads)) {
  for (int k = 1; k < threads; ++k) workers_.emplace_back([this, k] { serve(k); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t pieces, const std::function<void(std::int64_t, int)>& work) {
  if (workers_.empty() || pieces <= 1) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, 0);
    return;
  }
  const std::lock_guard turn(callers_);
  work_ = &work;
  for (std::int64_t thread = 0; thread < threads(); ++thread) {
    PieceRange& range = ranges_[static_cast<std::size_t>(thread)];
    range.next = pieces * thread / threads();
    range.end = pieces * (thread + 1) / threads();
  }
  failure_ = nullptr;
  open_ = true;
  {
    const std::lock_guard lock(mutex_);
    ++round_;
  }
  wake_.notify_all();
  take_pieces(0);
  open_ = false;
  while (running_ != 0) pause();
  if (failure_) std::rethrow_exception(failure_);
}

void ThreadPool::take_pieces(int thread) {
  const std::size_t own = static_cast<std::size_t>(thread);
  for (std::size_t k = 0; k < ranges_.size(); ++k) {
    PieceRange& range = ranges_[(own + k) % ranges_.size()];
    for (std::int64_t piece = range.next++; piece < range.end; piece = range.next++) take(piece, thread);
  }
}

void ThreadPool::take(std::int64_t piece, int thread) {
  try {
    (*work_)(piece, thread);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_ || piece < failed_piece_) failure_ = std::current_exception(), failed_piece_ = piece;
  }
}

void ThreadPool::serve(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && round_.load(std::memory_order_acquire) == seen && !stop_; ++spin) pause();
    if (round_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || round_ != seen; });
    }
    if (stop_) return;
    seen = round_.load(std::memory_order_acquire);
    ++running_;
    if (open_) take_pieces(thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace moxie
