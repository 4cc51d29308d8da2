// What lanes would gather is read from copies, and short sums inside long ones are written out.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/schedule/lane_gathers.h"
#include "compiler/schedule/lower_nest.h"
#include "compiler/schedule/short_sums.h"
#include "runtime/plan.h"

using namespace moxie;

namespace {

constexpr const char* kPairs = R"(dim N = 100, M = 90, D = 3
index n:N, m:M, d:D
input x[N,D], y[M,D], b[M]
output f[n] = sum[m](exp(-sum[d]((x[n,d] - y[m,d])^2))*b[m])
)";

constexpr const char* kPadded = R"(dim N = 8, C = 64, O = 64, H = 28, W = 28
index n:N, c:C, o:O, i:H, j:W, p:3, q:3
input x[N,C,H,W], k[O,C,3,3]
output u[n,o,i,j] = sum[c,p,q](where(i+p >= 1 and i+p <= H and j+q >= 1 and j+q <= W, k[o,c,p,q]*x[n,c,i+p-1,j+q-1], 0))
)";

Nest nest_of(const Program& program, const char* definition, const char* schedule) {
  return apply(parse_schedule(schedule), plain_nest(std::span(program.find_definition(definition), 1)));
}

bool reads(const Plan& plan, std::string_view tensor) {
  const auto is_tensor = [&](const BufferUse& use) { return use.tensor == tensor; };
  return std::ranges::any_of(plan.steps, [&](const PlanStep& step) {
    return std::ranges::any_of(
        kernels_of(step), [&](const LoweredKernel* kernel) { return std::ranges::any_of(kernel->uses, is_tensor); });
  });
}

std::size_t loops_in(const Block& block) {
  std::size_t loops = 0;
  for (const Statement& statement : block) {
    if (const auto* loop = std::get_if<stmt::For>(&statement)) loops += 1 + loops_in(loop->body);
  }
  return loops;
}

}  // namespace

TEST_CASE("lanes gather along an axis that is not the last, where another long loop repeats it") {
  const Program program = specialise(parse(kPairs), {});
  using Gathers = std::set<LaneGather>;
  CHECK(gathers_of(program, nest_of(program, "f", "lanes(sum) parallel(n)")) == Gathers{{"f", "y", 0}});
  CHECK(gathers_of(program, nest_of(program, "f", "lanes(n) parallel(n)")) == Gathers{{"f", "x", 0}});
  CHECK(gathers_of(program, nest_of(program, "f", "parallel(n)")).empty());
  const Program once =
      specialise(parse("dim N = 100, M = 90\nindex n:N, m:M\ninput x[M,N]\noutput y[n,m] = exp(x[m,n])"), {});
  CHECK_MESSAGE(gathers_of(once, nest_of(once, "y", "lanes(m) parallel(n)")).empty(), "a copy would gather as much");
}

TEST_CASE("lanes may lie along one axis where a value is the place along another") {
  const std::string text =
      "index s:S, j:L, a:A\ninput J[L,A,A], x[S,L]: i32 >= 0\noutput e[s,a] = sum[j](J[j,a,x[s,j]])\n";
  const Program program = specialise(parse("dim S = 100, L = 5, A = 21\n" + text), {});
  using Gathers = std::set<LaneGather>;
  const Gathers gathers = gathers_of(program, nest_of(program, "e", "lanes(a) parallel(s)"));
  CHECK(gathers == Gathers{{"e", "J", 1}});
  CHECK_MESSAGE(gathers_of(program, nest_of(program, "e", "lanes(s) parallel(s)")).empty(), "the value moves with s");
  const Program copies = with_copies(program, gathers);
  CHECK_NOTHROW(verify(copies));
  TensorValues inputs = {{"J", std::vector<double>(2205)}, {"x", std::vector<double>(500)}};
  for (std::size_t k = 0; k < 2205; ++k) inputs["J"][k] = static_cast<double>(k * 37 % 101) / 101;
  for (std::size_t k = 0; k < 500; ++k) inputs["x"][k] = static_cast<double>(k * 11 % 21);
  CHECK(evaluate(copies, {}, inputs).at("e") == evaluate(program, {}, inputs).at("e"));
  const Machine& machine = default_machine("x86-64-v3");
  const Program large = specialise(parse("dim S = 4000, L = 40, A = 21\n" + text), {});
  CHECK(reads(make_plan(large, {}, {.machine = &machine}), "J.transposed"));
}

