// Sessions on memory of the caller: what is not copied, what is, and what is refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <thread>

#include "compiler/support/error.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/runtime/session_program.h"

using namespace moxie;
using moxie::test::step_program;
using moxie::test::tensor;
using Values = std::vector<double>;
using Floats = std::vector<float>;

namespace {

/// y[s,m] for a batch of any size, and a sum over it.
Program layer() {
  return parse(R"(
dim S dynamic, N = 3, M = 2
index s:S, n:N, m:M
input x[S,N], w[N,M]
output y[s,m] = sum[n](x[s,n]*w[n,m])
output total = sum[s,m](y[s,m])
)",
               "layer");
}

Floats counted(std::size_t count, float first = 0) {
  Floats values(count);
  for (std::size_t k = 0; k < count; ++k) values[k] = first + static_cast<float>(k);
  return values;
}

template <class T>
TensorView matrix(std::vector<T>& values, std::int64_t columns) {
  return view_of(values, {static_cast<std::int64_t>(values.size()) / columns, columns});
}

const Floats kWeights = {1, 0, 0, 1, 1, 1};  // y[s] = {x[0] + x[2], x[1] + x[2]}

Floats products(const Floats& x) {
  Floats y;
  for (std::size_t k = 0; k < x.size(); k += 3) y.insert(y.end(), {x[k] + x[k + 2], x[k + 1] + x[k + 2]});
  return y;
}

template <class SomeError, class Work>
ErrorDetails details_of(const Work& work) {
  try {
    work();
  } catch (const SomeError& error) {
    return error.details();
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("inputs are read from memory of the caller in every run, and outputs are written there") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    Floats x = counted(12), y(8, -1);
    session.set("w", kWeights, {3, 2});
    session.bind("x", matrix(x, 3));
    session.bind("y", matrix(y, 2));
    session.run();
    session.wait();
    CHECK(y == products(x));
    std::ranges::fill(x, 0.5F);
    session.run();
    session.wait();
    CHECK(y == Floats(8, 1));
    CHECK(to_doubles(session.get("total")) == Values{8});
    CHECK(to_doubles(session.get("y")) == Values(8, 1));
    CHECK(to_doubles(session.get("x")) == Values(12, 0.5));
    CHECK(x == Floats(12, 0.5F));
  }
}

TEST_CASE("nothing is copied where the device works in memory of the host") {
  for (const auto& device : test::test_devices()) {
    if (device->has_own_memory()) continue;
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    Floats x = counted(6), y(4);
    session.set("w", kWeights, {3, 2});
    session.bind("x", matrix(x, 3));
    session.bind("y", matrix(y, 2));
    CHECK(session.view("x").data == x.data());
    CHECK(session.view("y").data == y.data());
    session.run();
    CHECK(reinterpret_cast<const float*>(session.read("y").data()) == y.data());
    CHECK(session.view("w").data != static_cast<const void*>(kWeights.data()));
    CHECK(session.view("w").read_only);
  }
}

TEST_CASE("batches of changing sizes are bound one after the other") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    session.set("w", kWeights, {3, 2});
    for (const std::size_t rows : {4, 1, 9, 4, 1, 17}) {
      CAPTURE(rows);
      const Floats x = counted(3 * rows, static_cast<float>(rows));
      Floats y(2 * rows, -1);
      session.bind("x", view_of(x, {static_cast<std::int64_t>(rows), 3}));
      session.bind("y", matrix(y, 2));
      session.run();
      session.wait();
      CHECK(y == products(x));
    }
    session.unbind("x");
    session.unbind("y");
  }
}

