#include "tools/commands/bench_cases.h"

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "learn/trained_model.h"
#include "ops/catalogue.h"
#include "ops/network.h"
#include "ops/training.h"
#include "runtime/host_tensor.h"
#include "runtime/plan.h"
#include "tools/commands/sample_inputs.h"

namespace moxie {
namespace {

constexpr double kLowestPoint = -2, kHighestPoint = 2;

/// Equally spaced along the first axis.
std::vector<double> spaced(std::span<const std::int64_t> shape, double low, double high) {
  const std::int64_t rows = shape.empty() ? 1 : shape.front();
  const auto count = static_cast<std::size_t>(element_count(shape));
  const std::size_t row_size = count / static_cast<std::size_t>(std::max<std::int64_t>(rows, 1));
  std::vector<double> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t row = i / row_size;
    values[i] =
        low + (high - low) * static_cast<double>(row) / static_cast<double>(std::max<std::int64_t>(rows - 1, 1));
  }
  return values;
}

/// A random covariance matrix in the last two axes of each entry: B B^T / size + ridge I, B standard normal.
std::vector<double> covariances(std::span<const std::int64_t> shape, double ridge) {
  const auto size = static_cast<std::size_t>(shape.back());
  const std::vector<double> b = sample_values(ValueDomain::Any, static_cast<std::size_t>(element_count(shape)), 2);
  std::vector<double> values(b.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t row = i / size * size;
    const std::size_t other = (i / (size * size) * size + i % size) * size;
    for (std::size_t k = 0; k < size; ++k) values[i] += b[row + k] * b[other + k] / static_cast<double>(size);
    if (row == other) values[i] += ridge;
  }
  return values;
}

/// The settings of the paper's layers instead of random numbers.
void set_layer_constants(const Program& program, const DimValues& dims, TensorValues& inputs) {
  const auto fill = [&](const char* name, double value) {
    if (const auto found = inputs.find(name); found != inputs.end()) std::ranges::fill(found->second, value);
  };
  fill("lambda", 1);
  fill("noise", std::sqrt(0.1));
  fill("sigma", 0.1);
  fill("jitter", 1e-4);
  fill("V0", kLowestPoint);
  if (const auto r = dims.find("R"); r != dims.end())
    fill("h", (kHighestPoint - kLowestPoint) / static_cast<double>(std::max<std::int64_t>(r->second - 1, 1)));
  if (program.find_input("V")) inputs["V"] = spaced(extents_of(program, "V", dims), kLowestPoint, kHighestPoint);
  if (program.find_input("cov")) inputs["cov"] = covariances(extents_of(program, "cov", dims), 0);
  if (program.find_input("cov_u")) inputs["cov_u"] = covariances(extents_of(program, "cov_u", dims), 0.1);
}

BenchPrograms make_layer(const BenchCase& bench, const DimValues& dims) {
  const Program program = load_op(bench.op);
  const Program gradients = differentiate(program, bench.outputs, bench.wrt);
  TensorValues inputs = sample_inputs(gradients, dims, 1);
  set_layer_constants(program, dims, inputs);
  return {program, gradients, {}, {}, {inputs}};
}

/// One class per sample.
std::vector<double> one_hot(std::span<const std::int64_t> shape) {
  std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
  const auto classes = static_cast<std::size_t>(shape[1]);
  for (std::size_t s = 0; s < values.size() / classes; ++s) values[s * classes + s * 7 % classes] = 1;
  return values;
}

BenchPrograms make_training(const Network& network, const DimValues& dims) {
  const Program gradients = differentiate(network.train, {"loss"}, trainable_names(network.parameters));
  const TrainingStep step = training_step(gradients, network.parameters);
  const DimValues all_dims = choose_dims(network.train, dims);
  TensorValues inputs = sample_inputs(step.program, all_dims, 1);
  inputs["cot.loss"] = {1};
  inputs["initial_rate"] = {1e-3};
  inputs["target"] = one_hot(extents_of(network.train, "target", all_dims));
  for (const auto* list : {&network.parameters, &step.state}) {
    for (const auto& [name, tensor] : initial_values(*list, 1)) inputs[name] = to_doubles(tensor);
  }
  return {network.train, gradients, step.program, step.feedback, {inputs}};
}

const std::vector<std::int64_t> kLetterSizes = {16, 30, 15, 26};

BenchPrograms make_gpn_training(const BenchCase&, const DimValues& dims) {
  GpnOptions options;
  options.sizes = kLetterSizes;
  return make_training(gpn_network(options), dims);
}

BenchPrograms make_tanh_training(const BenchCase&, const DimValues& dims) {
  MlpOptions options;
  options.sizes = kLetterSizes;
  return make_training(mlp_network(options), dims);
}

/// Forward reads x and writes y; backward reads x and the cotangent and writes the gradient, with the noise drawn
/// again.
std::int64_t probact_bytes(const DimValues& dims) {
  std::int64_t elements = 1;
  for (const char* dim : {"S", "C", "H", "W"}) elements *= dims.find(dim)->second;
  return 5 * static_cast<std::int64_t>(sizeof(float)) * elements;
}

const std::vector<BenchCase>& cases() {
  const std::vector<std::string> moments = {"mean", "variance"};
  const std::vector<std::pair<std::string_view, std::int64_t>> layer = {{"S", 1024}, {"N", 50}, {"R", 14}};
  const std::vector<std::string> joint = {"mean", "covariance"};
  const std::vector<std::pair<std::string_view, std::int64_t>> full_layer = {{"S", 64}, {"N", 50}, {"R", 14}};
  static const std::vector<BenchCase> table = {
      {"gpn_layer_variance",
       "mean and variance of a layer, any inducing points",
       layer,
       make_layer,
       "gpn.response_variance",
       moments,
       {"mu", "var", "U", "noise"}},
      {"gpn_layer_variance_equispaced",
       "the same with equally spaced inducing points",
       layer,
       make_layer,
       "gpn.response_variance_equispaced",
       moments,
       {"mu", "var", "U", "noise"}},
      {"gpn_layer_mean",
       "mean of a layer",
       layer,
       make_layer,
       "gpn.response_mean",
       {"mean"},
       {"mu", "var", "U", "noise"}},
      {"gpn_layer_covariance",
       "mean and full covariance of a layer, any inducing points",
       full_layer,
       make_layer,
       "gpn.response_covariance",
       joint,
       {"mu", "cov", "U", "noise"}},
      {"gpn_layer_covariance_equispaced",
       "the same with equally spaced inducing points",
       full_layer,
       make_layer,
       "gpn.response_covariance_equispaced",
       joint,
       {"mu", "cov", "U", "noise"}},
      {"gpn_layer_covariance_series",
       "the same by a series of J terms",
       {{"S", 64}, {"N", 50}, {"R", 14}, {"J", 10}},
       make_layer,
       "gpn.response_covariance_series",
       joint,
       {"mu", "cov", "U", "noise"}},
      {"gpn_kl",
       "divergence of a layer's posterior targets from their prior",
       {{"N", 1024}, {"R", 14}},
       make_layer,
       "gpn.kl",
       {"kl"},
       {"mu_u", "cov_u", "V", "lambda"}},
      {"gpn_kappa",
       "inverse covariances of a layer's virtual observations",
       {{"N", 50}, {"R", 14}},
       make_layer,
       "gpn.kappa",
       {"kappa", "beta"},
       {"U", "noise"}},
      {"sp_gru_sequence",
       "sampling-free probabilistic GRU over T steps, gradients of all inputs and weights",
       {{"T", 4}, {"S", 128}, {"N", 1024}, {"M", 256}},
       make_layer,
       "sp_gru.sequence",
       {"h_m", "h_s"}},
      {"probact_forward",
       "rectifier with noise that is given",
       {{"S", 1024}, {"N", 512}},
       make_layer,
       "probact.forward",
       {"y"},
       {"x", "sigma"}},
      {"probact_sample",
       "rectifier with noise that is drawn inside",
       {{"S", 1024}, {"N", 512}},
       make_layer,
       "probact.sample",
       {"y"},
       {"x", "sigma"}},
      {"probact",
       "the same on maps, of one deviation per channel, beside the time to move 20 bytes per element",
       {{"S", 256}, {"C", 64}, {"H", 32}, {"W", 32}},
       make_layer,
       "probact.sample_channels",
       {"y"},
       {"x", "sigma"},
       probact_bytes},
      {"sp_gru_step",
       "one step of the sampling-free probabilistic GRU, beside its matrix products alone",
       {{"S", 64}, {"M", 4096}, {"N", 1024}},
       make_layer,
       "sp_gru.cell",
       {"h_m", "h_s"},
       {},
       nullptr,
       true},
      {"train_step_letter", "training step of the GPN network 16x30x15x26", {{"S", 256}}, make_gpn_training},
      {"train_step_letter_tanh", "training step of the tanh network 16x30x15x26", {{"S", 256}}, make_tanh_training},
  };
  return table;
}

}  // namespace

std::span<const BenchCase> bench_cases() { return cases(); }

const BenchCase* find_bench_case(std::string_view name) {
  const auto found = std::ranges::find(cases(), name, &BenchCase::name);
  return found == cases().end() ? nullptr : &*found;
}

}  // namespace moxie
