// Functions on the caller's memory, on every device: extents that change, what is kept, errors, threads.
#include "runtime/compiled_function.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <thread>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "tests/devices.h"

using namespace moxie;
using Floats = std::vector<float>;

namespace {

/// A static dim, a dynamic one, and an output with elements that no kernel writes.
constexpr const char* kBumps = R"(
dim S dynamic, R
index s:S, r:R, q:R
input x[S], w[R], c[R], scale > 0
output y[s] = sum[r](w[r]*exp(-(x[s] - c[r])^2/scale))
output lower[r, q in 0..r+1] = w[r]*c[q]
)";

Program bumps() { return parse(kBumps, "bumps"); }

Floats ramp(std::size_t count, float first) {
  Floats values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + 0.25F * static_cast<float>(i);
  return values;
}

/// Inputs and outputs of one call.
struct Call {
  Floats x, w, c;
  float scale = 2;
  Floats y, lower;

  Call(std::size_t samples, std::size_t bumps)
      : x(ramp(samples, -1)), w(ramp(bumps, 0.5F)), c(ramp(bumps, -0.5F)), y(samples, NAN), lower(bumps * bumps, NAN) {}

  TensorShapes shapes() const {
    const auto samples = static_cast<std::int64_t>(x.size()), bumps = static_cast<std::int64_t>(w.size());
    return {{samples}, {bumps}, {bumps}, {}};
  }
  void run(CompiledFunction& function) {
    const std::array<const void*, 4> inputs = {x.data(), w.data(), c.data(), &scale};
    const std::array<void*, 2> outputs = {y.data(), lower.data()};
    function.bind(shapes())->run(inputs, outputs, 0, 0);
  }
  void check() const {
    for (std::size_t s = 0; s < x.size(); ++s) {
      double want = 0;
      for (std::size_t r = 0; r < w.size(); ++r) want += w[r] * std::exp(-std::pow(x[s] - c[r], 2) / scale);
      CHECK(y[s] == doctest::Approx(want).epsilon(1e-5));
    }
    for (std::size_t r = 0; r < w.size(); ++r) {
      for (std::size_t q = 0; q < w.size(); ++q)
        CHECK(lower[r * w.size() + q] == doctest::Approx(q <= r ? w[r] * c[q] : 0.0F));
    }
  }
};

}  // namespace

TEST_CASE("a function reads and writes the caller's memory, whatever the extents") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CompiledFunction function(bumps(), {}, device);
    for (const auto& [samples, bumps] : {std::pair<std::size_t, std::size_t>{5, 3}, {37, 3}, {5, 4}, {1, 1}, {5, 3}}) {
      Call call(samples, bumps);
      call.run(function);
      call.check();
    }
    CHECK(function.kept() == 4);
    CHECK(function.output_shapes({{9}, {2}, {2}, {}}) == TensorShapes{{9}, {2, 2}});
  }
}

TEST_CASE("a function forgets the extents that were used least recently") {
  CompiledFunction function(bumps(), {}, open_device("interp"), 2);
  const auto first = function.bind(Call(3, 2).shapes());
  function.bind(Call(4, 2).shapes());
  CHECK(function.bind(Call(3, 2).shapes()) == first);
  function.bind(Call(5, 2).shapes());
  CHECK(function.kept() == 2);
  CHECK(function.bind(Call(3, 2).shapes()) == first);
  // What was forgotten still runs where somebody holds it.
  const auto held = function.bind(Call(4, 2).shapes());
  function.bind(Call(6, 2).shapes());
  function.bind(Call(7, 2).shapes());
  CHECK(held->output_shapes() == TensorShapes{{4}, {2, 2}});
}

TEST_CASE("a function refuses shapes that contradict each other and values outside of domains") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CompiledFunction function(bumps(), {}, device);
    CHECK_THROWS_WITH_AS(function.bind({{3}, {2}, {4}, {}}), doctest::Contains("axis 0 of c has 4 elements"),
                         ShapeError);
    CHECK_THROWS_AS(function.bind({{3}, {2}, {2}}), ShapeError);
    CHECK_THROWS_AS(function.bind({{3}, {2, 1}, {2}, {}}), ShapeError);
    Call call(3, 2);
    call.scale = -1;
    CHECK_THROWS_WITH_AS(call.run(function), doctest::Contains("scale = -1, but scale is declared > 0"), DataError);
    call.scale = 2;
    call.run(function);
    call.check();
  }
}

TEST_CASE("a formula that leaves its domain says so, and the next call is right") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CompiledFunction function(
        parse("dim N = 1\nindex n:N, m:N\ninput a\noutput y = logdet[n,m](where(n == m, a, 0))\n"), {}, device);
    const auto bound = function.bind({{}});
    float a = -1, y = 0;
    const std::array<const void*, 1> inputs = {&a};
    const std::array<void*, 1> outputs = {&y};
    CHECK_THROWS_AS(bound->run(inputs, outputs, 0, 0), DomainError);
    a = 4;
    bound->run(inputs, outputs, 0, 0);
    CHECK(y == doctest::Approx(std::log(4)));
  }
}

TEST_CASE("threads share a function") {
  CompiledFunction function(differentiate(bumps(), {"y"}, {"w"}), {}, open_device("interp"));
  const Floats x = ramp(6, -1), w = ramp(3, 0.5F), c = ramp(3, -0.5F), cotangent(6, 1);
  const float scale = 2;
  const auto run = [&] {
    Floats y(6), lower(9), slope(3);
    const std::array<const void*, 5> inputs = {x.data(), w.data(), c.data(), &scale, cotangent.data()};
    const std::array<void*, 3> outputs = {y.data(), lower.data(), slope.data()};
    for (int i = 0; i < 20; ++i) function.bind({{6}, {3}, {3}, {}, {6}})->run(inputs, outputs, 0, 0);
    return slope;
  };
  const Floats alone = run();
  Floats one, other;
  std::thread first([&] { one = run(); }), second([&] { other = run(); });
  first.join();
  second.join();
  CHECK(one == alone);
  CHECK(other == alone);
}

TEST_CASE("seed and step decide about random numbers") {
  CompiledFunction function(parse("dim N\nindex n:N\ninput x[N]\noutput y[n] = x[n] + randn(1)\n"), {},
                            open_device("interp"));
  const auto bound = function.bind({{4}});
  const Floats x(4, 0);
  const auto draw = [&](std::uint64_t seed, std::uint64_t step) {
    Floats y(4);
    const std::array<const void*, 1> inputs = {x.data()};
    const std::array<void*, 1> outputs = {y.data()};
    bound->run(inputs, outputs, seed, step);
    return y;
  };
  CHECK(draw(1, 2) == draw(1, 2));
  CHECK(draw(1, 2) != draw(1, 3));
  CHECK(draw(1, 2) != draw(2, 2));
}
