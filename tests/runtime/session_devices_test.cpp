// Sessions over many runs, on every device: what is fed back, resized and drawn, and that devices agree.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/runtime/session_program.h"

using namespace moxie;
using moxie::test::step_program;
using moxie::test::tensor;
using Values = std::vector<double>;

TEST_CASE("parameters go from run to run, and batches may change their size") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(step_program(), {}, device);
    session.feed_back("next", "p");
    session.feed_back("distance", "moved");
    session.set("p", tensor({2}, {1, 2}));
    session.set("moved", tensor({}, {0}));
    Values p = {1, 2};
    double distance = 0;
    for (const std::int64_t rows : {3, 3, 2, 3, 3, 2, 3}) {
      const auto count = static_cast<std::size_t>(rows);
      session.set("x", tensor({rows, 2}, Values(2 * count, 0.5)));
      session.run();
      distance += p[0] * p[0] + p[1] * p[1];
      for (double& value : p) value += 0.5 * static_cast<double>(rows);
      CHECK(to_doubles(session.get("distance")) == Values{distance});
      CHECK(to_doubles(session.get("p")) == p);
    }
    CHECK(session.step() == 7);
  }
}

TEST_CASE("a plan that was asked for stays valid when batches of another class need a new one") {
  for (const auto& device : test::test_devices()) {
    Session session(step_program(), {}, device);
    const Plan& before = session.plan();
    const std::string text = print(before.program);
    for (const std::int64_t batch : {2, 3, 100, 1000}) {
      session.set("p", tensor({2}, {1, 2}));
      session.set("x", tensor({batch, 2}, Values(static_cast<std::size_t>(2 * batch), 0.5)));
      session.set("moved", tensor({}, {0}));
      session.run();
      CHECK(print(before.program) == text);
      CHECK(print(session.plan().program) == text);
    }
  }
}

TEST_CASE("what no loop writes of a sum in chunks stays zero, whatever lay there before") {
  const Program program = parse(R"(
dim S dynamic, N = 3
index s:S, n:N, m:N
input x[S,N]
let before[s,n] = sum[m](x[s,m]) + n
let scale[n] = max[s](before[s,n])
output lower[n,m in 0..n+1] = sum[s](x[s,n]*x[s,m]*scale[n])
)");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.set("x", tensor({300, 3}, Values(900, 1)));
    session.run();
    CHECK(to_doubles(session.get("lower")) == Values{900, 0, 0, 1200, 1200, 0, 1500, 1500, 1500});
  }
}

TEST_CASE("random numbers follow the seed and the step, the same on every device") {
  const Program program = parse("dim N = 5\nindex n:N\ninput x\noutput y[n] = x + randu(1)\n", "noise");
  const auto draw = [&](const std::shared_ptr<Device>& device, std::uint64_t seed, std::uint64_t step) {
    Session session(program, {}, device);
    session.set("x", tensor({}, {0}));
    session.set_random_state(seed, step);
    std::vector<Values> drawn;
    for (int run = 0; run < 4; ++run) {
      session.run();
      drawn.push_back(to_doubles(session.get("y")));
    }
    return drawn;
  };
  const auto want = draw(open_device("interp"), 7, 3);
  CHECK(want[0] != want[1]);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CHECK(draw(device, 7, 3) == want);
    CHECK(draw(device, 7, 4)[0] == want[1]);
  }
}

