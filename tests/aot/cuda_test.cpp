// The GPU functions of AOT libraries without a GPU: the driver that they are linked with is this program's, which is
// the recording fake or the emulator.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "runtime/aot/interface.h"
#include "runtime/cuda/platform.h"
#include "runtime/temporary_folder.h"
#include "tests/aot/aot_sample.h"
#include "tests/runtime/fake_gpu.h"

namespace {

moxie::cuda::Driver driver;

}  // namespace

// What libcuda.so.1 offers to the libraries that are loaded here.
extern "C" {
using namespace moxie::cuda;

int cuCtxGetDevice(DeviceNumber* device) { return *device = 0, 0; }
int cuDeviceGetAttribute(int* value, int attribute, DeviceNumber device) {
  return driver.DeviceGetAttribute(value, attribute, device);
}
int cuModuleLoadData(Module* module, const void* image) { return driver.ModuleLoadData(module, image); }
int cuModuleUnload(Module module) { return driver.ModuleUnload(module); }
int cuModuleGetFunction(Function* function, Module module, const char* name) {
  return driver.ModuleGetFunction(function, module, name);
}
int cuLaunchKernel(Function f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Stream stream, void** parameters, void** extra) {
  return driver.LaunchKernel(f, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra);
}
int cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t count, Stream stream) {
  return driver.MemsetD8Async(to, value, count, stream);
}
int cuMemsetD32Async(DevicePointer to, unsigned value, std::size_t count, Stream stream) {
  int error = 0;
  for (std::size_t k = 0; k < 4 * count && error == 0; ++k)
    error = driver.MemsetD8Async(to + k, static_cast<unsigned char>(value >> (8 * (k % 4))), 1, stream);
  return error;
}
int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, Stream stream) {
  return driver.MemcpyDtoHAsync(to, from, bytes, stream);
}
int cuStreamSynchronize(Stream stream) { return driver.StreamSynchronize(stream); }
int cuGetErrorString(int error, const char** text) { return driver.GetErrorString(error, text); }
}

namespace moxie::test {
namespace {

/// A library as a shared object in this process.
class Loaded {
 public:
  explicit Loaded(const aot::LibraryRequest& request) {
    aot::write_library(aot::make_library(request), folder_.path());
    const std::string file = (folder_.path() / "lib.so").string();
    shell(fmt::format("cd '{}' && cc -shared -Wl,--whole-archive lib{}.a -Wl,--no-whole-archive -o lib.so",
                      folder_.path().string(), request.name));
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
  }
  ~Loaded() { dlclose(handle_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  template <class Function>
  Function* find(const std::string& name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name.c_str()));
  }

 private:
  TemporaryFolder folder_;
  void* handle_ = nullptr;
};

using Message = std::array<char, 512>;
using Words = std::vector<std::int64_t>;
using Load = int(std::int64_t* gpu, Message*);
using Workspace = int(const std::int64_t* gpu, const std::int64_t* arguments, std::int64_t* bytes, Message*);
using Run = int(const std::int64_t* gpu, const std::int64_t* arguments, void* workspace, std::int64_t bytes, Stream,
                Message*);
using Check = int(const std::int64_t* gpu, const void* workspace, Stream, Message*);

aot::LibraryRequest request_of(const CCall& call, const cuda::Compiler& compiler, const char* target = "cuda:sm_90") {
  aot::LibraryRequest request{"f", {{"f", call.program}}, static_dims(call), {aot::parse_target(target)}};
  request.gpu_compilers = [compiler](const auto&) { return aot::GpuCompilers{compiler, compiler}; };
  return request;
}

/// What the GPU's memory holds of a call: tensors in the order of the struct, and the workspace.
class GpuCall {
 public:
  GpuCall(const CCall& call, const aot::LibraryRequest& request)
      : call_(call),
        interface_(aot::interface_of(
            make_plan(specialise(call.program, request.dims), {}, {.products = Products::kernels}), "f")) {
    for (const auto& dim : interface_.dims) arguments_.push_back(call.dims.at(dim.name));
    for (const auto& tensor : interface_.tensors) add(tensor);
    if (interface_.random)
      arguments_.insert(arguments_.end(), {static_cast<std::int64_t>(call.seed), static_cast<std::int64_t>(call.step)});
  }
  ~GpuCall() {
    for (const DevicePointer block : blocks_) driver.MemFree(block);
  }
  GpuCall(const GpuCall&) = delete;
  GpuCall& operator=(const GpuCall&) = delete;

