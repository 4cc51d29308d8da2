#pragma once
// Buffer: the memory of one tensor where a device works.
//
// A device may have memory of its own and work ahead of the host. So the host asks for what it reads and says what it
// writes, and only that travels; what kernels leave for later kernels stays where it is.
#include <cstddef>
#include <memory>
#include <span>

#include "runtime/tensor_view.h"

namespace moxie {

class Buffer {
 public:
  virtual ~Buffer() = default;

  /// Makes it hold `bytes` zeros. Memory that is large enough is kept; memory of the caller has one size only.
  virtual void resize(std::size_t bytes) = 0;
  /// The values after all runs so far, valid until the next. Throws DeviceError if one of these runs failed.
  virtual std::span<const std::byte> read() = 0;
  /// Begins to fetch what read() is going to be asked for, so that several buffers are waited for once.
  virtual void prefetch() {}
  /// Memory to fill with all of the values for the next run, before which it is valid.
  virtual std::span<std::byte> write() = 0;

  /// Copies all values from memory of the caller for the next run, or to it after the last, row by row in both. The
  /// default copies from and to the host, whose memory it must be.
  virtual void copy_from(const TensorView& view);
  virtual void copy_to(const TensorView& view);

  /// Where kernels find the values, and where they leave new ones, during the run that follows.
  virtual void* kernel_input() = 0;
  virtual void* kernel_output() = 0;
};

/// Memory of the host, on cache lines of its own.
std::unique_ptr<Buffer> make_host_buffer();
/// The caller's memory, which must be the host's; null unless its elements lie row by row, aligned as their dtype.
std::unique_ptr<Buffer> make_host_view(const TensorView& view);

}  // namespace moxie
