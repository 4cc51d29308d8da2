// The driver's table and the compiler of the emulated device.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "compiler/support/error.h"
#include "tests/emulator/emulated_kernel.h"

using namespace moxie::cuda;

namespace {

const Driver& driver() { return emulated().driver; }

}  // namespace

TEST_CASE("a graph is recorded and replayed") {
  const EmulatedKernel twice(
      "(Global<float> x, const float factor) { EXTENT(x, 4); x[threadIdx.x] = x[threadIdx.x] * factor; }");
  const DeviceArray<float> x({1, 2, 3, 4});
  Stream stream;
  Graph graph;
  GraphExec exec;
  driver().StreamCreate(&stream, 0);
  REQUIRE(driver().StreamBeginCapture(stream, 0) == 0);
  DevicePointer pointer = x.pointer();
  float factor = 3;
  void* arguments[] = {&pointer, &factor};
  CHECK(twice.launch({.threads = 4}, arguments, stream) == "");
  factor = 0;  // the capture has its own copy
  CHECK(driver().StreamSynchronize(stream) == 900);
  REQUIRE(driver().StreamEndCapture(stream, &graph) == 0);
  CHECK(x.values() == std::vector<float>{1, 2, 3, 4});
  REQUIRE(driver().GraphInstantiate(&exec, graph, 0) == 0);
  CHECK(driver().GraphDestroy(graph) == 0);
  CHECK(driver().GraphLaunch(exec, stream) == 0);
  CHECK(driver().GraphLaunch(exec, stream) == 0);
  CHECK(x.values() == std::vector<float>{9, 18, 27, 36});
  CHECK(driver().GraphExecDestroy(exec) == 0);
  CHECK(driver().GraphLaunch(exec, stream) == 400);
  CHECK(driver().StreamDestroy(stream) == 0);
}

TEST_CASE("a second stream joins a capture by waiting for an event") {
  const DeviceArray<int> x({1}), y({2});
  Stream first, second;
  Event forked, joined;
  Graph graph;
  GraphExec exec;
  driver().StreamCreate(&first, 0);
  driver().StreamCreate(&second, 0);
  driver().EventCreate(&forked, 0);
  driver().EventCreate(&joined, 0);
  driver().StreamBeginCapture(first, 0);
  CHECK(driver().EventRecord(forked, first) == 0);
  CHECK(driver().StreamWaitEvent(second, forked, 0) == 0);
  CHECK(driver().MemcpyDtoDAsync(y.pointer(), x.pointer(), sizeof(int), second) == 0);
  CHECK(driver().EventRecord(joined, second) == 0);
  CHECK(driver().StreamWaitEvent(first, joined, 0) == 0);
  CHECK(driver().StreamEndCapture(second, &graph) == 903);
  CHECK(driver().StreamEndCapture(first, &graph) == 0);
  CHECK(driver().StreamSynchronize(second) == 0);
  CHECK(y.values()[0] == 2);
  driver().GraphInstantiate(&exec, graph, 0);
  CHECK(driver().GraphLaunch(exec, first) == 0);
  CHECK(y.values()[0] == 1);
}

TEST_CASE("events measure time") {
  Event start, end;
  float milliseconds = -1;
  driver().EventCreate(&start, 0);
  driver().EventCreate(&end, 0);
  CHECK(driver().EventElapsedTime(&milliseconds, start, end) == 400);
  driver().EventRecord(start, nullptr);
  driver().EventRecord(end, nullptr);
  CHECK(driver().EventElapsedTime(&milliseconds, start, end) == 0);
  CHECK(milliseconds >= 0);
  driver().EventDestroy(start);
  CHECK(message(driver().EventRecord(start, nullptr)).ends_with("is no event"));
}

TEST_CASE("memory has bounds") {
  DevicePointer pointer = 0;
  std::vector<double> values(3);
  REQUIRE(driver().MemAlloc(&pointer, 16) == 0);
  CHECK(driver().MemcpyDtoHAsync(values.data(), pointer, 16, nullptr) == 0);
  CHECK(std::isnan(values[0]));
  CHECK(message(driver().MemcpyHtoDAsync(pointer + 8, values.data(), 24, nullptr)).find("24 bytes at ") !=
        std::string::npos);
  CHECK(driver().MemsetD8Async(pointer, 0, 17, nullptr) == 1);
  CHECK(driver().MemFree(pointer) == 0);
  CHECK(driver().MemFree(pointer) == 1);
  CHECK(driver().MemcpyDtoHAsync(values.data(), pointer, 8, nullptr) == 1);
  CHECK(driver().MemAlloc(&pointer, std::size_t{1} << 60) == 2);
}

