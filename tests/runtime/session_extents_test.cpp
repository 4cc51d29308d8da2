// Extents that change from run to run.
#include <doctest/doctest.h>

#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/runtime/session_program.h"

using namespace moxie;
using moxie::test::tensor;
using Values = std::vector<double>;

namespace {

/// Counts what is prepared and what of it still exists.
struct Counts {
  int made = 0;
  int alive = 0;
  int waits = 0;
};

class CountedExecutable : public Executable {
 public:
  CountedExecutable(std::unique_ptr<Executable> inner, Counts& counts) : inner_(std::move(inner)), counts_(counts) {
    ++counts_.made;
    ++counts_.alive;
  }
  ~CountedExecutable() override { --counts_.alive; }
  void run(const std::function<void*(const std::string&)>& address, std::uint64_t seed, std::uint64_t step) override {
    inner_->run(address, seed, step);
  }
  std::int64_t workspace_bytes() const override { return inner_->workspace_bytes(); }

 private:
  std::unique_ptr<Executable> inner_;
  Counts& counts_;
};

class CountingDevice : public Device {
 public:
  explicit CountingDevice(Counts& counts) : counts_(counts) {}
  std::string name() const override { return inner_->name(); }
  std::unique_ptr<Executable> prepare(std::shared_ptr<const Plan> plan, const DimValues& dims) override {
    return std::make_unique<CountedExecutable>(inner_->prepare(std::move(plan), dims), counts_);
  }
  void wait() override { ++counts_.waits; }

 private:
  std::shared_ptr<Device> inner_ = open_device("interp");
  Counts& counts_;
};

}  // namespace

TEST_CASE("a session keeps what runs for the extents of late, and waits before it forgets what else ran") {
  Counts counts;
  Session session(parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y = sum[s](x[s])\n", "sums"), {},
                  std::make_shared<CountingDevice>(counts));
  const auto run = [&](std::int64_t samples) {
    session.set("x", tensor({samples}, Values(static_cast<std::size_t>(samples), 1)));
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{static_cast<double>(samples)});
  };
  for (std::int64_t samples = 1; samples <= 16; ++samples) run(samples);
  CHECK(counts.made == 16);
  CHECK(counts.alive == 16);
  CHECK(counts.waits == 0);
  run(1);
  for (std::int64_t samples = 17; samples <= 100; ++samples) run(samples);
  CHECK(counts.made == 100);
  CHECK(counts.alive == 16);
  CHECK(counts.waits == 84);
  for (std::int64_t samples = 100; samples > 84; --samples) run(samples);
  CHECK(counts.made == 100);
  run(1);
  CHECK(counts.made == 101);
  CHECK(counts.alive == 16);
}

TEST_CASE("extents of one class share their kernels: another batch size generates and compiles nothing") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(
        parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y[s] = exp(x[s])\noutput z = sum[s](x[s])\n", "batches"),
        {}, device);
    const auto run = [&](std::int64_t samples) {
      session.set("x", tensor({samples}, Values(static_cast<std::size_t>(samples), 0)));
      session.run();
      CHECK(to_doubles(session.get("y")) == Values(static_cast<std::size_t>(samples), 1));
      CHECK(to_doubles(session.get("z")) == Values{0});
    };
    run(64);
    const CacheStats before = device->cache_stats();
    for (const std::int64_t samples : {60, 70, 64, 100, 33}) run(samples);  // nearer to 64 than to 16 or 256
    CHECK(device->cache_stats().misses == before.misses);
    CHECK(device->cache_stats().hits == before.hits);  // no kernel's text was made to look for it
  }
}

TEST_CASE("the plan of a session is the one that ran last") {
  for (const auto& device : test::test_devices()) {
    const Program sums = parse("dim S dynamic\nindex s:S\ninput x[S]\noutput y = sum[s](x[s])\n", "sums");
    if (!device->plan_target(sums).is_scheduled()) continue;  // one plan for all extents
    Session session(sums, {}, device);
    const auto plan_of = [&](std::int64_t samples) {
      session.set("x", tensor({samples}, Values(static_cast<std::size_t>(samples), 1)));
      session.run();
      return &session.plan();
    };
    const Plan* small = plan_of(2);
    CHECK(plan_of(1000) != small);
    CHECK(plan_of(2) == small);
  }
}
