// Singular values and vectors of square and tall matrices on every device: by LAPACK, and by rotations inside of
// kernels.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"
#include "tests/runtime/algebra_checks.h"

using namespace moxie;
using test::all_dims, test::check_devices, test::check_values;

namespace {

const std::string kHead = "dim N dynamic, M dynamic\nindex i:N, j:M, k:M, l:M\ninput x[N,M]: f64\n";
const std::string kOfMatrix =
    "output s[j]: f64 = singular_values[i,j](A[i,j])\n"
    "output U[i,j]: f64 = svd_u[i,j](A[i,j])\n"
    "output V[k,l]: f64 = svd_v[i,j](A[i,j])[k,l]\n";
/// Of full rank, with singular values that differ.
const std::string kAll =
    kHead + "let A[i,j]: f64 = x[i,j] + sin((3*i + 2)*(j + 1)*(j + i + 1)/7) + where(i == j, 3 + j, 0)\n" + kOfMatrix;

/// The largest of |A - U diag(s) V^T|, |U^T U - 1| and |V^T V - 1|.
double worst_svd_residual(const std::vector<double>& a, std::size_t rows, std::size_t columns,
                          const TensorValues& found) {
  const std::vector<double>&s = found.at("s"), &u = found.at("U"), &v = found.at("V");
  double worst = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      double residual = -a[r * columns + c];
      for (std::size_t t = 0; t < columns; ++t) residual += u[r * columns + t] * s[t] * v[c * columns + t];
      worst = std::max(worst, std::abs(residual));
    }
  }
  for (std::size_t p = 0; p < columns; ++p) {
    for (std::size_t q = 0; q < columns; ++q) {
      double of_u = p == q ? -1 : 0, of_v = of_u;
      for (std::size_t r = 0; r < rows; ++r) of_u += u[r * columns + p] * u[r * columns + q];
      for (std::size_t c = 0; c < columns; ++c) of_v += v[c * columns + p] * v[c * columns + q];
      worst = std::max({worst, std::abs(of_u), std::abs(of_v)});
    }
  }
  return worst;
}

using Element = std::function<double(double, double)>;
std::vector<double> matrix_of(std::size_t rows, std::size_t columns, const Element& at) {
  std::vector<double> x(rows * columns);
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::size_t row = k / columns;
    x[k] = at(static_cast<double>(row), static_cast<double>(k % columns));
  }
  return x;
}

}  // namespace

TEST_CASE("singular values and vectors that NumPy gives") {
  const Program program = parse(kHead + "let A[i,j]: f64 = x[i,j]\n" + kOfMatrix);
  const TensorValues inputs = {{"x", {1, 2, -3, 0.5, 0.25, 4, 2, -1, 3, 0, 1, 1.5}}};
  // numpy.linalg.svd(x, full_matrices=False), columns with the sign of the rule
  const TensorValues expected = {
      {"s", {6.189415215252043, 2.398071615263723, 1.8716014055543204}},
      {"U",
       {-0.5095161983949299, 0.8369853201462343, 0.08633041068077774, 0.6307254985934908, 0.29759232365526506,
        -0.40103995685450133, 0.5487648342135316, 0.30910022820490707, 0.739215254847754, 0.20355772087485793,
        0.33963426164749577, -0.5341112432800847}},
      {"V",
       {0.145955019644306, 0.6688632350153091, 0.7289163910116755, -0.1949389552193789, 0.741805517118905,
        -0.6416567450825488, 0.969894806656169, 0.04844117687267137, -0.2386577390418823}}};
  const DimValues dims{{"N", 4}, {"M", 3}};
  check_values(expected, evaluate(program, dims, inputs), 1e-14);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(test::run_on(device, program, dims, inputs), expected, 1e-14);
    check_values(test::run_on(device, specialise_all(program, dims), dims, inputs), expected, 1e-14);
  }
}

