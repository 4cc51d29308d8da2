#include "runtime/cuda/cublas.h"
#include "runtime/cuda/nvidia_driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/platform.h"

namespace moxie::cuda {

Platform nvidia_platform() {
  const Driver driver = nvidia_driver();
  return {"cuda", driver, nvrtc_compiler(std::make_shared<const Nvrtc>()), cublas_multiply(driver)};
}

}  // namespace moxie::cuda
