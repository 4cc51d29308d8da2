// Matrix products, single and in batches, on every device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "runtime/plan.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

std::size_t count_products(const Program& program) {
  std::size_t count = 0;
  for (const PlanStep& step : make_plan(program).steps) count += products_of(step).size();
  return count;
}

/// The formula, which has that many library products, has the evaluator's values on every device.
void check_products(const Program& formula, const DimValues& dims, std::size_t products) {
  const Program program = specialise(formula, dims);
  CHECK(count_products(program) == products);
  const TensorValues inputs = test::wave_inputs(program, dims);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    for (const auto& [name, values] : test::run_on(device, program, dims, inputs)) {
      CAPTURE(name);
      double worst = 0, largest = 1;
      for (std::size_t k = 0; k < values.size(); ++k) {
        worst = std::max(worst, std::abs(values[k] - expected.at(name)[k]));
        largest = std::max(largest, std::abs(values[k]));
      }
      CHECK(worst <= 1e-5 * largest);
    }
  }
}

}  // namespace

TEST_CASE("batches whose axes stand first, between rows and columns, or in one operand only") {
  const DimValues dims = {{"B", 3}};
  check_products(parse(R"(dim B dynamic, H = 8, I = 24, J = 40, D = 32
index b:B, h:H, i:I, j:J, d:D
input q[B,I,H,D], k[B,H,J,D], w[H,D,J], v[D,B,J]
output score[b,h,i,j] = sum[d](q[b,i,h,d]*k[b,h,j,d])/sqrt(D)
output across[b,i,h,j] = sum[d](q[b,i,h,d]*w[h,d,j])
output one[b,i,h,j] = sum[d](q[b,i,h,d]*v[d,b,j])
)"),
                 dims, 3);
}

TEST_CASE("batches of parts of tensors, and of a batch without elements") {
  const Program parts = parse(R"(dim B dynamic, I = 32, J = 40, D = 32
index b:B, i:I, j:J, d:D
input x[2*B,D,I+3], y[B+1,J,D]
output z[b,i,j] = sum[d](x[b,d,i]*y[b,j,d])
)");
  check_products(parts, {{"B", 4}}, 1);
  check_products(parts, {{"B", 0}}, 1);
}

TEST_CASE("attention and its gradient are products around kernels") {
  const Program attention = parse(R"(dim B dynamic, H = 2, S = 64, D = 32
index b:B, h:H, i:S, j:S, d:D
input Q[B,H,S,D], K[B,H,S,D], V[B,H,S,D]
let score[b,h,i,j] = sum[d](Q[b,h,i,d]*K[b,h,j,d])/sqrt(D)
let z[b,h,i] = logsumexp[j](score[b,h,i,j])
output O[b,h,i,d] = sum[j](exp(score[b,h,i,j] - z[b,h,i])*V[b,h,j,d])
)");
  check_products(attention, {{"B", 2}}, 2);
  check_products(differentiate(attention, {"O"}, {"Q", "K", "V"}), {{"B", 1}}, 6);
}

TEST_CASE("heads that share keys, by a quotient, are products as heads with keys of their own") {
  struct Mask {
    std::string score;
    std::size_t products;
  };
  const std::string all = "sum[d](q[b,i,h,d]*k[b,j,h/R,d])/sqrt(D)";
  for (const Mask& mask : {Mask{all, 6}, Mask{"where(j <= i, " + all + ", -inf)", 4}}) {
    for (const char* groups : {"G = 2", "G"}) {
      CAPTURE(mask.score);
      const Program attention = parse(std::string("dim B dynamic, S = 64, R = 4, D = 32, ") + groups +
                                      "\nindex b:B, i:S, j:S, h:G*R, d:D\ninput q[B,S,G*R,D], k[B,S,G,D], "
                                      "v[B,S,G,D]\nlet p[b,h,i,j] = softmax[j](" +
                                      mask.score + ")\noutput o[b,i,h,d] = sum[j](p[b,h,i,j]*v[b,j,h/R,d])\n");
      const Program gradient = differentiate(attention, {"o"}, {"q", "k", "v"});
      CHECK(gradient.find_definition("p.contraction") != nullptr);  // the scores, which several places read
      check_products(gradient, {{"B", 3}, {"G", 2}}, mask.products);
    }
  }
}

TEST_CASE("a product in one sum of several tensors") {
  check_products(parse(R"(dim M dynamic, D = 16, N = 8
index m:M, d0:D, d1:D, d2:D, n0:N, n1:N, n2:N
input W0[D,N], W1[D,N], W2[D,N], X[M,N,N,N]
output Y[m,d0,d1,d2] = sum[n0,n1,n2](W0[d0,n0]*W1[d1,n1]*W2[d2,n2]*X[m,n0,n1,n2])
)"),
                 {{"M", 2}}, 2);
}

TEST_CASE("the gradient of a convolution is a product for all positions and a sum of what meets") {
  const auto gradient = [](const std::string& position, const std::string& extent) {
    return differentiate(parse("dim B dynamic, C = 32, F = 32, W = 20, K = 3\n"
                               "index b:B, c:C, f:F, w:W, k:K\n"
                               "input x[B,C," +
                               extent + "], g[F,C,K]\noutput y[b,f,w] = sum[c,k](x[b,c," + position + "]*g[f,c,k])\n"),
                         {"y"}, {"x"});
  };
  check_products(gradient("w+k", "W+K-1"), {{"B", 2}}, 1);  // the convolution itself copies no windows
  check_products(gradient("w-k+K-1", "W+K-1"), {{"B", 2}}, 1);
  check_products(gradient("w+2*k", "W+2*K-2"), {{"B", 2}}, 2);
  check_products(gradient("2*w+k", "2*W+K-2"), {{"B", 2}}, 2);
}

