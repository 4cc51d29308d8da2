// Runs that are taken back, and runs that threw: parameters are never lost.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>

#include "compiler/support/error.h"
#include "runtime/session.h"
#include "runtime/trainer.h"
#include "tests/devices.h"
#include "tests/runtime/session_program.h"
#include "tests/setting.h"

using namespace moxie;
using moxie::test::step_program;
using moxie::test::tensor;
using Values = std::vector<double>;

namespace {

/// Moves p by x; fails for many reasons, before and after p has its new value in memory.
constexpr const char* kFragile = R"(
dim S dynamic, N = 2
index s:S, n:N, m:N
input p[N], x[S,N], early, late, scale > 0
output root = sqrt(early)
output next[n] = p[n] + sum[s](x[s,n])/scale
output size = logdet[n,m](where(n == m, late*(1 + next[n]^2), 0))
)";

std::span<const std::byte> bytes_of(const float& value) { return std::as_bytes(std::span(&value, 1)); }

}  // namespace

TEST_CASE("the last run can be taken back, and taken again") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(step_program(), {}, device);
    session.feed_back("next", "p");
    session.take_back();  // nothing has run yet
    session.set("p", tensor({2}, {1, 2}));
    session.set("moved", tensor({}, {0}));
    session.set("x", tensor({1, 2}, {1, -1}));
    for (int run = 0; run < 3; ++run) session.run();
    session.take_back();
    session.take_back();  // only the last
    CHECK(to_doubles(session.get("p")) == Values{3, 0});
    session.run();
    CHECK(to_doubles(session.get("p")) == Values{4, -1});
  }
}

TEST_CASE("a run that leaves a formula's domain feeds nothing back") {
  const Program program =
      parse("dim R = 2\nindex r:R, t:R\ninput p, K[R,R]\noutput next = p + logdet[r,t](K[r,t])\n", "fit");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.feed_back("next", "p");
    session.set("p", tensor({}, {1}));
    const auto run = [&](double diagonal) {
      session.set("K", tensor({2, 2}, {diagonal, 0, 0, diagonal}));
      session.run();
      session.wait();
    };
    run(1);
    for (int attempt = 0; attempt < 2; ++attempt) {
      CHECK_THROWS_WITH_AS(run(-1), doctest::Contains("not positive definite"), DeviceError);
      CHECK(session.step() == 1);
      CHECK(to_doubles(session.get("p")) == Values{1});
    }
    run(1);
    CHECK(session.step() == 2);
  }
}

TEST_CASE("a run that threw, wherever it did, feeds nothing, and there is nothing to be taken back") {
  const test::Setting setting("MOXIE_CHECK", "nan");
  struct Failure {
    const char* where;
    std::function<void(Session&)> cause, cure;
  };
  const auto give = [](const char* input, const HostTensor& value) {
    return [=](Session& session) { session.set(input, value); };
  };
  const auto rows = [](std::int64_t count) {
    return tensor({count, 2}, Values(static_cast<std::size_t>(2 * count), 1));
  };
  const auto outside = [](Session& session) { std::ranges::copy(bytes_of(-1), session.write("scale").data()); };
  const std::vector<Failure> failures = {
      {"before any launch, by its shapes", give("x", tensor({2, 3}, Values(6, 1))), give("x", rows(1))},
      {"before any launch, by its shapes, when batches change their size", give("x", tensor({3}, Values(3, 1))),
       give("x", rows(1))},
      {"before any launch, by a declared domain", outside, give("scale", tensor({}, {1}))},
      {"in a kernel", give("early", tensor({}, {-1})), give("early", tensor({}, {1}))},
      {"in the last kernel", give("late", tensor({}, {-1})), give("late", tensor({}, {1}))},
      {"in the last kernel, for the first batch of another size",
       [&](Session& session) {
         session.set("x", rows(200));
         session.set("late", tensor({}, {-1}));
       },
       [&](Session& session) {
         session.set("x", rows(1));
         session.set("late", tensor({}, {1}));
       }}};
  for (const auto& device : test::test_devices()) {
    for (const Failure& failure : failures) {
      CAPTURE(device->name());
      CAPTURE(failure.where);
      Session session(parse(kFragile, "fragile"), {}, device);
      session.feed_back("next", "p");
      session.set("p", tensor({2}, {1, 2}));
      for (const char* scalar : {"early", "late", "scale"}) session.set(scalar, tensor({}, {1}));
      session.set("x", rows(1));
      const auto run = [&] {
        session.run();
        session.wait();
      };
      for (int good = 0; good < 2; ++good) run();
      for (int attempt = 0; attempt < 2; ++attempt) {
        failure.cause(session);
        CHECK_THROWS_AS(run(), Error);
        CHECK(to_doubles(session.get("p")) == Values{3, 4});
        session.take_back();
        CHECK(to_doubles(session.get("p")) == Values{3, 4});
        CHECK(session.step() == 2);
      }
      failure.cure(session);
      run();
      CHECK(to_doubles(session.get("p")) == Values{4, 5});
      session.take_back();
      CHECK(to_doubles(session.get("p")) == Values{3, 4});
    }
  }
}

TEST_CASE("new values for an input that was fed stay, also when its shape changes") {
  const Program program = parse("dim S dynamic\nindex s:S\ninput h[S], x[S]\noutput next[s] = h[s] + x[s]\n", "walk");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.feed_back("next", "h");
    session.set("h", tensor({1}, {1}));
    session.set("x", tensor({1}, {1}));
    session.run();
    session.set("h", tensor({200}, Values(200, 5)));
    session.take_back();
    session.set("x", tensor({200}, Values(200, 1)));
    session.run();
    CHECK(to_doubles(session.get("h")) == Values(200, 6));
  }
}

TEST_CASE("a training step that threw is not undone into a half-written one") {
  const test::Setting setting("MOXIE_CHECK", "nan");
  StepProgram step;
  step.program = parse(R"(
dim S dynamic, N = 2
index s:S, n:N
input x[S,N], target[S], w[N], initial_rate
output new.w[n] = w[n] + initial_rate*sum[s](x[s,n])
output loss = sum[s](sqrt(target[s]))
output gradient_norm = initial_rate
)",
                       "fit");
  step.renewals = {{"new.w", "w"}};
  const std::vector<float> x(8, 1), target = {1, 1, 1, -1};
  const SampleRows rows{4, x, target};
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Trainer trainer(step, device, rows, {1, 3});
    trainer.set("w", tensor({2}, {1, 2}));
    trainer.set_rate(0.5);
    Values w = {1, 2};
    int failed = 0;
    for (int k = 0; k < 12; ++k) {
      try {
        trainer.step();
        for (double& value : w) value += 0.5;
      } catch (const DeviceError&) {
        ++failed;
        trainer.undo();
      }
      CHECK(to_doubles(trainer.value("w")) == w);
    }
    CHECK(failed == 3);
    CHECK(trainer.position().step == 9);
  }
}
