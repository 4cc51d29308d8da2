#include "runtime/cpu/thread_pool.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace moxie;

TEST_CASE("the failure of the lowest piece is the one that is reported") {
  ThreadPool pool(3);
  for (int round = 0; round < 200; ++round) {
    CHECK_THROWS_WITH(pool.run(8,
                               [](std::int64_t piece, int) {
                                 if (piece >= 2) throw std::runtime_error("piece " + std::to_string(piece));
                               }),
                      "piece 2");
  }
}
