// What gradients look like, that they are right for every extent, and what is refused.
#include <doctest/doctest.h>

#include "compiler/diff/differentiate.h"
#include "compiler/diff/lift_linear_algebra.h"
#include "compiler/diff/tangents.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"
#include "gradient_check.h"

using namespace moxie;
using namespace moxie::test;

namespace {

/// The statement that defines `name` in the gradient of `text`.
std::string statement(const std::string& text, const std::vector<std::string>& outputs,
                      const std::vector<std::string>& wrt, const std::string& name) {
  const Program gradient = differentiate(parse(text), outputs, wrt);
  verify(gradient);
  const std::string printed = "\n" + print(gradient);
  for (const char* word : {"\nlet ", "\noutput "}) {
    for (const char* end : {"[", " "}) {
      const std::size_t begin = printed.find(word + name + end);
      if (begin != std::string::npos) return printed.substr(begin + 1, printed.find('\n', begin + 1) - begin - 1);
    }
  }
  return "";
}

/// The worst error of all gradients of all outputs.
double worst_error(const std::string& text, const DimValues& dims, double shift = 0) {
  const Program program = with_dtype(parse(text), DType::f64);
  std::vector<std::string> outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs.push_back(definition.name);
  }
  DimValues all = dims;
  for (const DimDecl& dim : program.dims) {
    if (dim.value) all[dim.name] = *dim.value;
  }
  TensorValues inputs = random_inputs(program, all, 7);
  for (auto& [name, tensor] : inputs) {
    for (double& value : tensor) value += shift;
  }
  return worst_gradient_error(program, outputs, {}, all, inputs);
}

/// A symmetric positive definite matrix as a formula in any square input.
const std::string kPositiveDefinite = "let A[r,t] = sum[k](x[r,k]*x[t,k]) + where(r == t, 2, 0)\n";
const std::string kMatrixHeader = "dim N = 4\nindex r:N, t:N, k:N\ninput x[N,N], b[N]\n" + kPositiveDefinite;

const std::string kLayer =
    "dim S dynamic, I, N\nindex s:S, i:I, n:N\ninput x[S,I], W[I,N], b[N]\n"
    "output y[s,n] = sum[i](x[s,i]*W[i,n]) + b[n]\n";
const std::string kStrided = "dim N, K\nindex i:N, k:K\ninput x[2*N+K-2], w[K]\noutput y[i] = sum[k](x[2*i+k]*w[k])\n";
const std::string kVariance =
    "dim S dynamic, N, R = 3\nindex s:S, n:N, r:R, t:R\ninput mu[S,N], kappa[N,R,R], beta[R,N], V[R,N]\n"
    "output v[s,n] = 1 - sum[r,t]((kappa[n,r,t] - beta[r,n]*beta[t,n])*exp(mu[s,n]*V[r,n]*V[t,n]))\n";

}  // namespace

TEST_CASE("gradients of a linear layer read as written by hand") {
  CHECK(statement(kLayer, {"y"}, {}, "grad.x") == "output grad.x[s,i] = sum[n](W[i,n]*cot.y[s,n])");
  CHECK(statement(kLayer, {"y"}, {}, "grad.W") == "output grad.W[i,n] = sum[s](x[s,i]*cot.y[s,n])");
  CHECK(statement(kLayer, {"y"}, {}, "grad.b") == "output grad.b[n] = sum[s](cot.y[s,n])");
}

TEST_CASE("a strided convolution becomes a transposed one without a wasted round") {
  CHECK(statement(kStrided, {"y"}, {}, "grad.w") == "output grad.w[k] = sum[i](x[k+2*i]*cot.y[i])");
  CHECK(statement(kStrided, {"y"}, {}, "grad.x") ==
        "output grad.x[i1 in 0..K+2*N-2] = sum[i2 in max(0, ceil((i1-K+1)/2))..min(N, "
        "floor(i1/2)+1)](w[i1-2*i2]*cot.y[i2])");
}

