// Lowered kernels never read outside their tensors: the interpreter device checks every access.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/fuse/fuse.h"
#include "compiler/loop/interpreter.h"
#include "compiler/loop/lower.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "runtime/launch.h"
#include "runtime/plan.h"
#include "runtime/session.h"

using namespace moxie;

namespace {

struct Run {
  DimValues dims;
  TensorValues inputs;
};

/// Runs the program on the interpreter and compares its outputs with evaluate().
void check(const char* text, const Run& run) {
  const Program program = with_dtype(parse(text), DType::f64);
  DimValues fixed;
  for (const DimDecl& dim : program.dims) {
    if (!dim.dynamic) fixed[dim.name] = dim.value ? *dim.value : run.dims.at(dim.name);
  }
  Session session(program, fixed, open_device("interp"));
  for (const InputDecl& input : program.inputs) {
    session.set(input.name,
                make_host_tensor(input.dtype, extents_of(program, input.name, run.dims), run.inputs.at(input.name)));
  }
  session.run();
  const TensorValues want = evaluate(program, run.dims, run.inputs);
  for (const Definition& definition : program.definitions) {
    if (!definition.output) continue;
    const std::vector<double> got = to_doubles(session.get(definition.name));
    REQUIRE(got.size() == want.at(definition.name).size());
    for (std::size_t k = 0; k < got.size(); ++k)
      CHECK(got[k] == doctest::Approx(want.at(definition.name)[k]).epsilon(1e-12));
  }
}

}  // namespace

TEST_CASE("a load stays in a loop that may have no rounds") {
  check(R"(dim N
index n:N
input x[N], y[N]
output z[n] = sum[i in 0..n](tanh(x[n-1] + y[i]))
)",
        {{{"N", 3}}, {{"x", {1, 2, 3}}, {"y", {4, 5, 6}}}});
}

TEST_CASE("an inner sum stays in a loop that may have no rounds") {
  check(R"(dim N
index n:N, m:N
input x[N,N], y[N]
output z[n] = sum[i in 0..n](tanh(y[i]*sum[m](x[n-1,m])))
)",
        {{{"N", 2}}, {{"x", {1, 2, 3, 4}}, {"y", {4, 5}}}});
}

TEST_CASE("a guard protects an access with a plain index too") {
  check(R"(dim N, M
index n:N
input x[M], y[N]
output z[n] = where(n < M, exp(x[n])*y[n], y[n])
)",
        {{{"N", 3}, {"M", 2}}, {{"x", {1, 2}}, {"y", {4, 5, 6}}}});
}

TEST_CASE("an access is guarded by the one condition that keeps it inside, so that reads in several branches are one") {
  const char* text = R"(dim N
index n:N, k:N
input x[N,N], y[N]
output z[n,k] = where(n >= 1, where(k > n, y[k]*x[n-1,k], where(y[n] > 0, x[n-1,k], -x[n-1,k])), x[n,k])
)";
  check(text, {{{"N", 2}}, {{"x", {1, 2, 3, 4}}, {"y", {5, -6}}}});
  const std::string loops =
      print(std::get<LoweredKernel>(make_plan(specialise(parse(text), {{"N", 40}})).steps.front()).program);
  CAPTURE(loops);
  CHECK(loops.find("x[n - 1, k]") == loops.rfind("x[n - 1, k]"));
  CHECK(loops.find("x[n - 1, k]") != std::string::npos);
}

TEST_CASE("loops that nothing waiting could share come first, and opposite differences are squared once") {
  const char* text = R"(dim S dynamic, N, R, D
index s:S, n:N, r:R, d:D
input m[S,N], v[R,N], w[D,N], g[S,D]
output p[s,n] = sum[r](exp(-(v[r,n] - m[s,n])^2))
let up[s,n] = sum[d](g[s,d]*w[d,n])
output q[r,n] = sum[s](up[s,n]*exp(-(m[s,n] - v[r,n])^2))
)";
  check(text, {{{"S", 2}, {"N", 1}, {"R", 2}, {"D", 3}},
               {{"m", {1, 2}}, {"v", {0.5, 2}}, {"w", {1, -1, 2}}, {"g", {1, 2, 3, 4, 5, 6}}}});
  const Program program = specialise(parse(text), {{"N", 16}, {"R", 14}, {"D", 26}});
  const std::string loops = print(std::get<LoweredKernel>(make_plan(program).steps.front()).program);
  CAPTURE(loops);
  CHECK(loops.find("exp2(") != std::string::npos);
  CHECK(loops.find("exp2(") == loops.rfind("exp2("));
}

