// Full covariances of random layers by all three methods: positive semidefinite, equal to each other, to draws, and
// within the bound of the series.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "ops/catalogue.h"
#include "runtime/host_tensor.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/devices.h"

namespace {

using namespace moxie;

constexpr std::int64_t kUnits = 6, kPoints = 5, kTerms = 12;
constexpr double kLowestPoint = -2, kSpacing = 1;

using Values = std::vector<double>;

class RandomLayer {
 public:
  RandomLayer(std::int64_t samples, std::uint64_t seed) : samples_(samples), random_(seed) {
    inputs["mu"] = normal(samples * kUnits, 1.5);
    inputs["cov"] = covariances();
    inputs["U"] = normal(kPoints * kUnits, 1);
    inputs["noise"] = uniform(kPoints * kUnits, 0.01, 0.5);
    inputs["lambda"] = uniform(kUnits, 0.5, 1.5);
    inputs["sigma"] = uniform(kUnits, 0, 0.1);
    inputs["V0"].assign(kUnits, kLowestPoint);
    inputs["h"].assign(kUnits, kSpacing);
    for (std::int64_t point = 0; point < kPoints; ++point)
      inputs["V"].insert(inputs["V"].end(), kUnits, kLowestPoint + kSpacing * static_cast<double>(point));
  }

  TensorValues inputs;

 private:
  Values normal(std::int64_t count, double deviation) {
    std::normal_distribution<double> distribution(0, deviation);
    return draw(count, distribution);
  }
  Values uniform(std::int64_t count, double low, double high) {
    std::uniform_real_distribution<double> distribution(low, high);
    return draw(count, distribution);
  }
  template <class Distribution>
  Values draw(std::int64_t count, Distribution& distribution) {
    Values values(static_cast<std::size_t>(count));
    for (double& value : values) value = static_cast<float>(distribution(random_));
    return values;
  }

  /// B B^T with B of any rank and of scales between 0.1 and 3: from nearly independent units to one that moves all.
  Values covariances() {
    Values values;
    for (std::int64_t s = 0; s < samples_; ++s) {
      const std::int64_t rank = 1 + s % kUnits;
      const Values scale = uniform(1, -1, 0.5);
      const Values b = normal(kUnits * rank, std::pow(10, scale[0]) / std::sqrt(static_cast<double>(rank)));
      for (std::int64_t i = 0; i < kUnits * kUnits; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < rank; ++k)
          sum +=
              b[static_cast<std::size_t>(i / kUnits * rank + k)] * b[static_cast<std::size_t>(i % kUnits * rank + k)];
        values.push_back(sum);
      }
    }
    return values;
  }

  std::int64_t samples_;
  std::mt19937_64 random_;
};

/// A formula that is compiled once, for any number of layers.
class Formula {
 public:
  Formula(const Program& program, DimValues dims, const std::shared_ptr<Device>& device)
      : program_(program), dims_(std::move(dims)), session_(program, fixed_dims(), device) {}

  std::map<std::string, Values> run(const TensorValues& inputs) {
    for (const InputDecl& input : program_.inputs)
      session_.set(input.name,
                   make_host_tensor(input.dtype, extents_of(program_, input.name, dims_), inputs.at(input.name)));
    session_.run();
    std::map<std::string, Values> outputs;
    for (const Definition& definition : program_.definitions) {
      if (definition.output) outputs[definition.name] = to_doubles(session_.get(definition.name));
    }
    return outputs;
  }

 private:
  DimValues fixed_dims() const {
    DimValues fixed;
    for (const DimDecl& dim : program_.dims) {
      if (!dim.dynamic) fixed[dim.name] = dims_.at(dim.name);
    }
    return fixed;
  }

  const Program& program_;
  DimValues dims_;
  Session session_;
};

/// Whether matrix + shift * I has a Cholesky factor.
bool has_factor(const double* matrix, double shift) {
  double l[kUnits][kUnits] = {};
  for (std::int64_t i = 0; i < kUnits; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double rest = matrix[i * kUnits + j] + (i == j ? shift : 0);
      for (std::int64_t k = 0; k < j; ++k) rest -= l[i][k] * l[j][k];
      if (i == j && rest <= 0) return false;
      l[i][j] = i == j ? std::sqrt(rest) : rest / l[j][j];
    }
  }
  return true;
}

/// No eigenvalue below -1e-6 times the largest, which is at least the largest element of the diagonal.
bool is_semidefinite(const double* matrix) {
  double largest = 0;
  for (std::int64_t n = 0; n < kUnits; ++n) largest = std::max(largest, matrix[n * kUnits + n]);
  return has_factor(matrix, 1e-6 * largest);
}

int count_indefinite(const Values& covariances) {
  int count = 0;
  for (std::size_t at = 0; at < covariances.size(); at += kUnits * kUnits)
    count += is_semidefinite(&covariances[at]) ? 0 : 1;
  return count;
}

