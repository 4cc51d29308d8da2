#pragma once
// Gpu: one device of a driver, with its context and the stream on which everything is enqueued in order.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/driver.h"
#include "runtime/cuda/gpu_models.h"

namespace moxie::cuda {

/// Something enqueued whose failures the host learns of when it next waits.
class Watched {
 public:
  virtual ~Watched() = default;
  /// What was enqueued, for messages.
  virtual std::string describe() const = 0;
  /// Called when all that was enqueued is done. Throws DeviceError.
  virtual void check() = 0;
};

/// Threads take turns: what one enqueues or records lies together on the stream.
class Gpu {
 public:
  /// The driver's GPU of this number, from 0. `name` is that of the platform. A given stream outlives the Gpu, which
  /// makes one of its own otherwise. Throws DeviceError, and UsageError for a stream of each thread.
  Gpu(const Driver& driver, std::string name, int number = 0, Stream given = nullptr);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Driver& driver() const { return driver_; }
  Stream stream() const { return stream_; }
  /// Whether what is enqueued can be recorded as a graph: not on the legacy default stream.
  bool can_record() const;
  const std::string& name() const { return name_; }
  /// "NVIDIA H200 (sm_90, driver for CUDA 12.4)"
  std::string describe() const;
  /// 90 for sm_90.
  int architecture() const { return architecture_; }
  int multiprocessors() const { return multiprocessors_; }
  GpuLimits limits() const { return {.multiprocessors = multiprocessors_, .threads = threads_}; }
  /// That a multiprocessor holds.
  int threads() const { return threads_; }
  int block_shared_bytes() const { return block_shared_bytes_; }
  /// For rooflines and occupancy.
  GpuModel model() const;

  /// Makes the context that of the calling thread, which every other call of the driver relies on.
  void enter() const;
  /// Enters, and holds off other threads as long as the result lives. A thread may take a turn within its turn.
  using Turn = std::unique_lock<std::recursive_mutex>;
  [[nodiscard]] Turn turn() const;
  /// The same for destructors, which cannot fail.
  [[nodiscard]] Turn last_turn() const noexcept;
  /// Enters where nothing can fail.
  void make_current() const noexcept { driver_.CtxSetCurrent(context_); }
  /// Throws DeviceError for an error of the driver: what failed, its text, the remedy, and further lines.
  void check(Result result, std::string_view what) const {
    if (result != 0) fail(result, what);
  }
  [[noreturn]] void fail(Result error, std::string_view what, std::string_view details = {}) const;
  /// The message of fail().
  std::string message(Result error, std::string_view what, std::string_view details = {}) const;

  /// Throws DeviceError unless the address is one of this device's memory.
  void check_memory(DevicePointer address) const;
  /// Device memory, of which freed blocks are kept for later: on one stream, all uses of a block end before its next
  /// begin.
  DevicePointer allocate(std::size_t bytes);
  void release(DevicePointer block) noexcept;

  /// Waits for all that was enqueued and checks what is watched. Throws DeviceError.
  void synchronize();
  /// Waits before something in use is destroyed, whatever the outcome.
  void settle() noexcept;
  /// Until the next synchronize().
  void watch(const std::shared_ptr<Watched>& watched);
  /// Tickets tell whether something that was enqueued is known to be done: it is if its ticket is at most the finished
  /// one. They are asked for within the turn that enqueues it.
  std::uint64_t next_ticket() { return ++issued_ticket_; }
  std::uint64_t finished_ticket() const { return finished_ticket_; }

 private:
  int attribute(int number) const;
  bool free_unused() noexcept;
  void take_stream(Stream given);

  Driver driver_;
  mutable std::recursive_mutex turns_;
  std::string name_, model_;
  DeviceNumber device_ = 0;
  Context context_ = nullptr;
  Stream stream_ = nullptr;
  bool owns_stream_ = true;
  int version_ = 0, architecture_ = 0, multiprocessors_ = 0, threads_ = 0, block_shared_bytes_ = 0;
  std::size_t held_bytes_ = 0;
  std::map<DevicePointer, std::size_t> sizes_;  // of all blocks
  std::multimap<std::size_t, DevicePointer> unused_;
  std::vector<std::weak_ptr<Watched>> watched_;
  std::uint64_t issued_ticket_ = 0, finished_ticket_ = 0;
};

}  // namespace moxie::cuda
