// --tune on GPUs: schedules by measured time, remembered in the cache.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "compiler/codegen/cuda/cuda_text.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_tuning.h"
#include "runtime/session.h"
#include "tests/runtime/fake_gpu.h"

using namespace moxie;

namespace {

constexpr const char* kProgram =
    "dim S dynamic, N = 40\nindex s:S, n:N\ninput x[S,N]\noutput y[s,n] = 2*x[s,n]\noutput z[s] = "
    "sum[n](x[s,n]^2)\noutput w[n] = sum[s](x[s,n]/3)\n";

struct Outcome {
  std::vector<double> y, z, w;
  CacheStats stats;
};

Outcome run(const std::shared_ptr<Device>& device) {
  constexpr std::int64_t kRows = 300, kColumns = 40;
  Session session(parse(kProgram), {}, device);
  std::vector<double> x(kRows * kColumns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 17) / 8;
  session.set("x", make_host_tensor(DType::f32, {kRows, kColumns}, x));
  session.run();
  const auto w = to_doubles(session.get("w"));
  session.run();
  CHECK(to_doubles(session.get("w")) == w);  // the run that measures gives what later ones give
  return {to_doubles(session.get("y")), to_doubles(session.get("z")), w, device->cache_stats()};
}

}  // namespace

TEST_CASE("candidates are the wanted schedule and others, each once") {
  std::size_t all = 0;
  for (const PlanStep& step : make_plan(specialise(parse(kProgram), {})).steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const DimValues dims = {{"S", 100000}, {"N", 40}};
      const auto candidates = cuda::candidate_preferences(*kernel, {.threads = 128}, {}, dims);
      CHECK(candidates.front() == CudaPreference{.threads = 128});
      all += candidates.size();
      std::set<std::string> schedules;
      for (const CudaPreference& candidate : candidates) {
        const CudaSchedule schedule = choose_cuda_schedule(*kernel, {}, candidate);
        const CudaGrid grid = choose_cuda_grid(*kernel, schedule, {}, dims);
        CHECK(schedules
                  .insert(cuda_kernel(*kernel, schedule).text + std::to_string(grid.tiles) + "x" +
                          std::to_string(grid.chunks))
                  .second);
      }
    }
  }
  CHECK(all >= 8);
}

TEST_CASE("tuned schedules of cuda-emu are used on request only, and found again") {
  const auto folder = std::filesystem::temp_directory_path() / "moxie_cuda_tuner_test";
  std::filesystem::remove_all(folder);
  const auto open = [&](bool tune) {
    return open_device("cuda-emu", {.cache_directory = folder.string(), .tune = tune});
  };
  const Outcome plain = run(open(false));
  const Outcome tuned = run(open(true));
  CHECK(tuned.y == plain.y);
  for (std::size_t i = 0; i < plain.z.size(); ++i) CHECK(tuned.z[i] == doctest::Approx(plain.z[i]).epsilon(1e-5));
  for (std::size_t i = 0; i < plain.w.size(); ++i) CHECK(tuned.w[i] == doctest::Approx(plain.w[i]).epsilon(1e-5));
  CHECK(tuned.stats.stored > 0);
  const Outcome again = run(open(true));
  CHECK(again.z == tuned.z);
  CHECK(again.w == tuned.w);
  CHECK(again.stats.misses == 0);  // neither compiled nor measured again
  CHECK(run(open(false)).w == plain.w);
  std::filesystem::remove_all(folder);
}

TEST_CASE("kernels are measured by the GPU's events, once") {
  cuda::FakeGpu gpu;
  Session session(parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = 2*x[s]\n"), {},
                  make_cuda_device(gpu.platform(), {.cache_directory = "0", .tune = true}));
  gpu.kernels["k_y"] = {0, [](const std::vector<std::uint64_t>&) {}};
  session.set("x", make_host_tensor(DType::f32, {3}, std::vector<double>{1, 2, 3}));
  gpu.take_calls();
  session.run();
  const auto first = gpu.take_calls();
  const auto events = std::ranges::count(first, "EventRecord"),
             launches = std::ranges::count(first, "LaunchKernel k_y 1x1");
  CHECK(launches > 2 * 4);  // several schedules, each run a few times
  CHECK(events >= 2 * (launches - 1));
  session.run();
  CHECK(std::ranges::count(gpu.take_calls(), "LaunchKernel k_y 1x1") <= 1);
}
