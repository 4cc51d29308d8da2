#include "compiler/builder/builder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "compiler/diff/differentiate.h"
#include "compiler/expression/functions.h"
#include "compiler/reference/evaluate.h"
#include "compiler/support/error.h"

using namespace moxie;

namespace {

Program gpn_mean() {
  Program p("gpn_mean");
  Dim S = p.dim("S", dynamic), N = p.dim("N"), R = p.dim("R", 14);
  Index s(S), n(N), r(R);
  Tensor mu = p.input("mu", {S, N}), var = p.input("var", {S, N}), V = p.input("V", {R, N}),
         beta = p.input("beta", {R, N});
  Tensor lambda = p.input("lambda", {N});
  Tensor d = p.let("d", {s, n}, sq(lambda(n)) + var(s, n));
  Tensor psi = p.let("psi", {s, r, n}, sqrt(sq(lambda(n)) / d(s, n)) * exp(-sq(mu(s, n) - V(r, n)) / (2 * d(s, n))));
  p.output("mean", {s, n}, sum(r, psi(s, r, n) * beta(r, n)));
  return p;
}

const std::string kGpnMean = R"(dim S dynamic, N, R = 14
index s:S, n:N, r:R
input mu[S,N], var[S,N], V[R,N], beta[R,N], lambda[N]
let d[s,n] = lambda[n]^2 + var[s,n]
let psi[s,r,n] = sqrt(lambda[n]^2/d[s,n]) * exp(-(mu[s,n]-V[r,n])^2/(2*d[s,n]))
output mean[s,n] = sum[r](psi[s,r,n]*beta[r,n])
)";

Program without_lines(Program program) {
  for (Definition& definition : program.definitions) definition.line = 0;
  return program;
}

void check_round_trip(const Program& program) {
  const std::string text = print(program);
  CAPTURE(text);
  CHECK(without_lines(parse(text, program.name + ".mox")) == program);
}

/// Both programs, given the same numbers, compute the same.
void check_same_values(const Program& a, const Program& b, const DimValues& dims) {
  TensorValues inputs;
  const auto extent = [&](const Affine& affine) {
    return affine.evaluate([&](Symbol symbol) { return dims.at(symbol.name()); });
  };
  for (const InputDecl& input : a.inputs) {
    std::int64_t count = 1;
    for (const Affine& axis : input.shape) count *= extent(axis);
    for (std::int64_t k = 0; k < count; ++k)
      inputs[input.name].push_back(0.5 + 0.01 * static_cast<double>((k * 37 + 11) % 101));
  }
  CHECK(evaluate(a, dims, inputs) == evaluate(b, dims, inputs));
}

template <class E>
void check_rejects(const std::function<void(Program&)>& change, const std::string& fragment) {
  Program program = gpn_mean();
  const Program before = program;
  std::string message;
  try {
    change(program);
  } catch (const E& error) {
    message = error.what();
  }
  CHECK_MESSAGE(message.find(fragment) != std::string::npos, message);
  CHECK(program == before);
}

}  // namespace

TEST_CASE("the C++ form of the GPN mean is the program that its text form is") {
  const Program built = gpn_mean();
  check_round_trip(built);
  check_same_values(built, parse(kGpnMean), {{"S", 3}, {"N", 2}, {"R", 14}});
}

TEST_CASE("a built program is differentiated like any other") {
  const Program gradient = differentiate(gpn_mean(), {"mean"}, {"mu", "var", "beta"});
  verify(gradient);
  for (const char* name : {"grad.mu", "grad.var", "grad.beta"}) CHECK(gradient.find_definition(name)->output);
  check_same_values(gradient, differentiate(parse(kGpnMean), {"mean"}, {"mu", "var", "beta"}),
                    {{"S", 2}, {"N", 2}, {"R", 14}});
}

TEST_CASE("indices without names take those of declared ones of the same range, else new ones") {
  Program p;
  Dim N = p.dim("N");
  Index a(N), b(N), named(N, "row"), c(2 * N + 1);
  Tensor x = p.input("x", {N}), j = p.input("j");
  p.let("outer", {a, b}, x(a) * x(b));
  p.let("again", {b}, x(b));
  p.let("rows", {named}, x(named));
  p.let("long", {c, named}, c + x(named) * j);
  CHECK(print(p) ==
        "dim N\nindex i:N, k:N, row:N, l:2*N+1\ninput x[N], j\nlet outer[i,k] = x[i]*x[k]\nlet again[i] = x[i]\n"
        "let rows[row] = x[row]\nlet long[l,row] = l + x[row]*j\n");
}

