// Every call of the driver may fail: the product says which one did, and why, and goes on with a new device.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "compiler/support/error.h"
#include "runtime/session.h"
#include "tests/setting.h"
#include "tests/skip.h"

using namespace moxie;

namespace {

/// Sums in chunks, a matrix product, random numbers, a check of the domain, and a value that is fed back.
constexpr const char* kProgram = R"(
dim S dynamic, N = 40
index s:S, n:N, m:N
input x[S,N], W[N,N], p[N] > 0
let y[s,n] = sum[m](x[s,m]*W[n,m])
output next[n] = p[n] + 0.001*sum[s](exp(-y[s,n]^2)) + 0*randn(1)[n]
output total = sum[s,n](y[s,n]*log(p[n]))
)";

/// The result of three runs: the first call by call, the others as a graph.
double run_thrice() {
  const auto device = open_device("cuda");
  const Program program = parse(kProgram, "program");
  const DimValues dims = {{"S", 600}, {"N", 40}};
  Session session(program, {{"N", 40}}, device);
  for (const InputDecl& input : program.inputs) {
    std::vector<double> values(static_cast<std::size_t>(count_elements(program, input.name, dims)), 0.5);
    session.set(input.name, make_host_tensor(input.dtype, extents_of(program, input.name, dims), values));
  }
  session.feed_back("next", "p");
  for (int k = 0; k < 3; ++k) session.run();
  return to_doubles(session.get("total"))[0];
}

/// What run_thrice() throws; empty if it does not.
std::string message_of_runs() {
  try {
    run_thrice();
    return {};
  } catch (const DeviceError& error) {
    return error.what();
  }
}

/// A matrix that the solver factors, in one run.
std::string message_of_factor() {
  try {
    Session session(parse("dim N = 200\nindex i:N, j:N\ninput x[N]\noutput L[i,j] = cholesky[i,j](x[i]*x[j] + "
                          "where(i == j, 1, 0))\n"),
                    {}, open_device("cuda"));
    session.set("x", make_host_tensor(DType::f32, {200}, std::vector<double>(200, 0.5)));
    session.run();
    CHECK(algebra_calls_of(session.plan().steps.back()).size() == 1);
    CHECK(to_doubles(session.get("L"))[0] == doctest::Approx(std::sqrt(1.25)));
    return {};
  } catch (const DeviceError& error) {
    return error.what();
  }
}

bool is_there() {
  try {
    return open_device("cuda")->name() == "cuda";
  } catch (const DeviceError& error) {
    test::skip(std::string("no device cuda: ") + error.what());
    return false;
  }
}

/// Those whose results are looked at: not those of destructors.
constexpr const char* kCalls[] = {
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuStreamCreate",
    "cuMemAlloc_v2",
    "cuMemAllocHost_v2",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuFuncGetAttribute",
    "cuLaunchKernel",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventRecord",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphLaunch",
    "cuGraphInstantiateWithFlags",
};

}  // namespace

TEST_CASE("whichever call fails, the message names the error, and another device works") {
  if (!is_there()) return;
  const double expected = run_thrice();
  for (const char* call : kCalls) {
    for (const int which : {1, 2, 5}) {
      CAPTURE(call);
      CAPTURE(which);
      std::string message;
      {
        const test::Setting demand("PTX_EMULATOR_FAIL", fmt::format("{}:719:{}", call, which).c_str());
        message = message_of_runs();
      }
      if (which == 1) CHECK_FALSE(message.empty());
      if (!message.empty()) CHECK(message.find("CUDA_ERROR_LAUNCH_FAILED") != message.npos);
    }
  }
  CHECK(run_thrice() == doctest::Approx(expected));
}

TEST_CASE("whichever call around a solver fails, the message says so, and another device works") {
  if (!is_there()) return;
  CHECK(message_of_factor().empty());
  for (const char* call : {"cuMemAlloc_v2", "cuModuleLoadData", "cuModuleGetFunction", "cuLaunchKernel"}) {
    for (const int which : {1, 2, 3, 4}) {
      CAPTURE(call);
      CAPTURE(which);
      const test::Setting demand("PTX_EMULATOR_FAIL", fmt::format("{}:719:{}", call, which).c_str());
      const std::string message = message_of_factor();
      if (which == 1) CHECK_FALSE(message.empty());
      if (!message.empty()) CHECK(message.find("CUDA_ERROR_LAUNCH_FAILED") != message.npos);
    }
  }
  CHECK(message_of_factor().empty());
}

TEST_CASE("a device without memory says how much was wanted, and what to do") {
  if (!is_there()) return;
  const test::Setting demand("PTX_EMULATOR_FAIL", "cuMemAlloc_v2:2:1");
  const std::string message = message_of_runs();
  CHECK(message.find("CUDA_ERROR_OUT_OF_MEMORY") != message.npos);
  CHECK(message.find("use smaller batches") != message.npos);
}

TEST_CASE("a lost device says so at every call, and what the host holds is intact") {
  if (!is_there()) return;
  const auto device = open_device("cuda");
  const auto buffer = device->make_buffer();
  buffer->resize(64);
  std::ranges::fill(buffer->write(), std::byte{3});
  {
    const test::Setting demand("PTX_EMULATOR_FAIL", "cuStreamSynchronize:700:1");
    CHECK_THROWS_WITH_AS(device->wait(), doctest::Contains("CUDA_ERROR_ILLEGAL_ADDRESS"), DeviceError);
  }
  CHECK_THROWS_WITH_AS(device->wait(), doctest::Contains("the device is lost to this process"), DeviceError);
  CHECK(buffer->read()[63] == std::byte{3});
}
