#include "runtime/cuda/status_board.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "runtime/launch.h"

namespace moxie::cuda {

StatusBoard::StatusBoard(std::shared_ptr<Gpu> gpu, std::string program, std::vector<const LoweredKernel*> kernels,
                         std::vector<CheckedCall> calls)
    : gpu_(std::move(gpu)),
      program_(std::move(program)),
      kernels_(std::move(kernels)),
      calls_(std::move(calls)),
      first_checks_{0},
      device_(gpu_, sizeof(KernelStatus)),
      host_(gpu_, sizeof(KernelStatus)) {
  for (const LoweredKernel* kernel : kernels_)
    first_checks_.push_back(first_checks_.back() + kernel->program.checks.size());
}

void StatusBoard::report() {
  if (first_checks_.back() == 0 && calls_.empty()) return;
  gpu_->check(gpu_->driver().MemcpyDtoHAsync(host_.data(), device_.address(), host_.size(), gpu_->stream()),
              "copying the kernels' status from the device");
}

std::string StatusBoard::describe() const {
  std::vector<std::string> names;
  for (const LoweredKernel* kernel : kernels_) names.push_back(kernel->program.name);
  for (const CheckedCall& call : calls_) names.push_back(call.name);
  return fmt::format("program {} (kernels {})", program_.empty() ? "without a name" : program_, fmt::join(names, ", "));
}

void StatusBoard::check() {
  KernelStatus status;
  std::memcpy(&status, host_.data(), sizeof status);
  if (status.failed == 0) return;
  std::memset(host_.data(), 0, host_.size());
  device_.zero(device_.size());
  const auto check = static_cast<std::uint64_t>(status.check);
  if (check >= first_checks_.back()) calls_.at(check - first_checks_.back()).fail(status);
  const auto next = std::ranges::upper_bound(first_checks_, check);
  const auto kernel = static_cast<std::size_t>(next - first_checks_.begin()) - 1;
  status.check -= static_cast<std::int64_t>(first_checks_.at(kernel));
  throw_if_failed(*kernels_.at(kernel), status);
}

}  // namespace moxie::cuda
