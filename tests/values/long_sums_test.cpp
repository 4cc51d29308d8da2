// Sums of many singles: a processor adds them up in blocks, so that the error does not grow with their number.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "tests/devices.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// Roundings of the largest sum that a result may be off by. One after the other, equal terms give hundreds.
constexpr double kRoundings = 64;

void check_sum(double got, double want) { CHECK(std::abs(got - want) <= kRoundings * 0x1p-24 * std::abs(want)); }

TensorValues run_with(const std::string& schedule, const std::string& text, const DimValues& dims,
                      const TensorValues& inputs) {
  return run_on(test_device("cpu", {.threads = 1, .schedule = schedule}), parse(text), dims, inputs);
}

}  // namespace

TEST_CASE("a million equal terms, with lanes along them and without") {
  if (!test_device("cpu", {})) return;
  const std::size_t N = 1'000'003;
  const double term = 0.1F;
  const std::string text = "dim N dynamic\nindex n:N\ninput x[N]\noutput y = sum[n](x[n])\n";
  const TensorValues inputs = {{"x", std::vector<double>(N, term)}};
  for (const std::string schedule : {"", "y.sum: lanes(sum)", "y.sum: rfactor(sum, 64)"}) {
    CAPTURE(schedule);
    check_sum(run_with(schedule, text, {{"N", N}}, inputs).at("y")[0], term * static_cast<double>(N));
  }
}

TEST_CASE("sums along columns, of products, of two indices, and of few terms in many iterations") {
  if (!test_device("cpu", {})) return;
  const std::size_t S = 40'000, K = 19;
  const double x = 0.1F, w = 0.7F;
  const TensorValues inputs = {{"x", std::vector<double>(S * K, x)}, {"w", std::vector<double>(S, w)}};
  for (const std::string dims : {"dim S dynamic, K\n", "dim S = 40000, K = 19\n"}) {
    const TensorValues got = run_with("",
                                      dims +
                                          "index s:S, k:K\ninput x[S,K], w[S]\n"
                                          "output columns[k] = sum[s](x[s,k])\n"
                                          "output weighted[k] = sum[s](w[s]*x[s,k])\n"
                                          "output all = sum[k,s](x[s,k]*w[s])\n"
                                          "output less[k] = sum[s](x[s,k] - w[s]*x[s,k])\n",
                                      {{"S", S}, {"K", K}}, inputs);
    const auto rows = static_cast<double>(S);
    for (std::size_t k = 0; k < K; ++k) {
      check_sum(got.at("columns")[k], rows * x);
      check_sum(got.at("weighted")[k], rows * w * x);
      check_sum(got.at("less")[k], rows * (x - w * x));
    }
    check_sum(got.at("all")[0], rows * static_cast<double>(K) * w * x);
  }
}

TEST_CASE("what a sum starts from is kept: sums of sums, and under conditions") {
  if (!test_device("cpu", {})) return;
  const std::size_t S = 30'001, K = 3;
  const double x = 0.1F;
  const TensorValues inputs = {{"x", std::vector<double>(S * K, x)}};
  const TensorValues got = run_with("",
                                    "dim S dynamic, K\nindex s:S, k:K\ninput x[S,K]\n"
                                    "output nested[k] = sum[s](x[s,k] + sum[j in 0..k+1](x[s,j]))\n"
                                    "output odd = sum[s](where(s%2 == 1, x[s,0], 0))\n"
                                    "output moved[k] = 1e3 + sum[s in k..S](x[s,k])\n",
                                    {{"S", S}, {"K", K}}, inputs);
  for (std::size_t k = 0; k < K; ++k) {
    check_sum(got.at("nested")[k], static_cast<double>(S) * x * static_cast<double>(k + 2));
    check_sum(got.at("moved")[k], 1e3 + static_cast<double>(S - k) * x);
  }
  check_sum(got.at("odd")[0], static_cast<double>(S / 2) * x);
}
