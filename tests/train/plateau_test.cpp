#include "runtime/plateau.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace {

using namespace moxie;
using enum PlateauVerdict;

std::vector<PlateauVerdict> verdicts(PlateauState& state, const PlateauOptions& options,
                                     const std::vector<double>& losses) {
  std::vector<PlateauVerdict> result;
  for (const double loss : losses) result.push_back(observe(state, options, loss));
  return result;
}

}  // namespace

TEST_CASE("the rate falls after `patience` evaluations without a new best loss") {
  PlateauState state;
  CHECK(verdicts(state, {2}, {1.0, 0.9, 0.95, 0.9}) == std::vector{Improved, Improved, Waiting, RateFell});
  CHECK(state.rate == doctest::Approx(1e-4));
  CHECK(state.best == 0.9);
  CHECK(verdicts(state, {2}, {0.91, 0.89, 0.9}) == std::vector{Waiting, Improved, Waiting});
  CHECK(state.waiting == 1);
}

TEST_CASE("training ends when the rate would fall below the lowest") {
  PlateauState state;
  CHECK(verdicts(state, {1}, {1, 1, 1, 1, 1}) == std::vector{Improved, RateFell, RateFell, RateFell, Finished});
  CHECK(state.rate == doctest::Approx(1e-6));
}

TEST_CASE("a loss that is not a number is no improvement") {
  PlateauState state;
  CHECK(verdicts(state, {2}, {std::nan(""), 5}) == std::vector{Waiting, Improved});
}
