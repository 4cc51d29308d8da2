// Memory and streams of the caller on a recorded driver: what is enqueued where, and what is not copied.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/support/error.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/session.h"
#include "tests/runtime/fake_gpu.h"

using namespace moxie;
using moxie::cuda::FakeGpu;
using Calls = std::vector<std::string>;

namespace {

constexpr const char* kDouble = "dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = 2*x[s]\n";

/// Any address is a stream of the fake.
void* stream_number(std::uintptr_t number) { return reinterpret_cast<void*>(16 * number); }

DeviceOptions on_stream(void* stream) { return {.cache_directory = "0", .stream = stream}; }

/// Device memory of a fake GPU.
struct FakeMemory {
  FakeMemory(const FakeGpu& gpu, std::int64_t count) : driver(gpu.platform().driver), count(count) {
    driver.MemAlloc(&address, static_cast<std::size_t>(count) * sizeof(float));
  }
  ~FakeMemory() { driver.MemFree(address); }
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;
  TensorView view() const { return {.data = values(), .shape = {count}, .device = "cuda"}; }
  float* values() const { return reinterpret_cast<float*>(address); }

  cuda::Driver driver;
  std::int64_t count;
  cuda::DevicePointer address = 0;
};

/// Lets the fake compute y = 2*x.
void give_doubling(FakeGpu& gpu, const Session& session) {
  const auto* lowered = std::get_if<LoweredKernel>(&session.plan().steps.at(0));
  REQUIRE(lowered != nullptr);
  const std::size_t x = lowered->uses.at(0).tensor == "x" ? 0 : 1;
  gpu.kernels[lowered->program.name] = {3, [x](const std::vector<std::uint64_t>& parameters) {
                                          const auto* from = reinterpret_cast<const float*>(parameters[x]);
                                          auto* to = reinterpret_cast<float*>(parameters[1 - x]);
                                          const auto count = static_cast<std::int32_t>(parameters[2]);
                                          for (std::int32_t k = 0; k < count; ++k) to[k] = 2 * from[k];
                                        }};
}

bool waits_or_copies(const std::string& call) {
  return call.ends_with("Synchronize") || call.starts_with("Memcpy") || call.starts_with("MemAlloc");
}

}  // namespace

TEST_CASE("runs on the caller's memory of the GPU copy nothing and wait for nothing") {
  FakeGpu gpu;
  const FakeMemory x(gpu, 4), y(gpu, 4);
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  give_doubling(gpu, session);
  session.bind("x", x.view());
  session.bind("y", y.view());
  session.run();
  gpu.take_calls();
  for (const float value : {1.0F, 2.0F, 3.0F}) {
    std::fill_n(x.values(), 4, value);
    session.run();
    const Calls calls = gpu.take_calls();
    CHECK(std::ranges::none_of(calls, waits_or_copies));
    CHECK(std::ranges::count(calls, "GraphLaunch") == 1);
    CHECK(y.values()[3] == 2 * value);
  }
  CHECK(to_doubles(session.get("y")) == std::vector<double>(4, 6));
  std::fill_n(y.values(), 4, 1.0F);  // the caller's to change
  CHECK(session.view("y").data == y.values());
  session.unbind("y");
  session.run();
  CHECK(to_doubles(session.get("y")) == std::vector<double>(4, 6));
  CHECK(y.values()[0] == 1);
}

TEST_CASE("addresses that come only once are not recorded") {
  FakeGpu gpu;
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  give_doubling(gpu, session);
  std::vector<std::unique_ptr<FakeMemory>> all;
  const auto run = [&](const FakeMemory& x) {
    session.bind("x", x.view());
    session.run();
    const Calls calls = gpu.take_calls();
    return std::pair(std::ranges::count(calls, "GraphInstantiate"), std::ranges::count(calls, "GraphLaunch"));
  };
  for (int k = 0; k < 12; ++k) all.push_back(std::make_unique<FakeMemory>(gpu, 4));
  std::ptrdiff_t recorded = 0;
  for (const auto& x : all) recorded += run(*x).first;
  CHECK(recorded == 4);
  using Counts = std::pair<std::ptrdiff_t, std::ptrdiff_t>;
  CHECK(run(*all.back()) == Counts{1, 1});  // it has come again
  CHECK(run(*all.back()) == Counts{0, 1});
  CHECK(run(*all.back()) == Counts{0, 1});
}

