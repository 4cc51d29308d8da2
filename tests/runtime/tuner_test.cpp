// Measured schedules.
#include "runtime/tuner.h"

#include <doctest/doctest.h>

#include "runtime/session.h"

using namespace moxie;

namespace {

const char* const kProgram =
    "dim S dynamic, N\nindex s:S, n:N\ninput x[S,N]\noutput y[s,n] = exp(x[s,n])\noutput z[n] = sum[s](y[s,n]/3)\n";

std::vector<double> run(const std::shared_ptr<Device>& device) {
  constexpr std::int64_t kRows = 2000, kColumns = 5;
  Session session(parse(kProgram), {{"N", kColumns}}, device);
  std::vector<double> x(kRows * kColumns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 17) / 8;
  session.set("x", make_host_tensor(DType::f32, {kRows, kColumns}, x));
  session.run();
  std::vector<double> first = to_doubles(session.get("z"));
  session.run();
  CHECK(to_doubles(session.get("z")) == first);  // the run that measures gives what later ones give
  return first;
}

}  // namespace

TEST_CASE("candidates surround the default and fit the extents") {
  const Plan plan = make_plan(specialise(parse(kProgram), {{"N", 50}}));
  for (const PlanStep& step : plan.steps) {
    const LoweredKernel& kernel = std::get<LoweredKernel>(step);
    const DimValues dims = {{"S", 2000}, {"N", 50}};
    const auto candidates = candidate_partitions(kernel, dims, 16);
    CHECK(candidates.front() == choose_partition(kernel, dims, 16));
    CHECK(candidates.size() > 1);
    for (const Partition& candidate : candidates) {
      CHECK((candidate.tiles == 1 || kernel.tiles));
      CHECK((candidate.chunks == 1 || kernel.chunks));
      CHECK(candidate.tiles * candidate.chunks <= 4 * 16);  // pieces of 50 columns by 16 lanes
    }
  }
}

TEST_CASE("kernels of a scan have candidates, and may run any number of times at a step") {
  const char* const text =
      "dim T = 6, S, N\nindex t:T, s:S, n:N, m:N\ninput x[T,S,N], w[N,N]\nscan t {\n"
      "  let h[t,s,n] = tanh(x[t,s,n] + sum[m](where(t == 0, 0, h[t-1,s,m])*w[m,n]))\n}\noutput y[s,n] = h[T-1,s,n]\n";
  const DimValues dims = {{"S", 200}, {"N", 40}};
  const Plan plan = make_plan(specialise(parse(text), dims));
  std::size_t kernels = 0;
  for (const LoweredKernel* kernel : kernels_of(plan.steps.front())) {
    CHECK(kernel->in_scan);
    CHECK(candidate_partitions(*kernel, dims, 16).size() > 1);
    ++kernels;
  }
  CHECK(kernels > 0);
  std::vector<double> x(6UL * 200 * 40), w(40UL * 40);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 17) / 8 - 1;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i % 13) / 40 - 0.15;
  const auto result = [&](bool tunes) {
    Session session(parse(text), dims, open_device("cpu", {2, "0", tunes}));
    session.set("x", make_host_tensor(DType::f32, {6, 200, 40}, x));
    session.set("w", make_host_tensor(DType::f32, {40, 40}, w));
    session.run();
    return to_doubles(session.get("y"));
  };
  CHECK(result(true) == result(false));  // no sum is split
}

TEST_CASE("the fastest candidate wins and is kept") {
  KernelCache cache{std::filesystem::path()};
  const std::string key = tuning_key("kernel", {{"S", 3}}, processor_of(2));
  CHECK(key != tuning_key("kernel", {{"S", 4}}, processor_of(2)));
  CHECK(key != tuning_key("kernel", {{"S", 3}}, processor_of(1)));
  const auto ways = records_of({{1, 1, ""}, {4, 3, ""}, {16, 1, ""}});
  CHECK_FALSE(find_tuned(cache, key, ways));
  std::size_t tried = 0;
  const Trial trial{[&](std::size_t way) { tried = way; }, [&] { return tried == 1 ? 2.0 : 10.0; }};
  const Tuned best = measure(cache, key, ways, trial);
  CHECK(best == Tuned{1, "the fastest of 3: 2 ms, the default 10 ms"});
  CHECK(find_tuned(cache, key, ways) == best);
}

TEST_CASE("a record of no candidate counts as none") {
  for (const char* record : {"", "4", "4 ", "x 3", "0 1", "4 -1", "99999999999999999999 1"}) {
    KernelCache cache{std::filesystem::path()};
    cache.store("key", {record, "", ""});
    CHECK_FALSE(find_tuned(cache, "key", records_of({{1, 1, ""}, {4, 3, ""}})));
  }
}

TEST_CASE("tuned schedules are used on request only") {
  const auto folder = std::filesystem::temp_directory_path() / "moxie_tuner_test";
  std::filesystem::remove_all(folder);
  const std::vector<double> plain = run(open_device("cpu", {2, folder.string()}));
  const std::vector<double> tuned = run(open_device("cpu", {2, folder.string(), true}));
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(tuned[i] == doctest::Approx(plain[i]).epsilon(1e-5));
  const auto again = open_device("cpu", {2, folder.string(), true});
  CHECK(run(again) == tuned);
  CHECK(again->cache_stats().misses == 0);  // neither compiled nor measured again
  CHECK(run(open_device("cpu", {2, folder.string()})) == plain);
  std::filesystem::remove_all(folder);
}
