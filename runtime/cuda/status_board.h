#pragma once
// StatusBoard: what the checks of a Plan's kernels found, on the device and, after a run, on the host.
#include <memory>
#include <string>
#include <vector>

#include "compiler/loop/lower.h"
#include "runtime/cuda/memory.h"

namespace moxie::cuda {

class StatusBoard : public Watched {
 public:
  /// One status for each kernel, in the order in which they run. The kernels outlive the board.
  StatusBoard(std::shared_ptr<Gpu> gpu, std::string program, std::vector<const LoweredKernel*> kernels);

  DevicePointer status_of(std::size_t kernel) const { return device_.address() + kernel * sizeof(KernelStatus); }
  /// Enqueues the copy to the host.
  void report();
  std::string describe() const override;
  /// Throws DeviceError for the first kernel that failed, once: a later run begins with a clean board.
  void check() override;

 private:
  std::shared_ptr<Gpu> gpu_;
  std::string program_;
  std::vector<const LoweredKernel*> kernels_;
  bool has_checks_ = false;
  DeviceMemory device_;
  PinnedMemory host_;
};

}  // namespace moxie::cuda