TEST_CASE("singular values of matrices of any size, known late or early, on every device") {
  const Program program = parse(kAll);
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {3, 0}, {1, 1}, {4, 1}, {5, 5}, {13, 7}}) {
    CAPTURE(n);
    const DimValues dims{{"N", n}, {"M", m}};
    check_devices(program, dims, 1e-10);
    check_devices(specialise_all(program, dims), dims, 1e-10);
  }
  check_devices(with_dtype(parse(kAll), DType::f32), {{"N", 9}, {"M", 6}}, 1e-4);
  check_devices(specialise_all(with_dtype(parse(kAll), DType::f32), {{"N", 9}, {"M", 6}}), {{"N", 9}, {"M", 6}}, 1e-4);
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{30, 11}, {24, 23}, {70, 63}, {90, 70}}) {
    CAPTURE(n);
    const DimValues dims{{"N", n}, {"M", m}};
    const TensorValues inputs = test::wave_inputs(program, dims);
    const TensorValues expected = evaluate(program, dims, inputs);
    if (const auto device = test::test_device("cpu"))
      check_values(test::run_on(device, specialise_all(program, dims), dims, inputs), expected, 1e-8);
  }
}

TEST_CASE("singular values of a batch in lanes, and of matrices whose axes stand the other way round") {
  const std::string rest =
      "index b:B, i:N, j:M, k:M, l:M\ninput x[B,N]: f64\n"
      "let A[j,b,i]: f64 = sin((3*j + 2)*x[b,i] + j*i) + where(i == j, 3 + 2*i, 0)\n"
      "output U[j,i,b]: f64 = svd_u[i,j](A[j,b,i])\n"
      "output V[k,b,l]: f64 = svd_v[i,j](A[j,b,i])[k,l]\n"
      "output s[j,b]: f64 = singular_values[i,j](A[j,b,i])\n";
  for (const std::int64_t b : {0, 1, 19}) {
    check_devices(parse("dim B dynamic, N = 6, M = 3\n" + rest), {{"B", b}}, 1e-10);
    check_devices(parse("dim B dynamic, N dynamic, M = 3\n" + rest), {{"B", b}, {"N", 7}}, 1e-10);
  }
}

TEST_CASE("a wide matrix is one with its indices exchanged") {
  const Program program = parse(
      "dim N = 3, M = 5\nindex i:N, j:M, p:N, q:M\ninput x[N,M]: f64\n"
      "output s[i]: f64 = singular_values[j,i](x[i,j])\n"
      "output y[i,j]: f64 = sum[k in 0..N](svd_v[q,p](x[p,q])[i,k]*s[k]*svd_u[q,p](x[p,q])[j,k]) - x[i,j]\n");
  const DimValues dims = all_dims(program, {});
  for (const auto& device : test::test_devices()) {
    const TensorValues found = test::run_on(device, program, dims, test::random_inputs(program, dims, 7));
    for (const double residual : found.at("y")) CHECK(std::abs(residual) < 1e-14);
  }
}

TEST_CASE("equal singular values, zeros and values far apart have orthonormal vectors") {
  const Program program = parse(kHead + "let A[i,j]: f64 = x[i,j]\n" + kOfMatrix);
  for (const auto& [n, m] : {std::pair<std::size_t, std::size_t>{1, 1}, {2, 2}, {5, 2}, {6, 6}, {12, 9}, {80, 70}}) {
    CAPTURE(n);
    CAPTURE(m);
    const DimValues dims{{"N", static_cast<std::int64_t>(n)}, {"M", static_cast<std::int64_t>(m)}};
    const std::vector<Element> elements = {
        [](double, double) { return 0.0; },
        [](double, double) { return 1.0; },
        [](double i, double j) { return i == j ? -2.0 : 0.0; },
        [&](double i, double j) { return i + j == static_cast<double>(m) - 1 ? 1.0 : 0.0; },
        [](double i, double j) { return std::exp2(-i - 2 * j) * (i == j ? 2.0 : 1.0); },
        [](double i, double j) { return j == 1 ? 0.0 : std::sin(i * i + 3 * j); },
        [](double i, double j) { return 1e-160 * std::cos(i + std::fmod(j, 2)); },
        [](double i, double j) { return 1e160 * std::cos(7 * i * j); },
        [](double i, double j) { return i <= j ? 1.0 : 0.0; }};
    for (std::size_t k = 0; k < elements.size(); ++k) {
      CAPTURE(k);
      const std::vector<double> x = matrix_of(n, m, elements[k]);
      const double size = *std::ranges::max_element(x, {}, [](double value) { return std::abs(value); });
      for (const auto& device : test::test_devices()) {
        // Emulators take long: one large matrix stands for all.
        if (n > 20 && device->name().starts_with("cuda") && (device->name() == "cuda-emu" || k != 4)) continue;
        CAPTURE(device->name());
        for (const Program& one : {program, specialise_all(program, dims)}) {
          const TensorValues found = test::run_on(device, one, dims, {{"x", x}});
          CHECK(std::ranges::is_sorted(found.at("s"), std::greater{}));
          CHECK(found.at("s").back() >= 0);
          CHECK(worst_svd_residual(x, n, m, found) < 1e-13 * std::max(1.0, std::abs(size)) * static_cast<double>(n));
        }
      }
    }
  }
}

