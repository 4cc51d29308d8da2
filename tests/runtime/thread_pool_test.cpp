#include "runtime/cpu/thread_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "compiler/support/error.h"
#include "runtime/device.h"

using moxie::ThreadPool;

namespace {

constexpr std::int64_t kPieces = 64;

/// Every round adds what the round before left in the neighbouring element, which another thread may have written;
/// nothing here is atomic.
std::vector<std::int64_t> rotate_and_add(ThreadPool& pool, int rounds) {
  std::vector<std::int64_t> values(kPieces), next(kPieces);
  std::iota(values.begin(), values.end(), 0);
  for (int round = 0; round < rounds; ++round) {
    pool.run(kPieces, [&](std::int64_t piece, int) {
      const auto k = static_cast<std::size_t>(piece);
      next[k] = (values[k] + values[(k + 1) % kPieces]) % 1000;
    });
    values.swap(next);
  }
  return values;
}

}  // namespace

TEST_CASE("each round sees what the round before wrote") {
  ThreadPool alone(1), four(4);
  CHECK(rotate_and_add(four, 500) == rotate_and_add(alone, 500));
}

TEST_CASE("workers that fell asleep wake up") {
  ThreadPool pool(4);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::vector<int> done(kPieces);
    pool.run(kPieces, [&](std::int64_t piece, int) { ++done[static_cast<std::size_t>(piece)]; });
    CHECK(done == std::vector<int>(kPieces, 1));
  }
}

TEST_CASE("every piece has a thread of its own number") {
  ThreadPool pool(4);
  std::vector<std::int64_t> taken(4);
  pool.run(kPieces, [&](std::int64_t, int thread) { ++taken.at(static_cast<std::size_t>(thread)); });
  CHECK(std::accumulate(taken.begin(), taken.end(), std::int64_t{0}) == kPieces);
}

TEST_CASE("the failure of the lowest piece is the one that is reported, and the pool works on") {
  ThreadPool pool(3);
  const auto fail = [](std::int64_t piece, int) {
    if (piece >= 2) throw std::runtime_error("piece " + std::to_string(piece));
  };
  for (int round = 0; round < 200; ++round) CHECK_THROWS_WITH(pool.run(8, fail), "piece 2");
  CHECK(rotate_and_add(pool, 3).size() == kPieces);
}

TEST_CASE("callers on several threads take turns") {
  ThreadPool alone(1), four(4);
  std::vector<std::vector<std::int64_t>> results(3);
  {
    std::vector<std::jthread> callers;
    for (auto& result : results) callers.emplace_back([&] { result = rotate_and_add(four, 200); });
  }
  for (const auto& result : results) CHECK(result == rotate_and_add(alone, 200));
}

TEST_CASE("a number of threads beyond the stated maximum is an error, wherever it is asked for") {
  using namespace moxie;
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  CHECK(chosen_threads(0) == processors);
  CHECK(chosen_threads(processors) == processors);
  CHECK(chosen_threads(64) == 64);
  CHECK(maximum_threads() == std::max(64, processors));
  for (const int threads : {-1, maximum_threads() + 1, 1 << 30}) {
    CAPTURE(threads);
    CHECK_THROWS_WITH_AS(chosen_threads(threads), doctest::Contains("expected a number from 1 to "), TypeError);
    for (const char* device : {"cpu", "interp", "cuda-emu", "auto"})
      CHECK_THROWS_AS(open_device(device, {.threads = threads}), TypeError);
  }
}
