#include "runtime/cuda/status_board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/launch.h"

namespace moxie::cuda {

StatusBoard::StatusBoard(std::shared_ptr<Gpu> gpu, std::string program, std::vector<const LoweredKernel*> kernels)
    : gpu_(std::move(gpu)),
      program_(std::move(program)),
      kernels_(std::move(kernels)),
      has_checks_(
          std::ranges::any_of(kernels_, [](const LoweredKernel* kernel) { return !kernel->program.checks.empty(); })),
      device_(gpu_, kernels_.size() * sizeof(KernelStatus)),
      host_(gpu_, kernels_.size() * sizeof(KernelStatus)) {}

void StatusBoard::report() {
  if (!has_checks_) return;
  gpu_->check(gpu_->driver().MemcpyDtoHAsync(host_.data(), device_.address(), host_.size(), gpu_->stream()),
              "copying the kernels' status from the device");
}

std::string StatusBoard::describe() const {
  std::vector<std::string> names;
  for (const LoweredKernel* kernel : kernels_) names.push_back(kernel->program.name);
  return fmt::format("program {} (kernels {})", program_.empty() ? "without a name" : program_, fmt::join(names, ", "));
}

void StatusBoard::check() {
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    KernelStatus status;
    std::memcpy(&status, host_.data() + k * sizeof status, sizeof status);
    if (status.failed == 0) continue;
    std::memset(host_.data(), 0, host_.size());
    device_.zero(device_.size());
    throw_if_failed(*kernels_[k], status);
  }
}

}  // namespace moxie::cuda
