// Gradients of extrema and products: ties, NaN, empty ranges, zeros; linear work; the same on every device.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "compiler/diff/differentiate.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool same(double got, double expected, double epsilon) {
  if (std::isnan(expected)) return std::isnan(got);
  return got == expected || got == doctest::Approx(expected).epsilon(epsilon);
}

/// The gradient of y with respect to x, ready to run on every device. Kept, as the emulator takes long to compile: on
/// it runs single precision alone.
struct Compiled {
  Program program;
  std::vector<std::pair<std::string, Session>> sessions;
};

Compiled& compiled(const std::string& text, DType dtype) {
  // Never destroyed: devices may be gone before it.
  static auto& all = *new std::map<std::pair<std::string, DType>, Compiled>;
  const auto [entry, is_new] = all.try_emplace({text, dtype});
  Compiled& result = entry->second;
  if (!is_new) return result;
  result.program = differentiate(with_dtype(parse(text), dtype), {"y"}, {"x"});
  REQUIRE(print(parse(print(result.program))) == print(result.program));
  for (const auto& device : test_devices()) {
    if (device->name() == "cuda-emu" && dtype == DType::f64) continue;
    result.sessions.emplace_back(device->name(), Session(result.program, {}, device));
  }
  return result;
}

/// By evaluate(); all devices agree with it.
std::vector<double> gradient(const std::string& text, const DimValues& dims, const std::vector<double>& x,
                             const std::vector<double>& cotangent, DType dtype) {
  Compiled& formula = compiled(text, dtype);
  const TensorValues inputs{{"x", x}, {"cot.y", cotangent}};
  const std::vector<double> expected = evaluate(formula.program, dims, inputs).at("grad.x");
  for (auto& [device, session] : formula.sessions) {
    for (const auto& [name, values] : inputs)
      session.set(name, make_host_tensor(dtype, extents_of(formula.program, name, dims), values));
    session.run();
    const std::vector<double> got = to_doubles(session.get("grad.x"));
    REQUIRE(got.size() == expected.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      INFO(text, device, " ", to_string(dtype), ": grad.x[", k, "] is ", got[k], ", not ", expected[k]);
      CHECK(same(got[k], expected[k], dtype == DType::f32 ? 1e-5 : 1e-12));
    }
  }
  return expected;
}

/// Of a scalar y, with the cotangent 1.
void check_gradient(const std::string& text, const DimValues& dims, const std::vector<double>& x,
                    const std::vector<double>& expected) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::vector<double> got = gradient(text, dims, x, {1}, dtype);
    INFO(text);
    REQUIRE(got.size() == expected.size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      INFO("grad.x[", k, "] is ", got[k], ", not ", expected[k]);
      CHECK(same(got[k], expected[k], 1e-6));
    }
  }
}

const std::string kMax = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = max[i](x[i])\n";
const std::string kMin = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = min[i](x[i])\n";
const std::string kProduct = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = prod[i](x[i])\n";

}  // namespace

TEST_CASE("the first extremum takes the whole gradient") {
  check_gradient(kMax, {{"N", 4}}, {1, 2, 2, 0}, {0, 1, 0, 0});
  check_gradient(kMin, {{"N", 4}}, {1, 0, 2, 0}, {0, 1, 0, 0});
  check_gradient(kMax, {{"N", 2}}, {0.0, -0.0}, {1, 0});
  check_gradient(kMax, {{"N", 1}}, {5}, {1});
  check_gradient(kMax, {{"N", 0}}, {}, {});
}

TEST_CASE("an infinite extremum takes the gradient, also where it equals the extremum of nothing") {
  check_gradient(kMax, {{"N", 3}}, {1, kInf, kInf}, {0, 1, 0});
  check_gradient(kMax, {{"N", 3}}, {-kInf, -kInf, -kInf}, {1, 0, 0});
  check_gradient(kMin, {{"N", 2}}, {kInf, kInf}, {1, 0});
  // The first row has no element.
  const std::string triangle = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = max[i](max[j in 0..i](x[j]))\n";
  check_gradient(triangle, {{"N", 3}}, {-kInf, -kInf, -kInf}, {1, 0, 0});
  check_gradient(triangle, {{"N", 3}}, {1, 2, 7}, {0, 1, 0});
}

TEST_CASE("the first NaN takes the gradient") {
  check_gradient(kMax, {{"N", 4}}, {1, kNaN, 7, kNaN}, {0, 1, 0, 0});
  check_gradient(kMin, {{"N", 4}}, {kNaN, -kInf, 7, kNaN}, {1, 0, 0, 0});
}