TEST_CASE("batches of sizes of one class load their kernels once") {
  FakeGpu gpu;
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  give_doubling(gpu, session);
  for (const std::int64_t rows : {64, 60, 50, 70}) {
    session.set("x", std::vector<float>(static_cast<std::size_t>(rows), 1), {rows});
    session.run();
    CHECK(to_doubles(session.get("y")) == std::vector<double>(static_cast<std::size_t>(rows), 2));
  }
  CHECK(std::ranges::count(gpu.calls, "ModuleLoadData") == 1);
}

TEST_CASE("all is enqueued on the caller's stream, which stays when the device goes") {
  FakeGpu gpu;
  void* const stream = stream_number(5);
  {
    const auto device = make_cuda_device(gpu.platform(), on_stream(stream));
    Session session(parse(kDouble), {}, device);
    give_doubling(gpu, session);
    for (int run = 0; run < 4; ++run) {
      const std::vector<float> x(3, static_cast<float>(run));
      session.set("x", x, {3});
      session.run();
      CHECK(to_doubles(session.get("y")) == std::vector<double>(3, 2 * run));
    }
    session.wait();
  }
  CHECK(gpu.streams == std::set<cuda::Stream>{static_cast<cuda::Stream>(stream)});
  CHECK(std::ranges::count(gpu.calls, "StreamDestroy") == 0);
}

TEST_CASE("on the legacy default stream nothing is recorded") {
  FakeGpu gpu;
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(reinterpret_cast<void*>(1))));
  give_doubling(gpu, session);
  for (int run = 0; run < 3; ++run) {
    session.set("x", std::vector<float>{1, 2}, {2});
    session.run();
    CHECK(to_doubles(session.get("y")) == std::vector<double>{2, 4});
  }
  CHECK(std::ranges::count(gpu.calls, "StreamBeginCapture") == 0);
}

TEST_CASE("streams that a device cannot use are refused") {
  FakeGpu gpu;
  CHECK_THROWS_WITH_AS(make_cuda_device(gpu.platform(), on_stream(reinterpret_cast<void*>(2))),
                       doctest::Contains("the default stream of each thread"), UsageError);
  gpu.context_of_streams = reinterpret_cast<cuda::Context>(&gpu);
  CHECK_THROWS_WITH_AS(make_cuda_device(gpu.platform(), on_stream(stream_number(3))),
                       doctest::Contains("belongs to another context than the primary one"), DeviceError);
  gpu.failures["StreamGetCtx"] = 400;
  CHECK_THROWS_WITH_AS(make_cuda_device(gpu.platform(), on_stream(stream_number(3))),
                       doctest::Contains("asking for the context of the given stream"), DeviceError);
  for (const char* name : {"cpu", "interp"})
    CHECK_THROWS_WITH_AS(open_device(name, on_stream(stream_number(3))), doctest::Contains("has no streams"),
                         UsageError);
}

TEST_CASE("memory that is not this GPU's, or not as its kernels take it, is refused") {
  FakeGpu gpu;
  const FakeMemory x(gpu, 8);
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  alignas(16) float host = 0;
  TensorView view{.data = &host, .shape = {1}, .device = "cuda"};
  CHECK_THROWS_WITH_AS(session.bind("x", view), doctest::Contains("the driver knows no such memory"), DeviceError);
  view = x.view();
  view.device = "cuda:1";
  CHECK_THROWS_WITH_AS(session.bind("x", view),
                       "a tensor in memory of 'cuda:1' was given to device cuda; give it memory of the host, which is "
                       "called 'cpu', or of this GPU, or open the device that the memory belongs to",
                       DeviceError);
  view.device = "cuda:0";
  session.bind("x", view);
  view.shape = {4};
  view.strides = {2};
  CHECK_THROWS_WITH_AS(session.bind("x", view), doctest::Contains("lie row by row, aligned as their dtype"),
                       DeviceError);
  view.strides = {};
  view.data = reinterpret_cast<std::byte*>(x.values()) + 1;
  view.strides = {};
  CHECK_THROWS_WITH_AS(session.bind("x", view), doctest::Contains("aligned as their dtype"), DeviceError);
  view.data = x.values() + 4;
  session.bind("x", view);
}