TEST_CASE("singular values of a matrix that holds a NaN or an infinity end the run with the sample") {
  const Program program = parse(
      "dim B = 3, N dynamic\nindex b:B, i:N, j:N\ninput x[B,N]: f64\n"
      "output s[b,j]: f64 = singular_values[i,j](where(i == j, x[b,i], 0.5))\n"
      "output y[b]: f64 = sum[i,j](svd_u[i,j](where(i == j, x[b,i], 0.5))^2)\n");
  for (const std::string name : {"s", "y"}) {
    for (const std::int64_t n : {1, 2, 6, 70}) {
      for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        Program one = program;
        std::erase_if(one.definitions, [&](const Definition& definition) { return definition.name != name; });
        const DimValues dims = all_dims(one, {{"N", n}});
        TensorValues inputs = {{"x", std::vector<double>(static_cast<std::size_t>(3 * n), 2.0)}};
        inputs["x"][static_cast<std::size_t>(2 * n - 1)] = bad;
        for (const auto& device : test::test_devices()) {
          if (n > 20 && device->name().starts_with("cuda") && (device->name() == "cuda-emu" || !std::isnan(bad)))
            continue;
          CAPTURE(device->name());
          CHECK_THROWS_WITH_AS(
              test::run_on(device, specialise_all(one, dims), dims, inputs),
              ((name == "s" ? "s" : "y.svd") + std::string(": the singular values of the matrix are not found at b = 1 "
                                                           "(value nan); an element of it is NaN or infinite"))
                  .c_str(),
              DomainError);
        }
      }
    }
  }
}

TEST_CASE("singular values of a matrix with more columns than rows are refused") {
  const char* text =
      "singular_values takes a matrix with at least as many rows as columns, and this one has 2 rows and 3 columns";
  CHECK_THROWS_WITH_AS(verify(parse("input x[2,3]\noutput y = singular_values[i in 0..2,j in 0..3](x[i,j])[0]\n")),
                       doctest::Contains(text), ShapeError);
  const Program late = parse(
      "dim N dynamic, M dynamic\nindex i:N, j:M\ninput x[N,M]\n"
      "output s[j] = singular_values[i,j](x[i,j])\n");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    CHECK_THROWS_WITH_AS(test::run_on(device, late, {{"N", 2}, {"M", 3}}, {{"x", std::vector<double>(6)}}),
                         doctest::Contains(text), ShapeError);
  }
}

TEST_CASE("singular values and vectors of one matrix are computed once in a kernel") {
  const Program program = specialise_all(parse(kHead + "let A[i,j]: f64 = x[i,j]\n" + kOfMatrix), {{"N", 7}, {"M", 5}});
  CHECK(make_plan(program).steps.size() == 2);  // the second copies U and V to where they are asked for
}

TEST_CASE("gradients, tangents and second derivatives of singular values and vectors") {
  const Program program = parse(
      kAll +
      "output y: f64 = sum[i,j](sin(U[i,j] + i)*cos(j)) + sum[k,j](sin(V[k,j] + 2*k + j)) + sum[j](j*cos(s[j]))\n");
  const Program gradient = differentiate(program, {"y"}, {"x"});
  for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{5, 3}, {4, 4}}) {
    const DimValues dims{{"N", n}, {"M", m}};
    check_devices(gradient, dims, 1e-9);
    check_devices(specialise_all(gradient, dims), dims, 1e-9);
    const TensorValues inputs = test::random_inputs(program, dims, 3);
    CHECK(test::worst_gradient_error(program, {"y"}, {"x"}, dims, inputs) < 1e-6);
    CHECK(test::worst_tangent_error(program, {"s", "U", "V"}, {"x"}, dims, inputs) < 1e-6);
    const TensorValues more = test::random_inputs(gradient, dims, 4);
    CHECK(test::worst_gradient_error(gradient, {"grad.x"}, {"x"}, dims, more) < 1e-5);
  }
  const DimValues dims{{"N", 75}, {"M", 70}};
  const TensorValues inputs = test::wave_inputs(gradient, dims);
  if (const auto device = test::test_device("cpu"))
    check_values(test::run_on(device, gradient, dims, inputs), evaluate(gradient, dims, inputs), 1e-7);
}