TEST_CASE("a contraction that is written out twice has one adjoint, over the elements that a mask leaves") {
  const std::string attention =
      "dim T, D\nindex i:T, j:T, d:D\ninput q[T,D], k[T,D], v[T,D]\n"
      "let w[i,j] = softmax[j](where(j <= i, sum[d](q[i,d]*k[j,d]), -inf))\n"
      "output o[i,d] = sum[j](w[i,j]*v[j,d])\n";
  CHECK(statement(attention, {"o"}, {}, "w.contraction") == "let w.contraction[i,j] = sum[d](q[i,d]*k[j,d])");
  CHECK(statement(attention, {"o"}, {}, "adj.w.contraction").starts_with("let adj.w.contraction[i,j in 0..i+1] = "));
  CHECK(statement(attention, {"o"}, {}, "grad.q") ==
        "output grad.q[i,d] = sum[i1 in 0..i+1](k[i1,d]*adj.w.contraction[i,i1])");
  CHECK(statement(attention, {"o"}, {}, "grad.k") ==
        "output grad.k[i,d] = sum[i1 in i..T](q[i1,d]*adj.w.contraction[i1,i])");
  CHECK(worst_error(attention, {{"T", 5}, {"D", 3}}) < 1e-6);
}

TEST_CASE("the derivative of a softmax reads its elements, and computes no exponentials again") {
  const auto exponentials = [](const Program& program) {
    const std::string text = print(program);
    std::size_t count = 0;
    for (std::size_t at = text.find("exp("); at != text.npos; at = text.find("exp(", at + 1)) ++count;
    return count;
  };
  const std::string head = "dim I, J, D\nindex i:I, j:J, d:D\ninput x[I,J], v[J,D]\n";
  for (const std::string row : {"softmax[j](2*x[i,j])", "softmax[j](where(j <= i, x[i,j], -inf))"}) {
    CAPTURE(row);
    const Program program = parse(head + "let p[i,j] = " + row + "\noutput y[i,d] = sum[j](p[i,j]*v[j,d])\n");
    CHECK(exponentials(differentiate(program, {"y"}, {"x"})) == 1);
    CHECK(exponentials(tangents(program, {"y"}, {"x"})) == 1);
  }
  // The row that is summed has two elements, the definition has one.
  const Program part = parse("input x[2]\noutput y[q in 0..1] = exp(x[q] - logsumexp[i in 0..2](x[i]))\n");
  CHECK(exponentials(differentiate(part, {"y"}, {"x"})) > 1);
}

TEST_CASE("the normaliser of log_softmax is computed once, for the elements and for their derivative") {
  const std::string loss =
      "dim S, K\nindex s:S, k:K\ninput z[S,K], y[S,K]\nlet lp[s,k] = log_softmax[k](z[s,k])\n"
      "output e = -sum[s,k](y[s,k]*lp[s,k])\n";
  CHECK(statement(loss, {"e"}, {"z"}, "lp.normaliser") == "let lp.normaliser[s] = logsumexp[k](z[s,k])");
  CHECK(statement(loss, {"e"}, {"z"}, "lp") == "let lp[s,k] = z[s,k] - lp.normaliser[s]");
  CHECK(statement(loss, {"e"}, {"z"}, "grad.z").find("logsumexp") == std::string::npos);
  CHECK(worst_error(loss, {{"S", 3}, {"K", 4}}) < 1e-6);
  const std::string whole = "dim S, K\nindex s:S, k:K\ninput z[S,K]\noutput e[s] = logsumexp[k](z[s,k])\n";
  CHECK_MESSAGE(statement(whole, {"e"}, {}, "e.normaliser").empty(), "each element has its own");
}

TEST_CASE("contractions stay where they are if they stand once, or a condition keeps their reads inside") {
  const std::string once = "dim T, D\nindex i:T, d:D\ninput q[T,D], k[D]\noutput a[i] = exp(sum[d](q[i,d]*k[d]))\n";
  CHECK(statement(once, {"a"}, {}, "a.contraction").empty());
  const std::string neighbours =
      "dim T, D\nindex i:T, d:D\ninput q[T,D], k[D]\n"
      "output a[i] = exp(sum[d](q[i,d]*k[d])) + where(i >= 1, sum[d](q[i-1,d]*k[d]), 0)\n";
  CHECK(worst_error(neighbours, {{"T", 5}, {"D", 3}}) < 1e-6);
  const std::string dtypes =
      "dim T, D\nindex i:T, j:T, d:D\ninput q[T,D], k[D]\n"
      "output a[i] = f64(sum[d](q[i,d]*k[d]))\noutput b[i,j] = sum[d](q[j,d]*k[d])*i\n";
  CHECK(worst_error(dtypes, {{"T", 4}, {"D", 3}}) < 1e-6);
}

