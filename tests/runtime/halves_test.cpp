// f16 and bf16: stored in 16 bits, computed in f32, on every device.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/arithmetic/half.h"
#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/host.h"
#include "runtime/session.h"
#include "tests/devices.h"

using namespace moxie;
using Values = std::vector<double>;
using Bits = std::vector<std::uint16_t>;

namespace {

struct Format {
  DType dtype;
  int mantissa;  // bits
  int least;     // the exponent of the smallest normal number
  std::uint16_t infinity;
};

constexpr Format kFormats[] = {{DType::f16, 10, -14, 0x7c00}, {DType::bf16, 7, -126, 0x7f80}};

/// The magnitude of a finite element, by its definition.
double magnitude_of(const Format& format, std::uint16_t bits) {
  const int exponent = bits >> format.mantissa, ones = 1 << format.mantissa, fraction = bits % ones;
  const double significand = exponent == 0 ? fraction : fraction + ones;
  return std::ldexp(significand, std::max(exponent, 1) - 1 + format.least - format.mantissa);
}

struct Case {
  float value;
  std::uint16_t bits;
};

/// Elements, the numbers halfway to the next ones, which become the even ones, and those next to them.
std::vector<Case> cases_of(const Format& format) {
  std::vector<Case> cases;
  const auto both = [&](float value, int bits) {
    cases.push_back({value, static_cast<std::uint16_t>(bits)});
    cases.push_back({-value, static_cast<std::uint16_t>(bits | 0x8000)});
  };
  const double beyond = std::ldexp(1, format.dtype == DType::f16 ? 16 : 127);
  for (int bits = 0; bits < format.infinity; bits += bits < 1100 || bits > format.infinity - 40 ? 1 : 61) {
    const auto low = magnitude_of(format, static_cast<std::uint16_t>(bits));
    const bool is_last = bits + 1 == format.infinity;
    if (is_last && format.dtype == DType::bf16) continue;  // the next number is no float
    const double high = is_last ? beyond : magnitude_of(format, static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);
    both(static_cast<float>(low), bits);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // below the smallest float
    both(middle, bits % 2 == 0 ? bits : bits + 1);
    both(std::nextafter(middle, 0.0F), bits);
    both(std::nextafter(middle, std::numeric_limits<float>::infinity()), bits + 1);
  }
  both(std::numeric_limits<float>::infinity(), format.infinity);
  both(std::numeric_limits<float>::max(), format.infinity);
  return cases;
}

bool is_subnormal_float(float value) { return value != 0 && std::abs(value) < std::numeric_limits<float>::min(); }

Bits bits_of(const HostTensor& tensor) {
  Bits bits(tensor.data.size() / 2);
  std::memcpy(bits.data(), tensor.data.data(), tensor.data.size());
  return bits;
}

HostTensor floats(const std::vector<Case>& cases) {
  HostTensor x{DType::f32, {static_cast<std::int64_t>(cases.size())}, std::vector<std::byte>(4 * cases.size())};
  for (std::size_t k = 0; k < cases.size(); ++k) std::memcpy(x.data.data() + 4 * k, &cases[k].value, 4);
  return x;
}

/// Processors without AVX2 have no instructions for f16.
std::vector<std::shared_ptr<Device>> devices() {
  auto all = test::test_devices();
#ifdef MOXIE_TEST_CPU
  for (const MachineLevel& level : machine_levels())
    if (host_supports(level.name))
      all.push_back(make_cpu_device({.threads = 1, .cache_directory = "0"}, level.machine));
#endif
  return all;
}

void check_close(const Values& found, const Values& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    CAPTURE(k);
    CHECK(found[k] == doctest::Approx(expected[k]).epsilon(tolerance).scale(1));
  }
}

}  // namespace

TEST_CASE("16 bits are the nearest number, halves to even") {
  for (const Format& format : kFormats) {
    CAPTURE(to_string(format.dtype));
    const bool is_f16 = format.dtype == DType::f16;
    for (const auto& [value, bits] : cases_of(format)) {
      CAPTURE(value);
      CHECK((is_f16 ? f16_bits(value) : bf16_bits(value)) == bits);
    }
    for (int bits = 0; bits < format.infinity; ++bits) {
      const auto element = static_cast<std::uint16_t>(bits), negative = static_cast<std::uint16_t>(bits | 0x8000);
      const double expected = magnitude_of(format, element);
      CHECK((is_f16 ? f16_value(element) : bf16_value(element)) == expected);
      CHECK((is_f16 ? f16_value(negative) : bf16_value(negative)) == -expected);
    }
    const float nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(is_f16 ? f16_value(f16_bits(nan)) : bf16_value(bf16_bits(nan))));
    CHECK(std::isnan(bf16_value(bf16_bits(std::bit_cast<float>(0x7f800001)))));
  }
}

