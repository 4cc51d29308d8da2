// What kernels take and do, in numbers.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <utility>

#include "compiler/program/program.h"
#include "compiler/support/error.h"
#include "runtime/device.h"
#include "runtime/dump/dump.h"

using namespace moxie;

namespace {

KernelCounts counts_of(const std::string& text, const DimValues& dims) {
  const Plan plan = make_plan(specialise(parse(text), dims));
  KernelCounts all;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const KernelCounts counts = count_operations(*kernel, dims);
      all.f32_ops += counts.f32_ops;
      all.f64_ops += counts.f64_ops;
      all.special_ops += counts.special_ops;
      all.bytes_read += counts.bytes_read;
      all.bytes_written += counts.bytes_written;
    }
  }
  return all;
}

}  // namespace

TEST_CASE("operations and bytes are those of the formula") {
  const KernelCounts map = counts_of("dim N\nindex n:N\ninput x[N], y[N]\noutput z[n] = x[n]*y[n] + 1\n", {{"N", 100}});
  CHECK(map.f32_ops == 200);
  CHECK(map.special_ops == 0);
  CHECK(map.bytes_read == 800);
  CHECK(map.bytes_written == 400);
  const KernelCounts roots =
      counts_of("dim N\nindex n:N\ninput x[N]: f64\noutput z[n]: f64 = sqrt(x[n])\n", {{"N", 10}});
  CHECK(roots.special_ops == 10);
  CHECK(roots.bytes_read == 80);
}

TEST_CASE("rounds of a triangle are counted") {
  const KernelCounts triangle = counts_of(
      "dim S, N = 9\nindex s:S, r:N, t:N\ninput x[S,N]\noutput z[s] = sum[r](sum[t in r+1..N](exp(x[s,r]*x[s,t] + "
      "x[s,r])))\n",
      {{"S", 4}});
  CHECK(triangle.special_ops == 4 * 36);
}

TEST_CASE("occupancy is what NVIDIA's calculator gives") {
  const GpuModel& h100 = gpu_model("h100");
  CHECK(occupancy(h100, 256, 32, 0) == Occupancy{8, 1, "threads"});
  CHECK(occupancy(h100, 256, 64, 0) == Occupancy{4, 0.5, "registers"});
  CHECK(occupancy(h100, 128, 32, 48 << 10) == Occupancy{4, 0.25, "shared memory"});
  CHECK(occupancy(gpu_model("T4"), 32, 16, 0) == Occupancy{16, 0.5, "blocks"});
  CHECK_THROWS_AS(gpu_model("Voodoo2"), TypeError);
}

TEST_CASE("a GPU that is newer than the table counts as the last one before it") {
  CHECK(gpu_architecture({"new", 103}).number == 100);
  CHECK(gpu_architecture({"newest", 200}).number == 120);
  CHECK(gpu_architecture({"old", 70}).number == 75);
}

TEST_CASE("the emulated GPU gives the figures of the one that it stands for") {
  const auto gpu = open_device("cuda-emu", {.cache_directory = "0"})->gpu();
  REQUIRE(gpu);
  CHECK(limits_of(*gpu) == limits_of(gpu_model("H200")));
  CHECK(gpu->clock_ghz == gpu_model("H200").clock_ghz);
  CHECK(gpu->gigabytes_per_second == doctest::Approx(gpu_model("H200").gigabytes_per_second).epsilon(0.05));
  CHECK(!open_device("interp")->gpu());
}

TEST_CASE("dumped kernels have the subscripts of those that run") {
  const Program program = parse("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = 2*x[n]\n");
  for (const auto& [extent, index] : {std::pair{100L, "int"}, std::pair{3000000000L, "long long"}}) {
    const Dump dump = make_dump({program, program, {}, make_plan(program), {{"N", extent}}},
                                {.stages = {"cuda"}, .no_gpu_code = "no need"});
    CHECK(dump.kernels.at(0).stages.at(0).preamble.starts_with(fmt::format("typedef {} Index;", index)));
  }
}

TEST_CASE("a roofline is the slowest of arithmetic, functions and memory") {
  KernelCounts counts;
  counts.bytes_read = 4.8e9;
  CHECK(gpu_roofline(counts, gpu_model("H200")) == doctest::Approx(1e-3));
  counts.f64_ops = 1e12;
  CHECK(gpu_roofline(counts, gpu_model("H200")) == doctest::Approx(1e12 / flops_per_second(gpu_model("H200"), true)));
  CHECK(cpu_roofline(counts, {1e12, 1e12, 1e12, 1e12}) == doctest::Approx(1));
}