TEST_CASE("every construct of the language has its C++ spelling") {
  Program p("constructs", DType::f64);
  Dim B = p.dim("B"), N = p.dim("N", 4);
  Index b(B, "b"), r(N, "r"), t(N, "t"), k(0, 3, "k"), above(r, N, "above");
  Tensor x = p.input("x", {2 * N + 3}, ValueDomain::Positive, DType::f32), y = p.input("y", {B, N, N});
  Tensor w = p.input("w", {}, ValueDomain::NonNegative);
  Tensor C = p.let("C", {b, r, t}, sum(k, y(b, r, 0) * y(b, t, 0) * k) + where(equal(r, t), 20, 0));
  Tensor upper = p.let("upper", {r, above.of(N)}, x(r + 2 * above) * w);
  Tensor inv = p.let("inv", {b, r, t}, inverse(r, t, C(b, r, t)));
  Tensor L = p.let("L", {b, r, t}, cholesky(r, t, C(b, r, t)));
  Tensor solved = p.let("solved", {b, t}, solve(r, t, C(b, r, t), y(b, r, 1)));
  Tensor half = p.let("half", {b, t}, tri_solve(r, t, L(b, r, t), y(b, r, 1)));
  p.let("back", {b, t}, tri_solve_transposed(r, t, L(b, r, t), half(b, r)) - solved(b, t), DType::f32);
  p.let("turned", {b, r, t}, eigenvectors(r, t, C(b, r, t)) * eigenvalues(r, t, C(b, r, t)));
  p.let("above_column", {b, r, k}, qr_q(r, k, y(b, r, k)) + qr_r(r, k, y(b, r, k), 0, k));
  p.let("noise", {b, r}, randn(0, {b, r}) + randu(1, {r}));
  p.let("extremes", {b}, max({r, t}, y(b, r, t)) - min(r, y(b, r, r)) + prod(k, w + k) + logsumexp(r, y(b, r, 0)));
  p.let("guarded", {r}, where((r >= 1 && r + 1 < N) || !not_equal(w, 0), x(r - 1 + 1), max(Expr(r), N)));
  Tensor total = p.let("total", {}, logdet(r, t, inv(0, r, t)) + sum({r, above}, upper(r, above)) + f64(w));
  p.output(total);
  p.let("positive", {r}, x(r) + w, ValueDomain::Positive);
  p.output("higher", {r}, x(r), {ValueDomain::above(-1), DType::f32});
  CHECK(p.domain_of("positive") == ValueDomain::Positive);
  CHECK(p.dtype_of("positive") == DType::f64);
  CHECK(p.domain_of("higher") == ValueDomain::above(-1));
  CHECK(p.dtype_of("higher") == DType::f32);
  check_round_trip(p);
}

TEST_CASE("a guard on an affine number keeps an access inside its tensor, as in the text form") {
  Program p;
  Dim N = p.dim("N");
  Index n(N, "n");
  Tensor x = p.input("x", {N});
  p.output("y", {n}, where(n + 1 < N, x(n + 1), 0));
  check_round_trip(p);
}

namespace {

/// A running state in both directions.
Program recurrence() {
  Program p("recurrence");
  Dim T = p.dim("T", dynamic), N = p.dim("N");
  Index t(T, "t"), n(N, "n"), k(N, "k");
  Tensor x = p.input("x", {T, N}), h0 = p.input("h0", {N}), W = p.input("W", {N, N});
  const Tensor h("h", 2), back("back", 2);
  p.scan(t, [&](ScanBody& step) {
    Tensor before = step.recompute("before", {t, n}, where(equal(t, 0), h0(n), h(t - 1, n)));
    step.output("h", {t, n}, tanh(x(t, n) + sum(k, W(n, k) * before(t, k))), {ValueDomain::above(-2), DType::f64});
  });
  p.scan(t, backwards,
         [&](ScanBody& step) { step.let("back", {t, n}, h(t, n) + where(t + 1 < T, sin(back(t + 1, n)), 0)); });
  p.output("y", {n}, sum(t, back(t, n) * x(t, n)));
  return p;
}

const std::string kRecurrence = R"(dim T dynamic, N
index t:T, n:N, k:N
input x[T,N], h0[N], W[N,N]
scan t {
  recompute before[t,n] = where(t == 0, h0[n], h[t-1,n])
  output h[t,n]: f64 > -2 = tanh(x[t,n] + sum[k](W[n,k]*before[t,k]))
}
scan t backwards {
  let back[t,n] = h[t,n] + where(t + 1 < T, sin(back[t+1,n]), 0)
}
output y[n] = sum[t](back[t,n]*x[t,n])
)";

}  // namespace