TEST_CASE("memory in other layouts is copied in every run: columns, reversed rows, repeated rows, odd addresses") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    session.set("w", kWeights, {3, 2});
    const Floats rows = counted(12);
    Floats columns(12), padded(4 * 5, -1);
    for (std::size_t s = 0; s < 4; ++s) {
      for (std::size_t n = 0; n < 3; ++n) columns[4 * n + s] = rows[3 * s + n];
    }
    session.bind("x", view_of(columns, {4, 3}, {1, 4}));
    session.bind("y", view_of(padded, {4, 2}, {5, 2}));
    for (int run = 0; run < 2; ++run) {
      session.run();
      session.wait();
      const Floats y = products(rows);
      for (std::size_t s = 0; s < 4; ++s)
        CHECK(Floats(padded.begin() + 5 * s, padded.begin() + 5 * s + 5) == Floats{y[2 * s], -1, y[2 * s + 1], -1, -1});
    }
    session.unbind("y");
    TensorView reversed = view_of(rows, {4, 3});
    reversed.data = const_cast<float*>(rows.data() + 9);
    reversed.strides = {-3, 1};
    session.bind("x", reversed);
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{20, 21, 14, 15, 8, 9, 2, 3});
    session.bind("x", view_of(std::span(rows).first(3), {2, 3}, {0, 1}));
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{2, 3, 2, 3});
    std::array<std::byte, 25> bytes{};
    std::copy_n(reinterpret_cast<const std::byte*>(rows.data()), 24, bytes.begin() + 1);
    TensorView odd = view_of(std::span(rows).first(6), {2, 3});
    odd.data = bytes.data() + 1;
    session.bind("x", odd);
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{2, 3, 8, 9});
  }
}

TEST_CASE("set copies from any layout of the host's memory, which may go at once") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    session.set("w", kWeights, {3, 2});
    {
      const Floats columns = {0, 3, 1, 4, 2, 5};
      session.set("x", view_of(columns, {2, 3}, {1, 2}));
    }
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{2, 3, 8, 9});
    Floats x = counted(6);
    session.bind("x", matrix(x, 3));
    session.set("x", tensor({1, 3}, {1, 1, 1}));  // the session's memory again
    CHECK(x == counted(6));
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{2, 2});
    session.bind("x", matrix(x, 3));
    std::ranges::fill(session.write("x"), std::byte{0});
    CHECK(x == counted(6));
    session.run();
    CHECK(to_doubles(session.get("y")) == Values(4, 0));
  }
}

TEST_CASE("elements of an output that no kernel writes are zero in memory of the caller, too") {
  const Program program =
      parse("dim N = 3\nindex n:N, m:N\ninput x[N]\noutput lower[n,m in 0..n+1] = x[n]*x[m]\n", "lower");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    Floats x = {1, 2, 3}, lower(9);
    session.bind("x", view_of(x, {3}));
    session.bind("lower", matrix(lower, 3));
    for (int run = 0; run < 3; ++run) {
      std::ranges::fill(lower, 7.0F);
      session.run();
      session.wait();
      CHECK(lower == Floats{1, 0, 0, 2, 4, 0, 3, 6, 9});
    }
  }
}

TEST_CASE("tensors of every dtype are views of elements of C++") {
  const Program program = parse(
      "dim N = 2\nindex n:N\ninput a[N]: f64, i[N]: i32, l[N]: i64, u[N]: u8, b[N]: bool, h[N]: f16, g[N]: bf16\n"
      "output y[n]: f64 = a[n] + i[n] + l[n] + u[n] + where(b[n], 1, 0) + h[n] + g[n]\n",
      "dtypes");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    const Values a = {1, 2};
    const std::array<std::int32_t, 2> i = {10, 20};
    const std::array<std::int64_t, 2> l = {100, 200};
    const std::array<std::uint8_t, 2> u = {3, 4};
    const std::array<bool, 2> b = {true, false};
    const std::array h = {Float16(0.5), Float16(0.25)};
    const std::array g = {BFloat16(1000), BFloat16(2000)};
    session.bind("a", view_of(a, {2}));
    session.bind("i", view_of(i, {2}));
    session.bind("l", view_of(l, {2}));
    session.bind("u", view_of(u, {2}));
    session.bind("b", view_of(b, {2}));
    session.set("h", h, {2});
    session.bind("g", view_of(g, {2}));
    session.run();
    CHECK(to_doubles(session.get("y")) == Values{1115.5, 2226.25});
  }
}

TEST_CASE("an owner keeps memory alive until the binding ends") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    session.set("w", kWeights, {3, 2});
    auto x = std::make_shared<Floats>(counted(6)), y = std::make_shared<Floats>(4);
    const std::weak_ptr<Floats> input = x, output = y;
    TensorView x_view = matrix(*x, 3), y_view = matrix(*y, 2);
    x_view.owner = std::move(x);
    y_view.owner = y;
    session.bind("x", x_view);
    session.bind("y", y_view);
    x_view.owner.reset();
    y_view.owner.reset();
    session.run();
    session.wait();
    CHECK(*y == products(counted(6)));
    y.reset();
    CHECK_FALSE(input.expired());
    CHECK_FALSE(output.expired());
    session.unbind("y");
    CHECK(output.expired());
    session.set("x", tensor({1, 3}, {1, 1, 1}));
    CHECK(input.expired());
  }
}