TEST_CASE("a causal convolution and its gradients are products") {
  const Program causal = parse(R"(dim B dynamic, C = 32, F = 32, T = 24, K = 4
index b:B, c:C, f:F, t:T
input x[B,C,T], g[F,C,K], a[T]
output y[b,f,t] = sum[c, k in 0..min(t+1, K)](a[t-k]*x[b,c,t-k]*g[f,c,k])
)");
  check_products(causal, {{"B", 2}}, 1);
  check_products(differentiate(causal, {"y"}, {"x", "a"}), {{"B", 2}}, 2);
}

TEST_CASE("products with triangles and bands, and their gradients, are products of a band") {
  const auto formula = [](const std::string& output) {
    return parse("dim M dynamic, N = 130\nindex i:M, k:M, j:N\ninput A[M,M], B[M,N]\noutput C[i,j] = " + output + "\n");
  };
  const DimValues dims = {{"M", 150}};
  const auto count_bands = [&](const Program& program) {
    std::size_t count = 0;
    for (const PlanStep& step : make_plan(specialise(program, dims)).steps)
      count += static_cast<std::size_t>(
          std::ranges::count_if(products_of(step), [](auto* p) { return p->band.has_value(); }));
    return count;
  };
  const auto check = [&](const Program& program, std::size_t products, std::size_t bands) {
    CHECK(count_bands(program) == bands);
    check_products(program, dims, products);
  };
  const Program lower = formula("sum[k in 0..i+1](A[i,k]*B[k,j])");
  check(lower, 1, 1);
  check(differentiate(lower, {"C"}, {"A", "B"}), 3, 2);  // the gradient by A is a product whose lower half is kept
  const Program upper = formula("2*sum[k in i+1..M](A[k,i]*B[k,j])");
  check(upper, 1, 1);
  check(differentiate(upper, {"C"}, {"A", "B"}), 3, 2);
  check(formula("sum[k in 0..i](A[i,k]*B[k,j]) + sum[k in i..M](A[k,i]*B[k,j])"), 2, 2);
  check(formula("sum[k](where(i-k <= 40 and k-i <= 40, A[i,k]*B[k,j], 0))"), 1, 1);
  check(formula("sum[k](where(abs(i-k) <= 40, A[i,k]*B[k,j], 0))"), 1, 1);
  check(formula("sum[k](where(i-k <= 2 and k-i <= 2, A[i,k]*B[k,j], 0))"), 0, 0);  // few elements of each row
  check(formula("sum[k in 0..i+1](exp(A[i,k] - B[i,0])*B[k,j])"), 1, 1);
  check(formula("sum[k in 0..i](A[i,k]*exp(B[k,j]))"), 1, 1);  // an operand without the last row
  check(formula("sum[k in i..M](exp(A[k,i] - B[k,0])*B[k,0]*B[k,j])"), 1, 1);
  // The operand has no column for the last row, which sums nothing.
  check(parse("dim M dynamic, N = 130\nindex i:M, k:M, j:N, r:M-1, s:M-1\ninput A[M,N], B[M,N]\n"
              "let a[r,s in 0..r+1] = exp(sum[j](A[r+1,j]*B[s,j]))\n"
              "output C[i,j] = sum[k in i+1..M](a[k-1,i]*B[k,j])\n"),
        2, 1);
}

TEST_CASE("attention with a causal mask, and its gradient, are products around kernels") {
  const Program attention = parse(R"(dim B dynamic, H = 2, S = 128, D = 64
index b:B, h:H, i:S, j:S, d:D
input Q[B,H,S,D], K[B,H,S,D], V[B,H,S,D]
let score[b,h,i,j] = sum[d](Q[b,h,i,d]*K[b,h,j,d])/sqrt(D)
let z[b,h,i] = logsumexp[j in 0..i+1](score[b,h,i,j])
output O[b,h,i,d] = sum[j in 0..i+1](exp(score[b,h,i,j] - z[b,h,i])*V[b,h,j,d])
)");
  check_products(attention, {{"B", 2}}, 2);
  check_products(differentiate(attention, {"O"}, {"Q", "K", "V"}), {{"B", 1}}, 6);
}

TEST_CASE("a product skips what a mask makes zero, unless that meets what times zero is not zero") {
  const DimValues dims = {{"M", 300}};
  const Program program = specialise(parse(R"(dim M dynamic, D = 70
index i:M, k:M, d:D
input A[M,M], B[M,D]
let lower[i,k] = where(k <= i, A[i,k], 0)
output y[i,d] = sum[k](lower[i,k]*B[k,d])
output z[k,d] = sum[i](lower[i,k]*B[i,d])
)"),
                                     dims);
  std::size_t masked = 0;
  for (const PlanStep& step : make_plan(program).steps)
    masked += static_cast<std::size_t>(std::ranges::count_if(products_of(step), [](auto* p) { return p->masked; }));
  CHECK(masked == 2);
  check_products(program, dims, 2);

  TensorValues inputs = test::wave_inputs(program, dims);
  inputs.at("B")[200 * 70 + 3] = INFINITY;
  const TensorValues expected = evaluate(program, dims, inputs);
  CHECK(std::isnan(expected.at("y")[3]));  // row 0, which leaves out the infinity of row 200
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues got = test::run_on(device, program, dims, inputs);
    for (const char* name : {"y", "z"}) {
      const auto is_same = [](double a, double b) { return std::isnan(a) == std::isnan(b); };
      CHECK(std::ranges::equal(got.at(name), expected.at(name), is_same));
    }
  }
}
