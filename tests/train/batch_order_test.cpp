#include "runtime/batch_order.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace {

using namespace moxie;

std::vector<std::uint32_t> next_epoch(BatchOrder& order, std::size_t batches) {
  std::vector<std::uint32_t> samples;
  for (std::size_t k = 0; k < batches; ++k) {
    const auto batch = order.next();
    samples.insert(samples.end(), batch.begin(), batch.end());
  }
  return samples;
}

}  // namespace

TEST_CASE("an epoch visits every sample once, in an order of its own") {
  BatchOrder order(103, 10, 5);
  const auto first = next_epoch(order, 11);
  CHECK(order.position() == DataPosition{0, 103});
  const auto second = next_epoch(order, 11);
  CHECK(first != second);
  for (auto epoch : {first, second}) {
    std::ranges::sort(epoch);
    for (std::uint32_t k = 0; k < 103; ++k) CHECK(epoch[k] == k);
  }
}

TEST_CASE("the last batch may be smaller") {
  BatchOrder order(25, 10, 1);
  CHECK(order.next().size() == 10);
  CHECK(order.next().size() == 10);
  CHECK(order.next().size() == 5);
  CHECK(order.next().size() == 10);
}

TEST_CASE("an order is taken up anywhere") {
  BatchOrder whole(50, 7, 3);
  next_epoch(whole, 11);
  BatchOrder later(50, 7, 3);
  later.seek(whole.position());
  for (int k = 0; k < 20; ++k) CHECK(std::ranges::equal(whole.next(), later.next()));
  CHECK(whole.position() == later.position());
}

TEST_CASE("every place is equally likely for a sample") {
  constexpr std::size_t kSamples = 5;
  int counts[kSamples] = {};
  constexpr int kSeeds = 5000;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    BatchOrder order(kSamples, kSamples, seed);
    const auto batch = order.next();
    ++counts[std::ranges::find(batch, 0U) - batch.begin()];
  }
  // 1000 expected, with a standard deviation of 28
  for (const int count : counts) CHECK(std::abs(count - kSeeds / 5) < 150);
}

TEST_CASE("what no run can do is refused") {
  CHECK_THROWS_AS(BatchOrder(0, 10, 1), DataError);
  CHECK_THROWS_AS(BatchOrder(10, 0, 1), DataError);
  BatchOrder order(10, 3, 1);
  CHECK_THROWS_WITH_AS(order.seek({0, 11}), doctest::Contains("is it the same data?"), DataError);
}