TEST_CASE("the C++ form of a scan is the program that its text form is") {
  const Program built = recurrence();
  check_round_trip(built);
  check_same_values(built, parse(kRecurrence), {{"T", 4}, {"N", 3}});
  CHECK(built.definitions[0].scan == Scan{1, false});
  CHECK(built.definitions[2].scan == Scan{2, true});
}

TEST_CASE("a scan that is wrong is refused as a whole") {
  const Dim S("S"), N("N");
  const Index s(S), n(N);
  const Tensor lambda("lambda", 1), h("h", 2);
  check_rejects<TypeError>([&](Program& p) { p.scan(s, [](ScanBody&) {}); }, "a scan is empty");
  check_rejects<ShapeError>([&](Program& p) { p.scan(s, [&](ScanBody& step) { step.let("h", {n, s}, lambda(n)); }); },
                            "does not have the scan's index as its first axis");
  check_rejects<TypeError>(
      [&](Program& p) {
        p.scan(s, [&](ScanBody& step) {
          step.let("first", {s, n}, lambda(n));
          step.let("h", {s, n}, h(s, n));
        });
      },
      "computed later in the same step");
}

TEST_CASE("scalar functions of the C++ form are the rows of the table") {
  const Expr x = tensor_access("x", {});
  const std::pair<Expr, const char*> functions[] = {{exp(x), "exp"},
                                                    {exp2(x), "exp2"},
                                                    {expm1(x), "expm1"},
                                                    {log(x), "log"},
                                                    {log2(x), "log2"},
                                                    {log1p(x), "log1p"},
                                                    {sqrt(x), "sqrt"},
                                                    {rsqrt(x), "rsqrt"},
                                                    {sin(x), "sin"},
                                                    {cos(x), "cos"},
                                                    {abs(x), "abs"},
                                                    {sign(x), "sign"},
                                                    {floor(x), "floor"},
                                                    {relu(x), "relu"},
                                                    {tanh(x), "tanh"},
                                                    {sigmoid(x), "sigmoid"},
                                                    {softplus(x), "softplus"},
                                                    {erf(x), "erf"},
                                                    {erfc(x), "erfc"},
                                                    {normal_cdf(x), "normal_cdf"},
                                                    {normal_pdf(x), "normal_pdf"},
                                                    {log_normal_cdf(x), "log_normal_cdf"},
                                                    {lgamma(x), "lgamma"},
                                                    {digamma(x), "digamma"},
                                                    {trigamma(x), "trigamma"},
                                                    {atan(x), "atan"},
                                                    {asin(x), "asin"},
                                                    {acos(x), "acos"},
                                                    {erfinv(x), "erfinv"},
                                                    {i0e(x), "i0e"},
                                                    {i1e(x), "i1e"},
                                                    {stop_gradient(x), "stop_gradient"},
                                                    {f32(x), "f32"},
                                                    {f64(x), "f64"}};
  for (const auto& [expr, name] : functions) CHECK(expr == call(name, {x}));
  for (const ScalarFunction& row : scalar_functions()) {
    if (row.arity != 1 || row.name == "neg" || row.name == "not") continue;  // operators in C++
    CAPTURE(row.name);
    CHECK(std::ranges::any_of(functions, [&](const auto& function) { return function.second == row.name; }));
  }
  CHECK(pow(x, 3) == call("pow", {x, 3}));
  CHECK(with_slope(x, 3, 2) == call("with_slope", {x, 3, 2}));
  CHECK(squared_deviation(x, 3) == call("squared_deviation", {x, 3}));
  CHECK(with_derivative([](const Expr& u) { return floor(u); }, x, 1) ==
        call("with_slope", {floor(stop_gradient(x)), x, 1}));
  CHECK(atan2(x, 3) == call("atan2", {x, 3}));
  CHECK(max(x, 3) == call("max", {x, 3}));
  CHECK(min(x, 3) == call("min", {x, 3}));
}