  const std::int64_t* arguments() const { return arguments_.data(); }
  DevicePointer allocate(std::size_t bytes) {
    DevicePointer block = 0;
    if (driver.MemAlloc(&block, bytes + 1) != 0) throw std::runtime_error("no memory");
    blocks_.push_back(block);
    return block;
  }
  HostTensor output(const std::string& name) const {
    for (std::size_t k = 0; k < interface_.tensors.size(); ++k) {
      const auto& tensor = interface_.tensors[k];
      if (tensor.name != name) continue;
      HostTensor value{tensor.dtype, extents_of(call_.program, name, call_.dims), {}};
      value.data.resize(static_cast<std::size_t>(element_count(value.shape)) * size_of(tensor.dtype));
      driver.MemcpyDtoHAsync(value.data.data(), blocks_[k], value.data.size(), nullptr);
      driver.StreamSynchronize(nullptr);
      return value;
    }
    throw std::runtime_error("no output " + name);
  }

 private:
  void add(const aot::TensorArgument& tensor) {
    const std::int64_t count = element_count(extents_of(call_.program, tensor.name, call_.dims));
    const DevicePointer block = allocate(static_cast<std::size_t>(count) * size_of(tensor.dtype));
    arguments_.insert(arguments_.end(), {static_cast<std::int64_t>(block), count});
    if (tensor.output) return;
    const HostTensor& value = call_.inputs.at(tensor.name);
    driver.MemcpyHtoDAsync(block, value.data.data(), value.data.size(), nullptr);
  }

  const CCall& call_;
  aot::Interface interface_;
  Words arguments_;
  std::vector<DevicePointer> blocks_;  // tensors first
};

struct Outcome {
  int status = 0, checked = 0;
  std::string message;
};

/// Loads, runs and checks; the library's functions are called f.
Outcome run(const Loaded& library, GpuCall& call) {
  Words gpu(256);
  Message message{};
  std::int64_t bytes = 0;
  Outcome outcome;
  outcome.status = library.find<Load>("f_cuda_load")(gpu.data(), &message);
  if (outcome.status == 0)
    outcome.status = library.find<Workspace>("f_cuda_workspace")(gpu.data(), call.arguments(), &bytes, &message);
  if (outcome.status == 0) {
    auto* workspace = reinterpret_cast<void*>(call.allocate(static_cast<std::size_t>(bytes)));
    outcome.status = library.find<Run>("f_cuda")(gpu.data(), call.arguments(), workspace, bytes, nullptr, &message);
    if (outcome.status == 0)
      outcome.checked = library.find<Check>("f_cuda_check")(gpu.data(), workspace, nullptr, &message);
    outcome.message = message.data();
    library.find<Load>("f_cuda_unload")(gpu.data(), nullptr);
  }
  if (outcome.message.empty()) outcome.message = message.data();
  return outcome;
}

}  // namespace

TEST_CASE("GPU functions run on the emulator") {
  const auto platform = cuda::emulated_platform();
  driver = platform.driver;
  const CCall call = call_of(kManyKinds, {{"S", 700}, {"N", 5}});
  const auto request = request_of(call, platform.compiler);
  const Loaded library(request);
  GpuCall gpu(call, request);
  const Outcome outcome = run(library, gpu);
  CHECK_EQ(outcome.message, "");
  CHECK_EQ(outcome.status, 0);
  CHECK_EQ(outcome.checked, 0);
  for (const auto& [name, tensor] : run_on(call, open_device("interp"))) {
    CAPTURE(name);
    const std::vector<double> got = to_doubles(gpu.output(name)), want = to_doubles(tensor);
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-4 * (1 + std::abs(want[i])));
  }
}