TEST_CASE("sessions of one device hand tensors on without a copy") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session first(layer(), {}, device);
    Session second(parse("dim S dynamic, M = 2\nindex s:S, m:M\ninput h[S,M]\noutput z[s,m] = h[s,m]^2\n", "square"),
                   {}, device);
    first.set("w", kWeights, {3, 2});
    for (const std::size_t rows : {3, 3, 5, 3}) {
      const Floats x = counted(3 * rows);
      first.set("x", x, {static_cast<std::int64_t>(rows), 3});
      first.run();
      second.bind("h", first.view("y"));
      CHECK(second.view("h").data == first.view("y").data);
      second.run();
      Values expected;
      for (const float value : products(x)) expected.push_back(value * value);
      CHECK(to_doubles(second.get("z")) == expected);
    }
  }
}

TEST_CASE("views that do not fit are refused with what was expected, and the binding before stays") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(layer(), {}, device);
    session.set("w", kWeights, {3, 2});
    Floats x = counted(6), y(4, -1);
    session.bind("x", matrix(x, 3));
    session.bind("y", matrix(y, 2));
    Values wide(6);
    CHECK_THROWS_WITH_AS(session.bind("q", matrix(x, 3)), doctest::Contains("has no input or output 'q'"), TypeError);
    CHECK_THROWS_WITH_AS(
        session.bind("x", view_of(wide, {2, 3})),
        "tensor x: expected f32, found f64; convert the values, or declare another dtype in the formula", TypeError);
    CHECK_THROWS_AS(session.set("x", view_of(wide, {2, 3})), TypeError);
    CHECK_THROWS_WITH_AS(session.bind("x", view_of(x, {6})),
                         "tensor x: expected 2 axes, found [6]; give a view with an extent for each axis", ShapeError);
    const Floats constant(4);
    const ErrorDetails read_only = details_of<UsageError>([&] { session.bind("y", view_of(constant, {2, 2})); });
    CHECK(read_only.name == "y");
    CHECK(read_only.expected == "memory that can be written");
    CHECK(read_only.found == "read-only memory");
    CHECK(read_only.remedy == "it is an output: bind other memory, or copy from get()");
    CHECK_THROWS_WITH_AS(session.bind("y", view_of(y, {2, 2}, {1, 1})),
                         doctest::Contains("expected elements at addresses of their own, found strides [1,1]"),
                         UsageError);
    TensorView null{.shape = {2, 3}};
    CHECK_THROWS_WITH_AS(session.bind("x", null), doctest::Contains("has a null pointer"), UsageError);
    TensorView elsewhere = matrix(x, 3);
    elsewhere.device = "cuda:7";
    CHECK_THROWS_WITH_AS(session.bind("x", elsewhere),
                         doctest::Contains("a tensor in memory of 'cuda:7' was given to device"), DeviceError);
    CHECK_THROWS_WITH_AS(session.set("x", elsewhere), doctest::Contains("set() reads memory of the host"), DeviceError);
    session.run();
    session.wait();
    CHECK(y == products(x));

    Floats larger(6);
    session.bind("y", matrix(larger, 2));
    CHECK_THROWS_WITH_AS(
        session.run(),
        "tensor y: expected [2,2], found [3,2]; bind memory of the shape that the inputs give this output, "
        "or unbind() it",
        ShapeError);
    session.bind("y", view_of(std::span(x).first(4), {2, 2}));
    CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("output y and input x are bound to the same memory"),
                         UsageError);
    CHECK(x == counted(6));
    float total = 0;
    session.bind("y", matrix(y, 2));
    session.bind("total", view_of(std::span(&total, 1), {}));
    session.run();
    session.wait();
    CHECK(total == 22);
    session.unbind("x");
    CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("input x is missing"), ShapeError);
    session.bind("x", matrix(x, 3));
    session.run();
  }
}

