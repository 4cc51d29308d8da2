// Streams and device memory that a program made itself, with the driver: sessions use both, beside the program's work.
#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "compiler/support/error.h"
#include "runtime/cuda/nvidia_driver.h"
#include "runtime/session.h"
#include "tests/skip.h"

using namespace moxie;
using namespace moxie::cuda;
using Floats = std::vector<float>;

namespace {

/// What a program that uses the driver has: the primary context, a stream, and memory.
class Host {
 public:
  explicit Host(const Driver& d) : driver(d) {
    REQUIRE(driver.DevicePrimaryCtxRetain(&context_, 0) == 0);
    enter();
    REQUIRE(driver.StreamCreate(&stream, 1) == 0);  // CU_STREAM_NON_BLOCKING
  }
  ~Host() {
    enter();
    for (const DevicePointer block : blocks_) driver.MemFree(block);
    driver.StreamDestroy(stream);
    driver.DevicePrimaryCtxRelease(0);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void enter() const { REQUIRE(driver.CtxSetCurrent(context_) == 0); }
  TensorView allocate(std::vector<std::int64_t> shape) {
    TensorView view{.shape = std::move(shape), .device = "cuda"};
    DevicePointer block = 0;
    REQUIRE(driver.MemAlloc(&block, bytes_of(view)) == 0);
    blocks_.push_back(block);
    view.data = reinterpret_cast<void*>(block);
    return view;
  }
  void fill(const TensorView& view, const Floats& values) const {
    REQUIRE(driver.MemcpyHtoDAsync(address(view), values.data(), bytes_of(view), stream) == 0);
  }
  Floats values(const TensorView& view) const {
    Floats values(bytes_of(view) / sizeof(float));
    REQUIRE(driver.MemcpyDtoHAsync(values.data(), address(view), bytes_of(view), stream) == 0);
    REQUIRE(driver.StreamSynchronize(stream) == 0);
    return values;
  }
  static DevicePointer address(const TensorView& view) { return reinterpret_cast<DevicePointer>(view.data); }

  Driver driver;
  Stream stream = nullptr;

 private:
  Context context_ = nullptr;
  std::vector<DevicePointer> blocks_;
};

std::optional<Driver> known_driver() {
  try {
    return nvidia_driver();
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return std::nullopt;
  }
}

/// A product that cuBLAS takes, and a kernel after it.
Program layer() {
  return parse(R"(
dim S dynamic, N = 40, M = 40
index s:S, n:N, m:M
input x[S,N], w[N,M]
let h[s,m] = sum[n](x[s,n]*w[n,m])
output y[s,m] = h[s,m] + 1
)");
}

Floats sixteenths(std::size_t count, int seed) {
  Floats values;
  for (std::size_t k = 0; k < count; ++k)
    values.push_back(static_cast<float>(static_cast<int>(k * 7 + static_cast<std::size_t>(seed)) % 17 - 8) / 16);
  return values;
}

/// Exact: sixteenths of small integers.
Floats expected_y(const Floats& x, const Floats& w) {
  Floats y(x.size(), 1);
  for (std::size_t s = 0; s < x.size() / 40; ++s) {
    for (std::size_t m = 0; m < 40; ++m) {
      for (std::size_t n = 0; n < 40; ++n) y[40 * s + m] += x[40 * s + n] * w[40 * n + m];
    }
  }
  return y;
}

}  // namespace

TEST_CASE("a session works on the program's stream and memory, in the order of the program's own work") {
  const auto driver = known_driver();
  if (!driver) return;
  Host host(*driver);
  const auto device = open_device("cuda", {.stream = host.stream});
  Session session(layer(), {}, device);
  const Floats w = sixteenths(1600, 3);
  session.set("w", w, {40, 40});
  for (const std::int64_t rows : {8, 3, 8}) {
    CAPTURE(rows);
    const TensorView x = host.allocate({rows, 40}), y = host.allocate({rows, 40});
    session.bind("x", x);
    session.bind("y", y);
    for (int run = 0; run < 4; ++run) {
      const Floats values = sixteenths(static_cast<std::size_t>(40 * rows), run);
      host.fill(x, values);
      session.run();
      CHECK(host.values(y) == expected_y(values, w));  // which waits for the program's stream, not for the session
    }
  }
  session.wait();
}

TEST_CASE("rows in the middle of the program's memory are used, or copied on the GPU, as their address says") {
  const auto driver = known_driver();
  if (!driver) return;
  Host host(*driver);
  Session session(parse("dim S dynamic, N = 3\nindex s:S, n:N\ninput x[S,N]\noutput y[s,n] = 2*x[s,n]\n"), {},
                  open_device("cuda", {.stream = host.stream}));
  const TensorView x = host.allocate({9, 3}), y = host.allocate({9, 3});
  Floats values(27);
  for (std::size_t k = 0; k < 27; ++k) values[k] = static_cast<float>(k);
  host.fill(x, values);
  for (const std::int64_t first : {0, 1, 4}) {
    host.fill(y, Floats(27, -1));
    const auto rows_from = [&](TensorView view) {
      view.data = static_cast<float*>(view.data) + 3 * first;
      view.shape[0] = 2;
      return view;
    };
    session.bind("x", rows_from(x));
    session.bind("y", rows_from(y));
    session.run();
    Floats expected(27, -1);
    for (auto k = static_cast<std::size_t>(3 * first); k < static_cast<std::size_t>(3 * first + 6); ++k)
      expected[k] = 2 * values[k];
    CHECK(host.values(y) == expected);
  }
}

TEST_CASE("a device without a stream of the program has one of its own") {
  const auto driver = known_driver();
  if (!driver) return;
  Host host(*driver);
  const auto device = open_device("cuda");
  Session session(layer(), {}, device);
  const Floats w = sixteenths(1600, 3), values = sixteenths(200, 1);
  const TensorView x = host.allocate({5, 40}), y = host.allocate({5, 40});
  host.fill(x, values);
  host.values(x);  // waits
  session.set("w", w, {40, 40});
  session.bind("x", x);
  session.bind("y", y);
  session.run();
  session.wait();
  host.enter();
  CHECK(host.values(y) == expected_y(values, w));
  CHECK(session.get("y").shape == std::vector<std::int64_t>{5, 40});
}

TEST_CASE("addresses that are no memory of the GPU, and streams that are none, are refused") {
  const auto driver = known_driver();
  if (!driver) return;
  Host host(*driver);
  const auto device = open_device("cuda", {.stream = host.stream});
  Session session(layer(), {}, device);
  Floats x(40);
  TensorView view = view_of(x, {1, 40});
  view.device = "cuda";
  TensorView aligned = view;
  aligned.data = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(x.data()) + 15) / 16 * 16);
  CHECK_THROWS_WITH_AS(session.bind("x", aligned), doctest::Contains("was given as memory of device cuda, but"),
                       DeviceError);
}
