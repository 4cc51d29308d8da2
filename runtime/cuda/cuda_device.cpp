#include "runtime/cuda/cuda_device.h"

#include "runtime/cuda/cuda_buffer.h"
#include "runtime/cuda/cuda_executable.h"
#include "runtime/cuda/cusolver.h"
#include "runtime/given_schedules.h"
#include "runtime/switches.h"

namespace moxie {
namespace {

class CudaDevice : public Device {
 public:
  CudaDevice(cuda::Platform platform, const DeviceOptions& options)
      : gpu_(std::make_shared<cuda::Gpu>(platform.driver, platform.name, platform.gpu)),
        cache_(cache_directory(options)),
        plan_cache_(cache_directory(options)),
        overrides_(switch_value("MOXIE_KERNEL_OVERRIDE")),
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
  bool has_own_memory() const override { return true; }
  void wait() override { gpu_->synchronize(); }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    gpu_->enter();
    return std::make_unique<cuda::CudaExecutable>(gpu_, builder_, multiply_, solver_, std::move(plan), dims);
  }

 private:
  std::shared_ptr<cuda::Gpu> gpu_;
  KernelCache cache_;
  KernelCache plan_cache_;  // in the same folder, with counts of its own
  KernelOverrides overrides_;
  cuda::KernelBuilder builder_;
  // Go before the Gpu that they have made things on.
  cuda::Multiply multiply_;
  std::shared_ptr<cuda::Solver> solver_;
};

}  // namespace

std::shared_ptr<Device> make_cuda_device(cuda::Platform platform, const DeviceOptions& options) {
  return std::make_shared<CudaDevice>(std::move(platform), options);
}

}  // namespace moxie