double largest_difference(const Values& a, const Values& b, std::size_t from, std::size_t count) {
  double largest = 0;
  for (std::size_t i = from; i < from + count; ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

struct Effort {
  std::uint64_t layers;
  std::int64_t samples;
};

/// 10,000 covariances where kernels are machine code of this processor or a GPU, a few elsewhere.
Effort effort_on(const Device& device) {
  return device.name() == "interp" || device.name() == "cuda-emu" ? Effort{2, 6} : Effort{50, 200};
}

Program in_double(const char* op) { return with_dtype(load_op(op), DType::f64); }

}  // namespace

TEST_CASE("covariances of random layers are positive semidefinite, and the same by all methods") {
  const Program exact = in_double("gpn.response_covariance"),
                equispaced = in_double("gpn.response_covariance_equispaced"),
                series = in_double("gpn.response_covariance_series");
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const Effort effort = effort_on(*device);
    const DimValues dims = {{"S", effort.samples}, {"N", kUnits}, {"R", kPoints}, {"J", kTerms}};
    Formula exactly(exact, dims, device), in_powers(equispaced, dims, device), as_series(series, dims, device);
    std::size_t tight = 0;
    for (std::uint64_t seed = 0; seed < effort.layers; ++seed) {
      CAPTURE(seed);
      const RandomLayer layer(effort.samples, seed);
      const Values want = exactly.run(layer.inputs).at("covariance");
      const Values by_powers = in_powers.run(layer.inputs).at("covariance");
      const auto approximate = as_series.run(layer.inputs);
      const Values& by_series = approximate.at("covariance");
      const Values& bounds = approximate.at("error_bound");
      CHECK(count_indefinite(want) == 0);
      CHECK(count_indefinite(by_powers) == 0);
      CHECK(count_indefinite(by_series) == 0);
      CHECK(largest_difference(by_powers, want, 0, want.size()) < 1e-8);
      for (std::size_t s = 0; s < bounds.size(); ++s) {
        const std::size_t size = kUnits * kUnits;
        CHECK(largest_difference(by_series, want, s * size, size) <= bounds[s] + 1e-9);
        tight += bounds[s] < 1e-3 ? 1 : 0;
      }
    }
    CHECK(tight > 0);
  }
}

TEST_CASE("in single, covariances of random layers are positive semidefinite up to rounding") {
  const auto device = test::test_device("cpu");
  if (!device) return;
  const DimValues dims = {{"S", 200}, {"N", kUnits}, {"R", kPoints}, {"J", kTerms}};
  for (const char* op :
       {"gpn.response_covariance", "gpn.response_covariance_equispaced", "gpn.response_covariance_series"}) {
    CAPTURE(op);
    const Program program = load_op(op);
    Formula formula(program, dims, device);
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      CAPTURE(seed);
      CHECK(count_indefinite(formula.run(RandomLayer(200, seed).inputs).at("covariance")) == 0);
    }
  }
}

namespace {

/// Draws of activations and, given them, of responses.
constexpr const char* kDraws = R"(dtype f64
dim D, N, R
index d:D, n:N, m:N, r:R, t:R
input mu[N], cov[N,N], V[R,N], U[R,N], noise[R,N] >= 0, lambda[N] > 0, sigma[N]
let K[n,r,t] = exp(-(V[r,n] - V[t,n])^2 / (2*lambda[n]^2)) + where(r == t, noise[r,n], 0)
let kappa[n,r,t] = inverse[r,t](K[n,r,t])
let beta[r,n] = sum[t](kappa[n,r,t] * U[t,n])
let L[n,m] = cholesky[n,m](cov[n,m])
let a[d,n] = mu[n] + sum[m](L[n,m] * randn(1)[d,m])
let alpha[d,r,n] = exp(-(a[d,n] - V[r,n])^2 / (2*lambda[n]^2))
let variance[d,n] = 1 - sum[r,t](alpha[d,r,n] * kappa[n,r,t] * alpha[d,t,n]) + sigma[n]^2
let x[d,n] = sum[r](alpha[d,r,n] * beta[r,n]) + sqrt(max(variance[d,n], 0)) * randn(2)[d,n]
output mean[n] = sum[d](x[d,n]) / D
output covariance[n,m] = sum[d]((x[d,n] - mean[n]) * (x[d,m] - mean[m])) / D
output error[n,m] = sqrt(sum[d](((x[d,n] - mean[n]) * (x[d,m] - mean[m]) - covariance[n,m])^2)) / D
)";

}  // namespace

TEST_CASE("covariances are those of draws") {
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const bool fast = effort_on(*device).layers > 2;
    const std::int64_t samples = kUnits;  // the last has a covariance of full rank
    const RandomLayer layer(samples, 11);
    const Program exact = in_double("gpn.response_covariance"), draws = parse(kDraws);
    const auto want = Formula(exact, {{"S", samples}, {"N", kUnits}, {"R", kPoints}}, device).run(layer.inputs);
    TensorValues one = layer.inputs;
    one["mu"].erase(one["mu"].begin(), one["mu"].end() - kUnits);
    one["cov"].erase(one["cov"].begin(), one["cov"].end() - kUnits * kUnits);
    const DimValues dims = {{"D", fast ? 100000 : 2000}, {"N", kUnits}, {"R", kPoints}};
    const auto drawn = Formula(draws, dims, device).run(one);
    const double* covariance = &want.at("covariance")[(kUnits - 1) * kUnits * kUnits];
    for (std::size_t i = 0; i < kUnits * kUnits; ++i) {
      CAPTURE(i);
      CHECK(std::abs(drawn.at("covariance")[i] - covariance[i]) < 4.5 * drawn.at("error")[i]);
    }
  }
}

TEST_CASE("one unit has no pairs with others, and gradients all the same") {
  const Program program =
      differentiate(in_double("gpn.response_covariance"), {"mean", "covariance"}, {"mu", "cov", "U"});
  const DimValues dims = {{"S", 3}, {"N", 1}, {"R", 4}};
  const TensorValues inputs = test::wave_inputs(program, dims);
  const TensorValues want = evaluate(program, dims, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    for (const auto& [name, values] : test::run_on(device, program, dims, inputs)) {
      CAPTURE(name);
      for (std::size_t k = 0; k < values.size(); ++k)
        CHECK(values[k] == doctest::Approx(want.at(name)[k]).epsilon(1e-9));
    }
  }
}