TEST_CASE("conditions that only some summands of an adjoint have stay conditions") {
  const std::string two_masks =
      "dim T\nindex i:T, j:T\ninput x[T]\nlet d[i,j] = tanh(x[i]*x[j])\n"
      "output lower[i] = sum[j](where(j <= i, d[i,j]^2, 0))\n"
      "output band[i] = sum[j](where(j <= i and 2*i <= 3*j + 4, d[i,j]*x[j], 0))\n";
  CHECK(worst_error(two_masks, {{"T", 7}}) < 1e-6);
  const std::string apart =
      "dim T\nindex i:T, j:T\ninput x[T]\nlet d[i,j] = tanh(x[i]*x[j])\n"
      "output lower[i] = sum[j](where(j < i, d[i,j]^2, 0))\noutput upper[i] = sum[j](where(j > i, d[i,j], 0))\n";
  CHECK(worst_error(apart, {{"T", 6}}) < 1e-6);
}

TEST_CASE("guards on indices become index changes and guards") {
  const std::string shift = "dim N\nindex i:N\ninput x[N]\noutput y[i] = where(i >= 1, x[i-1], 0)\n";
  CHECK(statement(shift, {"y"}, {}, "grad.x") == "output grad.x[i] = where(i+1 < N, cot.y[i+1], 0)");
  const std::string diagonal = "dim N\nindex i:N, j:N\ninput x[N]\noutput y[i,j] = where(i == j, x[i], 0)\n";
  CHECK(statement(diagonal, {"y"}, {}, "grad.x") == "output grad.x[i] = cot.y[i,i]");
  const std::string trace = "dim N\nindex i:N, j:N\ninput x[N,N]\noutput y = sum[i](x[i,i])\n";
  CHECK(statement(trace, {"y"}, {}, "grad.x") == "output grad.x[i,j] = where(i == j, cot.y, 0)");
}

TEST_CASE("a condition on values stays a condition") {
  const std::string text = "dim N\nindex i:N\ninput x[N], y[N]\noutput z[i] = where(x[i] > y[i], x[i]^2, 3*y[i])\n";
  CHECK(statement(text, {"z"}, {}, "grad.x") == "output grad.x[i] = 2*x[i]*where(x[i] > y[i], cot.z[i], 0)");
  CHECK(statement(text, {"z"}, {}, "grad.y") == "output grad.y[i] = 3*where(not x[i] > y[i], cot.z[i], 0)");
}

TEST_CASE("what fewer indices determine is summed once, for all that lies below") {
  CHECK(statement(kVariance, {"v"}, {}, "adj.v.1") ==
        "let adj.v.1[n,r,t] = sum[s](-(exp(mu[s,n]*V[r,n]*V[t,n])*cot.v[s,n]))");
  CHECK(statement(kVariance, {"v"}, {}, "grad.kappa") == "output grad.kappa[n,r,t] = adj.v.1[n,r,t]");
}

TEST_CASE("the gradient by a quotient looks for it outside, where all that has it is one range") {
  const std::string groups =
      "dim N\nindex n:N, f:32, c:4\ninput x[N,32], k[32,4]\noutput y[n,f] = sum[c](k[f,c]*x[n,4*(f//4)+c])\n";
  CHECK(statement(groups, {"y"}, {}, "grad.x") ==
        "output grad.x[n,f] = sum[i1 in ceil((f-3)/4)..floor(f/4)+1,i2 in 4*i1..4*i1+4](k[i2,f-4*i1]*cot.y[n,i2])");
  CHECK(worst_error(groups, {{"N", 3}}) < 1e-6);
}

TEST_CASE("the value of a definition is not computed again in its gradient") {
  const std::string text = "dim S, N\nindex s:S, n:N\ninput x[S,N]\noutput y[s] = logsumexp[n](x[s,n])\n";
  CHECK(statement(text, {"y"}, {}, "grad.x") ==
        "output grad.x[s,n] = exp(x[s,n] - max(y[s], -3.4028234663852886e+38))*cot.y[s]");
}

TEST_CASE("gradients are right for every extent") {
  for (const std::int64_t n : {1, 2, 5}) {
    for (const std::int64_t m : {1, 3, 4}) {
      CHECK(worst_error(kLayer, {{"S", n}, {"I", m}, {"N", 3}}) < 1e-7);
      CHECK(worst_error(kStrided, {{"N", n}, {"K", m}}) < 1e-7);
      CHECK(worst_error(kVariance, {{"S", n}, {"N", m}}) < 1e-7);
    }
  }
}

