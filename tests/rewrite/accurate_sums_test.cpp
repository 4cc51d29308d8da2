// precision accurate: sums of singles that cancel are right to 2 units in the last place, on every device, in every
// form of a sum and for any number of threads.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>

#include "compiler/diff/differentiate.h"
#include "compiler/rewrite/passes.h"
#include "runtime/plan.h"
#include "tests/devices.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// Whole multiples of 1/1024 that singles hold, of which most of every row cancels: their sums are exact as integers.
struct Numbers {
  std::vector<std::int64_t> scaled;
  std::vector<double> values;

  explicit Numbers(std::size_t count) {
    std::uint64_t state = 12345;
    for (std::size_t n = 0; n < count; ++n) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const auto small = static_cast<std::int64_t>(state >> 44U) % 1000;
      const std::int64_t large = std::int64_t{100'000'000} * 1024;
      scaled.push_back(n % 3 == 0 ? large : n % 3 == 1 ? small * 1024 / 7 : -large);
      values.push_back(static_cast<double>(scaled.back()) / 1024);
    }
  }
};

/// Distance in units in the last place of the single nearest to `want`.
double ulps(double got, double want) {
  const auto nearest = static_cast<float>(want);
  const double unit = std::nextafter(std::abs(nearest), INFINITY) - std::abs(nearest);
  return std::abs(got - want) / unit;
}

void check_sums(const std::vector<double>& got, const std::vector<std::int64_t>& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    CHECK(ulps(got[k], static_cast<double>(want[k]) / 1024) <= 2);
  }
}

const std::string kForms =
    "dim S, K, B\nindex s:S, k:K, b:B\ninput x[S,K], bucket[S]: i32\n"
    "output all = sum[s,k](x[s,k])\noutput rows[s] = sum[k](x[s,k])\noutput columns[k] = sum[s](x[s,k])\n"
    "output inside[s] = 1 + 2*sum[k](x[s,k])\noutput upto[s] = sum[t in 0..s+1](x[t,1])\n"
    "output buckets[b] = sum[s](where(bucket[s] == b, x[s,0], 0))\noutput average[s] = mean[k](x[s,k])*K\n";

Program accurate(Program program) {
  program.precision = Precision::Accurate;
  return program;
}

}  // namespace

TEST_CASE("every form of a sum is accurate, on every device") {
  const std::size_t S = 301, K = 99, B = 5;
  const Numbers x(S * K);
  std::vector<std::int64_t> all(1), rows(S), columns(K), inside(S), upto(S), buckets(B);
  std::vector<double> bucket;
  for (std::size_t s = 0; s < S; ++s) {
    bucket.push_back(static_cast<double>(s * 7 % B));
    for (std::size_t k = 0; k < K; ++k) {
      all[0] += x.scaled[s * K + k];
      rows[s] += x.scaled[s * K + k];
      columns[k] += x.scaled[s * K + k];
    }
    inside[s] = 1024 + 2 * rows[s];
    upto[s] = (s > 0 ? upto[s - 1] : 0) + x.scaled[s * K + 1];
    buckets[s * 7 % B] += x.scaled[s * K];
  }
  for (const auto& device : test_devices()) {
    INFO(device->name());
    const TensorValues got = run_on(device, accurate(parse("dim J\nindex t:J\n" + kForms)),
                                    {{"S", S}, {"K", K}, {"B", B}, {"J", S}}, {{"x", x.values}, {"bucket", bucket}});
    check_sums(got.at("all"), all);
    check_sums(got.at("rows"), rows);
    check_sums(got.at("columns"), columns);
    check_sums(got.at("inside"), inside);
    check_sums(got.at("upto"), upto);
    check_sums(got.at("buckets"), buckets);
    check_sums(got.at("average"), rows);
  }
}

TEST_CASE("a sum of a million singles is accurate, with and without vectors, the same for any number of threads") {
  const std::size_t N = 1'000'001;
  const Numbers x(N);
  std::int64_t want = 0;
  for (const std::int64_t value : x.scaled) want += value;
  const Program program = accurate(parse("dim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n])\n"));
  const Program strict = parse("dim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n])\n");
  for (const std::string schedule : {"", "y.sum: lanes(sum)", "y.sum: rfactor(sum, 64)"}) {
    CAPTURE(schedule);
    std::optional<double> before;
    for (const int threads : {1, 2, 3}) {
      const auto device = test_device("cpu", {.threads = threads, .schedule = schedule});
      if (!device) return;
      const double got = run_on(device, program, {{"N", N}}, {{"x", x.values}}).at("y")[0];
      CHECK(ulps(got, static_cast<double>(want) / 1024) <= 2);
      if (before) CHECK(got == *before);
      before = got;
      // The numbers are such that plain sums are not accurate: else this tested nothing.
      if (schedule.empty())
        CHECK(ulps(run_on(device, strict, {{"N", N}}, {{"x", x.values}}).at("y")[0], static_cast<double>(want) / 1024) >
              2);
    }
  }
}

TEST_CASE("gradients, scans, products and log-sum-exps add up in double, and infinities and NaN stay what they are") {
  const std::string text =
      "dim S, K\nindex s:S, k:K\ninput x[S,K], w[K], big[K]\n"
      "scan s {\n  let h[s,k] = where(s >= 1, h[s-1,k], 0) + sum[n in 0..K](x[s,n])/K\n}\n"
      "output y[s] = sum[k](x[s,k]*w[k]) + h[s,0]\noutput l[s] = logsumexp[k](x[s,k])\noutput top = sum[k](big[k])\n";
  const Program program = accurate(differentiate(parse(text), {"y", "l"}, {"x", "w"}));
  const DimValues dims = {{"S", 6}, {"K", 70}};
  TensorValues inputs = wave_inputs(program, dims);
  inputs["big"].back() = INFINITY;
  Program reference = program;
  reference.precision = Precision::Strict;
  const TensorValues want = evaluate(reference, dims, inputs);
  for (const auto& device : test_devices()) {
    INFO(device->name());
    const TensorValues got = run_on(device, program, dims, inputs);
    for (const char* name : {"y", "l", "grad.x", "grad.w"}) {
      for (std::size_t k = 0; k < want.at(name).size(); ++k)
        CHECK(got.at(name)[k] == doctest::Approx(want.at(name)[k]).epsilon(2e-6));
    }
    CHECK(got.at("top")[0] == INFINITY);
  }
}

TEST_CASE("sums that are double already, and strict programs, stay as they are") {
  const Program strict = parse("dim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n])\n");
  CHECK(accurate_sums(strict) == strict);
  const Program wide = accurate(parse("dtype f64\ndim N\nindex n:N\ninput x[N]\noutput y = sum[n](x[n])\n"));
  CHECK(accurate_sums(wide) == wide);
  const Program cast = accurate(parse("dim N\nindex n:N\ninput x[N]\noutput y = 1 + f64(sum[n](x[n]))\n"));
  CHECK(accurate_sums(cast) == cast);
}
