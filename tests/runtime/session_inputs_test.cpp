// Values, shapes and dims that a session refuses.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/error.h"
#include "runtime/forward_pass.h"
#include "runtime/rows.h"
#include "runtime/session.h"
#include "runtime/trainer.h"
#include "tests/devices.h"
#include "tests/runtime/session_program.h"
#include "tests/setting.h"

using namespace moxie;
using moxie::test::step_program;
using moxie::test::tensor;
using Values = std::vector<double>;

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
  try {
    session.set("x", tensor({1, 2}, {1, -2}));
    FAIL("-2 is taken for a number that is not negative");
  } catch (const DataError& error) {
    const ErrorDetails& details = error.details();
    CHECK(details.problem == "x[0,1] = -2, but x is declared >= 0");
    CHECK(details.name == "x");
    CHECK(details.expected == ">= 0");
    CHECK(details.found == "-2");
    CHECK(details.remedy == "give other values, or declare another domain in the formula");
  }
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

TEST_CASE("of two bounds, both hold, and an open one is outside in every dtype") {
  const Program program = parse(
      "input p >= 0 and <= 1, rho > -1 and < 1, r: f64 > -1 and < 1, h: f16 > 0 and <= 0.1, k: u8 > 2 and <= 9, m: u8 "
      "> 255\n"
      "output y = p\n");
  Session session(program, {}, open_device("interp"));
  const auto takes = [&](const char* input, DType dtype, double value) {
    try {
      session.set(input, make_host_tensor(dtype, {}, Values{value}));
      return true;
    } catch (const DataError&) {
      return false;
    }
  };
  for (const double value : {0.0, -0.0, 0.5, 1.0}) CHECK(takes("p", DType::f32, value));
  for (const double value : {-1e-30, 1.0000002, std::numeric_limits<double>::infinity(), std::nan("")})
    CHECK_FALSE(takes("p", DType::f32, value));
  CHECK(takes("rho", DType::f32, std::nextafter(1.0F, 0.0F)));
  CHECK_FALSE(takes("rho", DType::f32, 1));
  CHECK_FALSE(takes("rho", DType::f32, -1));
  CHECK(takes("r", DType::f64, std::nextafter(-1.0, 0.0)));
  CHECK_FALSE(takes("r", DType::f64, -1));
  CHECK(takes("h", DType::f16, 0.1));  // the bound is rounded as the value is
  CHECK_FALSE(takes("h", DType::f16, 0));
  CHECK(takes("k", DType::u8, 3));
  CHECK(takes("k", DType::u8, 9));
  CHECK_FALSE(takes("k", DType::u8, 2));
  CHECK_FALSE(takes("k", DType::u8, 10));
  CHECK_FALSE(takes("m", DType::u8, 255));
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

TEST_CASE("a session refuses dims for which an access leaves its tensor, before anything runs") {
  const Program program = parse("dim R, K dynamic\ninput x[R]\noutput y = x[K-2]\n");
  Session session(program, {{"R", 3}, {"K", 1}}, open_device("interp"));
  session.set("x", make_host_tensor(DType::f32, {3}, std::vector<double>{1, 2, 3}));
  CHECK_THROWS_AS(session.run(), ShapeError);
}

TEST_CASE("a dim that no input shows is asked for by name") {
  const Program program = parse("dim S dynamic, T dynamic\nindex s:S\ninput x[S]\noutput y[s] = x[s]*T\n", "scaled");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.set("x", tensor({3}, {1, 2, 3}));
    const auto run = [&] {
      session.run();
      session.wait();
    };
    CHECK_THROWS_WITH_AS(run(), doctest::Contains("dim T has no value: no input shows it"), ShapeError);
  }
}