TEST_CASE("the device says what it is") {
  int count = 0, major = 0, multiprocessors = 0;
  char name[64];
  CHECK(driver().Init(0) == 0);
  CHECK(driver().DeviceGetCount(&count) == 0);
  CHECK(count == 1);
  CHECK(driver().DeviceGetAttribute(&major, 75, 0) == 0);
  CHECK(driver().DeviceGetAttribute(&multiprocessors, 16, 0) == 0);
  CHECK(major == 9);
  CHECK(multiprocessors == 132);
  CHECK(driver().DeviceGetName(name, sizeof name, 0) == 0);
  CHECK(std::string(name) == "moxie emulator (sm_90 on the CPU)");
  CHECK(driver().DeviceGetAttribute(&major, 100000, 0) == 1);
}

TEST_CASE("what is no module, and kernels that a module does not have") {
  Module module;
  Function function;
  CHECK(message(driver().ModuleLoadData(&module, "\177ELF and so on")) ==
        "the image is no module of the emulated device");
  const std::string entries[] = {"f"};
  const auto compiled = emulated().compiler.compile("extern \"C\" __global__ void f() {}", entries, 90);
  REQUIRE(driver().ModuleLoadData(&module, compiled.object.data()) == 0);
  CHECK(message(driver().ModuleGetFunction(&function, module, "g")) == "the module has no kernel 'g'");
}

TEST_CASE("a text that is no C++ is refused with the compiler's words") {
  const std::string entries[] = {"f"};
  std::string what;
  try {
    emulated().compiler.compile("extern \"C\" __global__ void f() { undeclared = 1; }", entries, 90);
  } catch (const moxie::CompileError& error) {
    what = error.what();
  }
  CHECK(what.find("does not accept the text of f for cuda-emu") != std::string::npos);
  CHECK(what.find("undeclared") != std::string::npos);
}

TEST_CASE("without a compiler there is a reason and a remedy") {
  const char* const set = std::getenv("PATH");
  const std::string path = set ? set : "";
  const std::string entries[] = {"f"};
  setenv("PATH", "/nowhere", 1);
  CHECK_THROWS_WITH_AS(emulated().compiler.compile("extern \"C\" __global__ void f() {}", entries, 90),
                       "device cuda-emu compiles its kernels with a C++ compiler, and none is found as $CXX, c++, g++ "
                       "or clang++; install one (Debian: g++)",
                       moxie::DeviceError);
  setenv("PATH", path.c_str(), 1);
}

TEST_CASE("matrix products, in order with the stream") {
  const DeviceArray<float> left({1, 2, 3, 4}), right({5, 6, 7, 8}), out({0, 0, 0, 0});
  MatrixProductCall call{.shape = moxie::single_product(2, 2, 2),
                         .alpha = 2,
                         .left = left.pointer(),
                         .right = right.pointer(),
                         .out = out.pointer()};
  emulated().multiply(call, nullptr);
  CHECK(out.values() == std::vector<float>{38, 44, 86, 100});
  call.shape = moxie::single_product(2, 2, 2, false, true);
  emulated().multiply(call, nullptr);
  CHECK(out.values() == std::vector<float>{34, 46, 78, 106});
  // Two products of rows with the one matrix.
  call.shape = moxie::single_product(1, 2, 2);
  call.shape.batch = {{.count = 2, .left = 2, .right = 0, .out = 2}};
  emulated().multiply(call, nullptr);
  CHECK(out.values() == std::vector<float>{38, 44, 86, 100});
  call.shape.batch[0].count = 3;
  CHECK_THROWS_AS(emulated().multiply(call, nullptr), moxie::DeviceError);
  call.shape = moxie::single_product(3, 2, 2);
  CHECK_THROWS_AS(emulated().multiply(call, nullptr), moxie::DeviceError);
}