TEST_CASE("random numbers are the same on every device, wherever the lanes run and whole blocks or not") {
  const Program program = parse(R"(dim S dynamic, N
index s:S, n:N
input x[S,N]
output along[s,n] = x[s,n] + randn(0)
output ahead[s,n] = x[s,n] + randn(0)[s,n+3]
output across[s,n] = x[s,n] + randn(1)[n,s]
output even[s,n] = x[s,n] + randu(2)[s,2*n]
output uniform[s,n] = x[s,n] + randu(3)
output rows[s] = sum[n](x[s,n]*randn(4)[s])
output columns[n] = sum[s](x[s,n]*randn(5)[n])
)");
  const DimValues dims = {{"S", 70}, {"N", 45}};
  const Values x(70 * 45, 2);
  const TensorValues want = evaluate(program, dims, {{"x", x}}, 11, 3);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {{"N", 45}}, device);
    session.set_random_state(11, 3);
    session.set("x", tensor({70, 45}, x));
    session.run();
    for (const auto& [output, values] : want) {
      CAPTURE(output);
      const Values got = to_doubles(session.get(output));
      REQUIRE(got.size() == values.size());
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(values[k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("sums over samples may have names that kernels could want for themselves") {
  const Program program = parse(R"(dim S dynamic, N
index s:S, n:N
input x[S,N]
output g[n] = sum[s](x[s,n]^2)
output g_count[n] = sum[s](x[s,n])
output g_parts[n] = max[s](x[s,n])
output combine_chunks[n] = sum[s](exp(x[s,n]))
output count[n] = min[s](x[s,n])
)");
  Values x(2000 * 40);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<double>(k * 37 % 101) / 64 - 0.75;
  const TensorValues want = evaluate(program, {{"S", 2000}, {"N", 40}}, {{"x", x}});
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {{"N", 40}}, device);
    session.set("x", tensor({2000, 40}, x));
    session.run();
    for (const auto& [output, values] : want) {
      CAPTURE(output);
      const Values got = to_doubles(session.get(output));
      for (std::size_t k = 0; k < values.size(); ++k) CHECK(got[k] == doctest::Approx(values[k]).epsilon(1e-4));
    }
  }
}

TEST_CASE("NaN passes through extrema on every device, wherever it stands") {
  const std::string text = R"(dim S dynamic, N
index s:S, n:N
input x[S,N], z[S,N]
output rectified[s,n] = relu(x[s,n])
output larger[s,n] = max(x[s,n], z[s,n])
output smaller[s,n] = min(z[s,n], x[s,n], 3*x[s,n])
output bounded[s,n] = max(0.25, min(x[s,n], 0.5))
output rows[s] = max[n](x[s,n])
output columns[n] = min[s](x[s,n])
output least = min[s,n](x[s,n])
output most = max[s,n](x[s,n])
)";
  const Program program = parse(text);
  const Program gradient =
      differentiate(program, {"rectified", "larger", "smaller", "rows", "columns", "most"}, {"x", "z"});
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  // One element; a partial vector; several chunks.
  for (const auto& [S, N] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {5, 3}, {2000, 19}}) {
    const auto size = static_cast<std::size_t>(S * N);
    TensorValues inputs;
    for (const char* name :
         {"x", "z", "cot.rectified", "cot.larger", "cot.smaller", "cot.rows", "cot.columns", "cot.most"})
      for (std::size_t k = 0; k < size; ++k) inputs[name].push_back(static_cast<double>(k * 37 % 101) / 64 - 0.75);
    inputs["z"][size - 1] = inputs["x"][size / 2] = inputs["x"][0] = std::nan("");
    inputs["cot.rows"].resize(static_cast<std::size_t>(S));
    inputs["cot.columns"].resize(static_cast<std::size_t>(N));
    inputs["cot.most"].resize(1);
    const TensorValues want = evaluate(gradient, {{"S", S}, {"N", N}}, inputs);
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const auto& device : test::test_devices()) {
        CAPTURE(device->name());
        CAPTURE(S);
        Session session(with_dtype(gradient, dtype), {{"N", N}}, device);
        for (const InputDecl& input : gradient.inputs)
          session.set(input.name, make_host_tensor(dtype, extents_of(gradient, input.name, {{"S", S}, {"N", N}}),
                                                   inputs.at(input.name)));
        session.run();
        for (const Definition& definition : gradient.definitions) {
          if (!definition.output) continue;
          CAPTURE(definition.name);
          const Values got = to_doubles(session.get(definition.name)), &expected = want.at(definition.name);
          CHECK(std::ranges::equal(got, expected, same));
        }
      }
    }
  }
}

