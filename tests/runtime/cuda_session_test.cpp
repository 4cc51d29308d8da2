// Sessions on a recorded driver: what a step asks of the GPU, and what happens when it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <utility>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/support/error.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cusolver.h"
#include "runtime/cuda/nvidia_driver.h"
#include "runtime/session.h"
#include "runtime/temporary_folder.h"
#include "tests/runtime/fake_gpu.h"

using namespace moxie;
using moxie::cuda::FakeGpu;
using Calls = std::vector<std::string>;

namespace {

/// A step of training in small: `p` moves by `x`, and a scalar is looked at.
constexpr const char* kStep = R"(
dim N = 3
index n:N
input p[N], x[N], rate
output next[n] = p[n] + rate*x[n]
output loss = rate*rate
)";

HostTensor numbers(std::vector<double> values) {
  return make_host_tensor(DType::f32, {static_cast<std::int64_t>(values.size())}, values);
}

/// The step's kernels as functions of the host, by the tensors that they write.
void give_bodies(FakeGpu& gpu, const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      std::map<std::string, std::size_t> place;
      for (const BufferUse& use : kernel->uses) place.emplace(use.tensor, place.size());
      gpu.kernels[kernel->program.name] = {kernel->uses.size(), [place](const std::vector<std::uint64_t>& parameters) {
                                             const auto tensor = [&](const char* name) {
                                               return reinterpret_cast<float*>(parameters[place.at(name)]);
                                             };
                                             const float rate = *tensor("rate");
                                             if (place.contains("loss")) *tensor("loss") = rate * rate;
                                             for (int n = 0; place.contains("next") && n < 3; ++n)
                                               tensor("next")[n] = tensor("p")[n] + rate * tensor("x")[n];
                                           }};
    }
  }
}

Program named(Program program, const char* name) {
  program.name = name;
  return program;
}

struct Fixture {
  FakeGpu gpu;
  Session session{named(parse(kStep), "step"), {}, make_cuda_device(gpu.platform(), {0, "0"})};

