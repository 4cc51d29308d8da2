// What ranks do together: sums in one tree, texts, failures, and the steps of a Trainer.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "compiler/program/program.h"
#include "runtime/trainer.h"
#include "tests/runtime/rank_threads.h"

namespace {

using namespace moxie;
using test::on_ranks;

/// Values whose sum depends on the order.
float value_of(int rank, std::size_t i) {
  return std::ldexp(std::sin(static_cast<float>(rank * 31 + static_cast<int>(i))),
                    (rank * 7 + static_cast<int>(i)) % 20);
}

float tree_of(int first, int count, std::size_t i) {
  if (count == 1) return value_of(first, i);
  return tree_of(first, count / 2, i) + tree_of(first + count / 2, count / 2, i);
}

/// A line through the origin, by gradient descent: the loss is a mean over rows, sqrt() is NaN below 0.
StepProgram line() {
  StepProgram step;
  step.gradients = parse(R"(
dim S dynamic
index s:S
input x[S,1], target[S], w
let error[s] = w*x[s,0] - target[s] + 1e-6*randn(3)
output loss = sum[s](error[s]^2 + 0*sqrt(target[s]))/S
output grad.w = sum[s](2*error[s]*x[s,0])/S
)",
                         "line");
  step.program = parse(R"(
input w, grad.w, initial_rate
output new.w = w - initial_rate*grad.w
output gradient_norm = abs(grad.w)
)",
                       "descent");
  step.renewals = {{"new.w", "w"}};
  return step;
}

struct Rows {
  std::vector<float> x, target;
  explicit Rows(std::size_t count) : x(count), target(count) {
    for (std::size_t k = 0; k < count; ++k) {
      x[k] = std::sin(static_cast<float>(k));
      target[k] = 1 + std::cos(static_cast<float>(3 * k));
    }
  }
  SampleRows rows() const { return {x.size(), x, target}; }
};

Trainer trainer_of(const Rows& rows, const std::shared_ptr<Communicator>& ranks, std::size_t parts) {
  Trainer trainer(line(), open_device("interp"), rows.rows(),
                  {.batch = 20, .seed = 5, .division = {parts}, .communicator = ranks});
  trainer.set("w", make_host_tensor(DType::f32, {}, std::vector<double>{0.1}));
  trainer.set_rate(0.1);
  return trainer;
}

/// After some steps, one of them on a batch with fewer rows than parts.
double trained(const Rows& rows, const std::shared_ptr<Communicator>& ranks, std::size_t parts) {
  Trainer trainer = trainer_of(rows, ranks, parts);
  trainer.warm_up();
  for (int k = 0; k < 7; ++k) trainer.step();
  return to_doubles(trainer.value("w")).at(0);
}

}  // namespace

TEST_CASE("sums over ranks have one tree, and are the same on all of them") {
  for (const int size : {1, 2, 4, 8}) {
    for (const std::size_t length : {0, 1, 2, 5, 1000}) {
      CAPTURE(size);
      CAPTURE(length);
      std::mutex mutex;
      std::vector<std::vector<float>> sums;
      on_ranks(size, [&](const auto& ranks) {
        std::vector<float> values(length);
        for (std::size_t i = 0; i < length; ++i) values[i] = value_of(ranks->rank(), i);
        tree_sum(*ranks, std::span(values));
        const std::scoped_lock lock(mutex);
        sums.push_back(values);
      });
      std::vector<float> expected(length);
      for (std::size_t i = 0; i < length; ++i) expected[i] = tree_of(0, size, i);
      for (const auto& sum : sums) CHECK(sum == expected);
    }
  }
}

TEST_CASE("texts of any length are gathered in the order of the ranks") {
  std::mutex mutex;
  on_ranks(3, [&](const auto& ranks) {
    const auto text = [](int rank) { return std::string(static_cast<std::size_t>(rank) * 70000, 'a'); };
    const std::vector<std::string> texts = gather_texts(*ranks, text(ranks->rank()));
    const std::scoped_lock lock(mutex);
    CHECK(texts == std::vector<std::string>{"", text(1), text(2)});
  });
}

TEST_CASE("a divided step has the same bits on any number of ranks, and the values of a whole one") {
  const Rows rows(43);
  const double alone = trained(rows, self_communicator(), 8);
  for (const int size : {1, 2, 4, 8}) {
    CAPTURE(size);
    std::mutex mutex;
    on_ranks(size, [&](const auto& ranks) {
      const double w = trained(rows, ranks, 8);
      const std::scoped_lock lock(mutex);
      CHECK(w == alone);
    });
  }
  for (const std::size_t parts : {1, 2, 16}) CHECK(trained(rows, self_communicator(), parts) == doctest::Approx(alone));
}

TEST_CASE("the rank that meets a NaN is named, and flags reach all ranks") {
  Rows rows(20);
  rows.target.assign(rows.target.size(), 1);
  Rows spoilt = rows;
  spoilt.target[7] = -1;
  std::mutex mutex;
  std::vector<int> named;
  on_ranks(4, [&](const auto& ranks) {
    Trainer trainer = trainer_of(spoilt, ranks, 4);
    const StepResult result = trainer.step(ranks->rank() == 2 ? 4 : 1);
    trainer.undo();
    const std::scoped_lock lock(mutex);
    CHECK(result.flags == 5);
    CHECK(!result.finite());
    CHECK(to_doubles(trainer.value("w")).at(0) == doctest::Approx(0.1));
    named.push_back(result.spoilt_rank);
  });
  BatchOrder order(20, 20, 5);
  const auto samples = order.next();
  const auto position = std::ranges::find(samples, 7U) - samples.begin();
  CHECK(named == std::vector<int>(4, static_cast<int>(position / 5)));
}

TEST_CASE("a failure of a rank is an error of all") {
  std::mutex mutex;
  int told = 0;
  on_ranks(3, [&](const auto& ranks) {
    try {
      if (ranks->rank() == 1) ranks->fail("no disk");
      ranks->barrier();
    } catch (const RankFailure& failure) {
      const std::scoped_lock lock(mutex);
      CHECK(std::string(failure.what()) == "rank 1: no disk");
      ++told;
    }
  });
  CHECK(told == 3);
}

TEST_CASE("batches that ranks cannot share are refused with the remedy") {
  CHECK_NOTHROW(check_division({0}, 1));
  CHECK_NOTHROW(check_division({8}, 4));
  CHECK_NOTHROW(check_division({6, Reduction::Fast}, 3));
  const auto refusal = [](const BatchDivision& division, int ranks) {
    try {
      check_division(division, ranks);
    } catch (const DeviceError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refusal({0}, 3).find("give --micro-batches, a power of two of at least 4") != std::string::npos);
  CHECK(refusal({8}, 3).find("start 1, 2, 4, .., at most 8") != std::string::npos);
  CHECK(refusal({8}, 16).find("train from the start with --micro-batches 16") != std::string::npos);
  CHECK(refusal({6}, 2).find("a power of two, such as 8") != std::string::npos);
  CHECK(refusal({6, Reduction::Fast}, 4).find("a multiple of the number of ranks") != std::string::npos);
}