TEST_CASE("maps and sums along rows agree on every device, whatever the length of a row") {
  const Program program = parse(R"(dim S dynamic, C, H, W
index s:S, c:C, i:H, j:W
input x[S,C,H,W], sigma[C]
output y[s,c,i,j] = relu(x[s,c,i,j]) + sigma[c]*randn(0)
output total[c] = sum[s,i,j](x[s,c,i,j]*randn(0)[s,c,i,j])
)");
  // Several chunks and a partial vector; whole vectors, as many as there are rows; several tiles.
  for (const DimValues& dims :
       {DimValues{{"S", 200}, {"C", 3}, {"H", 2}, {"W", 37}}, DimValues{{"S", 3}, {"C", 2}, {"H", 32}, {"W", 32}},
        DimValues{{"S", 2}, {"C", 1}, {"H", 1}, {"W", 1100}}}) {
    const auto extent = [&](const char* dim) { return dims.at(dim); };
    Values x(static_cast<std::size_t>(extent("S") * extent("C") * extent("H") * extent("W")));
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = static_cast<double>(k * 37 % 101) / 64 - 0.75;
    const Values sigma(static_cast<std::size_t>(extent("C")), 0.5);
    const TensorValues want = evaluate(program, dims, {{"x", x}, {"sigma", sigma}});
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      Session session(program, {{"C", extent("C")}, {"H", extent("H")}, {"W", extent("W")}}, device);
      session.set_random_state(0, 0);
      session.set("x", tensor({extent("S"), extent("C"), extent("H"), extent("W")}, x));
      session.set("sigma", tensor({extent("C")}, sigma));
      session.run();
      for (const char* output : {"y", "total"}) {
        const Values got = to_doubles(session.get(output));
        for (std::size_t k = 0; k < got.size(); ++k) CHECK(got[k] == doctest::Approx(want.at(output)[k]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("sessions of one device in two threads compute what they compute alone") {
  const Program program = parse(R"(dim N dynamic, K = 50
index n:N, k:K
input x[N], w[K]
output y[n] = sum[k](w[k]*tanh(x[n]*w[k]))
output total = sum[n](y[n])
)");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const auto run = [&](std::size_t rows) {
      Session session(program, {}, device);
      session.set("w", make_host_tensor(DType::f32, {50}, std::vector<double>(50, 0.3)));
      std::vector<Values> results;
      for (std::size_t more = 0; more < 3; ++more) {
        const std::vector<double> x(rows + more, 0.1 * static_cast<double>(rows));
        session.set("x", make_host_tensor(DType::f32, {static_cast<std::int64_t>(x.size())}, x));
        session.run();
        results.push_back(to_doubles(session.get("y")));
        results.push_back(to_doubles(session.get("total")));
      }
      return results;
    };
    const auto first_alone = run(300), second_alone = run(7);
    std::vector<Values> first, second;
    std::thread one([&] { first = run(300); }), other([&] { second = run(7); });
    one.join();
    other.join();
    CHECK(first == first_alone);
    CHECK(second == second_alone);
  }
}

TEST_CASE("buffers of one device come, go and are read in two threads") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const auto differences = [&](std::byte value) {
      std::size_t different = 0;
      for (std::size_t round = 0; round < 4000; ++round) {
        const auto buffer = device->make_buffer();
        buffer->resize(64U << round % 5);
        const std::span<std::byte> written = buffer->write();
        std::ranges::fill(written, value);
        buffer->kernel_input();
        buffer->kernel_output();
        const std::span<const std::byte> read = buffer->read();
        different += static_cast<std::size_t>(std::ranges::count_if(read, [&](std::byte b) { return b != value; }));
      }
      return different;
    };
    std::size_t first = 1, second = 1;
    std::thread one([&] { first = differences(std::byte{1}); }), other([&] { second = differences(std::byte{2}); });
    one.join();
    other.join();
    CHECK(first == 0);
    CHECK(second == 0);
  }
}

TEST_CASE("a buffer may go, or grow, while the host has not waited for what it is fetching") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const auto buffer = device->make_buffer();
    for (const std::size_t bytes : {64, 4096}) {
      buffer->resize(bytes);
      buffer->kernel_output();
      buffer->prefetch();
    }
    CHECK(buffer->read().size() == 4096);
    buffer->kernel_output();
    buffer->prefetch();
  }
}

TEST_CASE("a buffer is read, and goes, in another thread than the one that filled it") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    auto buffer = device->make_buffer();
    buffer->resize(16);
    std::ranges::fill(buffer->write(), std::byte{7});
    buffer->kernel_input();
    buffer->kernel_output();
    buffer->prefetch();
    std::byte last{};
    std::thread([&] {
      last = buffer->read().back();
      buffer->kernel_output();
      buffer->prefetch();
    }).join();
    std::thread([&] { buffer.reset(); }).join();
    CHECK(last == std::byte{7});
  }
}
