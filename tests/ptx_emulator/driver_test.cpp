// The driver as the product's table of functions has it: streams that run late, graphs, errors that last.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <optional>

#include "compiler/support/error.h"
#include "runtime/cuda/nvidia_driver.h"
#include "tests/skip.h"

using namespace moxie;
using namespace moxie::cuda;

namespace {

/// x[0] += a; with a number of bytes to go too far.
constexpr const char* kAdd = R"(
.version 8.0
.target sm_90
.address_size 64
.visible .entry add_to(.param .u64 x, .param .u32 a)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r1, [a];
  ld.global.u32 %r2, [%rd1];
  add.u32 %r3, %r2, %r1;
  st.global.u32 [%rd1], %r3;
  ret;
}
)";

/// A context with a stream, a kernel and four bytes on the device and on the host.
class Bench {
 public:
  explicit Bench(const Driver& d) : driver(d) {
    Context context = nullptr;
    REQUIRE(driver.DevicePrimaryCtxRetain(&context, 0) == 0);
    REQUIRE(driver.CtxSetCurrent(context) == 0);
    REQUIRE(driver.StreamCreate(&stream, 0) == 0);
    REQUIRE(driver.MemAlloc(&x, sizeof(int)) == 0);
    void* memory = nullptr;
    REQUIRE(driver.MemAllocHost(&memory, sizeof(int)) == 0);
    host = static_cast<int*>(memory);
    REQUIRE(driver.ModuleLoadData(&module_, kAdd) == 0);
    REQUIRE(driver.ModuleGetFunction(&function_, module_, "add_to") == 0);
  }
  ~Bench() {
    driver.ModuleUnload(module_);
    driver.StreamDestroy(stream);
    driver.MemFree(x);
    driver.MemFreeHost(host);
    driver.DevicePrimaryCtxRelease(0);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Result add(int value, DevicePointer to) {
    void* arguments[] = {&to, &value};
    const Result result = driver.LaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr);
    value = 0;  // the launch has its own copy
    return result;
  }

  Driver driver;
  Stream stream = nullptr;
  DevicePointer x = 0;
  int* host = nullptr;

 private:
  Module module_ = nullptr;
  Function function_ = nullptr;
};

std::optional<Driver> driver_or_nothing() {
  try {
    return nvidia_driver();
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return std::nullopt;
  }
}

}  // namespace

TEST_CASE("what is enqueued runs when the host waits") {
  const auto driver = driver_or_nothing();
  if (!driver) return;
  Bench bench(*driver);
  *bench.host = 5;
  CHECK(driver->MemcpyHtoDAsync(bench.x, bench.host, sizeof(int), bench.stream) == 0);
  *bench.host = 7;  // too early, and so what is copied
  CHECK(driver->StreamSynchronize(bench.stream) == 0);
  CHECK(bench.add(1, bench.x) == 0);
  CHECK(driver->MemcpyDtoHAsync(bench.host, bench.x, sizeof(int), bench.stream) == 0);
  CHECK(*bench.host == 7);
  CHECK(driver->StreamSynchronize(bench.stream) == 0);
  CHECK(*bench.host == 8);
}

TEST_CASE("memory that is not page-locked is copied before the call returns") {
  const auto driver = driver_or_nothing();
  if (!driver) return;
  Bench bench(*driver);
  int value = 3;
  CHECK(driver->MemcpyHtoDAsync(bench.x, &value, sizeof value, bench.stream) == 0);
  value = 0;
  CHECK(driver->MemcpyDtoHAsync(&value, bench.x, sizeof value, bench.stream) == 0);
  CHECK(value == 3);
}

TEST_CASE("a graph replays launches with the arguments that they had") {
  const auto driver = driver_or_nothing();
  if (!driver) return;
  Bench bench(*driver);
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  CHECK(driver->MemsetD8Async(bench.x, 0, sizeof(int), bench.stream) == 0);
  REQUIRE(driver->StreamBeginCapture(bench.stream, 2) == 0);
  CHECK(bench.add(10, bench.x) == 0);
  CHECK(bench.add(1, bench.x) == 0);
  REQUIRE(driver->StreamEndCapture(bench.stream, &graph) == 0);
  REQUIRE(driver->GraphInstantiate(&exec, graph, 0) == 0);
  CHECK(driver->GraphDestroy(graph) == 0);
  CHECK(driver->GraphLaunch(exec, bench.stream) == 0);
  CHECK(driver->GraphLaunch(exec, bench.stream) == 0);
  CHECK(driver->MemcpyDtoHAsync(bench.host, bench.x, sizeof(int), bench.stream) == 0);
  CHECK(driver->StreamSynchronize(bench.stream) == 0);
  CHECK(*bench.host == 22);
  CHECK(driver->GraphExecDestroy(exec) == 0);
  CHECK(driver->GraphLaunch(exec, bench.stream) == 400);
}

TEST_CASE("to wait for a stream ends its capture") {
  const auto driver = driver_or_nothing();
  if (!driver) return;
  Bench bench(*driver);
  Graph graph = nullptr;
  REQUIRE(driver->StreamBeginCapture(bench.stream, 2) == 0);
  CHECK(driver->StreamSynchronize(bench.stream) == 900);
  CHECK(driver->StreamEndCapture(bench.stream, &graph) == 901);
}

TEST_CASE("a kernel that fails takes the device with it, until the context is a new one") {
  const auto driver = driver_or_nothing();
  if (!driver) return;
  {
    Bench bench(*driver);
    CHECK(bench.add(1, bench.x + 4) == 0);
    CHECK(driver->StreamSynchronize(bench.stream) == 700);
    CHECK(error_text(*driver, 700)
              .find("kernel add_to, block (0, 0, 0), thread (0, 0, 0): ld.global.u32 (PTX line 11)") !=
          std::string::npos);
    CHECK(driver->MemsetD8Async(bench.x, 0, sizeof(int), bench.stream) == 700);
  }
  Bench bench(*driver);
  CHECK(bench.add(1, bench.x) == 0);
  CHECK(driver->StreamSynchronize(bench.stream) == 0);
}

TEST_CASE("PTX that is no PTX is refused with its line") {
  const auto driver = driver_or_nothing();
  if (!driver) return;
  const Bench bench(*driver);
  Module module = nullptr;
  CHECK(driver->ModuleLoadData(&module, "\177ELF") == 218);
  CHECK(driver->ModuleLoadData(&module, ".visible .entry k()\n{\n  add.f128 %a, %b, %c;\n}") == 218);
  CHECK(error_text(*driver, 218).find("kernel k, PTX line 3: add.f128: this instruction is unknown") !=
        std::string::npos);
}
