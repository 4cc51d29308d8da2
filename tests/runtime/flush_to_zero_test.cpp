// Results below the smallest normal number are zeros in every piece of every kernel, and nowhere else in the process.
#include <doctest/doctest.h>

#include <algorithm>

#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

volatile float small = 1e-30F;

float product_of_small_numbers() { return small * (small * 1e20F); }

}  // namespace

TEST_CASE("kernels give zero for products that are subnormal, on every thread, and the caller keeps its own mode") {
  for (const int threads : {1, 2}) {
    DeviceOptions options;
    options.threads = threads;
    const auto device = test::test_device("cpu", options);
    if (!device) return;
    Session session(parse("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = x[n]*(x[n]*1e20)\n"), {}, device);
    constexpr std::int64_t kCount = 1 << 20;
    session.set("x", make_host_tensor(DType::f32, {kCount}, std::vector<double>(kCount, 1e-30)));
    session.run();
    const std::vector<double> y = to_doubles(session.get("y"));
    CHECK(std::ranges::count(y, 0.0) == kCount);
    CHECK(product_of_small_numbers() > 0);
  }
}