TEST_CASE("of equal elements the first in the list of indices takes the gradient") {
  const std::string list =
      "dim N dynamic, M dynamic\nindex i:N, j:M\ninput x[N,M]\noutput y = max[i,j in 1..M](x[i,j])\n";
  check_gradient(list, {{"N", 2}, {"M", 3}}, {9, 1, 5, 9, 5, 5}, {0, 0, 1, 0, 0, 0});
  const std::string fixed = "index i in 0..2, j in -1..2\ninput x[2,3]\noutput y = min[i,j](x[i,j+1])\n";
  check_gradient(fixed, {}, {4, 1, 5, 9, 1, 1}, {0, 1, 0, 0, 0, 0});
  const std::string ragged = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = max[i](max[j in i..N](x[j]))\n";
  check_gradient(ragged, {{"N", 3}}, {2, 3, 3}, {0, 1, 0});
}

TEST_CASE("a log-sum-exp of nothing but -inf has the slope 0") {
  const std::string row = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = logsumexp[i](x[i])\n";
  check_gradient(row, {{"N", 2}}, {-kInf, -kInf}, {0, 0});
  check_gradient(row, {{"N", 3}}, {-kInf, 2, -kInf}, {0, 1, 0});
  // Cells that no path has reached yet are -inf.
  const std::string paths =
      "index t in 0..3, s in 0..2\ninput x[3,2]\n"
      "scan t {\n  let b[t,s] = logsumexp[k in 0..2](where(t >= 1 and s-k >= 0, a[t-1,s-k], -inf))\n"
      "  let a[t,s] = x[t,s] + where(t == 0, where(s == 0, 0, -inf), b[t,s])\n}\noutput y = a[2,0]\n";
  check_gradient(paths, {}, {1, 2, 3, 4, 5, 6}, {1, 0, 1, 0, 1, 0});
}

TEST_CASE("the slope of a log-sum-exp is the softmax that the text has") {
  const std::string text = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = logsumexp[i](x[i])\n";
  const auto clamps = [](const std::string& program) {
    return print(differentiate(parse(program), {"y"}, {"x"})).find("max(y") != std::string::npos;
  };
  CHECK(clamps(text));
  CHECK_FALSE(clamps(text + "output p[i] = exp(x[i] - y)\n"));
}

TEST_CASE("windows that overlap add up") {
  const std::string text = "dim N dynamic\nindex i:N\ninput x[N+2]\noutput y[i] = max[k in 0..3](x[i+k])\n";
  for (const DType dtype : {DType::f32, DType::f64}) {
    CHECK(gradient(text, {{"N", 4}}, {1, 3, 3, 1, 1, 0}, {1, 2, 4, 8}, dtype) == std::vector<double>{0, 3, 4, 8, 0, 0});
  }
}

TEST_CASE("a gradient is not lost where equal elements are rounded differently") {
  // The sum of the constant term may be computed as a product where rewrites see that it is constant, but not
  // elsewhere.
  const std::string text =
      "dim M = 5\nindex i:M\ninput x\noutput y = min[i](sum[q in 0..33](where(i == 1, 0.1, 0.1) + x))\n";
  for (const DType dtype : {DType::f32, DType::f64}) CHECK(gradient(text, {{"M", 5}}, {0.7}, {1}, dtype)[0] == 33);
}

TEST_CASE("positions beyond 2^24 are told apart in single precision") {
  const std::string text = "dim N dynamic\ninput x[N]\noutput y = max[i in 16777216..N+16777216](x[i-16777216])\n";
  check_gradient(text, {{"N", 4}}, {0, 1, 1, 0}, {0, 1, 0, 0});
}

TEST_CASE("products with zeros, infinite factors and NaN") {
  check_gradient(kProduct, {{"N", 3}}, {5, 4, 2}, {8, 10, 20});
  check_gradient(kProduct, {{"N", 3}}, {5, 0, 2}, {0, 10, 0});
  check_gradient(kProduct, {{"N", 3}}, {0, 0, 2}, {0, 0, 0});
  check_gradient(kProduct, {{"N", 4}}, {0, -2, 0, 0}, {0, 0, 0, 0});
  check_gradient(kProduct, {{"N", 1}}, {0}, {1});
  check_gradient(kProduct, {{"N", 2}}, {0, 3}, {3, 0});
  check_gradient(kProduct, {{"N", 3}}, {2, kInf, -3}, {-kInf, -6, kInf});
  check_gradient(kProduct, {{"N", 4}}, {kInf, 3, -kInf, kInf}, {-kInf, -kInf, kInf, -kInf});
  check_gradient(kProduct, {{"N", 3}}, {2, kNaN, 3}, {kNaN, 6, kNaN});
}

TEST_CASE("the gradient of a product in single precision stays in range where the product does") {
  check_gradient(kProduct, {{"N", 4}}, {1e30, 1e-30, 1e30, 1e-30}, {1e-30, 1e30, 1e-30, 1e30});
  check_gradient(kProduct, {{"N", 6}}, {1e-20, 1e20, 1e-20, 1e20, 1e-20, 1e20},
                 {1e20, 1e-20, 1e20, 1e-20, 1e20, 1e-20});
}

