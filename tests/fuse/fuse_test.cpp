// How definitions become kernels and library calls, by the printed text.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/diff/differentiate.h"
#include "compiler/fuse/fuse.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/passes.h"
#include "ops/catalogue.h"

using namespace moxie;

namespace {

FusedProgram fused(const std::string& text, const DimValues& dims = {}) {
  return fuse(optimise(specialise(parse(text), dims)));
}

std::ptrdiff_t count_products(const FusedProgram& program) {
  return std::ranges::count_if(program.steps,
                               [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); });
}

std::ptrdiff_t count_kernels_over(const FusedProgram& program, const Range& range) {
  return std::ranges::count_if(program.steps, [&](const Step& step) {
    const auto& kernel = std::get<Kernel>(step);
    return (kernel.vector && kernel.vector->range == range) || (kernel.sample && kernel.sample->range == range);
  });
}

}  // namespace

TEST_CASE("what values scatter lies along the lanes that add it, however others lie") {
  const Program program = optimise(specialise(parse(R"(dim S, V, C
index s:S, v:V, c:C
input at[S]: i32 >= 0, a[C,S], b[S], d[S]
let g[c,v] = sum[s](where(at[s] == v, a[c,s]*b[s]*d[s], 0))
output y[c,v] = exp(g[c,v]) + g[c,0]
)"),
                                              {{"S", 4096}, {"V", 512}, {"C", 32}}));
  // Each term is computed once, where it is added: a table of them would be as large and save nothing.
  CHECK(program.definitions.size() == 2);
  for (const Layouts layouts : {Layouts::chosen, Layouts::row_major}) {
    const FusedProgram fused = fuse(program, Products::kernels, layouts);
    CHECK(fused.layouts.at("g") == std::vector<std::uint32_t>{1, 0});
    CHECK(fused.program.find_definition("a.transposed"));
  }
}