TEST_CASE("several short loops repeat what one long loop would, and copies lead to others") {
  const Program program = specialise(parse(kPadded), {});
  CHECK(gathers_of(program, nest_of(program, "u", "lanes(o) parallel(n)")) == std::set<LaneGather>{{"u", "k", 0}});
  const Plan plan = make_plan(program, {}, {.machine = &default_machine("x86-64-v3")});
  CHECK_MESSAGE(reads(plan, "k.transposed"), print(plan));
}

TEST_CASE("lanes may lie along another axis for which a small tensor is copied") {
  const auto convolution = [](int samples) {
    return fmt::format(R"(dim N = {}, C = 32, H = 28, W = 28
index n:N, c:C, o:C, i:H, j:W, p:3, q:3
input x[N,C,H,W], k[C,C,3,3]
output u[n,o,i,j] = sum[c,p,q](where(i+p >= 1 and i+p <= H and j+q >= 1 and j+q <= W, k[o,c,p,q]*x[n,c,i+p-1,j+q-1], 0))
)",
                       samples);
  };
  const Program program = specialise(parse(convolution(4)), {});
  using Gathers = std::set<LaneGather>;
  CHECK(gathers_of(program, nest_of(program, "u", "lanes(j) parallel(n)")).empty());
  CHECK(gathers_along_other_axis(program, nest_of(program, "u", "lanes(j) parallel(n)"), {}) == Gathers{{"u", "k", 0}});
  CHECK(gathers_along_other_axis(program, nest_of(program, "u", "lanes(sum) parallel(n)"), {}).empty());
  // With lanes along rows of 28 pixels the same takes 2.9 times as long.
  const Plan plan = make_plan(program, {}, {.machine = &default_machine("x86-64-v3")});
  CHECK_MESSAGE(reads(plan, "k.transposed"), print(plan));
}

TEST_CASE("no copy is made twice") {
  const Program formula = specialise(parse(R"(dim M dynamic, N dynamic, D = 11, E = 9, S = 13
index m:M, n:N, d:D, e:E, s:S
input x[M,D], y[N,D], b[N,E], sigmas[S] > 0
output r[m,e] = sum[n](sum[s](exp(-sum[d]((x[m,d]-y[n,d])^2)/sigmas[s]^2))*b[n,e])
)"),
                                     {});
  const Program program = differentiate(formula, {"r"}, {"x", "y", "b", "sigmas"});
  const Plan plan =
      make_plan(program, {}, {.machine = &default_machine("x86-64-v3"), .extents = {{"M", 16}, {"N", 16}}});
  std::set<std::string> names;
  for (const Definition& definition : plan.fused.program.definitions) CHECK(names.insert(definition.name).second);
  CHECK(names.contains("y.transposed"));
}

TEST_CASE("loops that a register tile leaves short are split where conditions change") {
  const GivenSchedules given = {
      {"u", parse_schedule("unroll(n, 2) unroll(i, 4) reorder(n, i, j, o) lanes(o) parallel(i)")}};
  const Plan plan =
      make_plan(specialise(parse(kPadded), {}), {}, {.machine = &default_machine("x86-64-v3"), .given = given});
  REQUIRE(plan.steps.size() == 1);
  // The loop over n has three loops over i, each of these three over j, and each of those loops over o, c, p and q, of
  // which some are split in turn.
  CHECK_MESSAGE(loops_in(kernels_of(plan.steps[0])[0]->program.body) > 1 + 3 + 9 * 5, print(plan));
}

TEST_CASE("copies have the lanes along their last axis and the same values") {
  const Program program = specialise(parse(kPairs), {});
  const Program copies = with_copies(program, {{"f", "y", 0}});
  CHECK_NOTHROW(verify(copies));
  REQUIRE(copies.find_definition("y.transposed"));
  CHECK(gathers_of(copies, nest_of(copies, "f", "lanes(sum) parallel(n)")).empty());
  TensorValues inputs = {
      {"x", std::vector<double>(300)}, {"y", std::vector<double>(270)}, {"b", std::vector<double>(90)}};
  for (auto& [name, values] : inputs) {
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k * 37 % 101) / 101;
  }
  CHECK(evaluate(copies, {}, inputs).at("f") == evaluate(program, {}, inputs).at("f"));
}