TEST_CASE("an empty batch has zero gradients") {
  const Program gradient = differentiate(parse(kVariance), {"v"}, {});
  const TensorValues inputs{
      {"mu", {}}, {"kappa", std::vector<double>(9)}, {"beta", {1, 2, 3}}, {"V", {1, 2, 3}}, {"cot.v", {}}};
  CHECK(evaluate(gradient, {{"S", 0}, {"N", 1}}, inputs).at("grad.beta") == std::vector<double>(3));
}

TEST_CASE("a sum that has no round for any element") {
  const std::string text = "dim S\ninput x[S]\noutput y[s in 0..1] = sum[i in 0..s-1](x[i]*x[i+1])\n";
  CHECK(worst_error(text, {{"S", 3}}) < 1e-7);
}

TEST_CASE("triangular sums") {
  const std::string text =
      "dim N\nindex i:N\ninput x[N], y[N]\n"
      "output z[i] = sum[j in i..N](x[j]*exp(y[j-i]) + sum[k in j..N](x[k]*y[i]))\n"
      "output w = sum[i](sum[j in 0..i](sin(x[i]*y[j])*exp(x[j] + y[j])))\n";
  for (const std::int64_t n : {1, 2, 5}) CHECK(worst_error(text, {{"N", n}}) < 1e-7);
}

TEST_CASE("reductions of every kind") {
  const std::string header = "dim N\nindex i:N, j:N\ninput x[N,N], y[N]\n";
  for (const char* kind : {"sum", "prod", "max", "min", "logsumexp"}) {
    const std::string name = kind;
    const std::string inner = header + "output z[i] = y[i]*" + name + "[j](x[i,j]*y[j])\n";
    const std::string outer = header + "output z = 2*" + name + "[i]( " + name + "[j](x[i,j]*y[j]))\n";
    for (const std::int64_t n : {1, 2, 4}) {
      CHECK_MESSAGE(worst_error(inner, {{"N", n}}) < 1e-7, name);
      CHECK_MESSAGE(worst_error(outer, {{"N", n}}) < 1e-7, name);
    }
  }
}

TEST_CASE("the first of equal rounds takes the gradient, and products may have zero factors") {
  const std::string text =
      "dim N\nindex i:N\ninput x[N]\noutput a = max[i](x[i])\noutput b = prod[i](x[i])\noutput c = max(x[0], x[1])\n";
  const Program gradient = differentiate(parse(text), {"a"}, {});
  CHECK(evaluate(gradient, {{"N", 3}}, {{"x", {1, 2, 2}}, {"cot.a", {1}}}).at("grad.x") ==
        std::vector<double>{0, 1, 0});
  const Program product = differentiate(parse(text), {"b"}, {});
  CHECK(evaluate(product, {{"N", 3}}, {{"x", {5, 0, 2}}, {"cot.b", {1}}}).at("grad.x") ==
        std::vector<double>{0, 10, 0});
  const Program binary = differentiate(parse(text), {"c"}, {});
  CHECK(evaluate(binary, {{"N", 2}}, {{"x", {3, 3}}, {"cot.c", {1}}}).at("grad.x") == std::vector<double>{1, 0});
}

TEST_CASE("linear algebra") {
  const std::vector<std::string> bodies = {
      "output y[r,t] = inverse[r,t](A[r,t])\n",
      "output y = logdet[r,t](A[r,t])\n",
      "output y[r,t] = cholesky[r,t](A[r,t])\n",
      "output y[t] = solve[r,t](A[r,t], b[r])\n",
      "let L[r,t] = cholesky[r,t](A[r,t])\noutput y[t] = tri_solve[r,t](L[r,t], b[r])\n",
      "let L[r,t] = cholesky[r,t](A[r,t])\noutput y[t] = tri_solve_transposed[r,t](L[r,t], b[r])\n",
      "let L[r,t] = cholesky[r,t](A[r,t])\noutput y[r,t] = cholesky_inverse[r,t](L[r,t])\n",
      "output y[t] = lu_solve[r,t](A[r,t] + x[r,t], b[r])\n",
      "output y[t] = lu_solve_transposed[r,t](A[r,t] + x[r,t], b[r])\n",
      "output y[r,t] = lu_inverse[r,t](A[r,t] + x[r,t])\n",
      "output y = determinant[r,t](A[r,t] + x[r,t])\n",
      "output y = log_abs_determinant[r,t](A[r,t] + x[r,t])\n",
      "output y[t] = eigenvalues[r,t](A[r,t])\n",
      "output y[r,t] = eigenvectors[r,t](A[r,t])\n",
      "output y = eigenvectors[r,t](x[r,t])[2,1]*eigenvalues[r,t](x[r,t])[2]\n",
      "output y[t] = singular_values[r,t](x[r,t])\n",
      "output y[r,t] = svd_u[r,t](x[r,t]) + 2*svd_v[r,t](x[r,t])\n",
  };
  for (const std::string& body : bodies) CHECK_MESSAGE(worst_error(kMatrixHeader + body, {}) < 1e-7, body);
}

