// Reductions split into chunks with partial results: where that pays, and that it gives the same bits on any number of
// threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "runtime/plan.h"
#include "runtime/session.h"

using namespace moxie;

namespace {

constexpr const char* kPairs = "dim N = 700\nindex i:N, j:N\ninput x[N]\noutput e = sum[i,j](exp(-(x[i]-x[j])^2))\n";

std::string schedule_of(const char* text, const std::string& kernel) {
  const Plan plan = make_plan(specialise(parse(text), {}), {}, {.machine = &default_machine("x86-64-v4")});
  const auto found = std::ranges::find(plan.choices, kernel, &ScheduleChoice::kernel);
  REQUIRE(found != plan.choices.end());
  return found->chosen;
}

std::vector<double> random_numbers(std::int64_t count) {
  std::mt19937 engine(7);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<double> values(static_cast<std::size_t>(count));
  std::ranges::generate(values, [&] { return uniform(engine); });
  return values;
}

/// The values of `e` on the device.
std::vector<double> values_on(const char* device, const Program& program, int threads, const std::string& schedule) {
  Session session(program, {}, open_device(device, {.threads = threads, .cache_directory = "0", .schedule = schedule}));
  for (const InputDecl& input : program.inputs) {
    const std::vector<std::int64_t> shape = extents_of(program, input.name, {});
    session.set(input.name, make_host_tensor(input.dtype, shape, random_numbers(element_count(shape))));
  }
  session.run();
  return to_doubles(session.get("e"));
}

}  // namespace

TEST_CASE("a sum of few elements is split into chunks, one with many elements is not") {
  CHECK(schedule_of(kPairs, "k_e").find("rfactor(sum, 16)") != std::string::npos);
  const char* rows =
      "dim S = 4000, N = 60\nindex s:S, n:N, m:N\ninput x[S,N]\noutput e[s] = sum[n,m](exp(-(x[s,n]-x[s,m])^2))\n";
  CHECK(schedule_of(rows, "k_e").find("rfactor") == std::string::npos);
}

TEST_CASE("ranges that start above 0 are split like others") {
  const char* sum =
      "dim T = 100, N = 500\nindex t:T, i:N, j:N\ninput x[T,N,N], y[T,N,N]\n"
      "output e = sum[t in 1..T,i in 1..N-1,j in 1..N-1]((x[t-1,i+1,j] - x[t-1,i,j+1] - x[t-1,i,j])*y[t,i,j])\n";
  CHECK(schedule_of(sum, "k_e_sum").find("rfactor(sum, 16)") != std::string::npos);
  const char* stencil =
      "dim N = 2000\nindex i:N, j:N\ninput x[N,N]\n"
      "output y[i in 1..N-1,j in 1..N-1] = x[i-1,j] + x[i+1,j] + x[i,j-1] + x[i,j+1]\n";
  CHECK(schedule_of(stencil, "k_y").find("parallel(i)") != std::string::npos);
}

TEST_CASE("partial results are combined in their order: the bits do not depend on the number of threads") {
  const char* texts[] = {
      kPairs,
      "dim N = 900, D = 3\nindex i:N, d:D\ninput x[N,D]\noutput e[d] = sum[i](exp(x[i,d]))\n",
      "dim N = 37\nindex i:N\ninput x[N]\noutput e = prod[i](1 + x[i]/50)\n",
      "dim N = 900, D = 2\nindex i:N, d:D\ninput x[N,D]\noutput e[d] = max[i](x[i,d])\n",
      "dim N = 20, M = 50\nindex i:N, j:M\ninput x[N,M]\noutput e = min[i,j](x[i,j]^2)\n",
      "dim N = 900\nindex i:N\ninput x[N]\noutput e = sum[i in 2..N-1](x[i-2]*x[i+1])\n",
  };
  for (const char* text : texts) {
    CAPTURE(text);
    const Program program = specialise(parse(text), {});
    const std::vector<double> want = values_on("interp", program, 1, "");
    for (const char* schedule :
         {"e: rfactor(sum, 7)", "e: rfactor(sum, 7) lanes(sum)", "e: lanes(sum) rfactor(sum, 64)"}) {
      CAPTURE(schedule);
      const std::vector<double> one = values_on("cpu", program, 1, schedule);
      CHECK(one == values_on("cpu", program, 3, schedule));
      REQUIRE(one.size() == want.size());
      for (std::size_t k = 0; k < one.size(); ++k) CHECK(one[k] == doctest::Approx(want[k]).epsilon(1e-5));
    }
  }
}
