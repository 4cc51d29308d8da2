// Sessions over many runs, on every device: what is fed back, taken back, resized and drawn.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/ir/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/forward_pass.h"
#include "runtime/rows.h"
#include "runtime/session.h"
#include "runtime/trainer.h"
#include "tests/devices.h"
#include "tests/setting.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

HostTensor tensor(std::vector<std::int64_t> shape, const Values& values) {
  return make_host_tensor(DType::f32, std::move(shape), values);
}

/// Moves p along the rows of x, and adds up how far it was from the origin.
constexpr const char* kStep = R"(
dim S dynamic, N = 2
index s:S, n:N
input p[N], x[S,N], moved
output next[n] = p[n] + sum[s](x[s,n])
output distance = moved + sum[n](p[n]^2)
)";

Program step_program() { return parse(kStep, "step"); }

/// Moves p by x; fails for many reasons, before and after p has its new value in memory.
constexpr const char* kFragile = R"(
dim S dynamic, N = 2
index s:S, n:N, m:N
input p[N], x[S,N], early, late, scale > 0
output root = sqrt(early)
output next[n] = p[n] + sum[s](x[s,n])/scale
output size = logdet[n,m](where(n == m, late*(1 + next[n]^2), 0))
)";

std::span<const std::byte> bytes_of(const float& value) { return std::as_bytes(std::span(&value, 1)); }

}  // namespace

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

TEST_CASE("the last run can be taken back, and taken again") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(step_program(), {}, device);
    session.feed_back("next", "p");
    session.take_back();  // nothing has run yet
    session.set("p", tensor({2}, {1, 2}));
    session.set("moved", tensor({}, {0}));
    session.set("x", tensor({1, 2}, {1, -1}));
    for (int run = 0; run < 3; ++run) session.run();
    session.take_back();
    session.take_back();  // only the last
    CHECK(to_doubles(session.get("p")) == Values{3, 0});
    session.run();
    CHECK(to_doubles(session.get("p")) == Values{4, -1});
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

TEST_CASE("a run that leaves a formula's domain feeds nothing back") {
  const Program program =
      parse("dim R = 2\nindex r:R, t:R\ninput p, K[R,R]\noutput next = p + logdet[r,t](K[r,t])\n", "fit");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.feed_back("next", "p");
    session.set("p", tensor({}, {1}));
    const auto run = [&](double diagonal) {
      session.set("K", tensor({2, 2}, {diagonal, 0, 0, diagonal}));
      session.run();
      session.wait();
    };
    run(1);
    for (int attempt = 0; attempt < 2; ++attempt) {
      CHECK_THROWS_WITH_AS(run(-1), doctest::Contains("not positive definite"), DeviceError);
      CHECK(session.step() == 1);
      CHECK(to_doubles(session.get("p")) == Values{1});
    }
    run(1);
    CHECK(session.step() == 2);
  }
}

TEST_CASE("a run that threw, wherever it did, feeds nothing, and there is nothing to be taken back") {
  const test::Setting setting("MOXIE_CHECK", "nan");
  struct Failure {
    const char* where;
    std::function<void(Session&)> cause, cure;
  };
  const auto give = [](const char* input, HostTensor value) {
    return [=](Session& session) { session.set(input, value); };
  };
  const auto rows = [](std::int64_t count) {
    return tensor({count, 2}, Values(static_cast<std::size_t>(2 * count), 1));
  };
  const auto outside = [](Session& session) { std::ranges::copy(bytes_of(-1), session.write("scale").data()); };
  const std::vector<Failure> failures = {
      {"before any launch, by its shapes", give("x", tensor({2, 3}, Values(6, 1))), give("x", rows(1))},
      {"before any launch, by its shapes, when batches change their size", give("x", tensor({3}, Values(3, 1))),
       give("x", rows(1))},
      {"before any launch, by a declared domain", outside, give("scale", tensor({}, {1}))},
      {"in a kernel", give("early", tensor({}, {-1})), give("early", tensor({}, {1}))},
      {"in the last kernel", give("late", tensor({}, {-1})), give("late", tensor({}, {1}))},
      {"in the last kernel, for the first batch of another size",
       [&](Session& session) {
         session.set("x", rows(200));
         session.set("late", tensor({}, {-1}));
       },
       [&](Session& session) {
         session.set("x", rows(1));
         session.set("late", tensor({}, {1}));
       }}};
  for (const auto& device : test::test_devices()) {
    for (const Failure& failure : failures) {
      CAPTURE(device->name());
      CAPTURE(failure.where);
      Session session(parse(kFragile, "fragile"), {}, device);
      session.feed_back("next", "p");
      session.set("p", tensor({2}, {1, 2}));
      for (const char* scalar : {"early", "late", "scale"}) session.set(scalar, tensor({}, {1}));
      session.set("x", rows(1));
      const auto run = [&] {
        session.run();
        session.wait();
      };
      for (int good = 0; good < 2; ++good) run();
      for (int attempt = 0; attempt < 2; ++attempt) {
        failure.cause(session);
        CHECK_THROWS_AS(run(), Error);
        CHECK(to_doubles(session.get("p")) == Values{3, 4});
        session.take_back();
        CHECK(to_doubles(session.get("p")) == Values{3, 4});
        CHECK(session.step() == 2);
      }
      failure.cure(session);
      run();
      CHECK(to_doubles(session.get("p")) == Values{4, 5});
      session.take_back();
      CHECK(to_doubles(session.get("p")) == Values{3, 4});
    }
  }
}