TEST_CASE("compositions of the C++ form are those of the text form") {
  Program p("p");
  const Dim N = p.dim("N");
  const Index n(N), k(N);
  const Tensor x = p.input("x", {N});
  const Expr at = x(n);
  const std::vector<std::pair<Expr, std::string>> compositions = {
      {clamp(at, -1, 2), "clamp(x[n], -1, 2)"},
      {log_sigmoid(at), "log_sigmoid(x[n])"},
      {silu(at), "silu(x[n])"},
      {gelu(at), "gelu(x[n])"},
      {log1mexp(at), "log1mexp(x[n])"},
      {round(at), "round(x[n])"},
      {log10(at), "log10(x[n])"},
      {tan(at), "tan(x[n])"},
      {sinh(at), "sinh(x[n])"},
      {cosh(at), "cosh(x[n])"},
      {ceil(at), "ceil(x[n])"},
      {asinh(at), "asinh(x[n])"},
      {acosh(at), "acosh(x[n])"},
      {atanh(at), "atanh(x[n])"},
      {softmax(n, at), "softmax[n](x[n])"},
      {log_softmax(n, at), "log_softmax[n](x[n])"},
      {mean(k, x(k)) * at, "mean[k](x[k])*x[n]"},
      {variance(k, x(k) * at), "variance[k](x[k]*x[n])"},
      {where(any(k, x(k) > 1), at, 0), "where(any[k](x[k] > 1), x[n], 0)"},
      {where(!all(k, x(k) > 1), at, 0), "where(not all[k](x[k] > 1), x[n], 0)"}};
  for (const auto& [expr, text] : compositions) {
    CAPTURE(text);
    Program built = p;
    built.output("y", {n}, expr);
    const Program read = parse("dim N\nindex n:N, k:N\ninput x[N]\noutput y[n] = " + text + "\n");
    CHECK(built.definitions[0].body == read.definitions[0].body);
  }
}

TEST_CASE("what would make a program wrong is refused and changes nothing") {
  check_rejects<TypeError>([](Program& p) { p.dim("mu"); }, "`mu`: one name names one thing");
  check_rejects<TypeError>([](Program& p) { p.input("sum"); }, "`sum`: this is a word of the language");
  check_rejects<TypeError>([](Program& p) { p.let("2x", {}, 0); }, "`2x`: names consist of letters");
  check_rejects<ShapeError>([](Program& p) { p.dim("M", -1); }, "dim `M` is negative: -1");
  check_rejects<TypeError>([](Program& p) { p.let("y", {}, Tensor("nowhere", 0)); },
                           "`nowhere` is neither an input nor a definition");
  check_rejects<TypeError>([](Program& p) { p.output(Tensor("mu", 2)); }, "`mu` is no definition of this program");
  check_rejects<TypeError>([](Program& p) { p.let("y", {}, Expr()); }, "definition `y` has no formula");
}

TEST_CASE("indices are checked where they are used") {
  const Dim N("N");
  const Index n(N), q(0, Expr(n) + 1);
  const Tensor lambda("lambda", 1);
  check_rejects<TypeError>([&](Program& p) { p.let("y", {}, lambda(n)); },
                           "is no axis of the definition and nothing reduces over it");
  check_rejects<TypeError>([&](Program& p) { p.let("y", {n, n}, lambda(n)); }, "one index stands twice among its axes");
  check_rejects<ShapeError>([&](Program& p) { p.let("y", {n, q}, lambda(q)); },
                            "the extent of axis l cannot be seen from its range");
  check_rejects<ShapeError>([&](Program& p) { p.let("y", {n}, lambda(n + 1)); },
                            "subscript j+1 of `lambda[j+1]` can leave 0..N");
  check_rejects<ShapeError>([&](Program& p) { p.let("y", {n}, lambda(n, n)); },
                            "`lambda` has 1 axes, but 2 subscripts were given");
  check_rejects<TypeError>([&](Program& p) { p.let("y", {n}, lambda(0.5 * n)); }, "is not affine in indices and dims");
  check_rejects<TypeError>([&](Program& p) { p.let("y", {n}, lambda(exp(n))); }, "is not affine in indices and dims");
  check_rejects<ShapeError>([&](Program& p) { p.let("y", {n}, inverse(n, Index(3), Expr(1))); },
                            "inverse wants two indices");
}
