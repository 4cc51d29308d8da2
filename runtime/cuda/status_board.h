#pragma once
// StatusBoard: what the checks of a Plan's kernels found first, on the device and, after a run, on the host.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/loop/lower.h"
#include "runtime/cuda/memory.h"

namespace moxie::cuda {

/// A library call with one check.
struct CheckedCall {
  std::string name;
  std::function<void(const KernelStatus&)> fail;  // throws DomainError
};

class StatusBoard : public Watched {
 public:
  /// Checks of all kernels are numbered one after the other, then those of the calls. The kernels outlive the board.
  StatusBoard(std::shared_ptr<Gpu> gpu, std::string program, std::vector<const LoweredKernel*> kernels,
              std::vector<CheckedCall> calls);

  DevicePointer status() const { return device_.address(); }
  std::uint64_t first_check_of(std::size_t kernel) const { return first_checks_.at(kernel); }
  std::uint64_t check_of_call(std::size_t call) const { return first_checks_.back() + call; }
  /// Enqueues the copy to the host.
  void report();
  std::string describe() const override;
  /// Throws DomainError for the first failure, once: a later run begins with a clean board.
  void check() override;

 private:
  std::shared_ptr<Gpu> gpu_;
  std::string program_;
  std::vector<const LoweredKernel*> kernels_;
  std::vector<CheckedCall> calls_;
  std::vector<std::uint64_t> first_checks_;  // of each kernel; last the number of all checks of kernels
  DeviceMemory device_;
  PinnedMemory host_;
};

}  // namespace moxie::cuda
