#pragma once
// A fork-join pool: the caller and its workers share out numbered pieces of work.
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace moxie {

/// The number of threads that may be asked for: 64 on every machine, or as many as there are processors if these are
/// more. Further threads only take memory and time from each other.
int maximum_threads();
/// `threads`, or the number of processors for 0. Throws TypeError for a negative number or one above maximum_threads().
int chosen_threads(int threads);

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  /// Calls work(piece, thread) for every piece in 0..pieces, on threads 0..threads(); returns when all are done. The
  /// exception of the lowest piece is rethrown.
  /// Callers on several threads, such as two Sessions of one device, take turns; `work` must not call run().
  void run(std::int64_t pieces, const std::function<void(std::int64_t piece, int thread)>& work);

 private:
  /// The pieces that a thread takes first. Kernels of one shape meet the same pieces in the same caches.
  struct alignas(64) PieceRange {
    std::atomic<std::int64_t> next = 0;
    std::int64_t end = 0;
  };

  void serve(int thread);
  void take_pieces(int thread);
  void take(std::int64_t piece, int thread);

  std::vector<std::thread> workers_;
  std::mutex callers_;  // held for a whole run()
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> round_ = 0;  // grows by one for every run()
  std::atomic<bool> stop_ = false;
  // A worker counts itself among those that run, and then looks whether the round is open; run() closes the round, and
  // then waits until none runs. So nobody waits for a worker that is still waking up when all pieces are taken.
  std::atomic<bool> open_ = false;
  std::atomic<int> running_ = 0;
  std::vector<PieceRange> ranges_;  // of every thread
  const std::function<void(std::int64_t, int)>* work_ = nullptr;
  std::exception_ptr failure_;  // of the lowest piece that failed
  std::int64_t failed_piece_ = 0;
};

}  // namespace moxie