TEST_CASE("memory of the GPU that is not aligned as kernels need it is copied there, and nothing waits") {
  FakeGpu gpu;
  auto x = std::make_shared<FakeMemory>(gpu, 8), y = std::make_shared<FakeMemory>(gpu, 8);
  const std::weak_ptr<FakeMemory> held = y;
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  give_doubling(gpu, session);
  const auto from_second = [](const std::shared_ptr<FakeMemory>& memory) {
    return TensorView{.data = memory->values() + 1, .shape = {4}, .device = "cuda", .owner = memory};
  };
  session.bind("x", from_second(x));
  session.bind("y", from_second(y));
  session.run();
  for (const float value : {1.0F, 2.0F}) {
    gpu.take_calls();
    std::fill_n(x->values(), 8, value);
    session.run();
    const Calls calls = gpu.take_calls();
    CHECK(std::ranges::count(calls, "MemcpyDtoDAsync 16") == 2);
    CHECK(std::ranges::count_if(calls, waits_or_copies) == 2);
    CHECK(y->values()[0] == 0);
    CHECK(y->values()[1] == 2 * value);
    CHECK(y->values()[4] == 2 * value);
    CHECK(y->values()[5] == 0);
  }
  CHECK(to_doubles(session.get("y")) == std::vector<double>(4, 4));
  session.run();
  y.reset();
  gpu.take_calls();
  session.unbind("y");
  CHECK(held.expired());
  const Calls calls = gpu.take_calls();
  CHECK(std::ranges::find(calls, "StreamSynchronize") < std::ranges::find(calls, "MemFree"));
}

TEST_CASE("memory with an owner is not let go while a run may use it") {
  FakeGpu gpu;
  auto x = std::make_shared<FakeMemory>(gpu, 4);
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  give_doubling(gpu, session);
  TensorView view = x->view();
  view.owner = x;
  session.bind("x", view);
  view.owner.reset();
  const std::weak_ptr<FakeMemory> held = x;
  x.reset();
  session.run();
  CHECK_FALSE(held.expired());
  gpu.take_calls();
  session.set("x", std::vector<float>{1}, {1});
  CHECK(held.expired());
  const Calls calls = gpu.take_calls();
  const auto waited = std::ranges::find(calls, "StreamSynchronize"), freed = std::ranges::find(calls, "MemFree");
  CHECK(waited < freed);
  CHECK(freed != calls.end());
}

TEST_CASE("memory of the host is copied in each run, and outputs are there when the host has waited") {
  FakeGpu gpu;
  Session session(parse(kDouble), {}, make_cuda_device(gpu.platform(), on_stream(nullptr)));
  give_doubling(gpu, session);
  std::vector<float> x = {1, 2}, y = {-1, -1};
  session.bind("x", view_of(x, {2}));
  session.bind("y", view_of(y, {2}));
  session.run();
  for (int run = 0; run < 2; ++run) {
    session.wait();
    CHECK(y == std::vector<float>{2 * x[0], 2 * x[1]});
    x[0] += 1;
    gpu.take_calls();
    session.run();
    const Calls calls = gpu.take_calls();
    CHECK(std::ranges::count(calls, "MemcpyHtoDAsync 8") == 1);
    CHECK(std::ranges::count(calls, "MemcpyDtoHAsync 8") == 1);
    CHECK(std::ranges::count(calls, "StreamSynchronize") == 0);
  }
  gpu.failures["StreamSynchronize"] = 700;
  CHECK_THROWS_AS(session.wait(), DeviceError);
}
