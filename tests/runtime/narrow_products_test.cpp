// Products of matrices of f16 and bf16: converted once and multiplied by a library in f32, or, on GPUs, multiplied as
// they are and added up in f32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "compiler/diff/differentiate.h"
#include "compiler/expression/dtype.h"
#include "runtime/plan.h"
#include "tests/devices.h"

using namespace moxie;
using namespace moxie::test;

namespace {

const std::string kHead = "dim I, J, K\nindex i:I, j:J, k:K\n";

std::size_t products_in(const Program& program, const DimValues& dims) {
  const Plan plan = make_plan(specialise(program, dims), {}, {.extents = dims});
  return static_cast<std::size_t>(std::ranges::count_if(
      plan.steps, [](const PlanStep& step) { return std::holds_alternative<MatrixProduct>(step); }));
}

/// The operands of the products of a GPU's plan.
std::set<std::string> operands_on_gpu(const Program& program, const DimValues& dims) {
  const PlanTarget target{.products = Products::blas, .gpu = GpuLimits{}, .extents = dims};
  std::set<std::string> operands;
  for (const PlanStep& step : make_plan(specialise(program, dims), {}, target).steps) {
    if (const auto* product = std::get_if<MatrixProduct>(&step))
      operands.insert({product->left.tensor, product->right.tensor});
  }
  return operands;
}

/// Waves that the dtypes of the inputs hold.
TensorValues stored_inputs(const Program& program, const DimValues& dims) {
  TensorValues inputs = wave_inputs(program, dims);
  for (const InputDecl& input : program.inputs) {
    for (double& value : inputs.at(input.name)) value = stored_value(input.dtype, value);
  }
  return inputs;
}

void check_devices(const std::string& text, const DimValues& dims, double tolerance) {
  const Program program = differentiate(parse(kHead + text), {"C"}, {});
  const TensorValues inputs = stored_inputs(program, dims);
  const TensorValues want = evaluate(program, dims, inputs);
  for (const auto& device : test_devices()) {
    INFO(device->name(), "\n", text);
    const TensorValues got = run_on(device, program, dims, inputs);
    for (const char* name : {"C", "grad.A", "grad.B"}) {
      const std::vector<double>& wanted = want.at(name);
      double largest = 0, error = 0;
      for (std::size_t n = 0; n < wanted.size(); ++n) {
        largest = std::max(largest, std::abs(wanted[n]));
        error = std::max(error, std::abs(got.at(name)[n] - wanted[n]));
      }
      CAPTURE(name);
      CHECK(error <= tolerance * largest);
    }
  }
}

}  // namespace

TEST_CASE("large products of narrow tensors are products of a library, small ones are not") {
  const Program half = parse(kHead + "input A[I,K]: f16, B[K,J]: bf16\noutput C[i,j] = sum[k](A[i,k]*B[k,j])\n");
  CHECK(products_in(half, {{"I", 256}, {"J", 256}, {"K", 256}}) == 1);
  CHECK(products_in(half, {{"I", 8}, {"J", 8}, {"K", 8}}) == 0);
  const Program stored = parse(kHead + "input A[I,K]: f16, B[K,J]: f16\noutput C[i,j]: f16 = sum[k](A[i,k]*B[k,j])\n");
  CHECK(products_in(stored, {{"I", 256}, {"J", 256}, {"K", 256}}) == 1);
  const Program mixed = parse(kHead + "input A[I,K]: f32, B[K,J]: f16\noutput C[i,j]: f64 = sum[k](A[i,k]*B[k,j])\n");
  CHECK(products_in(mixed, {{"I", 256}, {"J", 256}, {"K", 256}}) == 1);
  Program accurate = parse(kHead + "input A[I,K], B[K,J]\noutput C[i,j] = sum[k](A[i,k]*B[k,j])\n");
  accurate.precision = Precision::Accurate;
  CHECK(products_in(accurate, {{"I", 256}, {"J", 256}, {"K", 256}}) == 1);  // in double
  const Program integers = parse(kHead + "input A[I,K]: u8, B[K,J]\noutput C[i,j] = sum[k](A[i,k]*B[k,j])\n");
  CHECK(products_in(integers, {{"I", 256}, {"J", 256}, {"K", 256}}) == 0);
}

TEST_CASE("a GPU's library multiplies two tensors of one narrow dtype as they are stored") {
  const DimValues dims = {{"I", 256}, {"J", 128}, {"K", 512}};
  const auto operands = [&](const std::string& text) { return operands_on_gpu(parse(kHead + text), dims); };
  const std::set<std::string> inputs = {"A", "B"};
  CHECK(operands("input A[I,K]: f16, B[K,J]: f16\noutput C[i,j] = sum[k](A[i,k]*B[k,j])\n") == inputs);
  CHECK(operands("input A[K,I]: bf16, B[J,K]: bf16\noutput C[i,j]: bf16 = 2*sum[k](A[k,i]*B[j,k])\n") == inputs);
  CHECK(operands("input A[I,K]: f16, B[K,J]: bf16\noutput C[i,j] = sum[k](A[i,k]*B[k,j])\n") != inputs);
  CHECK(operands("input A[I,K]: f16, B[K,J]: f16\noutput C[i,j]: f64 = sum[k](A[i,k]*B[k,j])\n") != inputs);
  CHECK(operands("input A[I,K]: f16, B[K,J]: f16\noutput C[i,j] = sum[k](exp(A[i,k])*B[k,j])\n") != inputs);
  const Program gradient = differentiate(
      parse(kHead + "input A[I,K]: f16, B[K,J]: f16\noutput C[i,j]: f16 = sum[k](A[i,k]*B[k,j])\n"), {"C"}, {});
  CHECK(operands_on_gpu(gradient, dims) == std::set<std::string>{"A", "B", "cot.C"});
}

TEST_CASE("batches of narrow tensors have the values of single precision, on every device") {
  const DimValues dims = {{"I", 96}, {"J", 80}, {"K", 128}};
  const std::string text =
      "input A[3,I,K]: bf16, B[3,J,K]: bf16\noutput C[b in 0..3,i,j] = sum[k](A[b,i,k]*B[b,j,k])\n";
  check_devices(text, dims, 4e-3);
}

TEST_CASE("products of narrow tensors and their gradients have the values of single precision, on every device") {
  const DimValues dims = {{"I", 130}, {"J", 70}, {"K", 260}};
  check_devices("input A[I,K]: f16, B[K,J]: bf16\noutput C[i,j] = sum[k](A[i,k]*B[k,j])\n", dims, 4e-3);
  check_devices("input A[I,K], B[K,J]: bf16\noutput C[i,j] = 1 + 2*sum[k](A[i,k]*B[k,j])\n", dims, 4e-3);
  check_devices("input A[I,K]: f16, B[J,K]: f16\noutput C[i,j]: f16 = sum[k](A[i,k]*B[j,k])\n", dims, 2e-3);
}