TEST_CASE("a condition that reads behind a guard of its own is computed behind it everywhere") {
  check(R"(dim N
index n:N
input x[N], y[N]
output z[n] = where(where(n >= 1, x[n-1], 0) > 1.5, y[n] + 1, x[n])
)",
        {{{"N", 3}}, {{"x", {1, 2, 3}}, {"y", {4, 5, 6}}}});
}

TEST_CASE("the right-hand side of a solve may read behind a guard") {
  check(R"(dim N = 2
index n:N, m:N
input x[N]
output z[m] = solve[n,m](where(n == m, 2, 0.5), where(n >= 1, x[n-1], 0))
)",
        {{{"N", 2}}, {{"x", {1, 2}}}});
}

TEST_CASE("what is computed before a double loop stays inside its tensor") {
  check(R"(dim N
index n:N
input x[3], y[N]
output z[n] = sum[r in 0..3](sum[t in 0..min(r+1, 14)](exp(-x[t]^2)*exp(-(x[r] - y[n])^2)))
)",
        {{{"N", 2}}, {{"x", {1, 2, 3}}, {"y", {4, 5}}}});
}

TEST_CASE("a table of an axis that is never run through takes no room") {
  check(R"(dim S dynamic, N
index s:S, n:N
input x[S], y[N]
output z[n] = sum[s in 0..S-2](tanh(x[s])*y[n])
)",
        {{{"S", 1}, {"N", 2}}, {{"x", {1}}, {"y", {4, 5}}}});
}

TEST_CASE("a library's product reads operands that lie column by column") {
  check(R"(dim S dynamic, N dynamic, K dynamic
index s:S, n:N, k:K
input x[S,K], w[N]
let v[n,k] = exp(w[n])*k
output y[s,n] = sum[k](x[s,k]*v[n,k])
)",
        {{{"S", 2}, {"N", 2}, {"K", 3}}, {{"x", {1, 2, 3, 4, 5, 6}}, {"w", {0.5, 0.25}}}});
}

TEST_CASE(
    "exponentials in arithmetic progression are multiplied from round to round, where none can leave the numbers") {
  check(R"(dim N, T
index n:N, t:T, r in 0..3
input x[N], w[T]
output y[n] = sum[r,t](w[t]*exp(max(min(x[n]*r, 2), -2)*(t - 3)))
output z[n] = sum[t](w[t]*exp(30*x[n]*(t - 7)))
)",
        {{{"N", 3}, {"T", 8}}, {{"x", {1, -2, 0.5}}, {"w", {1, 2, 3, 4, 5, 6, 7, 8}}}});
}

TEST_CASE("sums over both parts of a triangle accumulate in the loops of its elements") {
  check(R"(dim S, N, R
index s:S, n:N, m:N, r:R, t:R
input x[S,N], w[R], g[S,N,N]
let pair[s,n,m in n+1..N] = sum[r,t](w[r]*w[t]*exp(-(x[s,n]*w[r] - x[s,m]*w[t])^2))
output y[s,n,m] = where(n < m, pair[s,n,m], where(m < n, pair[s,m,n], 0))
output upper[r,n] = sum[s](sum[m in n+1..N](g[s,n,m]*sum[t](w[t]*exp(-(x[s,n]*w[r] - x[s,m]*w[t])^2))))
output lower[t,m] = sum[s](sum[n in 0..m](g[s,n,m]*sum[r](w[r]*exp(-(x[s,n]*w[r] - x[s,m]*w[t])^2))))
)",
        {{{"S", 2}, {"N", 5}, {"R", 4}},
         {{"x", {1, 2, 3, 4, 5, 0, -1, 0.5, 0.25, 1}},
          {"w", {0.5, 0.1, -0.3, 0.7}},
          {"g", std::vector<double>(50, 0.5)}}});
}

