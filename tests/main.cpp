// The main function of every test program. Exit codes: 0 passed, 1 failed, 77 nothing failed but not all could run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <atomic>

#include "tests/skip.h"

namespace moxie::test {
namespace {

constexpr int kSkipped = 77;
std::atomic<bool> any_skipped = false;

}  // namespace

void skip(const std::string& reason) {
  any_skipped = true;
  MESSAGE("skipped: ", reason);
}

int run(int argc, char** argv) {
  const int result = doctest::Context(argc, argv).run();
  return result == 0 && any_skipped ? kSkipped : result;
}

}  // namespace moxie::test

int main(int argc, char** argv) { return moxie::test::run(argc, argv); }