TEST_CASE("GPU functions run attention and scans with checkpoints in slices") {
  const auto platform = cuda::emulated_platform();
  driver = platform.driver;
  for (const auto& [text, dims] : {std::pair(kAttention, DimValues{{"H", 48}, {"T", 24}, {"J", 64}, {"D", 64}}),
                                   std::pair(kAttention, DimValues{{"H", 48}, {"T", 0}, {"J", 64}, {"D", 64}}),
                                   std::pair(kCheckpoints, DimValues{{"T", 20}, {"N", 3}}),
                                   std::pair(kCheckpoints, DimValues{{"T", 0}, {"N", 3}})}) {
    const CCall call = gradients_of(text, dims);
    auto request = request_of(call, platform.compiler);
    request.dims = dims;
    request.dims["T"] = std::max<std::int64_t>(dims.at("T"), 24);
    request.limits.slice_bytes = 48 << 10;
    const Plan plan =
        make_plan(specialise(call.program, static_dims(call)), {},
                  {.products = Products::kernels, .gpu = request.limits, .extents = extent_classes(request.dims)});
    CHECK(std::ranges::any_of(plan.steps,
                              [](const PlanStep& step) { return std::holds_alternative<LoweredSlices>(step); }));
    GpuCall gpu(call, request);
    const Outcome outcome = run(Loaded(request), gpu);
    CHECK_EQ(outcome.message, "");
    for (const auto& [name, tensor] : run_on(call, open_device("interp"))) {
      CAPTURE(name);
      const std::vector<double> got = to_doubles(gpu.output(name)), want = to_doubles(tensor);
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-4 * (1 + std::abs(want[i])));
    }
  }
}

TEST_CASE("GPU functions factor matrices of sizes that are not known when compiling") {
  const auto platform = cuda::emulated_platform();
  driver = platform.driver;
  const auto request = request_of(gradients_of(kMatrices, {{"S", 2}, {"M", 9}, {"N", 5}}), platform.compiler);
  const Loaded library(request);
  for (const DimValues& dims : {DimValues{{"S", 2}, {"M", 9}, {"N", 5}}, DimValues{{"S", 40}, {"M", 2}, {"N", 2}}}) {
    CAPTURE(dims.at("N"));
    const CCall call = gradients_of(kMatrices, dims);
    GpuCall gpu(call, request);
    const Outcome outcome = run(library, gpu);
    CHECK_EQ(outcome.message, "");
    for (const auto& [name, tensor] : run_on(call, open_device("interp"))) {
      CAPTURE(name);
      const std::vector<double> got = to_doubles(gpu.output(name)), want = to_doubles(tensor);
      for (std::size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) <= 1e-3 * (1 + std::abs(want[i])));
    }
  }
}

TEST_CASE("GPU functions tell of values outside a formula's domain") {
  const auto platform = cuda::emulated_platform();
  driver = platform.driver;
  const CCall call = call_of(
      "dim N = 2\nindex n:N, m:N\ninput a\noutput L[n,m] = cholesky[n,m](a - a - where(n == m, 1, 0))", {{"N", 2}});
  const auto request = request_of(call, platform.compiler);
  GpuCall gpu(call, request);
  const Outcome outcome = run(Loaded(request), gpu);
  CHECK_EQ(outcome.checked, 4);
  CHECK(outcome.message.find("not positive definite") != std::string::npos);
}

TEST_CASE("the calls of the driver, and what happens where one fails") {
  cuda::FakeGpu fake;
  driver = fake.platform().driver;
  const CCall call = call_of("dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = 2*x[s]", {{"S", 3}});
  const auto request = request_of(call, fake.platform().compiler);
  const Loaded library(request);
  GpuCall gpu(call, request);
  fake.take_calls();
  CHECK_EQ(run(library, gpu).message, "");
  CHECK_EQ(
      fmt::format("{}", fmt::join(fake.take_calls(), ", ")),
      "ModuleLoadData, MemAlloc 192, MemsetD8Async 56, LaunchKernel k_y 1x1, MemcpyDtoHAsync 56, StreamSynchronize");
  fake.failures = {{"LaunchKernel", 700}};
  CHECK_EQ(run(library, gpu).message, "launching kernel k_y failed: CUDA error 700, as the test wants it");
  fake.failures = {{"ModuleLoadData", 209}};
  const Outcome refused = run(library, gpu);
  CHECK_EQ(refused.status, 6);
  CHECK_EQ(refused.message, "loading kernel k_y failed: CUDA error 209, as the test wants it");
  fake.failures = {};
  CHECK_EQ(
      run(Loaded(request_of(call, fake.platform().compiler, "cuda:sm_100")), gpu).message,
      "f_cuda_load: the GPU is sm_90, but the library has code for sm_100; make it for cuda:compute_75 too, which all "
      "GPUs since run");
  CHECK_EQ(run(Loaded(request_of(call, fake.platform().compiler, "cuda:compute_80")), gpu).message, "");
  Words none(256);
  Message message{};
  CHECK_EQ(library.find<Run>("f_cuda")(none.data(), gpu.arguments(), nullptr, 0, nullptr, &message), 1);
  CHECK_EQ(std::string(message.data()), "f_cuda: the kernels are not loaded; call f_cuda_load() first");
}

}  // namespace moxie::test