TEST_CASE("linear algebra on inputs: the triangle that is not read receives nothing") {
  const std::string header = "dim N = 3\nindex r:N, t:N\ninput A[N,N], b[N]\n";
  const Program program = parse(header +
                                "output y = logdet[r,t](A[r,t] + where(r == t, 5, 0))\n"
                                "output z[t] = solve[r,t](A[r,t] + where(r == t, 5, 0), b[r])\n");
  CHECK(worst_gradient_error(program, {"y", "z"}, {}, {{"N", 3}}, random_inputs(program, {{"N", 3}}, 3)) < 1e-7);
}

TEST_CASE("batched linear algebra inside larger expressions") {
  const std::string text =
      "dim S dynamic, N = 3\nindex s:S, r:N, t:N, k:N\ninput x[S,N], b[N]\n"
      "output y[s] = 2*logdet[r,t](x[s,r]*x[s,t] + where(r == t, 2 + b[r]^2, 0))\n"
      "output z[s,r] = b[r]*sum[t](inverse[r,t](x[s,r]*x[s,t] + where(r == t, 3, 0))*x[s,t])\n";
  CHECK(worst_error(text, {{"S", 2}}) < 1e-7);
}

TEST_CASE("second derivatives of linear algebra") {
  const Program program = parse(kMatrixHeader + "output y = logdet[r,t](A[r,t])\n");
  const Program gradient = differentiate(program, {"y"}, {"x"});
  const DimValues dims{{"N", 4}};
  CHECK(worst_gradient_error(gradient, {"grad.x"}, {}, dims, random_inputs(gradient, dims, 5)) < 1e-6);
}

TEST_CASE("a second differentiation finds free names") {
  const Program first = differentiate(parse(kLayer), {"y"}, {"x"});
  const Program second = differentiate(first, {"grad.x"}, {"x", "W"});
  CHECK(second.find_input("cot.grad.x"));
  CHECK(second.find_definition("grad.x_2"));
  CHECK(second.find_definition("grad.W"));
}

TEST_CASE("outputs, dtypes and random numbers") {
  const std::string text =
      "dim N\nindex i:N\ninput x[N], k[N]: f64\nlet h[i]: f64 = f64(x[i])*k[i]\noutput y[i] = f32(h[i] + "
      "h[i]^2)*randn(3)\n";
  const Program kept = differentiate(parse(text), {"y"}, {"x", "k"});
  CHECK(kept.find_definition("y")->output);
  CHECK(kept.dtype_of("adj.h") == DType::f64);
  CHECK(kept.dtype_of("grad.x") == DType::f32);
  CHECK(kept.dtype_of("grad.k") == DType::f64);
  CHECK_FALSE(differentiate(parse(text), {"y"}, {"x"}, false).find_definition("y")->output);
  const Program unused = differentiate(parse("dim N\nindex i:N\ninput x[N], z[N]\noutput y[i] = x[i]\n"), {"y"}, {"z"});
  CHECK(unused.find_definition("grad.z")->body == constant(0));
}

TEST_CASE("definitions and their copies keep their domains") {
  const Program program = parse(R"(dim T dynamic, N
index t:T, n:N, k:N
input x[T,N], W[N,N]
let v[t,n] >= 0 = x[t,n]^2
scan t {
  recompute p[t,n] > -1 = where(t == 0, 0, h[t-1,n])
  output h[t,n] < 1 = tanh(v[t,n] + sum[k](W[n,k]*p[t,k]))
}
)");
  const Program gradient = differentiate(program, {"h"}, {"W"});
  CHECK(gradient.domain_of("v") == ValueDomain::NonNegative);
  CHECK(gradient.domain_of("h") == ValueDomain::below(1));
  CHECK(gradient.domain_of("p") == ValueDomain::above(-1));
  CHECK(gradient.domain_of("again.p") == ValueDomain::above(-1));
  CHECK(gradient.domain_of("adj.h") == ValueDomain::Any);
  CHECK(gradient.domain_of("grad.W") == ValueDomain::Any);
}

