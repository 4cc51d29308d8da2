// Plans in the cache: what a second session finds, and what becomes of entries that are not what they seem.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "ops/catalogue.h"
#include "runtime/plan_bytes.h"
#include "runtime/plan_cache.h"
#include "runtime/private_file.h"
#include "runtime/session.h"
#include "runtime/temporary_folder.h"

using namespace moxie;
namespace fs = std::filesystem;

namespace {

/// A fold, a scan, a prefix sum, linear algebra, an extremum, random numbers and a matrix product: every kind of thing
/// that a plan can hold.
constexpr const char* kEverything = R"(dim S dynamic, N = 6, T = 200
index s:S, n:N, m:N, i:N, t:T, k:T
input x[S,N] >= 0, w[N,N], a, start[N], length[T]
let spread[n] = sum[s]((x[s,n] - a)^2)
let K[n,m]: f64 = exp(-(n-m)^2) + where(n == m, 1, 0)
output factor[n,m] = cholesky[n,m](K[n,m])
output best[s] = argmax[n](x[s,n])
output y[s,n] = tanh(sum[m](x[s,m]*w[m,n])) + randn(1)
output size = logdet[n,m](K[n,m]) + max[n](spread[n])
scan t {
  let state[t,i] = where(t == 0, start[i], state[t-1,i]*0.5 + sum[n](w[n,i]*state[t-1,n]))
}
output reached[t] = sum[k in 0..t+1](length[k])
output last[i] = state[T-1,i]
)";

Plan cpu_plan(const Program& program) {
  return make_plan(specialise(program, {}), {}, {.machine = &default_machine("x86-64-v4"), .extents = {{"S", 256}}});
}

/// What a plan is after it was in the cache.
void check_round_trip(const Plan& plan) {
  const std::string bytes = to_bytes(plan);
  const Plan again = plan_from_bytes(bytes, plan.program);
  CHECK(again.program == plan.program);
  CHECK(again.fused.program == plan.fused.program);
  CHECK(again.fused.layouts == plan.fused.layouts);
  CHECK(again.steps == plan.steps);
  CHECK(again.choices == plan.choices);
  CHECK(to_bytes(again) == bytes);
}

/// A device with a cache in `folder`, and a session for a sum over rows.
struct Fixture {
  static std::shared_ptr<Device> open(const fs::path& folder) {
    return open_device("cpu", {.threads = 1, .cache_directory = folder.string()});
  }
  static Program program() {
    return parse("dim S dynamic, N = 40\nindex s:S, n:N\ninput x[S,N]\noutput y[n] = sum[s](exp(-x[s,n]^2))\n");
  }
  static std::vector<double> run(Session& session, std::int64_t rows) {
    const std::vector<double> x(static_cast<std::size_t>(rows * 40), 0.25);
    session.set("x", make_host_tensor(DType::f32, {rows, 40}, x));
    session.run();
    return to_doubles(session.get("y"));
  }
};

/// The only entry of the cache whose text holds `part`: plans have no source.
fs::path plan_entry(const Session& session, const std::shared_ptr<Device>& device) {
  PlanTarget target = device->plan_target(session.program());
  target.extents = extent_classes({{"S", 100}, {"N", 40}});
  return device->plan_cache()->path_of(plan_key(session.program(), {}, target));
}

}  // namespace

TEST_CASE("every extent has a class, the largest too") {
  const DimValues classes = extent_classes({{"A", 1}, {"B", 3}, {"C", std::numeric_limits<std::int64_t>::max()}});
  CHECK(classes == DimValues{{"A", 1}, {"B", 4}, {"C", std::int64_t{1} << 62}});
}

TEST_CASE("plans read back from bytes as they were") {
  check_round_trip(cpu_plan(parse(kEverything)));
  check_round_trip(make_plan(specialise(parse(kEverything), {})));  // as for GPUs
  check_round_trip(make_plan(specialise(parse(kEverything), {}), {.nan = true, .negvar = true}, {}));
  const Program layer = load_op("gpn.response_variance");
  const Program gradients = differentiate(layer, {"mean", "variance"}, {"mu", "var", "U", "noise"});
  const DimValues dims = {{"S", 64}, {"N", 10}, {"R", 5}};
  check_round_trip(make_plan(specialise(gradients, dims), {}, {.machine = &default_machine("x86-64-v3")}));
}

TEST_CASE("bytes that end early or that were changed give an error, never a crash") {
  const Plan plan = cpu_plan(parse(kEverything));
  const std::string bytes = to_bytes(plan);
  const std::size_t stride = bytes.size() / 300 + 1;
  for (std::size_t length = 0; length < bytes.size(); length += stride)
    CHECK_THROWS_AS(plan_from_bytes(bytes.substr(0, length), plan.program), CacheError);
  std::size_t refused = 0;
  for (std::size_t k = 0; k < bytes.size(); k += stride) {
    std::string changed = bytes;
    changed[k] = static_cast<char>(~changed[k]);
    try {
      plan_from_bytes(changed, plan.program);
    } catch (const CacheError&) {  // not always: another number in a formula is seen by the entry's checksum alone
      ++refused;
    }
  }
  CHECK(refused > 0);
  CHECK_THROWS_AS(plan_from_bytes(bytes + '\0', plan.program), CacheError);
}

