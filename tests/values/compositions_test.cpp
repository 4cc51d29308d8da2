// The functions that are compositions of others, against mpmath (40 digits), with their slopes, on every device.
#include <doctest/doctest.h>

#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/support/error.h"
#include "tests/devices.h"

using namespace moxie;
using namespace moxie::test;

namespace {

struct Composition {
  const char* function;
  std::vector<double> arguments, values, slopes;
};

const std::vector<Composition> kCompositions = {
    {"log_sigmoid(u[k])",
     {-30, -3.5, -1, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {-30.000000000000094, -3.5297504182726206, -1.3132616875182228, -0.97407698418010668, -0.6931476573972172,
      -0.69314718055994531, -0.69314670372290079, -0.57593941987884356, -0.47407698418010668, -0.31326168751822283,
      -0.078889734292549623, -9.3576229688397368e-14},
     {0.99999999999990642, 0.97068776924864368, 0.73105857863000488, 0.62245933120185456, 0.5000002384185791, 0.5,
      0.4999997615814209, 0.4378234991142019, 0.37754066879814544, 0.26894142136999512, 0.075858180021243551,
      9.357622968839299e-14}},
    {"silu(u[k])",
     {-30, -3.5, -1, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {-2.8072868906517897e-12, -0.10259280762974712, -0.26894142136999512, -0.18877033439907272, -4.7683693082944956e-7,
      0, 4.7683738557680044e-7, 0.14054412522144953, 0.31122966560092728, 0.73105857863000488, 2.3103545499468911,
      29.999999999997193},
     {-2.713710660963134e-12, -0.070273352827718141, 0.072329488128513268, 0.26003881269734819, 0.4999995231628418, 0.5,
      0.5000004768371582, 0.62371002157019769, 0.73996118730265181, 0.92767051187148673, 1.0994011113415268,
      1.0000000000027137}},
    {"gelu(u[k])",
     {-5, -3.5, -1, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {-1.4332578593959696e-6, -0.00081420177662433763, -0.15865525393145705, -0.15426876936299345,
      -4.7683679536723466e-7, 0, 4.7683752103901534e-7, 0.14967658142073093, 0.34573123063700655, 0.84134474606854295,
      2.4844758366855597, 30},
     {-7.1469460017922946e-6, -0.0028217603536246352, -0.083315470587686298, 0.13250487534383716, 0.49999923907798691,
      0.5, 0.50000076092201309, 0.69537335488363603, 0.86749512465616284, 1.0833154705876863, 1.0376110859081452, 1}},
    {"sinh(u[k])",
     {-30, -3.5, -1, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {-5343237290762.2311, -16.542627287634998, -1.1752011936438015, -0.52109530549374736, -9.5367431640639456e-7, 0,
      9.5367431640639456e-7, 0.25261231680816831, 0.52109530549374736, 1.1752011936438015, 6.0502044810397873,
      5343237290762.2311},
     {5343237290762.2311, 16.572824671057316, 1.5430806348152438, 1.1276259652063808, 1.0000000000004547, 1,
      1.0000000000004547, 1.0314130998795732, 1.1276259652063808, 1.5430806348152438, 6.1322894796636861,
      5343237290762.2311}},
    {"cosh(u[k])",
     {-30, -3.5, -1, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {5343237290762.2311, 16.572824671057316, 1.5430806348152438, 1.1276259652063808, 1.0000000000004547, 1,
      1.0000000000004547, 1.0314130998795732, 1.1276259652063808, 1.5430806348152438, 6.1322894796636861,
      5343237290762.2311},
     {-5343237290762.2311, -16.542627287634998, -1.1752011936438015, -0.52109530549374736, -9.5367431640639456e-7, 0,
      9.5367431640639456e-7, 0.25261231680816831, 0.52109530549374736, 1.1752011936438015, 6.0502044810397873,
      5343237290762.2311}},
    {"tan(u[k])",
     {-30, -3.5, -1, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {6.4053311966462758, -0.37458564015859467, -1.5574077246549022, -0.54630248984379051, -9.5367431640653912e-7, 0,
      9.5367431640653912e-7, 0.25534192122103627, 0.54630248984379051, 1.5574077246549022, -0.74702229723866028,
      -6.4053311966462758},
     {42.028267738730011, 1.1403144018130242, 3.4255188208147598, 1.2984464104095248, 1.0000000000009095, 1,
      1.0000000000009095, 1.0651994967328499, 1.2984464104095248, 3.4255188208147598, 1.5580423125717253,
      42.028267738730011}},
    {"log10(u[k])",
     {8.673617379884035e-19, 0.0009765625, 0.25, 0.5, 0.75, 1, 1.5, 2, 10, 1000, 123456, 1.2089258196146292e+24},
     {-18.061799739838872, -3.010299956639812, -0.60205999132796239, -0.3010299956639812, -0.12493873660829995, 0,
      0.17609125905568124, 0.3010299956639812, 1, 3, 5.0915122016277717, 24.082399653118496},
     {5.0070744751834817e+17, 444.71754946892987, 1.7371779276130073, 0.86858896380650366, 0.57905930920433577,
      0.43429448190325183, 0.28952965460216789, 0.21714724095162591, 0.043429448190325183, 0.00043429448190325183,
      3.5178078173863711e-6, 3.5923997556913164e-25}},
    {"log1mexp(u[k])",
     {-60, -20, -3.5, -1, -0.75, -0.5, -0.25, -0.125, -0.0009765625, -9.5367431640625e-07, -9.313225746154785e-10, -5},
     {-8.7565107626965172e-27, -2.061153624562735e-9, -0.030662716255459634, -0.45867514538708189, -0.63935346504035394,
      -0.93275212956718857, -1.5086915494460321, -2.1412905847632012, -6.9319600471130236, -13.862944088036026,
      -20.794415417264021, -0.0067607494494885578},
     {-8.7565107626965203e-27, -2.0611536266869121e-9, -0.031137659257799786, -0.58197670686932642,
      -0.89525513440234352, -1.5414940825367983, -3.5208116641877985, -7.5104139550018407, -1023.500081380207,
      -1048575.5000000795, -1073741823.5, -0.0067836549063042311}},
    {"round(u[k])",
     {-2.5, -1.5, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 1.5, 2.5, 3.75, 1000000},
     {-2, -2, -1, 0, 0, 0, 0, 0, 2, 2, 4, 1000000},
     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
    {"clamp(u[k], -1, 2)",
     {-30, -3.5, -0.5, -9.5367431640625e-07, 0, 9.5367431640625e-07, 0.25, 0.5, 1, 2.5, 30},
     {-1, -1, -0.5, -9.5367431640625e-7, 0, 9.5367431640625e-7, 0.25, 0.5, 1, 2, 2},
     {0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}},
};

Program program_of(const std::string& function, DType dtype) {
  return with_dtype(parse("dim K\nindex k:K\ninput u[K]\noutput y[k] = " + function + "\n"), dtype);
}

void check_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t k = 0; k < got.size(); ++k) {
    INFO("element ", k, ": ", got[k], " instead of ", expected[k]);
    CHECK(std::abs(got[k] - expected[k]) <= tolerance * std::abs(expected[k]));
  }
}

void check_values(const std::shared_ptr<Device>& device, DType dtype, double tolerance) {
  for (const Composition& row : kCompositions) {
    INFO(row.function, " in ", to_string(dtype), device ? " on " + device->name() : std::string());
    const Program program = differentiate(program_of(row.function, dtype), {"y"}, {}, true);
    const TensorValues inputs = {{"u", row.arguments}, {"cot.y", std::vector<double>(row.arguments.size(), 1)}};
    const DimValues dims = {{"K", static_cast<std::int64_t>(row.arguments.size())}};
    const TensorValues got = device ? run_on(device, program, dims, inputs) : evaluate(program, dims, inputs);
    check_near(got.at("y"), row.values, tolerance);
    check_near(got.at("grad.u"), row.slopes, tolerance);
  }
}

}  // namespace

TEST_CASE("compositions have the values and slopes of mpmath") { check_values(nullptr, DType::f64, 2e-14); }

TEST_CASE("compositions have the values and slopes of mpmath, on every device") {
  for (const auto& device : test_devices()) {
    check_values(device, DType::f64, 2e-14);
    check_values(device, DType::f32, 1e-5);
  }
}

TEST_CASE("softmax and means do not overflow, on every device") {
  const std::string text =
      "dtype f64\ndim S, K\nindex s:S, k:K\ninput x[S,K]\noutput p[s,k] = softmax[k](x[s,k])\n"
      "output l[s,k] = log_softmax[k](x[s,k])\noutput m[s] = mean[k](x[s,k])\noutput t[k] = [1, 2, 5][k]\n";
  const TensorValues inputs = {{"x", {1000, 1000, 1000 - std::log(2.0), -1e6, 0, 1}}};
  for (const auto& device : test_devices()) {
    const TensorValues got = run_on(device, parse(text), {{"S", 2}, {"K", 3}}, inputs);
    check_near(got.at("p"), {0.4, 0.4, 0.2, 0, 1 / (1 + std::exp(1.0)), 1 / (1 + std::exp(-1.0))}, 1e-12);
    CHECK(got.at("l")[3] == doctest::Approx(-1e6 - std::log(1 + std::exp(1.0))));
    CHECK(got.at("m")[0] == doctest::Approx(1000 - std::log(2.0) / 3));
    CHECK(got.at("t") == std::vector<double>{1, 2, 5});
  }
}

TEST_CASE("softmax at an element by data is the element of the row that the data says, with its gradient") {
  const std::string head =
      "dtype f64\ndim S, K\nindex s:S, k:K\ninput z[S,K], w[K], at[S]: i32 >= 0, first[S]: i32 >= 0\n";
  const std::string direct = head +
                             "output y[s] = log_softmax[k](w[k]*z[s,k] + k)[at[s]] - "
                             "3*softmax[k](z[s,k]^2 + z[s,first[s]])[2-at[s]]\n";
  const std::string named =
      head +
      "let p[s,k] = log_softmax[k](w[k]*z[s,k] + k)\nlet q[s,k] = softmax[k](z[s,k]^2 + z[s,first[s]])\n"
      "output y[s] = p[s,at[s]] - 3*q[s,2-at[s]]\n";
  const TensorValues inputs = {{"z", {0.5, -1, 2, 1, 0.25, -0.75}},
                               {"w", {1, -2, 0.5}},
                               {"at", {2, 1}},
                               {"first", {1, 0}},
                               {"cot.y", {1, -0.5}}};
  const auto gradients = [](const std::string& text) { return differentiate(parse(text), {"y"}, {"z", "w"}, true); };
  CHECK(parse(print(parse(direct))) == parse(direct));
  for (const auto& device : test_devices()) {
    const TensorValues found = run_on(device, gradients(direct), {{"S", 2}, {"K", 3}}, inputs);
    const TensorValues expected = run_on(device, gradients(named), {{"S", 2}, {"K", 3}}, inputs);
    for (const auto& [name, values] : expected) check_near(found.at(name), values, 1e-12);
  }
  CHECK_THROWS_WITH_AS(parse(head + "output y[s] = softmax[k](sum[j in 0..k+1](z[s,j]))[at[s]]\n"),
                       doctest::Contains("`softmax` has no element by data here: `k` moves a range"), TypeError);
}

TEST_CASE("any and all, of none too, on every device") {
  const std::string text =
      "dtype f64\ndim S, K\nindex s:S, k:K, j:K\ninput x[S,K]\n"
      "output some[s] = where(any[k](x[s,k] > 2), x[s,0], -1)\noutput every[s] = where(all[k](x[s,k] > 0), 1, 0)\n"
      "output none[s] = where(any[k in 0..s](x[s,k] > 0) or not all[k in 0..s](x[s,k] > 0), 1, 0)\n"
      "output pair[s] = where(any[k,j](k%2 == 1 and x[s,k] == x[s,j] and k != j), 1, 0)\n"
      "output held[s] = stop_gradient(x[s,1])*x[s,1]\n";
  const Program program = differentiate(parse(text), {"some", "held"}, {}, true);
  const TensorValues inputs = {{"x", {1, 2, 3, -1, 2, 2, 4, 0.5, 1}}, {"cot.some", {1, 1, 1}}, {"cot.held", {1, 1, 1}}};
  for (const auto& device : test_devices()) {
    const TensorValues got = run_on(device, program, {{"S", 3}, {"K", 3}}, inputs);
    CHECK(got.at("some") == std::vector<double>{1, -1, 4});
    CHECK(got.at("every") == std::vector<double>{1, 0, 1});
    CHECK(got.at("none") == std::vector<double>{0, 1, 1});
    CHECK(got.at("pair") == std::vector<double>{0, 1, 0});
    CHECK(got.at("grad.x") == std::vector<double>{1, 2, 0, 0, 2, 0, 1, 0.5, 0});
  }
}
