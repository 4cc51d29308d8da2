#include "runtime/cuda/cusolver.h"
#include "runtime/cuda/nvidia_driver.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/cuda/platform.h"

namespace moxie::cuda {

Platform nvidia_platform() {
  const Driver driver = nvidia_driver();
  CublasCalls cublas = cublas_calls(driver);
  return {.name = "cuda",
          .driver = driver,
          .compiler = nvrtc_compiler(std::make_shared<const Nvrtc>()),
          .multiply = std::move(cublas.multiply),
          .solver = std::make_shared<Solver>(std::move(cublas.solve_triangle))};
}

}  // namespace moxie::cuda