TEST_CASE("products over several indices") {
  const std::string text = "dim N dynamic, M dynamic\nindex i:N, j:M\ninput x[N,M]\noutput y = prod[i,j](x[i,j])\n";
  check_gradient(text, {{"N", 2}, {"M", 2}}, {2, 3, 0, 7}, {0, 0, 42, 0});
  const std::string triangle = "dim N dynamic\nindex i:N\ninput x[N]\noutput y = prod[i](prod[j in 0..i](x[j]))\n";
  check_gradient(triangle, {{"N", 3}}, {3, 5, 0}, {30, 9, 0});
}

TEST_CASE("second derivatives of products with zeros") {
  const Program first = differentiate(with_dtype(parse(kProduct), DType::f64), {"y"}, {"x"});
  const Program second = differentiate(first, {"grad.x"}, {"x"});
  const auto row = [&](const std::vector<double>& x, std::size_t k) {
    std::vector<double> direction(x.size());
    direction[k] = 1;
    const auto n = static_cast<std::int64_t>(x.size());
    return evaluate(second, {{"N", n}}, {{"x", x}, {"cot.y", {1}}, {"cot.grad.x", direction}}).at("grad.x_2");
  };
  for (const std::vector<double>& x :
       {std::vector<double>{2, 3, 5, 7}, {2, 0, 5, 7}, {0, 3, 0, 7}, {0, 3, 0, 0}, {0, 0, 0, 0}}) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::vector<double> got = row(x, i);
      for (std::size_t j = 0; j < x.size(); ++j) {
        double expected = i == j ? 0 : 1;
        for (std::size_t k = 0; k < x.size(); ++k) expected *= k == i || k == j ? 1 : x[k];
        INFO("d2/dx", i, "dx", j, " at ", x[0], ", ", x[1], ", ", x[2], ", ", x[3]);
        CHECK(got[j] == doctest::Approx(expected));
      }
    }
  }
}

TEST_CASE("extrema and products inside scans") {
  const std::string text = R"(dim T dynamic, N
index t:T, n:N
input x[T,N]
scan t {
  let top[t] = max[n](where(t == 0, x[t,n], h[t-1,n]*x[t,n]))
  output h[t,n] = tanh(x[t,n]*top[t]) + 0.1*prod[m in 0..N](x[t,m] + top[t])
}
)";
  const Program program = with_dtype(parse(text), DType::f64);
  const DimValues dims{{"T", 4}, {"N", 3}};
  CHECK(worst_gradient_error(program, {"h"}, {}, dims, random_inputs(program, dims, 3)) < 1e-7);
}

TEST_CASE("second derivatives of extrema") {
  const std::string text =
      "dim N dynamic\nindex i:N, j:N\ninput x[N,N]\n"
      "output y[i] = max[j](x[i,j]^2)*min[j](sin(x[j,i]) + x[i,j]) + prod[j](x[i,j]*max[k in 0..j+1](x[i,k]))\n";
  const Program program = with_dtype(parse(text), DType::f64);
  const DimValues dims{{"N", 3}};
  const Program first = differentiate(program, {"y"}, {});
  CHECK(worst_gradient_error(program, {"y"}, {}, dims, random_inputs(program, dims, 3)) < 1e-7);
  CHECK(worst_gradient_error(first, {"grad.x"}, {}, dims, random_inputs(first, dims, 4)) < 1e-6);
}

TEST_CASE("gradients of reductions take linear work") {
  const auto operations = [](const std::string& body, std::int64_t n) {
    const std::string text = "dim N dynamic\nindex i:N, j:N\ninput x[N], w\noutput y = " + body + "\n";
    const Program program = differentiate(with_dtype(parse(text), DType::f64), {"y"}, {});
    constexpr std::uint64_t kAll = 1'000'000'000;
    EvaluationBudget budget{kAll};
    std::vector<double> x(static_cast<std::size_t>(n));
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = std::sin(static_cast<double>(k));
    evaluate(program, {{"N", n}}, {{"x", x}, {"w", {1}}, {"cot.y", {1}}}, 0, 0, {}, &budget);
    return static_cast<double>(kAll - budget.operations);
  };
  for (const char* kind : {"sum", "max", "min", "prod", "logsumexp"}) {
    const std::string reduction = std::string(kind) + "[i](x[i]*w)";
    INFO(reduction);
    CHECK(operations(reduction, 400) < 2.2 * operations(reduction, 200));
    CHECK(operations("exp(" + reduction + ")*w", 400) < 2.2 * operations("exp(" + reduction + ")*w", 200));
    // Quadratic, as the formula is.
    const std::string nested = std::string(kind) + "[i,j](x[i]*w + x[j])";
    CHECK(operations(nested, 80) < 4.4 * operations(nested, 40));
    const std::string summed = "sum[i](x[i]*" + std::string(kind) + "[j](x[i]*w + x[j]))";
    CHECK(operations(summed, 80) < 4.4 * operations(summed, 40));
  }
}
