#include "runtime/cuda/nvidia_driver.h"

#include <fmt/format.h>

#include "compiler/support/error.h"
#include "runtime/cuda/shared_library.h"

namespace moxie::cuda {
namespace {

/// The first with cuGraphInstantiateWithFlags.
constexpr int kOldestVersion = 11040;

/// The names behind those of cuda.h, whose macros choose the version of an entry point.
void resolve_all(const SharedLibrary& library, Driver& driver) {
  library.resolve(driver.Init, "cuInit");
  library.resolve(driver.DriverGetVersion, "cuDriverGetVersion");
  library.resolve(driver.GetErrorName, "cuGetErrorName");
  library.resolve(driver.GetErrorString, "cuGetErrorString");
  library.resolve(driver.DeviceGetCount, "cuDeviceGetCount");
  library.resolve(driver.DeviceGet, "cuDeviceGet");
  library.resolve(driver.DeviceGetName, "cuDeviceGetName");
  library.resolve(driver.DeviceGetAttribute, "cuDeviceGetAttribute");
  library.resolve(driver.DeviceTotalMem, "cuDeviceTotalMem_v2");
  library.resolve(driver.DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  library.resolve(driver.DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  library.resolve(driver.CtxSetCurrent, "cuCtxSetCurrent");
  library.resolve(driver.MemAlloc, "cuMemAlloc_v2");
  library.resolve(driver.MemFree, "cuMemFree_v2");
  library.resolve(driver.MemAllocHost, "cuMemAllocHost_v2");
  library.resolve(driver.MemFreeHost, "cuMemFreeHost");
  library.resolve(driver.MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  library.resolve(driver.MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  library.resolve(driver.MemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  library.resolve(driver.MemsetD8Async, "cuMemsetD8Async");
  library.resolve(driver.PointerGetAttribute, "cuPointerGetAttribute");
  library.resolve(driver.ModuleLoadData, "cuModuleLoadData");
  library.resolve(driver.ModuleUnload, "cuModuleUnload");
  library.resolve(driver.ModuleGetFunction, "cuModuleGetFunction");
  library.resolve(driver.FuncGetAttribute, "cuFuncGetAttribute");
  library.resolve(driver.LaunchKernel, "cuLaunchKernel");
  library.resolve(driver.StreamCreate, "cuStreamCreate");
  library.resolve(driver.StreamDestroy, "cuStreamDestroy_v2");
  library.resolve(driver.StreamSynchronize, "cuStreamSynchronize");
  library.resolve(driver.StreamGetCtx, "cuStreamGetCtx");
  library.resolve(driver.StreamWaitEvent, "cuStreamWaitEvent");
  library.resolve(driver.StreamBeginCapture, "cuStreamBeginCapture_v2");
  library.resolve(driver.StreamEndCapture, "cuStreamEndCapture");
  library.resolve(driver.GraphInstantiate, "cuGraphInstantiateWithFlags");
  library.resolve(driver.GraphLaunch, "cuGraphLaunch");
  library.resolve(driver.GraphExecDestroy, "cuGraphExecDestroy");
  library.resolve(driver.GraphDestroy, "cuGraphDestroy");
  library.resolve(driver.EventCreate, "cuEventCreate");
  library.resolve(driver.EventDestroy, "cuEventDestroy_v2");
  library.resolve(driver.EventRecord, "cuEventRecord");
  library.resolve(driver.EventSynchronize, "cuEventSynchronize");
  library.resolve(driver.EventElapsedTime, "cuEventElapsedTime");
}

}  // namespace

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string error_text(const Driver& driver, Result error) {
  const char* name = nullptr;
  const char* text = nullptr;
  driver.GetErrorName(error, &name);
  driver.GetErrorString(error, &text);
  return fmt::format("{} ({})", name ? name : fmt::format("error {}", error), text ? text : "unknown to the driver");
}

Driver nvidia_driver(const std::string& file) {
  const SharedLibrary library({"NVIDIA's CUDA driver",
                               {file},
                               {""},
                               "Install the driver for the GPU of this machine (version 470 or later), or use another "
                               "device, such as --device cpu"});
  Driver driver;
  int version = 0;
  library.resolve(driver.DriverGetVersion, "cuDriverGetVersion");
  driver.DriverGetVersion(&version);
  if (version < kOldestVersion) {
    throw DeviceError(fmt::format("the NVIDIA driver in {} supports CUDA {}, but {} is wanted: install a newer driver",
                                  library.file(), version_text(version), version_text(kOldestVersion)));
  }
  resolve_all(library, driver);
  int count = 0;
  const Result error = driver.Init(0);
  const Result counted = error != 0 ? error : driver.DeviceGetCount(&count);
  if (counted != 0 || count == 0) {
    throw DeviceError(
        fmt::format("the NVIDIA driver (CUDA {}) finds no GPU{}; see nvidia-smi, and CUDA_VISIBLE_DEVICES",
                    version_text(version), counted ? ": " + error_text(driver, counted) : ""));
  }
  return driver;
}

}  // namespace moxie::cuda