TEST_CASE("devices store the nearest number and read what is stored") {
  for (const Format& format : kFormats) {
    CAPTURE(to_string(format.dtype));
    const std::string dtype = to_string(format.dtype);
    const Program program = parse("dim S dynamic\nindex s:S\ninput x[S], h[S]: " + dtype + "\noutput y[s]: " + dtype +
                                  " = x[s]\noutput z[s] = h[s]\noutput w[s]: f64 = f64(h[s])");
    const std::vector<Case> cases = cases_of(format);
    const HostTensor x = floats(cases);
    HostTensor h{format.dtype, x.shape, std::vector<std::byte>(2 * cases.size())};
    for (std::size_t k = 0; k < cases.size(); ++k) std::memcpy(h.data.data() + 2 * k, &cases[k].bits, 2);
    for (const auto& device : devices()) {
      CAPTURE(device->name());
      Session session(program, {}, device);
      session.set("x", x);
      session.set("h", h);
      session.run();
      const Bits found = bits_of(session.get("y"));
      const Values read = to_doubles(session.get("z")), wide = to_doubles(session.get("w")), expected = to_doubles(h);
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < cases.size(); ++k) {
        // A kernel in single precision may take subnormal floats for zeros.
        if (is_subnormal_float(cases[k].value) || is_subnormal_float(static_cast<float>(expected[k]))) continue;
        const bool is_right = found[k] == cases[k].bits && read[k] == expected[k] && wide[k] == expected[k];
        if (!is_right && wrong++ < 3) {
          CAPTURE(cases[k].value);
          CHECK(found[k] == cases[k].bits);
          CHECK(read[k] == expected[k]);
          CHECK(wide[k] == expected[k]);
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("NaN stays NaN in 16 bits") {
  const Program program =
      parse("dim S dynamic\nindex s:S\ninput x[S]\noutput a[s]: f16 = x[s]\noutput b[s]: bf16 = x[s]");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& device : devices()) {
    CAPTURE(device->name());
    Session session(program, {}, device);
    session.set("x", floats(std::vector<Case>(19, {nan, 0})));
    session.run();
    for (const char* output : {"a", "b"}) {
      for (const double value : to_doubles(session.get(output))) CHECK(std::isnan(value));
    }
  }
}

TEST_CASE("formulas of 16 bits and their gradients") {
  for (const Format& format : kFormats) {
    const std::string t = std::string(": ") + to_string(format.dtype);
    CAPTURE(t);
    const double tolerance = format.dtype == DType::f16 ? 2e-3 : 1.6e-2;
    const Program program = parse(
        "dim S dynamic, N = 24, M = 5\nindex s:S, n:N, m:M\n"
        "input x[S,N]" +
        t + ", w[N,M]" + t +
        ", b[M]\n"
        "let h[s,m]" +
        t +
        " = tanh(sum[n](x[s,n]*w[n,m]) + b[m])\n"
        "output y[s,m]" +
        t +
        " = h[s,m]/sum[k in 0..M](exp(h[s,k]))\n"
        "output total = sum[s,m](h[s,m]^2)\n"
        "output turned[n,s]" +
        t +
        " = x[s,N-1-n]\n"
        "output steps[s, k in 0..M]" +
        t + " = x[s,2*k] + where(k > 0, x[s,k-1], 0)");
    const Program gradients = differentiate(program, {"y", "total"}, {"x", "w", "b"});
    CHECK(gradients.dtype_of("grad.x") == format.dtype);
    CHECK(gradients.dtype_of("cot.y") == format.dtype);
    CHECK(gradients.dtype_of("grad.b") == DType::f32);
    CHECK(print(parse(print(gradients))) == print(gradients));
    const DimValues dims = {{"S", 21}, {"N", 24}, {"M", 5}};
    TensorValues inputs = test::wave_inputs(gradients, dims);
    for (const InputDecl& input : gradients.inputs)
      for (double& value : inputs.at(input.name)) value = stored_value(input.dtype, value / 3);
    for (const Program& one : {program, gradients}) {
      const TensorValues expected = evaluate(one, dims, inputs);
      for (const auto& device : devices()) {
        CAPTURE(device->name());
        for (const auto& [name, values] : test::run_on(device, one, dims, inputs)) {
          CAPTURE(name);
          check_close(values, expected.at(name), tolerance);
        }
      }
    }
  }
}

TEST_CASE("matrix products and linear algebra of 16 bits") {
  const Program program = parse(R"(
    dim S, N, M
    index s:S, n:N, m:M, k:S
    input x[S,N]: f16, w[N,M]: bf16
    output y[s,m]: f16 = sum[n](x[s,n]*w[n,m])
    let a[s,k]: f16 = sum[n](x[s,n]*x[k,n])/N + where(s == k, 2, 0)
    output inv[s,k]: f16 = inverse[s,k](a[s,k])
    output order[s,n]: i32 = argsort[n](x[s,n])
    output recurrent: f16 = logdet[s,k](a[s,k])
  )");
  const DimValues dims = {{"S", 70}, {"N", 80}, {"M", 90}};
  TensorValues inputs = test::wave_inputs(program, dims);
  for (const InputDecl& input : program.inputs)
    for (double& value : inputs.at(input.name)) value = stored_value(input.dtype, value);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : devices()) {
    CAPTURE(device->name());
    for (const auto& [name, values] : test::run_on(device, program, dims, inputs)) {
      CAPTURE(name);
      check_close(values, expected.at(name), name == "recurrent" ? 1e-3 : 2e-3);
    }
  }
}

TEST_CASE("a recurrence carries 16 bits, and no subscript is one") {
  const Program program = parse(
      "dim T = 40, N = 9\nindex n:N\ninput x[T,N]: bf16\n"
      "scan t {\nlet h[t in 0..T,n]: bf16 = where(t > 0, 0.5*h[t-1,n], 0) + x[t,n]\n}\n"
      "output last[n] = h[T-1,n]");
  const DimValues dims = {{"T", 40}, {"N", 9}};
  TensorValues inputs = test::wave_inputs(program, dims);
  for (double& value : inputs.at("x")) value = stored_value(DType::bf16, value);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : devices()) {
    CAPTURE(device->name());
    check_close(test::run_on(device, program, dims, inputs).at("last"), expected.at("last"), 1e-2);
  }
  CHECK_THROWS_WITH_AS(parse("dim S, V\nindex s:S\ninput x[V], i[S]: f16\noutput y[s] = x[i[s]]"),
                       doctest::Contains("`i` holds numbers of dtype f16; a subscript is an integer"), TypeError);
  CHECK_THROWS_AS(parse("dtype f16\ninput x\noutput y = x"), TypeError);
}