TEST_CASE("equal singular values and zeros add nothing to the derivatives of their vectors") {
  const std::string rest =
      "index i:N, j:M, k:M, l:M\ninput x[N,M]: f64\n" + std::string(
                                                            "output U[i,j]: f64 = svd_u[i,j](x[i,j])\n"
                                                            "output V[k,l]: f64 = svd_v[i,j](x[i,j])[k,l]\n");
  const Program square = differentiate(parse("dim N = 2, M = 2\n" + rest), {"U", "V"}, {"x"});
  const Program tall = differentiate(parse("dim N = 3, M = 2\n" + rest), {"U", "V"}, {"x"});
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues of_equal = test::run_on(device, square, {{"N", 2}, {"M", 2}},
                                               {{"x", {2, 0, 0, 2}}, {"cot.U", {1, 2, 3, 4}}, {"cot.V", {5, 2, 1, 3}}});
    CHECK(of_equal.at("grad.x") == std::vector<double>(4));
    const TensorValues of_zero =
        test::run_on(device, tall, {{"N", 3}, {"M", 2}},
                     {{"x", std::vector<double>(6)}, {"cot.U", {1, 2, 3, 4, 5, 6}}, {"cot.V", {5, 2, 1, 3}}});
    CHECK(of_zero.at("grad.x") == std::vector<double>(6));
  }
}

TEST_CASE("a part of a result has the derivatives of this part") {
  const std::string head = "dim N = 4, M = 3\nindex i:N, j:M, k:M, l:M\ninput x[N,M]: f64\n";
  for (const std::string body :
       {"output y[p in 0..2,l]: f64 = qr_r[i,j](x[i,j] + where(i == j, 2, 0))[p,l]\n",
        "output y[p in 0..2,q in 0..2]: f64 = inverse[k,j](x[k,j]*x[j,k] + where(k == j, 4, 0))[p,q]\n",
        "output y[p in 1..3 of 3,l]: f64 = svd_v[i,j](x[i,j] + where(i == j, 3 + i, 0))[p,l]\n",
        "output y[l in 0..2]: f64 = singular_values[i,j](x[i,j] + where(i == j, 3 + i, 0))[l]\n"}) {
    CAPTURE(body);
    const Program program = parse(head + body);
    const DimValues dims = all_dims(program, {});
    CHECK(test::worst_gradient_error(program, {"y"}, {"x"}, dims, test::random_inputs(program, dims, 6)) < 1e-6);
    check_devices(differentiate(program, {"y"}, {"x"}), dims, 1e-9);
  }
}

TEST_CASE("text of singular vectors is parsed and printed, and their names are not taken") {
  const Program program = parse(kAll + "output first[k]: f64 = svd_v[i,j](A[i,j])[k,0]\n");
  CHECK(parse(print(program)) == program);
  CHECK_NOTHROW(parse("dim N\nindex i:N\ninput svd_u[N], svd_v[N]\noutput y[i] = svd_u[i]*svd_v[i]\n"));
}

TEST_CASE("LAPACK takes singular values and QR factors of single matrices earlier than those of batches") {
  const auto is_called = [](const std::string& text, std::int64_t m) {
    const Program program =
        specialise_all(parse("dim M dynamic, N = 90, B = 9\nindex i:N, j:M, b:B\n" + text), {{"M", m}});
    return std::ranges::any_of(make_plan(program).steps,
                               [](const PlanStep& step) { return std::holds_alternative<AlgebraCall>(step); });
  };
  const std::string one = "input x[N,M]\noutput s[j] = singular_values[i,j](x[i,j])\n";
  const std::string several = "input x[B,N,M]\noutput s[b,j] = singular_values[i,j](x[b,i,j])\n";
  const std::string one_q = "input x[N,M]\noutput q[i,j] = qr_q[i,j](x[i,j])\n";
  const std::string several_q = "input x[B,N,M]\noutput q[b,i,j] = qr_q[i,j](x[b,i,j])\n";
  for (const auto& [text, columns] :
       {std::pair<std::string, std::int64_t>{one, 12}, {several, 28}, {one_q, 12}, {several_q, 64}}) {
    CAPTURE(text);
    CHECK(!is_called(text, columns - 1));
    CHECK(is_called(text, columns));
  }
}