TEST_CASE("the key of a plan tells apart all that decides about it") {
  const Program program = specialise(parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = x[s] + 1\n"), {});
  Program moved = program;
  moved.definitions.front().line += 1;  // messages name lines
  const Machine& wide = default_machine("x86-64-v4");
  Machine calibrated = wide;
  calibrated.load_latency *= 2;
  std::vector<std::string> keys = {
      plan_key(program, {}, {}),
      plan_key(moved, {}, {}),
      plan_key(program, {.nan = true}, {}),
      plan_key(program, {}, {.products = Products::kernels}),
      plan_key(program, {}, {.machine = &wide}),
      plan_key(program, {}, {.machine = &calibrated}),
      plan_key(program, {}, {.machine = &wide, .extents = {{"S", 16}}}),
      plan_key(program, {}, {.machine = &wide, .given = {{"y", parse_schedule("lanes(s)")}}}),
  };
  CHECK(plan_key(program, {}, {.machine = &wide}) == keys[4]);
  std::ranges::sort(keys);
  CHECK(std::ranges::adjacent_find(keys) == keys.end());
}

TEST_CASE("a session makes one plan for a class of extents, and a later one finds it without any search") {
  const TemporaryFolder folder;
  std::vector<double> cold, other;
  std::string kernels;
  {
    const auto device = Fixture::open(folder.path());
    Session session(Fixture::program(), {}, device);
    CHECK(session.planning() == PlanningCounts{});  // nothing before extents are known
    cold = Fixture::run(session, 100);
    CHECK(session.planning().made == 1);
    CHECK(session.planning().candidates > 0);
    CHECK(session.plan().candidates == session.planning().candidates);
    kernels = print(session.plan());
    Fixture::run(session, 90);
    CHECK(session.planning().made == 1);
    other = Fixture::run(session, 7);  // of another class
    CHECK(session.planning().made == 2);
  }
  const auto device = Fixture::open(folder.path());
  Session session(Fixture::program(), {}, device);
  CHECK(Fixture::run(session, 100) == cold);
  CHECK(print(session.plan()) == kernels);
  CHECK(Fixture::run(session, 7) == other);
  CHECK(session.planning() == PlanningCounts{.made = 0, .found = 2, .candidates = 0});
  CHECK(device->cache_stats().misses == 0);
}

TEST_CASE("sessions of one device share plans where there is no cache on disk") {
  const auto device = open_device("cpu", {.threads = 1, .cache_directory = "0"});
  Session first(Fixture::program(), {}, device), second(Fixture::program(), {}, device);
  const std::vector<double> made = Fixture::run(first, 100);
  CHECK(Fixture::run(second, 100) == made);
  CHECK(second.planning() == PlanningCounts{.made = 0, .found = 1, .candidates = 0});
}

TEST_CASE("a damaged or foreign entry is ignored and replaced") {
  const TemporaryFolder folder;
  std::vector<double> cold;
  fs::path entry;
  {
    const auto device = Fixture::open(folder.path());
    Session session(Fixture::program(), {}, device);
    cold = Fixture::run(session, 100);
    entry = plan_entry(session, device);
  }
  REQUIRE(fs::exists(entry));
  const auto run_again = [&] {
    const auto device = Fixture::open(folder.path());
    Session session(Fixture::program(), {}, device);
    CHECK(Fixture::run(session, 100) == cold);
    return session.planning();
  };
  const auto replace = [&](const std::string& bytes) {
    std::ofstream(entry, std::ios::binary | std::ios::trunc).write(bytes.data(), std::ssize(bytes));
  };
  const std::string whole = read_regular_file(entry).value();
  std::string changed = whole;
  changed[changed.size() / 2] ^= 1;
  for (const std::string& bytes : {std::string(), std::string("no plan"), whole.substr(0, whole.size() - 1), changed}) {
    replace(bytes);
    CHECK(run_again().made == 1);
    CHECK(run_again().found == 1);
  }
  fs::permissions(entry, fs::perms::others_write, fs::perm_options::add);
  CHECK(run_again().made == 1);
  CHECK(run_again().found == 1);
  // An entry whose checksum is right, but that holds no plan.
  {
    const auto device = Fixture::open(folder.path());
    Session session(Fixture::program(), {}, device);
    PlanTarget target = device->plan_target(session.program());
    target.extents = extent_classes({{"S", 100}, {"N", 40}});
    device->plan_cache()->store(plan_key(session.program(), {}, target), {"another kind of entry", "", ""});
  }
  CHECK(run_again().made == 1);
  CHECK(run_again().found == 1);
}