TEST_CASE("memory that runs exchange cannot be the caller's, nor the other way round") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(step_program(), {}, device);
    Floats p = {1, 2};
    session.bind("p", view_of(p, {2}));
    CHECK_THROWS_WITH_AS(session.feed_back("next", "p"), doctest::Contains("tensor p cannot be fed back: it is bound"),
                         UsageError);
    session.set("p", p, {2});
    session.feed_back("next", "p");
    for (const char* name : {"p", "next"})
      CHECK_THROWS_WITH_AS(session.bind(name, view_of(p, {2})), doctest::Contains("cannot be bound"), UsageError);
    session.set("moved", tensor({}, {0}));
    Floats x = {1, 1};
    session.bind("x", matrix(x, 2));
    session.run();
    session.run();
    CHECK(to_doubles(session.get("p")) == Values{3, 4});
    session.take_back();
    CHECK(to_doubles(session.get("p")) == Values{2, 3});
    CHECK(p == Floats{1, 2});
  }
}

TEST_CASE("values in memory of the caller lie in the declared domain, in every run") {
  const Program program = parse("dim N dynamic\nindex n:N\ninput x[N] >= 0\noutput y[n] = sqrt(x[n])\n", "roots");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    Floats x = {1, 4, 9}, y(3);
    session.bind("x", view_of(x, {3}));
    session.bind("y", view_of(y, {3}));
    session.run();
    session.wait();
    CHECK(y == Floats{1, 2, 3});
    x[1] = -1;
    CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("x[1] = -1, but x is declared >= 0"), DataError);
    CHECK_THROWS_AS(session.set("x", view_of(x, {3})), DataError);
    CHECK(y == Floats{1, 2, 3});
    x[1] = 16;
    session.run();
    session.wait();
    CHECK(y == Floats{1, 4, 3});
  }
}

TEST_CASE("views have as many elements as their memory, and strides for all axes") {
  Floats x(6);
  CHECK_THROWS_WITH_AS(view_of(x, {2, 2}), doctest::Contains("6 elements do not hold a view of shape [2,2]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(view_of(x, {2, 3}, {4, 1}), doctest::Contains("its elements are 0 to 6"), ShapeError);
  CHECK_THROWS_AS(view_of(x, {2, 3}, {-3, 1}), ShapeError);
  CHECK_THROWS_WITH_AS(view_of(x, {2, 3}, {3}), doctest::Contains("give one for each axis, or none"), ShapeError);
  CHECK_THROWS_AS(view_of(x, {-1}), ShapeError);
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max() / 2;
  CHECK_THROWS_WITH_AS(view_of(x, {huge, 3}), doctest::Contains("more bytes than 63 bits count"), ShapeError);
  CHECK_THROWS_WITH_AS(view_of(x, {3}, {huge + 2}), doctest::Contains("reach beyond 63 bits"), ShapeError);
  CHECK(view_of(std::span(x).first(0), {0, 5}).shape == std::vector<std::int64_t>{0, 5});
  CHECK(is_row_major(view_of(x, {1, 6}, {99, 1})));
  CHECK_FALSE(is_row_major(view_of(x, {2, 3}, {1, 2})));
  CHECK_FALSE(overlaps_itself(view_of(x, {2, 3}, {1, 2})));
  CHECK(overlaps_itself(view_of(x, {2, 3}, {2, 1})));
}

TEST_CASE("sessions of one device, and of two, compute on memory of two threads what they compute alone") {
  const auto devices = test::test_devices();
  const auto results = [](const std::shared_ptr<Device>& device, std::size_t rows) {
    Session session(layer(), {}, device);
    session.set("w", kWeights, {3, 2});
    std::vector<Floats> all;
    for (std::size_t more = 0; more < 4; ++more) {
      const std::size_t count = rows + more % 2;
      const Floats x = counted(3 * count, static_cast<float>(more));
      all.emplace_back(2 * count);
      session.bind("x", view_of(x, {static_cast<std::int64_t>(count), 3}));
      session.bind("y", matrix(all.back(), 2));
      session.run();
      session.wait();
    }
    return all;
  };
  for (const auto& device : devices) {
    for (const auto& other : {device, devices.back()}) {
      CAPTURE(device->name());
      CAPTURE(other->name());
      const auto few_alone = results(device, 3), many_alone = results(other, 200);
      std::vector<Floats> few, many;
      std::thread a([&] { few = results(device, 3); }), b([&] { many = results(other, 200); });
      a.join();
      b.join();
      CHECK(few == few_alone);
      CHECK(many == many_alone);
      CHECK(few.front() == products(counted(9)));
    }
  }
}