TEST_CASE("new values for an input that was fed stay, also when its shape changes") {
  const Program program = parse("dim S dynamic\nindex s:S\ninput h[S], x[S]\noutput next[s] = h[s] + x[s]\n", "walk");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.feed_back("next", "h");
    session.set("h", tensor({1}, {1}));
    session.set("x", tensor({1}, {1}));
    session.run();
    session.set("h", tensor({200}, Values(200, 5)));
    session.take_back();
    session.set("x", tensor({200}, Values(200, 1)));
    session.run();
    CHECK(to_doubles(session.get("h")) == Values(200, 6));
  }
}

TEST_CASE("a training step that threw is not undone into a half-written one") {
  const test::Setting setting("MOXIE_CHECK", "nan");
  StepProgram step;
  step.program = parse(R"(
dim S dynamic, N = 2
index s:S, n:N
input x[S,N], target[S], w[N], initial_rate
output new.w[n] = w[n] + initial_rate*sum[s](x[s,n])
output loss = sum[s](sqrt(target[s]))
output gradient_norm = initial_rate
)",
                       "fit");
  step.renewals = {{"new.w", "w"}};
  const std::vector<float> x(8, 1), target = {1, 1, 1, -1};
  const SampleRows rows{4, x, target};
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Trainer trainer(step, device, rows, {1, 3});
    trainer.set("w", tensor({2}, {1, 2}));
    trainer.set_rate(0.5);
    Values w = {1, 2};
    int failed = 0;
    for (int k = 0; k < 12; ++k) {
      try {
        trainer.step();
        for (double& value : w) value += 0.5;
      } catch (const DeviceError&) {
        ++failed;
        trainer.undo();
      }
      CHECK(to_doubles(trainer.value("w")) == w);
    }
    CHECK(failed == 3);
    CHECK(trainer.position().step == 9);
  }
}

TEST_CASE("inputs lie in their declared domains, whichever way they come") {
  const Program program = parse(R"(
dim S dynamic, N = 2
index s:S, n:N
input x[S,N] >= 0, wide: f64 >= 0.7, narrow >= 0.7, low < -1, free
output y[s,n] = x[s,n] + wide + narrow + low + free
)",
                                "domains");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto device = open_device("interp");
  Session session(program, {}, device);
  const auto refuses = [&](const char* input, const HostTensor& value, const char* message) {
    CHECK_THROWS_WITH_AS(session.set(input, value), doctest::Contains(message), DataError);
  };
  session.set("x", tensor({3, 2}, Values(6, 0)));
  refuses("x", tensor({3, 2}, {1, 1, 1, 1, 1, -2}), "x[2,1] = -2, but x is declared >= 0; give other values");
  refuses("x", tensor({1, 2}, {nan, 1}), "x[0,0] = nan, but x is declared >= 0");
  CHECK(to_doubles(session.get("x")) == Values(6, 0));  // as they were, shape and values
  session.set("x", tensor({1, 2}, {-0.0, 1}));
  refuses("low", tensor({}, {-1}), "low = -1, but low is declared < -1");
  session.set("low", tensor({}, {-1.5}));
  // The bound is rounded as the values are, and values are checked as the program will see them.
  session.set("narrow", tensor({}, {0.7}));
  refuses("wide", tensor({}, {0.7}), "wide = 0.699999988079071, but wide is declared >= 0.7");
  session.set("wide", make_host_tensor(DType::f64, {}, Values{0.7}));
  session.set("free", tensor({}, {nan}));

  const auto write = [&](float value, Session::Domain domain) {
    const std::vector<float> values = {1, value};
    std::memcpy(session.write("x", domain).data(), values.data(), 8);
  };
  write(-3, Session::Domain::check);
  for (int attempt = 0; attempt < 2; ++attempt)
    CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("x[0,1] = -3, but x is declared >= 0"), DataError);
  write(3, Session::Domain::check);
  session.run();
  write(-3, Session::Domain::checked);
  session.run();
  session.resize("low", {});  // zeros
  CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("low = 0, but low is declared < -1"), DataError);

  const test::Setting setting("MOXIE_CHECK_INPUTS", "off");
  Session trusting(program, {}, device);
  trusting.set("x", tensor({1, 2}, {-1, nan}));
  CHECK(to_doubles(trusting.get("x"))[0] == -1);
}