TEST_CASE("a large product of whole matrices goes to the library") {
  CHECK(count_products(fused(R"(dim S dynamic, N = 128, K = 128
index s:S, n:N, k:K
input x[S,K], w[K,N]
output y[s,n] = sum[k](x[s,k]*w[k,n])
)")) == 1);
}

TEST_CASE("products with batch axes go to the library in one call, wherever the axes lie") {
  const auto only_product = [](const std::string& text, const DimValues& dims = {}) {
    const FusedProgram program = fused(text, dims);
    REQUIRE(program.steps.size() == 1);
    REQUIRE(std::holds_alternative<MatrixProduct>(program.steps[0]));
    return std::get<MatrixProduct>(program.steps[0]);
  };
  const MatrixProduct small = only_product(R"(dim B dynamic, N = 26, M = 72, K = 26
index b:B, n:N, m:M, k:K
input x[B,N,M], y[B,M,K]
output z[b,n,k] = sum[m](x[b,n,m]*y[b,m,k])
)");
  CHECK(small.batch == std::vector<Affine>{Symbol::dim("B")});
  CHECK(small.depth == std::vector<Affine>{72});
  const MatrixProduct scores = only_product(R"(dim B dynamic, H = 8, S = 128, D = 64
index b:B, h:H, i:S, j:S, d:D
input q[B,S,H,D], k[B,H,S,D]
output score[b,h,i,j] = sum[d](q[b,i,h,d]*k[b,h,j,d])/sqrt(D)
)");
  CHECK(scores.batch == std::vector<Affine>{Symbol::dim("B"), 8});
  CHECK(scores.alpha == 0.125);
  CHECK(scores.left.batch == std::vector<std::optional<std::uint32_t>>{0, 2});
  CHECK(scores.right.batch == std::vector<std::optional<std::uint32_t>>{0, 1});
  const MatrixProduct middle = only_product(R"(dim M dynamic, N = 16, P = 64, D = 32
index m:M, p:P, n:N, d:D
input x[M,N,P], w[D,N]
output y[m,d,p] = sum[n](x[m,n,p]*w[d,n])
)");
  CHECK(middle.left.tensor == "w");
  CHECK(middle.left.batch == std::vector<std::optional<std::uint32_t>>{std::nullopt});
}

TEST_CASE("batches of matrices that are too small for a library stay in kernels, as do vectors") {
  CHECK(count_products(fused(R"(dim B dynamic, N = 4, M = 512
index b:B, n:N, k:N, m:M
input x[B,N,M], y[B,M,N]
output z[b,n,k] = sum[m](x[b,n,m]*y[b,m,k])
)")) == 0);
  CHECK(count_products(fused(R"(dim B dynamic, M = 512, K = 512
index b:B, m:M, k:K
input x[B,M], y[B,M,K]
output z[b,k] = sum[m](x[b,m]*y[b,m,k])
)")) == 0);
}

TEST_CASE("softmax attention is two products with a kernel of exponentials between them") {
  const FusedProgram program = fused(R"(dim B dynamic, H = 8, S = 128, D = 64
index b:B, h:H, i:S, j:S, d:D
input q[B,H,S,D], k[B,H,S,D], v[B,H,S,D]
let score[b,h,i,j] = sum[d](q[b,h,i,d]*k[b,h,j,d])/sqrt(D)
let z[b,h,i] = logsumexp[j](score[b,h,i,j])
output o[b,h,i,d] = sum[j](exp(score[b,h,i,j] - z[b,h,i])*v[b,h,j,d])
)");
  CHECK(count_products(program) == 2);
}

TEST_CASE("no operand is made that is far larger than all inputs and outputs") {
  const std::string text = R"(dim I, J, E = 3, D = 64
index i:I, j:J, e:E, d:D
input x[I,E], z[J,E], b[J,D]
output y[i,d] = sum[j](exp(-sum[e]((x[i,e]-z[j,e])^2))*b[j,d])
)";
  CHECK(count_products(fused(text, {{"I", 2000}, {"J", 2000}})) == 1);
  CHECK(count_products(fused(text, {{"I", 100000}, {"J", 100000}})) == 0);
}

TEST_CASE("what one axis does not move is summed once beside a product") {
  const FusedProgram program = fused(R"(dim S dynamic, N = 128, M = 256
index s:S, n:N, m:M
input x[S,M], U[N,M], W[N,M]
output y[s,n] = sum[m](U[n,m]*x[s,m]^2 + 0.1*W[n,m]^2)
)");
  CHECK(count_products(program) == 1);
  const auto& definitions = program.program.definitions;
  const auto row_sum = std::ranges::find_if(
      definitions, [](const Definition& d) { return d.body->kind == NodeKind::Reduce && d.axes.size() == 1; });
  REQUIRE(row_sum != definitions.end());
  CHECK(row_sum->axes[0].extent == Affine(128));
}

TEST_CASE("a product of parts of matrices reads them as they lie, or copies where that pays") {
  const auto products = [](const std::string& extents, const std::string& element) {
    const FusedProgram program = fused("dim S dynamic, " + extents +
                                       "\nindex s:S, n:N, k:K\ninput x[K,2*S], w[K,N]\n"
                                       "output y[s,n] = sum[k](" +
                                       element + "*w[k,n])\n");
    return std::pair(count_products(program), std::ssize(program.steps));
  };
  CHECK(products("N = 128, K = 128", "x[k,s]") == std::pair<std::ptrdiff_t, std::ptrdiff_t>(1, 1));
  CHECK(products("N = 128, K = 128", "x[k,2*s]") == std::pair<std::ptrdiff_t, std::ptrdiff_t>(1, 2));
  CHECK(products("N = 8, K = 4096", "x[k,2*s]").first == 0);
}

TEST_CASE("a product of a matrix that is made, with rows as long as a page, goes to the library") {
  CHECK(count_products(fused(R"(dim S dynamic, N = 1024, K = 1024
index s:S, n:N, k:K
input x[S,K], w[N,K]
let squares[n,k] = w[n,k]^2
output y[s,n] = sum[k](x[s,k]*squares[n,k])
)")) == 1);
}

TEST_CASE("a product for a triangle stays in a kernel") {
  CHECK(count_products(fused(R"(dim S dynamic, N = 256
index s:S, n:N
input x[N,N], w[N,S]
output y[n,t in 0..n+1 of N] = sum[s](w[n,s]*w[t,s])
)")) == 0);
}

TEST_CASE("no shared loop runs to an end that another index moves") {
  for (const Step& step : fused(R"(dim S = 100
index i:S
input x[S]
output y[i,j in 0..i of S] = x[i]*x[j]
)")
                              .steps) {
    const auto& kernel = std::get<Kernel>(step);
    for (const auto& loop : {kernel.vector, kernel.sample}) CHECK((!loop || loop->range == Range::extent(100)));
  }
}

TEST_CASE("a sum over lanes and a sum over samples share no kernel") {
  for (const Step& step : fused(R"(dim S = 200, N = 64
index s:S, n:N
input w[S,N], x[N], y[S]
output a[s] = sum[n](w[s,n]*x[n])
output b[n] = sum[s](w[s,n]*y[s])
)")
                              .steps) {
    CHECK(std::get<Kernel>(step).roots.size() == 1);
  }
}

TEST_CASE("the response variance is one kernel over samples") {
  for (const char* op : {"gpn.response_variance", "gpn.response_variance_equispaced"}) {
    CAPTURE(std::string(op));
    const FusedProgram program = fuse(optimise(specialise(load_op(op), {{"N", 100}, {"R", 14}})));
    CHECK(count_kernels_over(program, Range::extent(Symbol::dim("S"))) == 1);
  }
}

TEST_CASE("no definition of the response variance has samples and two inducing points") {
  const Program program = optimise(specialise(load_op("gpn.response_variance"), {{"N", 10}, {"R", 14}}));
  for (const Definition& definition : program.definitions) {
    const bool over_samples = std::ranges::any_of(
        definition.axes, [](const AxisDecl& axis) { return axis.extent == Affine(Symbol::dim("S")); });
    CHECK((!over_samples || definition.axes.size() <= 2));
  }
}

TEST_CASE("equally spaced inducing points are summed over their midpoints") {
  const std::string text =
      print(optimise(specialise(load_op("gpn.response_variance_equispaced"), {{"N", 10}, {"R", 14}})));
  CHECK(text.find("in 0..27") != std::string::npos);
}

namespace {

/// The covariance with its gradients, as a layer in training needs it.
FusedProgram covariance_and_gradients(const char* op) {
  Program program = load_op(op);
  DimValues dims = {{"N", 50}, {"R", 14}, {"J", 10}};
  std::erase_if(dims, [&](const auto& dim) { return !program.find_dim(dim.first); });
  program = differentiate(program, {"mean", "covariance"}, {"mu", "cov", "U", "noise"});
  return fuse(optimise(specialise(program, dims)));
}

}  // namespace

TEST_CASE("value and gradients of a pair of units come from one kernel") {
  const FusedProgram program = covariance_and_gradients("gpn.response_covariance");
  int kernels = 0;
  for (const Step& step : program.steps) {
    const Kernel* kernel = std::get_if<Kernel>(&step);
    if (!kernel) continue;
    const bool sums_pairs = std::ranges::any_of(
        kernel->roots, [](const KernelRoot& root) { return root.accumulate && root.locals.size() >= 3; });
    const bool has_pairs = std::ranges::any_of(
        kernel->roots, [](const KernelRoot& root) { return !root.accumulate && root.locals.size() == 2; });
    kernels += sums_pairs && has_pairs ? 1 : 0;
  }
  CHECK(kernels == 1);
}

TEST_CASE("the series has no loop over its terms") {
  for (const Definition& definition : covariance_and_gradients("gpn.response_covariance_series").program.definitions) {
    CHECK(!definition.scan);
    for (const AxisDecl& axis : definition.axes) CHECK(axis.extent != Affine(10));
  }
}

TEST_CASE("rows as long as a page are stored a line apart") {
  const FusedProgram program = fused(R"(dim N = 1024, R = 14
index n:N, r:R, t:R, u:R
input a[R,R,N], b[R,R,N]
let c[n,r,t] = sum[u](a[r,u,n]*b[u,t,n])
output d[r,t,n] = sum[u](c[n,r,u]*c[n,u,t])
)");
  const Definition& c = *program.program.find_definition("c");
  CHECK(c.axes[0].extent == Affine(1024 + 16));
  CHECK(c.axes[0].range == Range::extent(1024));
}

TEST_CASE("what a scan computes never lies along its steps, however it is read afterwards") {
  // Each step would write one element of every cache line.
  const Program program = specialise(parse(R"(dim B = 4, T = 256, D = 64, N = 16
index b:B, d:D, n:N
input x[B,T,D], dt[B,T,D], A[D,N], Bm[B,T,N], C[B,T,N]
scan t {
  let h[t in 0..T,b,d,n] = where(t >= 1, exp(dt[b,t,d]*A[d,n])*h[t-1,b,d,n], 0) + dt[b,t,d]*Bm[b,t,n]*x[b,t,d]
}
output y[b,t in 0..T,d] = sum[n](h[t,b,d,n]*C[b,t,n])
)"),
                                     {});
  const FusedProgram result = fuse(optimise(differentiate(program, {"y"}, {})));
  for (const std::string name : {"h", "adj.h"}) {
    const auto layout = result.layouts.find(name);
    if (layout != result.layouts.end()) CHECK(layout->second.back() != 0);
  }
}

TEST_CASE("rows of samples are stored a line apart") {
  const FusedProgram program = covariance_and_gradients("gpn.response_covariance_equispaced");
  const Definition& given = *program.program.find_definition("given");
  CHECK(program.layouts.at("given") == std::vector<std::uint32_t>{1, 2, 0});
  CHECK(given.axes[0].extent == Affine(Symbol::dim("S")) + Affine(16));
}

int count_nodes(const Expr& expr, NodeKind kind) {
  int count = 0;
  visit(expr, [&](const Expr& e) { count += e->kind == kind; });
  return count;
}

TEST_CASE("the inner of two sums is the one in which exponents grow evenly") {
  const auto grows_evenly = [](const Expr& sum) {
    const Algebra reals = Algebra::of_reals();
    const OpenedReduce inner = open(sum);
    bool even = true;
    visit(inner.body, [&](const Expr& e) {
      if (!is_call(e, "exp")) return;
      const Expr next = substitute(e->args[0], {{inner.index, Affine(inner.index) + Affine(1)}});
      even &= !reals.normalise(reals.plus(next, reals.scaled(e->args[0], -1)))->depends_on(inner.index);
    });
    return even;
  };
  for (const char* summand : {"a[r]*b[t]*exp(max(min(x[s,r], 1), -1)*t)", "a[t]*b[r]*exp(max(min(x[s,t], 1), -1)*r)"}) {
    const std::string text =
        "dim S dynamic, R = 14\nindex s:S, r:R, t:R\ninput x[S,R], a[R], b[R]\noutput y[s] = sum[r,t](";
    int inner_sums = 0;
    for (const Step& step : fused(text + summand + ")\n").steps) {
      for (const Kernel* kernel : kernels_of(step)) {
        for (const KernelRoot& root : kernel->roots) {
          visit(root.body, [&](const Expr& e) {
            if (e->kind != NodeKind::Reduce || count_nodes(e, NodeKind::Reduce) > 1) return;
            ++inner_sums;
            CHECK(grows_evenly(e));
          });
        }
      }
    }
    CHECK(inner_sums == 1);
  }
}

TEST_CASE("the results of one matrix share its factor") {
  const auto kernels = [](const char* results) {
    const std::string text = R"(dim N = 256, R = 4
index n:N, r:R, t:R, u:R
input v[R,N], x[N,R]
let k[n,r,t] = exp(-(v[r,n] - v[t,n])^2) + where(r == t, 0.1, 0)
)" + std::string(results);
    return fused(text).steps.size();
  };
  CHECK(kernels("output i[n,r,t] = inverse[r,t](k[n,r,t])\noutput d[n] = logdet[r,t](k[n,r,t])\n") == 1);
  CHECK(kernels("output l[n,r,t] = cholesky[r,t](k[n,r,t])\noutput y[n,t] = solve[r,t](k[n,r,t], x[n,r])\n") == 1);
  CHECK(kernels("output i[n,r,t] = inverse[r,t](k[n,r,t])\noutput d[n] = logdet[r,t](2*k[n,r,t])\n") == 2);
  // The second needs all of what the first gives.
  CHECK(kernels(
            "let i[n,r,t] = inverse[r,t](k[n,r,t])\noutput y[n,t] = solve[r,t](k[n,r,t], sum[u](i[n,r,u]*x[n,u]))\n") >
        1);
}

TEST_CASE("a sum over two long indices stays one matrix product") {
  const FusedProgram program = fused(R"(dim S = 256, T = 100, V = 512, E = 32
index s:S, t:T, v:V, e:E
input hot[S,T,V], cot[S,T,E]
output grad[v,e] = sum[s,t](hot[s,t,v]*cot[s,t,e])
)");
  CHECK(std::ranges::count_if(program.steps,
                              [](const Step& step) { return std::holds_alternative<MatrixProduct>(step); }) == 1);
  for (const Definition& definition : program.program.definitions) {
    if (definition.name != "grad") CHECK(definition.axes.size() < 3);
  }
}

TEST_CASE("what stands in a sum that may be empty does not leave it when sums change places") {
  const FusedProgram program = fused(R"(dim N dynamic, R = 6
input g[R]: f64, x[N,R]: f64, w[R]: f64
output y[i in 0..N,j in 0..R]: f64 = sum[m in 0..N](x[m,j]*sum[t in 0..j-i-1](f32(0.125*g[j-i-2])*w[t]*exp(w[t] - x[m,j])))
)");
  const Kernel& kernel = std::get<Kernel>(program.steps.back());
  const Expr& outer = kernel.roots.back().body;
  REQUIRE(outer->kind == NodeKind::Reduce);  // and no product with an element of g, which need not exist
  CHECK(count_nodes(outer, NodeKind::Reduce) == 2);
}

TEST_CASE("loops stand inside those that move their ranges") {
  // Half of a pooling by bilinear samples: a sum over the bins of r shares its loops with the map over bins.
  const Program program = parse(R"(dim C, H, W, K
index c:C, k:K, p:7, q:7, a:2, e:2, r:14
input x[C,H,W], box[K,2]
let y[k,r] = box[k,0]*r
let z[k,r] = box[k,1]*r
let y0[k,r]: i32 = clamp(floor(y[k,r]), 0, H-2)
let z0[k,r]: i32 = clamp(floor(z[k,r]), 0, W-2)
def low(k, c, r, s) = (1 - (y[k,r] - y0[k,r]))*(z[k,s] - z0[k,s])*x[c,y0[k,r],z0[k,s]+1]
def high(k, c, r, s) = (y[k,r] - y0[k,r])*(z[k,s] - z0[k,s])*x[c,y0[k,r]+1,z0[k,s]+1]
output pooled[k,c,p,q] = mean[a,e](low(k, c, 2*p+a, 2*q+e) + high(k, c, 2*p+a, 2*q+e))
)");
  const DimValues dims = {{"C", 64}, {"H", 8}, {"W", 8}, {"K", 4}};
  const FusedProgram pooling = fuse(optimise(differentiate(specialise(program, dims), {"pooled"}, {"box"})));
  for (const Step& step : pooling.steps) {
    for (const KernelRoot& root : std::get<Kernel>(step).roots) {
      for (std::size_t k = 0; k < root.locals.size(); ++k) {
        for (std::size_t inner = k; inner < root.locals.size(); ++inner)
          CHECK_FALSE(mentions(root.locals[k].range, root.locals[inner].symbol));
      }
    }
  }
}

TEST_CASE("what sums over nothing alone read has no kernel") {
  const Program program = parse(R"(dim S dynamic
input x0[128], x1[128,S,1] > -0.5
let f1.sum[i0 in 0..S,i1 in 0..S] = sum[i2 in 3..3](x1[i2+2,i1,i0+1]*x1[i2+2,i2,i0+1]*x1[3*i0-2,i2,i2-2])
let f1[i in 0..1,j in 0..S] = sum[i1 in 3..3](x1[3*j-2,i1,i1-2]*f1.sum[j,i1])
output f2 = sum[i1 in 0..2](exp(-normal_cdf(where(0 >= i1+1 and 3*i1-1 >= 0 and S-1 >= 3*i1-1, f1[i1+1,3*i1-1], 0) + x0[0])))
)");
  for (const Step& step : fuse(program).steps) {
    for (const Kernel* kernel : kernels_of(step)) CHECK(!kernel->roots.empty());
  }
}
