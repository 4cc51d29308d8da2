#include "runtime/cuda/cuda_device.h"

#include "runtime/cuda/cuda_buffer.h"
#include "runtime/cuda/cuda_executable.h"

namespace moxie {
namespace {

class CudaDevice : public Device {
 public:
  CudaDevice(cuda::Platform platform, const DeviceOptions& options)
      : gpu_(std::make_shared<cuda::Gpu>(platform.driver, platform.name)),
        platform_(std::move(platform)),
        cache_(cache_directory(options)) {}
  ~CudaDevice() override { gpu_->settle(); }

  std::string name() const override { return platform_.name; }
  CacheStats cache_stats() const override { return cache_.stats(); }
  std::unique_ptr<Buffer> make_buffer() override { return std::make_unique<cuda::CudaBuffer>(gpu_); }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    gpu_->enter();
    return std::make_unique<cuda::CudaExecutable>(gpu_, platform_, cache_, std::move(plan), dims);
  }

 private:
  std::shared_ptr<cuda::Gpu> gpu_;
  cuda::Platform platform_;  // goes before the Gpu that it has made things on
  KernelCache cache_;
};

}  // namespace

std::shared_ptr<Device> make_cuda_device(cuda::Platform platform, const DeviceOptions& options) {
  return std::make_shared<CudaDevice>(std::move(platform), options);
}

}  // namespace moxie