TEST_CASE("a large tensor is searched to its last element") {
  const Program program = parse("dim S dynamic\nindex s:S\ninput x[S] > 0\noutput y = sum[s](x[s])\n", "sum");
  Session session(program, {}, open_device("interp"));
  for (const std::int64_t place : {0, 1023, 1024, 2047, 3000, 4095, 4096, 4100}) {
    Values values(4101, 1);
    values[static_cast<std::size_t>(place)] = 0;
    const std::string message = "x[" + std::to_string(place) + "] = 0, but x is declared > 0";
    CHECK_THROWS_WITH_AS(session.set("x", tensor({4101}, values)), doctest::Contains(message.c_str()), DataError);
  }
  session.set("x", tensor({4101}, Values(4101, 1)));
}

TEST_CASE("rows of a data set lie in the declared domain before any batch is gathered") {
  StepProgram step;
  step.program = parse(R"(
dim S dynamic, N = 2
index s:S, n:N
input x[S,N] >= 0, target[S], w, initial_rate
output new.w = w + initial_rate
output loss = sum[s,n](x[s,n]) + sum[s](target[s])
output gradient_norm = w
)",
                       "fit");
  step.renewals = {{"new.w", "w"}};
  std::vector<float> x(20, 1);
  const std::vector<float> target(10, 1);
  const SampleRows rows{10, x, target};
  const auto device = open_device("interp");
  ForwardPass pass(step.program, device, 4);
  pass.set({{"w", tensor({}, {1})}, {"initial_rate", tensor({}, {1})}});
  CHECK(pass.run(rows).at("loss").values[0] == doctest::Approx(10.8));  // of batches of 4, 4 and 2: 12, 12 and 6
  CHECK_NOTHROW(Trainer(step, device, rows, {4, 1}));
  x[15] = -1;
  const char* message = "x[7,1] = -1, but x is declared >= 0";
  CHECK_THROWS_WITH_AS(Trainer(step, device, rows, {4, 1}), doctest::Contains(message), DataError);
  CHECK_THROWS_WITH_AS(pass.run(rows), doctest::Contains(message), DataError);
  const test::Setting setting("MOXIE_CHECK_INPUTS", "off");
  CHECK_NOTHROW(Trainer(step, device, rows, {4, 1}));
  CHECK_NOTHROW(pass.run(rows));
}

TEST_CASE("what a session cannot hold is refused, and the session goes on") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(step_program(), {}, device);
    CHECK_THROWS_WITH_AS(session.set("q", tensor({2}, {1, 2})), doctest::Contains("has no input 'q'"), TypeError);
    CHECK_THROWS_WITH_AS(session.feed_back("next", "moved"),
                         "output next cannot become input moved: shapes or dtypes differ", ShapeError);
    CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("input p is missing"), ShapeError);
    CHECK_THROWS_WITH_AS(session.set("p", {DType::f32, {2}, std::vector<std::byte>(12)}),
                         "12 bytes do not fill input p of shape [2]", ShapeError);
    session.set("p", tensor({2}, {1, 2}));
    session.set("moved", tensor({}, {0}));
    session.set("x", tensor({1, 2}, {1, 1}));
    session.run();
    CHECK(to_doubles(session.get("next")) == Values{2, 3});
  }
}

TEST_CASE("more memory than there is, is an error that says how much was wanted") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const Program program = parse("dim K dynamic\nindex k:K\ninput x\noutput y[k] = x\n");
    Session session(program, {{"K", std::int64_t{1} << 53}}, device);
    session.set("x", tensor({}, {1}));
    CHECK_THROWS_WITH_AS(session.run(), doctest::Contains("use smaller batches"), DeviceError);
  }
}

TEST_CASE("rows of the wrong width, or of what has no rows, are refused") {
  const std::vector<float> six(6);
  check_rows(step_program(), "x", six, 3);
  CHECK_THROWS_WITH_AS(check_rows(step_program(), "x", six, 2),
                       doctest::Contains("reads x with 2 values per row; 2 rows with 6 values do not fit"), ShapeError);
  CHECK_THROWS_WITH_AS(check_rows(step_program(), "moved", six, 6), doctest::Contains("is a scalar, not rows"),
                       ShapeError);
  const Program wide = parse("dim S dynamic\nindex s:S\ninput x[S]: f64\noutput y[s] = x[s]\n");
  check_rows(wide, "x", six, 6);  // numbers become f64 on their way
  const Program whole = parse("dim S dynamic\nindex s:S\ninput x[S]: i32\noutput y[s] = x[s]\n");
  CHECK_THROWS_WITH_AS(check_rows(whole, "x", six, 6), doctest::Contains("i32"), ShapeError);
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

TEST_CASE("a session refuses dims for which an access leaves its tensor, before anything runs") {
  const Program program = parse("dim R, K dynamic\ninput x[R]\noutput y = x[K-2]\n");
  Session session(program, {{"R", 3}, {"K", 1}}, open_device("interp"));
  session.set("x", make_host_tensor(DType::f32, {3}, std::vector<double>{1, 2, 3}));
  CHECK_THROWS_AS(session.run(), ShapeError);
}
