#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/expression/algebra_form.h"
#include "compiler/support/error.h"
#include "runtime/cuda/cuda_buffer.h"
#include "runtime/cuda/cuda_executable.h"
#include "runtime/cuda/cusolver.h"
#include "runtime/given_schedules.h"
#include "runtime/per_plan.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

/// Whether a definition of the Program factors matrices or solves with them.
bool computes_linear_algebra(const Program& program) {
  bool found = false;
  for (const Definition& definition : program.definitions) {
    visit(definition.body,
          [&](const Expr& e) { found |= e->kind == NodeKind::LinearAlgebra && !sorts_row(e->algebra); });
  }
  return found;
}

class CudaDevice : public Device {
 public:
  CudaDevice(cuda::Platform platform, const DeviceOptions& options)
      : gpu_(std::make_shared<cuda::Gpu>(platform.driver, platform.name, platform.gpu,
                                         static_cast<cuda::Stream>(options.stream))),
        cache_(cache_directory(options)),
        plan_cache_(cache_directory(options)),
        overrides_(option_or_switch(options.kernel_override, "MOXIE_KERNEL_OVERRIDE")),
        builder_{std::move(platform.compiler),          gpu_->architecture(), cache_, overrides_,
                 given_schedules(options.schedule).gpu, options.tune},
        multiply_(std::move(platform.multiply)),
        solver_(std::move(platform.solver)) {}
  ~CudaDevice() override { gpu_->settle(); }

  std::string name() const override { return gpu_->name(); }
  /// Matrix products are left to a BLAS, and linear algebra on large matrices to a solver where one is installed, which
  /// is looked for when a program has some.
  PlanTarget plan_target(const Program& program) const override {
    const bool has_solver = solver_ && computes_linear_algebra(program) && solver_->is_available();
    return {.products = has_solver ? Products::blas_and_solver : Products::blas, .gpu = gpu_->limits()};
  }
  KernelCache* plan_cache() override { return &plan_cache_; }
  CacheStats cache_stats() const override { return cache_.stats(); }
  std::optional<GpuModel> gpu() const override { return gpu_->model(); }
  std::size_t overridden_kernels() const override { return overrides_.count(); }
  std::unique_ptr<Buffer> make_buffer() override { return std::make_unique<cuda::CudaBuffer>(gpu_); }
  std::unique_ptr<Buffer> view_buffer(const TensorView& view) override;
  bool has_own_memory() const override { return true; }
  void wait() override { gpu_->synchronize(); }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    gpu_->enter();
    const auto shared = kernels_.find_or_make(plan, [] { return std::make_shared<cuda::SharedKernels>(); });
    return std::make_unique<cuda::CudaExecutable>(gpu_, builder_, multiply_, solver_, *shared, std::move(plan), dims);
  }

 private:
  std::shared_ptr<cuda::Gpu> gpu_;
  KernelCache cache_;
  KernelCache plan_cache_;  // in the same folder, with counts of its own
  KernelOverrides overrides_;
  cuda::KernelBuilder builder_;
  PerPlan<std::shared_ptr<cuda::SharedKernels>> kernels_;
  // Go before the Gpu that they have made things on.
  cuda::Multiply multiply_;
  std::shared_ptr<cuda::Solver> solver_;
};

std::string without_number_zero(std::string name) {
  if (name.ends_with(":0")) name.resize(name.size() - 2);
  return name;
}

std::unique_ptr<Buffer> CudaDevice::view_buffer(const TensorView& view) {
  if (is_on_host(view)) return nullptr;
  if (without_number_zero(view.device) != without_number_zero(name())) refuse_memory_of(view.device, name());
  if (!is_row_major(view) || !is_aligned(view, static_cast<std::size_t>(bytes_of(view.dtype))))
    throw DeviceError(fmt::format(
        "a tensor of shape [{}] with strides [{}] at address {} of {} cannot be used: elements in memory of a "
        "GPU lie row by row, aligned as their dtype; copy it to such memory",
        fmt::join(view.shape, ","), fmt::join(view.strides, ","), view.data, name()));
  if (bytes_of(view) > 0) gpu_->check_memory(reinterpret_cast<cuda::DevicePointer>(view.data));
  if (!is_aligned(view, cuda::kWidestAccess)) return nullptr;  // which is copied on the device
  return std::make_unique<cuda::CudaBuffer>(gpu_, view);
}

}  // namespace

std::shared_ptr<Device> make_cuda_device(cuda::Platform platform, const DeviceOptions& options) {
  return std::make_shared<CudaDevice>(std::move(platform), options);
}

}  // namespace moxie
