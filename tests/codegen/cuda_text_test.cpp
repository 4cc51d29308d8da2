// CUDA text and schedules of small formulas. That the text computes what it should is shown by running it (golden and
// property tests).
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/program/program.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"

using namespace moxie;

namespace {

std::vector<LoweredKernel> kernels(const std::string& text) {
  std::vector<LoweredKernel> result;
  for (const PlanStep& step :
       make_plan(specialise(parse(text), {{"N", 7}, {"lane", 8}}), {}, {.products = Products::blas}).steps) {
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
  return std::string(cuda_kernel(kernel, choose_cuda_schedule(kernel, {}, {}, false, thrift)).own_text());
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

constexpr const char* kMap =
    "dim S dynamic, N = 7\nindex s:S, n:N\ninput x[S,N], b[N]\noutput y[s,n] = exp(x[s,n]) + b[n]\n";
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
  CHECK(choose_cuda_grid(kernel, schedule, {.multiprocessors = 4}, {{"S", 100000}, {"N", 7}}) == CudaGrid{1, 32});
  const std::string text = own_text(kernel);
  CHECK(contains(text, "const Index S"));
  CHECK(contains(text, "if (active) y[s * 7 + n] = "));
  CHECK(!contains(text, "__syncthreads"));
}

TEST_CASE("a number beyond single precision is infinity in its text") {
  const std::string text = own_text(only_kernel("index n:7\ninput x[7]\noutput y[n] = min(x[n], 1e300) + 1e39\n"));
  CHECK(contains(text, "infinity<float>()"));
  CHECK(!contains(text, "inf."));
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
  CHECK(choose_cuda_schedule(kernel, {}, {}, false, Thrift::most).arrays != std::vector{ArrayPlace::registers});
  CHECK(contains(own_text(kernel, Thrift::most), "#pragma unroll 1"));
}

TEST_CASE("sums leave registers where unrolled loops would not fit an instruction cache") {
  const auto kernel_of = [](const std::string& summand) {
    return only_kernel("dim S dynamic\nindex s:S, n:64, r:100\ninput x[S,64], v[100,64]\noutput g[r,n] = sum[s](" +
                       summand + ")\n");
  };
  const LoweredKernel small = kernel_of("exp(x[s,n]*v[r,n])");
  const LoweredKernel large = kernel_of("lgamma(x[s,n]*v[r,n])*exp(lgamma(x[s,n] + v[r,n]))*digamma(x[s,n] - v[r,n])");
  CHECK(choose_cuda_schedule(small, {}).arrays == std::vector{ArrayPlace::registers});
  CHECK(choose_cuda_schedule(large, {}).arrays == std::vector{ArrayPlace::workspace});
  CHECK(!contains(own_text(large), "#pragma unroll\n"));
}

TEST_CASE("a loop inside of unrolled loops is copied a limited number of times") {
  const auto text_for = [](int extent) {
    std::string text;
    for (const LoweredKernel& kernel :
         kernels(fmt::format("dim S dynamic\nindex s:S, n:64, r:50, k:{0}\ninput x[S,64], v[50,64], w[{0},50,64]\n"
                             "output g[r,n] = sum[s](x[s,n]*exp(-v[r,n]*sum[k](exp(x[s,n]*w[k,r,n]))))\n",
                             extent)))
      text += own_text(kernel);
    return text;
  };
  CHECK(contains(text_for(20), "#pragma unroll 1\n"));
  CHECK(!contains(text_for(4), "#pragma unroll 1\n"));
}

TEST_CASE("a matrix has a block, whose threads wait for each other") {
  const std::vector<LoweredKernel> all =
      kernels("dim N, R = 20\nindex n:N, r:R, t:R\ninput A[N,R,R]\noutput L[n,r,t] = cholesky[r,t](A[n,r,t])\n");
  const CudaSchedule schedule = choose_cuda_schedule(all.back(), {});
  CHECK(schedule.mapping == CudaMapping::block);
  CHECK(choose_cuda_grid(all.back(), schedule, {}, {{"N", 7}, {"R", 20}}).tiles == 7);
  CHECK(contains(own_text(all.back()), "__syncthreads();"));
  CHECK(contains(own_text(all.back()), "fail(status, first_check + 0, "));
}

TEST_CASE("a matrix too large for shared memory lies in device memory") {
  const std::vector<LoweredKernel> all =
      kernels("dim N, R = 120\nindex n:N, r:R, t:R\ninput A[N,R,R]\noutput d[n] = logdet[r,t](A[n,r,t])\n");
  const LoweredKernel& factors = all.front();
  CHECK(choose_cuda_schedule(factors, {}).workspace.fixed_bytes >= 120 * 120 * 4);
  CHECK(contains(own_text(factors), "slice<"));
}

TEST_CASE("sums along the vector loop are combined over lanes") {
  const LoweredKernel kernel = only_kernel("dim S dynamic\nindex s:S\ninput x[S]\noutput y = sum[s](x[s]^2)\n");
  const std::string text = own_text(kernel);
  CHECK(contains(text, "combine_lanes<Sum, "));
  CHECK(contains(text, "if (lane == 0) y["));
}

TEST_CASE("names of C++ and of the kernel's own things are left alone") {
  const std::string text = own_text(only_kernel(
      "dim lane\nindex s:lane\ninput float[lane], v12[lane], acc0[lane]\noutput int[s] = float[s]*v12[s] + acc0[s]\n"));
  CHECK(contains(text, "Global<const float> float_1"));
  CHECK(contains(text, "Global<const float> v12_"));
  CHECK(contains(text, "Global<float> int_1"));
}

TEST_CASE("64-bit subscripts on request") {
  const LoweredKernel kernel = only_kernel(kMap);
  CHECK(cuda_kernel(kernel, choose_cuda_schedule(kernel, {}, {}, true)).text.starts_with("typedef long long Index;"));
}

TEST_CASE("every block of the text cites the definition that it computes, and its line") {
  const std::string text = own_text(only_kernel(kSums));
  CHECK(contains(text, "// line 4: g = sum[s]("));
  CHECK(contains(text, "// sums start: g (line 4)"));
  CHECK(contains(text, "// g (line 4)\n"));
  const std::vector<LoweredKernel> all =
      kernels("dim N, R = 20\nindex n:N, r:R, t:R\ninput A[N,R,R]\noutput L[n,r,t] = cholesky[r,t](A[n,r,t])\n");
  CHECK(contains(own_text(all.back()), "// L (line 4): Cholesky factor, column by column"));
}

TEST_CASE("a long reduction along the fastest axis is shared out to a warp, a longer one to a block") {
  const auto row_sums = [](const char* extent) {
    return only_kernel(
        fmt::format("dim S dynamic\nindex s:S, r:{0}\ninput x[S,{0}]\noutput y[s] = sum[r](x[s,r]^2)\noutput m[s] = "
                    "max[r](x[s,r])\n",
                    extent));
  };
  const LoweredKernel kernel = row_sums("100");
  const CudaSchedule schedule = choose_cuda_schedule(kernel, {});
  CHECK(schedule.mapping == CudaMapping::team);
  CHECK(schedule.lanes == 32);
  CHECK(schedule.rows == 8);
  CHECK(schedule.persistent);
  CHECK(choose_cuda_grid(kernel, schedule, {.multiprocessors = 4}, {{"S", 100}}) == CudaGrid{13, 1});
  CHECK(choose_cuda_grid(kernel, schedule, {.multiprocessors = 4}, {{"S", 100000}}) == CudaGrid{32, 1});
  const std::string text = own_text(kernel);
  CHECK(contains(text, "for (Index r = lane; r < 100; r += 32) {"));
  CHECK(contains(text, " = combine_warp<Sum>(acc0);"));
  CHECK(contains(text, " = combine_warp<Max>(acc1);"));
  CHECK(contains(text, "if (active && lane == 0) y[s] = "));
  CHECK(choose_cuda_schedule(row_sums("5000"), {}).lanes == 256);
  CHECK(choose_cuda_schedule(row_sums("20"), {}).mapping == CudaMapping::thread);
  CHECK(choose_cuda_schedule(kernel, {}, {.team = 1}).mapping == CudaMapping::thread);
}

TEST_CASE("a map that waits for memory loads and stores several neighbours at once") {
  const auto sums = [](int extent, const char* type, const char* formula) {
    return only_kernel(
        fmt::format("dim S dynamic\nindex s:S, n:{0}\ninput x[S,{0}]: {1}, b[{0}]: {1}\noutput y[s,n]: {1} = {2}\n",
                    extent, type, formula));
  };
  const auto width = [&](int extent, const char* type, const char* formula) {
    return choose_cuda_schedule(sums(extent, type, formula), {}).width;
  };
  constexpr const char* kLight = "x[s,n]*b[n]";
  CHECK(width(64, "f32", kLight) == 4);
  CHECK(width(64, "f64", kLight) == 2);
  CHECK(width(50, "f32", kLight) == 2);
  CHECK(width(51, "f32", kLight) == 1);
  CHECK(width(64, "f32", "lgamma(digamma(lgamma(x[s,n])))") == 1);
  const LoweredKernel kernel = sums(64, "f32", kLight);
  const CudaSchedule schedule = choose_cuda_schedule(kernel, {});
  CHECK(schedule.lanes == 16);
  CHECK(schedule.rows == 16);
  const std::string text = own_text(kernel);
  CHECK(contains(text, "const Wide<float, 4> x_wide = load_wide<4>(x, s * 64 + n);"));
  CHECK(contains(text, "if (active) store_wide(y, s * 64 + n, y_wide);"));
  CHECK(choose_cuda_schedule(kernel, {}, {.width = 1}).width == 1);
  CHECK(choose_cuda_schedule(kernel, {}, {.threads = 64}).rows == 4);
}

TEST_CASE("what is wanted of a schedule is read, printed, and refused where it is nonsense") {
  const CudaPreference all = {32, 256, 4, 8};
  CHECK(parse_cuda_preference(print(all)) == all);
  CHECK(parse_cuda_preference("") == CudaPreference{});
  for (const char* bad : {"rows=4", "team", "team=", "team=33", "threads=16", "threads=2048", "width=8", "blocks=0",
                          ",", "team=32;blocks=2", "team=99999999999999"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(parse_cuda_preference(bad), doctest::Contains("there are team=1 to 1024, threads=32 to 1024"),
                         TypeError);
  }
}

TEST_CASE("the kernel's own names give way to tensors") {
  const std::string text =
      own_text(only_kernel("dim S dynamic, N\nindex s:S, n:N\ninput s_low[S,N], n_of_lane[N]\noutput y[s,n] = "
                           "exp(s_low[s,n])*n_of_lane[n]\n"));
  CHECK(contains(text, "const Index s_low_1 = "));
  CHECK(contains(text, "const Index n_of_lane_1 = "));
}