namespace {

using Buffers = std::vector<std::vector<double>>;

/// What one call leaves in the buffers, whose elements are small numbers at first.
Buffers interpreted(const LoweredKernel& kernel, const LoopProgram& loops, const DimValues& dims) {
  DimValues symbols = dims;
  symbols[argument::kChunks] = 1;
  Buffers buffers;
  for (const BufferDecl& buffer : loops.buffers) {
    std::size_t count = 1;
    for (const Affine& extent : buffer.shape) count *= static_cast<std::size_t>(evaluate(extent, symbols));
    buffers.emplace_back(count);
    for (std::size_t k = 0; k < count; ++k) buffers.back()[k] = static_cast<double>(k * 37 % 101) / 16 - 3;
  }
  const std::vector<std::span<double>> views(buffers.begin(), buffers.end());
  CHECK(interpret(loops, views, launch_arguments(kernel, dims, {}, 1, 7, 5)).failed == 0);
  return buffers;
}

std::vector<LoweredKernel> kernels_for(const char* text, const DimValues& dims) {
  const Plan plan = make_plan(specialise(parse(text), dims));
  std::vector<LoweredKernel> kernels;
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) kernels.push_back(*kernel);
  }
  return kernels;
}

}  // namespace

TEST_CASE("what only walks through memory has loops in the order of memory for processors, which compute the same") {
  const auto tiles_of_rows = [](std::int64_t height, std::int64_t width) {
    const DimValues dims = {{"S", 3}, {"C", 2}, {"H", height}, {"W", width}};
    const LoweredKernel walk = kernels_for(R"(dim S dynamic, C, H, W
index s:S, c:C, i:H, j:W
input x[S,C,H,W], sigma[C]
output y[s,c,i,j] = relu(x[s,c,i,j]) + sigma[c]*randn(0)
output total[c] = sum[s,i,j](x[s,c,i,j]*randn(0)[s,c,i,j])
output column[c,j] = sum[s](sum[i](x[s,c,i,j]^2))
)",
                                           dims)
                                   .front();
    REQUIRE(walk.threads);
    CHECK(std::get<stmt::For>(walk.threads->program.body.back()).vector);
    CHECK_FALSE(std::get<stmt::For>(walk.program.body.back()).vector);
    const LoweredKernel threads = for_threads(walk);
    CHECK(threads.tiles);
    const Buffers want = interpreted(threads, threads.program, dims), got = interpreted(walk, walk.program, dims);
    for (std::size_t b = 0; b < want.size(); ++b) {
      for (std::size_t k = 0; k < want[b].size(); ++k) CHECK(got[b][k] == doctest::Approx(want[b][k]));
    }
    return walk.tiles;
  };
  CHECK_FALSE(tiles_of_rows(2, 37));
  CHECK_FALSE(tiles_of_rows(32, 32));  // as long as the loop around
  CHECK(tiles_of_rows(2, 1000));
}

TEST_CASE(
    "the vector loop stays outside of loops that compute much for each element, and of sums that read elements often") {
  const auto keeps = [](const char* output) {
    const std::string head = "dim S dynamic, N, R\nindex s:S, n:N, r:R\ninput x[S,N], t[S,R], point[R,N]\n";
    const auto kernels = kernels_for((head + output).c_str(), {{"S", 3}, {"N", 1000}, {"R", 5}});
    return std::ranges::none_of(kernels, [](const LoweredKernel& kernel) { return kernel.threads.has_value(); });
  };
  CHECK(keeps("output y[s,n] = sum[r](exp(-(x[s,n] - point[r,n])^2))\n"));
  CHECK(keeps("output y[r,n] = sum[s](t[s,r]*exp(x[s,n]))\n"));
  CHECK_FALSE(keeps("output y[n] = sum[s](x[s,n]^2)\n"));
  // Gradients of a layer normalisation took three times as long with columns of 4 KB rows inside.
  CHECK_FALSE(keeps("input mean[S]\noutput y[n] = sum[s]((x[s,n] - mean[s])^2)\n"));
}

TEST_CASE("two rounds of a loop share an inner one, in sums, in elements and in sums of elements") {
  const char* text = R"(dim S, R, T
index s:S, r:R, t:T
input x[S,R], w[T], v[R]
let e[s,r,t] = exp(-(x[s,r] - w[t])^2)
output total[s] = sum[r](v[r]*sum[t](w[t]*e[s,r,t]))
output rows[s,r] = sum[t](w[t]*e[s,r,t])
output columns[t] = sum[s](sum[r](v[r]*e[s,r,t]))
)";
  const auto run = [](std::int64_t rounds) {
    Run run{{{"S", 2}, {"R", rounds}, {"T", 3}}, {{"w", {0.5, -1, 2}}}};
    for (std::int64_t k = 0; k < 2 * rounds; ++k) run.inputs["x"].push_back(0.1 * static_cast<double>(k));
    for (std::int64_t k = 0; k < rounds; ++k) run.inputs["v"].push_back(1 - 0.3 * static_cast<double>(k));
    return run;
  };
  for (const std::int64_t rounds : {1, 2, 3, 4}) check(text, run(rounds));
}