TEST_CASE("unknown names are refused with the known ones") {
  const Program program = parse(kLayer);
  CHECK_THROWS_WITH_AS(differentiate(program, {"q"}, {}), doctest::Contains("no definition 'q'; it has y"), TypeError);
  CHECK_THROWS_WITH_AS(differentiate(program, {"y"}, {"Z"}), doctest::Contains("no input 'Z'; it has x, W, b"),
                       TypeError);
  CHECK_THROWS_WITH_AS(differentiate(program, {"y", "y"}, {}), doctest::Contains("asked for twice"), TypeError);
}

TEST_CASE("a factor that leaves its loop is read only where it exists") {
  const Program program = parse(R"(dtype f64
dim S = 10, N = 1
input x, w[N]
output y[p in 0..S] = where(p == 2, sum[i in 0..min(floor(p/3)+1, S)](x*where(i-2 >= 0, w[i-2], 0)), 1)
)");
  const Program gradient = differentiate(program, {"y"}, {"x"});
  verify(gradient);
  const TensorValues values = evaluate(gradient, {}, {{"x", {2}}, {"w", {3}}, {"cot.y", std::vector<double>(10, 1)}});
  CHECK(values.at("grad.x") == std::vector<double>{0});
}

TEST_CASE("all steps but the first, or the last, are a range") {
  const std::string scan =
      "dim T, N\nindex t:T, n:N\ninput u0[N], c\nscan t {\n  output u[t,n] = where(t == 0, u0[n], ";
  CHECK(statement(scan + "c*u[t-1,n])\n}\n", {"u"}, {"c"}, "grad.c") ==
        "output grad.c = sum[i1 in 1..T,n](u[i1-1,n]*adj.u[i1,n])");
  CHECK(statement("dim N\nindex n:N\ninput x[N], c\noutput y[n] = where(n != N-1, c*x[n], 0)\n", {"y"}, {"c"},
                  "grad.c") == "output grad.c = sum[i1 in 0..N-1](x[i1]*cot.y[i1])");
}

TEST_CASE("a sum in the adjoint is computed once for all that it goes to") {
  const std::string layer =
      "dim S, I, N\nindex s:S, i:I, n:N\ninput x[S,I], W[I,N], b[N]\n"
      "output y[s,n] = relu(b[n] + sum[i](x[s,i]*W[i,n]))\n";
  CHECK(statement(layer, {"y"}, {"W", "b"}, "grad.b") == "output grad.b[n] = sum[s](adj.y.1[s,n])");
}

TEST_CASE("functions of indices that a derivative substitutes become tables") {
  const std::string frames =
      "dim B, N, T, W, K\nindex b:B, t:T, w:W, k:K\ninput x[B,2*T+W], h[W]\n"
      "output y[b,t,k] = sum[w](x[b,2*t+w]*h[w]*cos(2*pi*k*w/W))\n";
  CHECK(statement(frames, {"y"}, {"x"}, "y.table") == "let y.table[k,w] = cos(2*3.141592653589793*k*w/W)");
  CHECK(statement(frames, {"y"}, {"x"}, "grad.x").find("cos") == std::string::npos);
  CHECK(worst_error(frames, {{"B", 2}, {"N", 1}, {"T", 3}, {"W", 4}, {"K", 3}}) < 1e-8);
  CHECK_MESSAGE(statement(frames, {"y"}, {"h"}, "y.table").empty(), "no index is substituted");
  const std::string all = "dim N\nindex i:N, j:N\ninput x[2*N]\noutput y[i] = sum[j](x[i+j]*cos(i*j))\n";
  CHECK_MESSAGE(statement(all, {"y"}, {"x"}, "y.table").empty(), "a table as large as the loops saves nothing");
  const std::string chosen =
      "dim B, N\nindex b:B, i:N, j:N\ninput x[B,2*N]\n"
      "output y[b,i] = sum[j](where(j >= 1, x[b,i+j]*log(j), 0)) + sum[j in 0..i](x[b,i+j]*log(i-j))\n";
  CHECK_MESSAGE(statement(chosen, {"y"}, {"x"}, "y.table").empty(), "where it may be infinite it is not computed");
}
