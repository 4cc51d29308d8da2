// Powers by numbers that stand in the formula, on every device: multiplications and roots have the values of C's pow.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "compiler/ir/program.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// The same number, both NaN, or nearly the same.
bool is_near(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(got);
  return got == wanted || std::abs(got - wanted) <= tolerance * std::abs(wanted);
}

}  // namespace

TEST_CASE("powers by literals have the values of pow, special ones included") {
  const std::vector<double> bases = {0,    -0.0, 0.25,  0.7,          1,    1.5,  2,   3.3, 7, -2,
                                     -0.5, kInf, -kInf, std::nan(""), 1e-3, 12.5, 0.01};
  const DimValues dims = {{"N", static_cast<std::int64_t>(bases.size())}};
  for (const char* exponent : {"1.5", "-1.5", "2.5", "-2.5", "3.5", "-3.5", "7.5", "-7.5", "8.5", "3", "-4", "2.25"}) {
    const std::string text = std::string("dim N dynamic\nindex n:N\ninput x[N]\noutput y[n] = x[n]^") +
                             (exponent[0] == '-' ? "(" + std::string(exponent) + ")" : exponent) + "\n";
    for (const DType dtype : {DType::f64, DType::f32}) {
      const Program program = with_dtype(parse(text), dtype);
      for (const auto& device : test::test_devices()) {
        const std::vector<double> y = test::run_on(device, program, dims, {{"x", bases}}).at("y");
        for (std::size_t n = 0; n < bases.size(); ++n) {
          const double x = dtype == DType::f32 ? static_cast<float>(bases[n]) : bases[n];
          const double wanted = std::pow(x, std::stod(exponent));
          CHECK_MESSAGE(is_near(y[n], wanted, dtype == DType::f64 ? 1e-14 : 3e-6),
                        device->name() << ": " << x << "^" << exponent << " = " << y[n] << ", not " << wanted);
        }
      }
    }
  }
}
