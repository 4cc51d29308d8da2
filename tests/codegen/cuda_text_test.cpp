// CUDA text and schedules of small formulas. That the text computes what it should is shown by running it (golden and property tests).
#include <doctest/doctest.h>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/ir/program.h"
#include "runtime/plan.h"

using namespace moxie;

namespace {

std::vector<LoweredKernel> kernels(const std::string& text) {
  std::vector<LoweredKernel> result;
  for (const PlanStep& step : make_plan(specialise(parse(text), {{"N", 7}, {"lane", 8}})).steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) result.push_back(*kernel);
  }
  return result;
}

LoweredKernel only_kernel(const std::string& text) {
  std::vector<LoweredKernel> all = kernels(text);
  REQUIRE(all.size() == 1);
  return std::move(all.front());
}

std::string own_text(const LoweredKernel& kernel, Thrift thrift = Thrift::none) {
  return std::string(cuda_kernel(kernel, choose_cuda_schedule(kernel, {}, false, thrift)).own_text());
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr const char* kMap = "dim S dynamic, N = 7\nindex s:S, n:N\ninput x[S,N], b[N]\noutput y[s,n] = exp(x[s,n]) + b[n]\n";
constexpr const char* kSums =
    "dim S dynamic, N = 7\nindex s:S, n:N, r:6, t:6\ninput x[S,N], v[6,N]\n"
    "output g[r,t,n] = sum[s](x[s,n]*exp(-(v[r,n] + 2*v[t,n] - x[s,n])^2))\n";

}  // namespace

TEST_CASE("a map runs with lanes along its fastest axis and rows of samples") {
  const LoweredKernel kernel = only_kernel(kMap);
  const CudaSchedule schedule = choose_cuda_schedule(kernel, {});
  CHECK(schedule.lanes == 32);
  CHECK(schedule.rows == 8);
  CHECK(choose_cuda_grid(kernel, schedule, {}, {{"S", 100}, {"N", 7}}) == CudaGrid{1, 13});
  CHECK(choose_cuda_grid(kernel, schedule, {.multiprocessors = 4}, {{"S", 100000}, {"N", 7}}) == CudaGrid{1, 8});
  const std::string text = own_text(kernel);
  CHECK(contains(text, "const Index S"));
  CHECK(contains(text, "if (active) y[s * 7 + n] = "));
  CHECK(!contains(text, "__syncthreads"));
}

TEST_CASE("the same Program gives the same text, every time") {
  CHECK(own_text(only_kernel(kMap)) == own_text(only_kernel(kMap)));
  CHECK(own_text(only_kernel(kSums)) == own_text(only_kernel(kSums)));
}

TEST_CASE("sums over samples stay in registers, are combined over rows, and then over blocks") {
  const LoweredKernel kernel = only_kernel(kSums);
  const CudaSchedule schedule = choose_cuda_schedule(kernel, {});
  CHECK(schedule.arrays == std::vector{ArrayPlace::registers});
  const CudaKernel code = cuda_kernel(kernel, schedule);
  CHECK(code.combine_entry == code.entry + "_combine");
  CHECK(contains(std::string(code.own_text()), "combine_rows<Sum, 32, "));
  CHECK(contains(std::string(code.own_text()), "#pragma unroll\n"));
  CHECK(code.parameters.back() == CudaParameter{CudaParameter::Kind::argument, 0, "S"});
}

TEST_CASE("thrift takes sums out of registers") {
  const LoweredKernel kernel = only_kernel(kSums);
  CHECK(choose_cuda_schedule(kernel, {}, false, Thrift::most).arrays != std::vector{ArrayPlace::registers});
  CHECK(contains(own_text(kernel, Thrift::most), "#pragma unroll 1"));
}

TEST_CASE("a matrix has a block, whose threads wait for each other") {
  const std::vector<LoweredKernel> all =
      kernels("dim N, R = 20\nindex n:N, r:R, t:R\ninput A[N,R,R]\noutput L[n,r,t] = cholesky[r,t](A[n,r,t])\n");
  const CudaSchedule schedule = choose_cuda_schedule(all.back(), {});
  CHECK(schedule.matrix_per_block);
  CHECK(choose_cuda_grid(all.back(), schedule, {}, {{"N", 7}, {"R", 20}}).tiles == 7);
  CHECK(contains(own_text(all.back()), "__syncthreads();"));
  CHECK(contains(own_text(all.back()), "fail(status, 0, "));
}

TEST_CASE("a matrix too large for shared memory lies in device memory") {
  const std::vector<LoweredKernel> all =
      kernels("dim N, R = 120\nindex n:N, r:R, t:R\ninput A[N,R,R]\noutput d[n] = logdet[r,t](A[n,r,t])\n");
  const CudaSchedule schedule = choose_cuda_schedule(all.back(), {});
  CHECK(schedule.workspace_bytes_per_block >= 120 * 120 * 4);
  CHECK(contains(own_text(all.back()), "slice<"));
}

TEST_CASE("sums along the vector loop are combined over lanes") {
  const LoweredKernel kernel = only_kernel("dim S dynamic\nindex s:S\ninput x[S]\noutput y = sum[s](x[s]^2)\n");
  const std::string text = own_text(kernel);
  CHECK(contains(text, "combine_lanes<Sum, "));
  CHECK(contains(text, "if (lane == 0) y["));
}

TEST_CASE("names of C++ and of the kernel's own things are left alone") {
  const std::string text = own_text(only_kernel("dim lane\nindex s:lane\ninput float[lane], v12[lane], acc0[lane]\noutput int[s] = float[s]*v12[s] + acc0[s]\n"));
  CHECK(contains(text, "Global<const float> float_1"));
  CHECK(contains(text, "Global<const float> v12_"));
  CHECK(contains(text, "Global<float> int_1"));
}

TEST_CASE("64-bit subscripts on request") {
  const LoweredKernel kernel = only_kernel(kMap);
  CHECK(cuda_kernel(kernel, choose_cuda_schedule(kernel, {}, true)).text.starts_with("typedef long long Index;"));
}