TEST_CASE("a loop runs in pairs of rounds where an inner one serves both") {
  const auto rounds = [](const char* text) {
    const Plan plan = make_plan(specialise(parse(text), {}));
    return print(std::get<LoweredKernel>(plan.steps.front()).program);
  };
  CHECK(rounds(R"(dim S dynamic, R = 4, T = 4
index s:S, r:R, t:T
input x[R,S], w[T,S]
output y[s] = sum[r](x[r,s]*sum[t](w[t,s]*tanh(x[r,s]*w[t,s])))
)")
            .find("in 0..2") != std::string::npos);
  // The inner loop is another one in every round.
  CHECK(rounds(R"(dim S dynamic, R = 4
index s:S, r:R
input x[R,S]
output y[s] = sum[r](x[r,s]*sum[t in 0..r+1](tanh(x[r,s]*x[t,s])))
)")
            .find("in 0..2") == std::string::npos);
}

TEST_CASE("an exponential whose guard holds a reduction is no progression of its loop") {
  check(R"(dim R = 4
input x[2]
output y = sum[i in 0..R,j in max(ceil(i/2), 0)..R](exp(where(-1 >= 0 and 1 >= -1, x[-1], 0) - where(-1 >= 0 and 1 >= -1, x[-1], 0)))
)",
        {{}, {{"x", {1, 2}}}});
}

TEST_CASE("what is read by value outside of a condition needs no guard inside of it") {
  const auto text_of = [](const char* text) {
    return print(std::get<LoweredKernel>(make_plan(specialise(parse(text), {})).steps.front()).program);
  };
  const std::string leaky = text_of(R"(dim N = 40, K = 8
index n:N, k:K
input at[N]: i32 >= 0, w[N], z[N,K]
output y[n] = where(w[at[n]] > 0, w[at[n]], 0.2*w[at[n]]) + where(sum[k](z[at[n],k]) > 1, sum[k](z[at[n],k]), 0)
)");
  CAPTURE(leaky);
  CHECK(leaky.find(" if v") == std::string::npos);
  CHECK(leaky.find("for k", leaky.find("for k") + 1) == std::string::npos);
  // Inside of the other branch, or where only a branch reads it, the guard stays.
  const std::string guarded = text_of(R"(dim N = 40
index n:N
input at[N]: i32, w[N], x[N]
output y[n] = where(x[n] > 0, w[at[n]], 0) + where(x[n] < -1, w[at[n]] + 1, x[n])
)");
  CAPTURE(guarded);
  CHECK(guarded.find(" if v") != std::string::npos);
}

TEST_CASE("the conditions that keep an access inside its tensor are its guard, and no others") {
  const Program program = specialise(parse(R"(dim N = 40
index n:N
input x[N], z[N]
output y[n] = where(n >= 3, where(z[n] > 0, where(2*n < N+5, x[2*n-5], 1), 2), 3) + )"
                                           R"(where(n >= 3 and 2*n < N+5, x[2*n-5], 0)
)"),
                                     {});
  const std::string text = print(std::get<LoweredKernel>(make_plan(program).steps.front()).program);
  CAPTURE(text);
  const std::size_t load = text.find("x[2*n - 5] if v");
  REQUIRE(load != std::string::npos);
  CHECK(text.find("x[2*n - 5]", load + 1) == std::string::npos);
}

TEST_CASE("terms go to rows of few elements one element at a time, without masks, to longer rows in lanes") {
  for (const std::int64_t elements : {2, 4, 5}) {
    CAPTURE(elements);
    const Program program = specialise(parse(R"(dim S, V, N
index s:S, v:V, n:N
input i[S]: i32, w[S,N]
output y[v,n] = sum[s](where(i[s] == v, w[s,n], 0))
)"),
                                       {{"S", 300}, {"V", 200}, {"N", elements}});
    const FusedProgram fused = fuse(optimise(program));
    REQUIRE(fused.steps.size() == 1);
    const std::string text = print(lower(fused, std::get<Kernel>(fused.steps[0])).program);
    CHECK((text.find("vector for") != std::string::npos) == (elements > 4));
  }
}
