// Expressions of several threads.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "compiler/expression/functions.h"

using namespace moxie;

TEST_CASE("threads make and drop equal expressions at the same time") {
  constexpr int kRounds = 200000;
  std::vector<int> wrong(4);
  {
    std::vector<std::jthread> threads;
    for (int& count : wrong) {
      threads.emplace_back([&count] {
        for (int round = 0; round < kRounds; ++round) {
          const Expr first = call("exp", {constant(3)}), second = call("exp", {constant(3)});
          count += first != second || first->args[0]->value != 3 ? 1 : 0;
        }
      });
    }
  }
  CHECK(wrong == std::vector<int>(wrong.size()));
}