TEST_CASE("what a definition of a scan gathers is copied before the scan") {
  const Program program = specialise(parse(R"(dim T = 70, N = 80
index t:T, n:N, m:N
input w[N,N]
scan t {
  let g[t,n] = where(t == 0, 1, h[t-1,n])
  let h[t,n] = sum[m](w[n,m]*g[t,m])
}
output y[n] = h[T-1,n]
)"),
                                     {});
  const auto gathers = gathers_of(program, nest_of(program, "h", "lanes(n)"));
  CHECK(gathers == std::set<LaneGather>{{"h", "w", 0}});
  const Program copies = with_copies(program, gathers);
  CHECK_NOTHROW(verify(copies));
  CHECK(copies.definitions.front().name == "w.transposed");
  const TensorValues inputs = {{"w", std::vector<double>(6400, 0.01)}};
  CHECK(evaluate(copies, {}, inputs).at("y") == evaluate(program, {}, inputs).at("y"));
}

TEST_CASE("series that lie one after the other are copied before a scan over time, so that its steps read vectors") {
  const auto gathers = [](const std::string& element, const std::string& shape) {
    const Program program = specialise(
        parse("dim S = 80, T = 70\nindex s:S, t:T\ninput " + shape +
              "\nscan t {\n  let h[t,s] = where(t == 0, 0, 0.5*h[t-1,s]) + " + element + "\n}\noutput y[s] = h[T-1,s]"),
        {});
    return gathers_of(program, nest_of(program, "h", "lanes(s)"));
  };
  using Gathers = std::set<LaneGather>;
  CHECK(gathers("x[s,t]", "x[S,T]") == Gathers{{"h", "x", 0}});
  CHECK(gathers("x[t,s]", "x[T,S]").empty());
  CHECK_MESSAGE(gathers("x[s,3]", "x[S,T]").size() == 1, "the same elements at all steps");
  CHECK(gathers("x", "x").empty());
}

TEST_CASE("kernels over points in space read vectors from copies") {
  const Machine& machine = default_machine("x86-64-v4");
  const Plan plan = make_plan(specialise(parse(R"(dim N = 3000, M = 3000, D = 3
index n:N, m:M, d:D
input x[N,D], y[M,D], b[M]
let r2[n,m] = sum[d]((x[n,d] - y[m,d])^2)
output f[n,d] = sum[m](exp(-sqrt(r2[n,m]))*(x[n,d] - y[m,d]))
output g[m] = sum[n](exp(-sqrt(r2[n,m])))
)"),
                                         {}),
                              {}, {.machine = &machine});
  CHECK_FALSE(reads(plan, "r2"));
}

TEST_CASE("a copy that makes a library product of a kernel is taken for what both take together") {
  const Machine& machine = default_machine("x86-64-v4");
  const Plan plan = make_plan(specialise(parse("dim M = 64, N = 64, K = 64\nindex m:M, n:N, k:K\n"
                                               "input a[M,K], b[K,N]\noutput c[m,n] = sum[k](a[m,k]*b[k,n])"),
                                         {}),
                              {}, {.machine = &machine});
  REQUIRE(plan.steps.size() == 1);
  CHECK(std::holds_alternative<LoweredKernel>(plan.steps[0]));
}

TEST_CASE("a short sum inside a long one is no loop, but for one that a third sum is made of") {
  const Program program = specialise(parse(kPairs), {});
  const FusedProgram fused = fuse(program, Products::kernels, Layouts::row_major);
  CHECK(loops_in(lower(fused, nest_of(program, "f", "parallel(n)")).program.body) == 2);  // n, m
  const Program conv = specialise(parse(R"(dim C = 100
index i in 0..50, c:C, p in 0..3
input x[C,52], w[C,3]
output y[i] = sum[c,p](x[c,i+p]*w[c,p])
)"),
                                  {});
  const FusedProgram whole = fuse(conv, Products::kernels, Layouts::row_major);
  CHECK(loops_in(lower(whole, nest_of(conv, "y", "parallel(i)")).program.body) == 3);
}

TEST_CASE("a short sum that lanes run over stays a sum") {
  const Expr body = parse(kPairs).find_definition("f")->body;
  const auto sums = [](const Expr& expr) {
    int found = 0;
    visit(expr, [&](const Expr& e) { found += e->kind == NodeKind::Reduce; });
    return found;
  };
  const Expr known = specialise(parse(kPairs), {}).find_definition("f")->body;
  CHECK(sums(body) == 2);
  CHECK(sums(with_short_sums_written_out(known, 0)) == 1);
  CHECK(sums(with_short_sums_written_out(known, 1)) == 2);
}