  Fixture() {
    give_bodies(gpu, session.plan());
    session.feed_back("next", "p");
    session.set("p", numbers({1, 2, 3}));
    session.set("x", numbers({1, 1, 1}));
    session.set("rate", make_host_tensor(DType::f32, {}, std::vector<double>{2}));
    gpu.take_calls();
  }
  /// One step with new data, as a trainer takes it.
  double step(float x) {
    const std::vector<float> values(3, x);
    std::memcpy(session.write("x").data(), values.data(), 12);
    session.run();
    return to_doubles(session.get("loss"))[0];
  }
};

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a training step is recorded once for each of its two exchanges of memory, and replayed") {
  Fixture f;
  f.step(1);
  const Calls first = f.gpu.take_calls();
  CHECK(std::ranges::count(first, "ModuleLoadData") == 2);
  CHECK(std::ranges::count(first, "GraphLaunch") == 0);
  const Calls copied = {"MemcpyHtoDAsync 12", "EventRecord"};  // x, which changes; rate and the parameters stay
  const Calls recorded = {"StreamBeginCapture", "LaunchKernel k_loss 1x1", "LaunchKernel k_next 1x1",
                          "StreamEndCapture", "GraphInstantiate"};
  const Calls replayed = {"GraphLaunch", "MemcpyDtoHAsync 4", "StreamSynchronize"};  // the loss is read
  const auto joined = [](const std::vector<Calls>& parts) {
    Calls all;
    for (const Calls& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  for (int step : {2, 3}) {
    CAPTURE(step);
    f.step(1);
    CHECK(f.gpu.take_calls() == joined({copied, recorded, replayed}));
  }
  for (int step : {4, 5, 6}) {
    CAPTURE(step);
    f.step(1);
    CHECK(f.gpu.take_calls() == joined({copied, replayed}));
  }
  CHECK(to_doubles(f.session.get("p")) == std::vector<double>{13, 14, 15});
}

TEST_CASE("code of the cache that the driver refuses is discarded and compiled again") {
  const TemporaryFolder folder;
  FakeGpu gpu;
  const auto prepare = [&] {
    const auto device = make_cuda_device(gpu.platform(), {0, folder.path().string()});
    Session session(named(parse(kStep), "step"), {}, device);
    give_bodies(gpu, session.plan());
    session.set("p", numbers({1, 2, 3}));
    session.set("x", numbers({1, 1, 1}));
    session.set("rate", make_host_tensor(DType::f32, {}, std::vector<double>{2}));
    session.run();
    CHECK(to_doubles(session.get("loss"))[0] == 4);
    return device->cache_stats();
  };
  CHECK(prepare().stored == 2);
  CHECK(gpu.compilations == 2);
  CHECK(prepare().hits == 2);
  CHECK(gpu.compilations == 2);
  // What the disk has now is no code for this driver; what the compiler makes from here on is.
  gpu.refused = {"code"};
  gpu.code = "other code";
  const CacheStats renewed = prepare();
  CHECK(renewed.damaged == 2);
  CHECK(renewed.stored == 2);
  CHECK(gpu.compilations == 4);
  CHECK(prepare().damaged == 0);
  CHECK(gpu.compilations == 4);
  // New code that is refused is an error, not a loop.
  gpu.refused = {"code", "other code"};
  CHECK(contains(message_of([&] { prepare(); }), "loading kernel k_"));
  CHECK(gpu.compilations <= 6);
  // A lack of memory says nothing of the code.
  gpu.refused = {};
  prepare();
  const int before = gpu.compilations;
  gpu.failures["ModuleLoadData"] = 2;
  CHECK(contains(message_of([&] { prepare(); }), "CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK(gpu.compilations == before);
  gpu.failures.clear();
  CHECK(prepare().hits == 2);
}

TEST_CASE("the host waits for nothing that it does not read, except to be at most two steps ahead") {
  Fixture f;
  const auto waits = [&] {
    const Calls calls = f.gpu.take_calls();
    return std::ranges::count_if(calls, [](const std::string& call) { return call.ends_with("Synchronize"); });
  };
  for (int step = 0; step < 6; ++step) {
    CAPTURE(step);
    std::ranges::fill(f.session.write("x"), std::byte{0});
    f.session.run();
    CHECK(waits() == (step < 2 ? 0 : 1));
  }
  CHECK(to_doubles(f.session.get("loss"))[0] == 4);
  CHECK(waits() == 1);
  f.session.get("loss");
  CHECK(f.gpu.take_calls().empty());
}

TEST_CASE("tensors that are prefetched are waited for once") {
  Fixture f;
  f.step(1);
  f.session.run();
  f.gpu.take_calls();
  for (const char* tensor : {"loss", "p", "loss"}) f.session.prefetch(tensor);
  CHECK(f.gpu.take_calls() == Calls{"MemcpyDtoHAsync 4", "MemcpyDtoHAsync 12"});
  f.session.read("loss");
  f.session.read("p");
  CHECK(f.gpu.take_calls() == Calls{"StreamSynchronize"});
  f.session.run();
  f.session.prefetch("p");
  f.gpu.take_calls();
  f.session.set("p", numbers({0, 0, 0}));  // not before the copy from the device is done
  CHECK(f.gpu.take_calls() == Calls{"StreamSynchronize"});
  CHECK(f.step(1) == 4);
  CHECK(to_doubles(f.session.get("p")) == std::vector<double>{2, 2, 2});
}

namespace {

/// What cuBLAS documents: column by column, out[m,n] = op(first)[m,k] * op(second)[k,n], `count` times.
void multiply_as_documented(const cuda::GemmArguments& g) {
  const auto element = [](cuda::DevicePointer matrix, std::int64_t place) -> double& {
    return reinterpret_cast<double*>(matrix)[place];
  };
  for (int number = 0; number < g.count; ++number) {
    for (int i = 0; i < g.m; ++i) {
      for (int j = 0; j < g.n; ++j) {
        double sum = 0;
        for (int k = 0; k < g.k; ++k) {
          const auto [a, b] = g.first_transposed ? std::pair(k, i) : std::pair(i, k);
          const auto [c, d] = g.second_transposed ? std::pair(j, k) : std::pair(k, j);
          sum += element(g.first, number * g.first_step + b * g.first_stride + a) *
                 element(g.second, number * g.second_step + d * g.second_stride + c);
        }
        element(g.out, number * g.out_step + j * g.out_stride + i) = sum;
      }
    }
  }
}

/// Row by row, as moxie defines it.
std::vector<double> product_of(const ProductCall& call, const std::vector<double>& left,
                               const std::vector<double>& right, std::size_t elements) {
  std::vector<double> out(elements, -1);
  const auto place = [](const ProductMatrix& matrix, std::int64_t offset, std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(matrix.first + offset + row * matrix.row_stride + column * matrix.column_stride);
  };
  for (std::int64_t number = 0; number < batch_count(call); ++number) {
    const ProductOffset offset = offset_of(call, number);
    for (std::int64_t i = 0; i < call.rows; ++i) {
      for (std::int64_t j = 0; j < call.columns; ++j) {
        double& sum = out[place(call.out, offset.out, i, j)] = 0;
        for (std::int64_t k = 0; k < call.depth; ++k)
          sum += left[place(call.left, offset.left, i, k)] * right[place(call.right, offset.right, k, j)];
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("products are asked of cuBLAS transposed, since it counts column by column, the longest loop in one call") {
  for (int flags = 0; flags < 4; ++flags) {
    for (const bool batched : {false, true}) {
      CAPTURE(flags);
      CAPTURE(batched);
      ProductCall call = single_product(2, 3, 4, (flags & 1) != 0, (flags & 2) != 0);
      if (batched) call.batch = {{2, 8, 0, 30}, {5, 0, 12, 6}};
      std::vector<double> left(16), right(60), got(60, -1);
      std::iota(left.begin(), left.end(), 1);
      std::iota(right.begin(), right.end(), -5);
      const auto address = [](auto& values) { return reinterpret_cast<cuda::DevicePointer>(values.data()); };
      const auto calls =
          cuda::gemm_arguments({DType::f64, DType::f64, call, 1, address(left), address(right), address(got)});
      CHECK(calls.size() == (batched ? 2 : 1));
      CHECK(calls.front().count == (batched ? 5 : 1));
      std::ranges::for_each(calls, multiply_as_documented);
      CHECK(got == product_of(call, left, right, got.size()));
    }
  }
}

TEST_CASE("the last step is taken back without a copy") {
  Fixture f;
  f.step(1);
  f.step(5);
  f.gpu.take_calls();
  f.session.take_back();
  CHECK(f.gpu.take_calls().empty());
  CHECK(to_doubles(f.session.get("p")) == std::vector<double>{3, 4, 5});
}

TEST_CASE("random numbers take one small copy a step") {
  FakeGpu gpu;
  Session session(parse("dim N = 3\nindex n:N\ninput x[N]\noutput y[n] = x[n] + randu(1)\n", "noise"), {},
                  make_cuda_device(gpu.platform(), {0, "0"}));
  session.set("x", numbers({0, 0, 0}));
  session.run();
  session.run();
  gpu.take_calls();
  session.run();
  session.read("y");
  const Calls step = gpu.take_calls();
  CHECK(std::ranges::count(step, "MemcpyHtoDAsync 16") == 1);
  CHECK(std::ranges::count(step, "GraphLaunch") == 1);
}

TEST_CASE("a batch of another size and back allocates nothing again") {
  FakeGpu gpu;
  Session session(parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = 2*x[s]\n", "rows"), {},
                  make_cuda_device(gpu.platform(), {0, "0"}));
  const auto run = [&](std::size_t rows) {
    session.set("x", numbers(std::vector<double>(rows)));
    session.run();
    session.read("y");
  };
  for (const std::size_t rows : {8, 5, 8, 5}) run(rows);
  CHECK(gpu.compilations == 1);
  gpu.take_calls();
  for (const std::size_t rows : {8, 5}) {
    run(rows);
    const Calls calls = gpu.take_calls();
    CHECK(std::ranges::count(calls, "GraphLaunch") == 1);
    CHECK(std::ranges::count_if(calls, [](const auto& call) { return call.starts_with("MemAlloc"); }) == 0);
    CHECK(std::ranges::count(calls, "GraphInstantiate") == 0);
  }
}

TEST_CASE("a launch that is refused is reported with kernel, formula and dimensions, and changes nothing") {
  Fixture f;
  f.step(1);
  for (const std::string call : {"LaunchKernel", "StreamEndCapture", "GraphInstantiate", "GraphLaunch"}) {
    CAPTURE(call);
    f.gpu.failures[call] = 701;
    const std::string message = message_of([&] { f.step(1); });
    INFO(message);
    CHECK(contains(message, "CUDA_ERROR_FAKE (as the test wants it): the kernel takes more registers"));
    CHECK(contains(message, " on cuda, Fake GPU (sm_90, driver for CUDA 12.4): "));
    if (call == "LaunchKernel") {
      CHECK(message.starts_with("launching kernel k_loss (1 x 1 blocks of 1 x 1 threads, 40 registers, "));
      CHECK(message.ends_with("\nIt computes\n  line 6: loss = rate^2"));
    }
    f.gpu.failures.clear();
    CHECK(to_doubles(f.session.get("p")) == std::vector<double>{3, 4, 5});
    CHECK(f.session.step() == 1);
  }
  f.step(1);
  CHECK(to_doubles(f.session.get("p")) == std::vector<double>{5, 6, 7});
}

TEST_CASE("without device memory a session says how much was wanted, and goes on when there is some") {
  Fixture f;
  const std::size_t memory = std::exchange(f.gpu.memory, 0);
  const std::string message = message_of([&] { f.step(1); });
  INFO(message);
  CHECK(contains(message, "allocating 512 bytes beside the"));
  CHECK(contains(message, "CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK(contains(message, "use smaller batches"));
  f.gpu.memory = memory;
  CHECK(f.step(1) == 4);
  CHECK(to_doubles(f.session.get("p")) == std::vector<double>{3, 4, 5});
}

TEST_CASE("a device that is lost names what ran; the step is taken back") {
  Fixture f;
  f.step(1);
  f.gpu.failures["StreamSynchronize"] = 700;
  const std::string message = message_of([&] { f.step(1); });
  INFO(message);
  CHECK(contains(message, "running program step (kernels k_loss, k_next) on cuda, Fake GPU"));
  CHECK(contains(message, "the device is lost to this process"));
  CHECK(f.session.step() == 1);
}

TEST_CASE("a kernel whose check fails is reported by the next read, once, and its step is taken back") {
  FakeGpu gpu;
  const Program program = parse(
      "dim N = 2, R = 2\nindex n:N, r:R, t:R\ninput p[N], K[R,R]\n"
      "output next[n] = p[n] + logdet[r,t](K[r,t])\noutput loss = sum[n](p[n])\n",
      "fit");
  Session session(program, {}, make_cuda_device(gpu.platform(), {0, "0"}));
  bool fails = true;
  for (const PlanStep& step : session.plan().steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      if (kernel->program.checks.empty()) continue;
      const CudaKernel text = cuda_kernel(*kernel, choose_cuda_schedule(*kernel, {}));
      const std::size_t status = text.parameters.size() - 2;
      REQUIRE(text.parameters[status].kind == CudaParameter::Kind::status);
      gpu.kernels[kernel->program.name] = {text.parameters.size(),
                                           [&, status](const std::vector<std::uint64_t>& parameters) {
                                             if (fails)
                                               *reinterpret_cast<KernelStatus*>(parameters[status]) = {
                                                   1, static_cast<std::int64_t>(parameters.back()), {1}, -2.5};
                                           }};
    }
  }
  session.feed_back("next", "p");
  session.set("p", numbers({1, 2}));
  session.set("K", make_host_tensor(DType::f32, {2, 2}, std::vector<double>{1, 0, 0, 1}));
  for (int run = 0; run < 3; ++run) {
    session.run();
    const std::string message = message_of([&] { session.read("loss"); });
    CHECK(contains(message, "not positive definite"));
    CHECK(contains(message, "value -2.5"));
    CHECK(session.step() == 0);
    CHECK(to_doubles(session.get("p")) == std::vector<double>{1, 2});
  }
  // The next run would overwrite what p held before, and so looks first.
  session.run();
  CHECK(contains(message_of([&] { session.run(); }), "not positive definite"));
  CHECK(session.step() == 0);
  CHECK(to_doubles(session.get("p")) == std::vector<double>{1, 2});
  // So do new values for p.
  session.run();
  CHECK(contains(message_of([&] { session.set("p", numbers({5, 6})); }), "not positive definite"));
  CHECK(to_doubles(session.get("p")) == std::vector<double>{1, 2});
  fails = false;
  session.run();
  CHECK_NOTHROW(session.read("loss"));
  CHECK(session.step() == 1);
}

TEST_CASE("code that the driver does not take is reported with the versions of both sides") {
  Fixture f;
  f.gpu.failures["ModuleLoadData"] = 218;
  const std::string message = message_of([&] { f.step(1); });
  INFO(message);
  CHECK(contains(message, "loading kernel k_loss, compiled by fake compiler,"));
  CHECK(contains(message, "driver for CUDA 12.4"));
  CHECK(contains(message, "install a newer driver, or an older CUDA toolkit"));
}

TEST_CASE("kernels are compiled once and found in the cache by other processes") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "moxie_cuda_session_test";
  std::filesystem::remove_all(folder);
  for (const int compilations : {1, 0}) {
    FakeGpu gpu;
    Session session(parse("input x\noutput y = 2*x\n", "twice"), {}, make_cuda_device(gpu.platform(), {0, folder}));
    session.set("x", make_host_tensor(DType::f32, {}, std::vector<double>{1}));
    session.run();
    CHECK(gpu.compilations == compilations);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("devices by name: auto takes the CPU where there is no GPU, and says why") {
  std::string reason;
  const auto device = open_device("auto", {1, "0", false, [&](const std::string& text) { reason = text; }});
  const std::string refusal = message_of([] { open_device("cuda"); });
  if (device->name() == "cuda") {
    CHECK(reason.empty());
    CHECK(refusal == "nothing was thrown");
  } else {
    CHECK(device->name() == "cpu");
    CHECK(reason == refusal);
    CHECK(contains(reason, "--device cpu"));
    CHECK(!contains(reason, "\n"));
  }
  CHECK(message_of([] { open_device("gpu"); }) ==
        "there is no device 'gpu'; choose one of: cpu, interp, cuda, cuda-emu, auto; cuda:1 is the second GPU");
  for (const char* name : {"cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", "cpu:1", "auto:0", ":0", ""}) {
    CAPTURE(name);
    CHECK(contains(message_of([&] { open_device(name); }), "choose one of: cpu"));
  }
}

TEST_CASE("a missing driver is named with its remedy") {
  const std::string message = message_of([] { cuda::nvidia_driver("libno-such-driver.so.1"); });
  CHECK(contains(message, "NVIDIA's CUDA driver could not be loaded"));
  CHECK(contains(message, "no libno-such-driver.so.1 where the system's loader looks"));
  CHECK(contains(message, "--device cpu"));
  const std::string blas = message_of([] { cuda::cublas_version({"/nowhere"}); });
  CHECK(contains(blas, "cuBLAS could not be loaded"));
  CHECK(contains(blas, "no libcublas.so.13 or libcublas.so.12 or libcublas.so in /nowhere"));
}

TEST_CASE("without cuSOLVER the plans of a GPU have kernels factor large matrices") {
  const std::string solver = message_of([] { cuda::cusolver_version({"/nowhere"}); });
  CHECK(contains(solver,
                 "cuSOLVER could not be loaded: no libcusolver.so.12 or libcusolver.so.11 or libcusolver.so in "
                 "/nowhere. Install the CUDA toolkit"));
  const Program program = parse("dim N = 300\nindex i:N, j:N\ninput x[N,N]\noutput L[i,j] = cholesky[i,j](x[i,j])\n");
  const FakeGpu gpu;
  cuda::Platform platform = gpu.platform();
  CHECK(make_cuda_device(platform, {0, "0"})->plan_target(program).products == Products::blas);
  platform.solver =
      std::make_shared<cuda::Solver>(cuda::SolveTriangle(), std::vector<std::filesystem::path>{"/nowhere"});
  CHECK(!platform.solver->is_available());
  const PlanTarget target = make_cuda_device(platform, {0, "0"})->plan_target(program);
  CHECK(target.products == Products::blas);
  CHECK(algebra_calls_of(make_plan(specialise_all(program, {{"N", 300}}), {}, target).steps.front()).empty());
}
