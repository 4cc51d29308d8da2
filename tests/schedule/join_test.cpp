// Neighbouring kernels that read the same become one, in outer loops that they share; others stay apart.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "compiler/diff/differentiate.h"
#include "compiler/expression/functions.h"
#include "compiler/schedule/join.h"
#include "compiler/schedule/lower_nest.h"
#include "runtime/plan.h"

using namespace moxie;

namespace {

std::size_t kernels_of_plan(const std::string& text) {
  const Machine& machine = default_machine("x86-64-v4");
  std::size_t kernels = 0;
  for (const PlanStep& step : make_plan(specialise(parse(text), {}), {}, {.machine = &machine}).steps)
    kernels += kernels_of(step).size();
  return kernels;
}

/// Calls of the function in the kernels of the plan.
std::size_t calls_in_plan(const Program& program, std::string_view function) {
  const Machine& machine = default_machine("x86-64-v4");
  std::size_t calls = 0;
  for (const PlanStep& step : make_plan(specialise(program, {}), {}, {.machine = &machine}).steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      calls += static_cast<std::size_t>(std::ranges::count_if(kernel->program.values, [&](const Value& value) {
        const auto* call = std::get_if<op::Call>(&value.operation);
        return call && call->function->name == function;
      }));
    }
  }
  return calls;
}

Nest nest_of(const Program& program, const char* definition, const char* schedule) {
  return apply(parse_schedule(schedule), plain_nest(std::span(program.find_definition(definition), 1)));
}

constexpr const char* kRows = R"(dim S = 1000, N = 900
index s:S, n:N
input x[S,N], z[S,N]
let top[s] = max[n](x[s,n])
let total[s] = sum[n](exp(x[s,n] - top[s]))
let other[s] = sum[n](z[s,n])
let wide[s]: f64 = top[s] + 1
let ahead[s] = sum[n](x[s,n]*where(s < S - 1, top[s+1], 0))
output y[s,n] = exp(x[s,n] - top[s])/total[s]
)";

}  // namespace

TEST_CASE("passes over the same rows share the loop over rows") {
  CHECK(kernels_of_plan(R"(dim S = 1000, N = 900
index s:S, n:N
input x[S,N]
let top[s] = max[n](x[s,n])
let total[s] = sum[n](exp(x[s,n] - top[s]))
output y[s,n] = exp(x[s,n] - top[s])/total[s]
)") == 1);
}

TEST_CASE("what one loop over a row computes is kept for the loops that follow, where it costs more than memory") {
  const char* softmax = R"(dim S = 1000, N = {}
index s:S, n:N
input x[S,N]
let top[s] = max[n](x[s,n])
let total[s] = sum[n]({}(x[s,n] - top[s]))
output y[s,n] = {}(x[s,n] - top[s])/total[s]
)";
  const auto calls = [&](int columns, std::string_view function) {
    return calls_in_plan(parse(fmt::format(fmt::runtime(softmax), columns, function, function)), function);
  };
  CHECK(calls(900, "exp") == 1);
  CHECK(calls(900, "tanh") == 1);
  CHECK(calls(900, "abs") > 1);   // as quick as memory
  CHECK(calls(9000, "exp") > 1);  // scratch has no room for so long a row
}

TEST_CASE("a softmax and its gradient are one kernel, which finds every exponential once") {
  const Program program = differentiate(parse(R"(dim S = 1024, N = 1000
index s:S, n:N, m:N
input x[S,N]
let top[s] = max[m](x[s,m])
let e[s,n] = exp(x[s,n] - top[s])
output y[s,n] = e[s,n]/sum[m](e[s,m])
)"),
                                        {"y"}, {"x"});
  CHECK(kernels_of_plan(print(program)) == 1);
}

TEST_CASE("a softmax finds every exponential once, by its own name, scaled, and under a causal mask") {
  for (const char* softmax :
       {"softmax[n](x[s,n])", "softmax[n](x[s,n]/8)", "softmax[n](where(n <= s, x[s,n]/8, -inf))",
        "softmax[n](where(n >= s, x[s,n], -inf))", "softmax[n](where(abs(n - s) <= 300, x[s,n]/8, -inf))"}) {
    CAPTURE(softmax);
    const std::string text = fmt::format("dim S = 1000\nindex s:S, n:S\ninput x[S,S]\noutput y[s,n] = {}\n", softmax);
    CHECK(kernels_of_plan(text) == 1);
    CHECK(calls_in_plan(parse(text), "exp") == 1);
  }
}

TEST_CASE("what reads a log-sum-exp finds no exponential of its elements again, nor does its derivative") {
  const char* head = "dim S = 1000, N = 900\nindex s:S, n:N\ninput x[S,N]\n";
  const std::string shares =
      std::string(head) + "let total[s] = logsumexp[n](x[s,n]/2)\noutput y[s,n] = exp(x[s,n]/2 - total[s])\n";
  CHECK(kernels_of_plan(shares) == 1);
  CHECK(calls_in_plan(parse(shares), "exp") == 1);
  const Program total =
      parse(std::string(head) + "output total[s] = logsumexp[n](where(x[s,n] > 0, x[s,n]/2, -inf))\n");
  const Program with_gradient = differentiate(total, {"total"}, {"x"});
  CHECK(kernels_of_plan(print(with_gradient)) == 1);
  CHECK(calls_in_plan(with_gradient, "exp") == 1);

  TensorValues inputs;
  for (int k = 0; k < 1000 * 900; ++k) inputs["x"].push_back(k < 900 ? -1 : std::sin(0.1 * k));
  inputs["cot.total"].assign(1000, 1);
  const Program optimised = optimise(specialise(with_gradient, {}));
  const std::vector<double> gradient = evaluate(optimised, {}, inputs).at("grad.x");
  const std::vector<double> expected = evaluate(specialise(with_gradient, {}), {}, inputs).at("grad.x");
  CHECK(gradient[7] == 0);  // the mask leaves out the whole row
  for (std::size_t k = 0; k < gradient.size(); k += 997) CHECK(gradient[k] == doctest::Approx(expected[k]));
}

TEST_CASE("sums over the same elements share all of their loops") {
  const Program program = parse(R"(dim S = 1000, N = 900
index s:S, n:N
input x[S,N]
output mean[s] = sum[n](x[s,n])
output square[s] = sum[n](x[s,n]^2)
)");
  const char* schedule = "unroll(s, 4) lanes(sum) parallel(s)";
  const auto joint = join(nest_of(program, "mean", schedule), nest_of(program, "square", schedule));
  REQUIRE(joint);
  CHECK(joint->roots.size() == 2);
  CHECK(without_tiles(*joint).roots[1].loops[0].unroll == 1);
}

TEST_CASE("nests that share nothing, or need more than their own iteration, stay apart") {
  const Program program = specialise(parse(kRows), {});
  const char* rows = "lanes(sum) parallel(s)";
  const Nest top = nest_of(program, "top", rows);
  CHECK(join(top, nest_of(program, "total", rows)));
  CHECK(!join(top, nest_of(program, "other", rows)));
  CHECK(!join(top, nest_of(program, "ahead", rows)));
  CHECK(!join(top, nest_of(program, "wide", "parallel(s)")));
  CHECK(!join(top, nest_of(program, "total", "lanes(sum)")));
  CHECK(!join(top, nest_of(program, "total", "unroll(s, 2) lanes(sum) parallel(s)")));
}

TEST_CASE("a joint kernel reads nothing that it writes, however long the chain of definitions is") {
  const Program program = specialise(parse(R"(dim S = 64, N = 40
index s:S, n:N
input x[S,N]
output mean[s] = sum[n](x[s,n])
output square[s] = sum[n](x[s,n]^2) - mean[s]^2
output cube[s] = sum[n](x[s,n]^3) - mean[s]*square[s]
)"),
                                     {});
  const char* rows = "lanes(sum) parallel(s)";
  const auto two = join(nest_of(program, "mean", rows), nest_of(program, "square", rows));
  REQUIRE(two);
  const auto three = join(*two, nest_of(program, "cube", rows));
  REQUIRE(three);
  const LoweredKernel kernel = lower(fuse(program, Products::kernels, Layouts::row_major), *three);
  for (const BufferUse& use : kernel.uses) CHECK((use.written || use.tensor == "x"));
}

TEST_CASE("what is prepared for nests serves those that are made of them, and not after an axis is split") {
  const Program program = specialise(parse(kRows), {});
  const FusedProgram fused = fuse(program, Products::kernels, Layouts::row_major);
  const auto text_of = [&](const std::optional<Nest>& nest) { return print(lower(fused, nest.value()).program); };
  const char* rows = "lanes(sum) parallel(s)";
  const Nest top = nest_of(program, "top", rows), total = nest_of(program, "total", rows);
  const std::string joint = text_of(join(top, total));
  CHECK(text_of(join(prepared(fused, top), prepared(fused, total))) == joint);
  CHECK(text_of(join(prepared(fused, top), total)) == joint);
  const Nest plain = nest_of(program, "top", "");
  const Schedule split = parse_schedule("split(s, 8) reorder(s.o, s.i)");
  CHECK(text_of(apply(split, prepared(fused, plain))) == text_of(apply(split, plain)));
}

TEST_CASE("what a joint kernel computes for a condition of the reader stays outside of the reader's loop") {
  // Reads by value keep their conditions, which must not bring those of the loop over k along.
  const Program program = specialise(parse(R"(dim S = 64, N = 40, K = 500
index s:S, n:N, k:K
input at[N]: i32 >= 0, from[S+1]: i32, w[K], x[K]
output mean[s] = where(x[s] > 0, sum[n](w[at[n]]), 0)
output y[s] = sum[k in from[s]..from[s+1]](where(x[k] > 0, x[k]*mean[s], 0))
)"),
                                     {});
  const auto joint = join(nest_of(program, "mean", "parallel(s)"), nest_of(program, "y", "parallel(s)"));
  REQUIRE(joint);
  const std::string text = print(lower(fuse(program, Products::kernels, Layouts::row_major), *joint).program);
  CAPTURE(text);
  const auto count = [&](std::string_view loop) {
    std::size_t found = 0;
    for (std::size_t at = text.find(loop); at != std::string::npos; at = text.find(loop, at + 1)) ++found;
    return found;
  };
  CHECK(count("for n in 0..40") == 1);
  CHECK(count("..min(500, ") == 1);
}

TEST_CASE("definitions that would double with every link of a chain stay apart") {
  std::string text = "dim S = 64\nindex s:S\ninput x[S]\noutput y0[s] = x[s]*(x[s] + 1)\n";
  for (int n = 1; n < 12; ++n) text += fmt::format("output y{0}[s] = y{1}[s]*(y{1}[s] + x[s])\n", n, n - 1);
  const Program program = specialise(parse(text), {});
  std::optional<Nest> chain = nest_of(program, "y0", "lanes(s) parallel(s)");
  int joined = 0;
  for (; chain && joined < 11; ++joined)
    chain = join(*chain, nest_of(program, fmt::format("y{}", joined + 1).c_str(), "lanes(s) parallel(s)"));
  CHECK(joined > 2);
  CHECK(!chain);
}

TEST_CASE("a nest takes over the outer loops of another") {
  const Program program = specialise(parse(kRows), {});
  const Nest top = nest_of(program, "top", "lanes(sum) parallel(s)");
  const Nest y = nest_of(program, "y", "reorder(n, s) lanes(s) parallel(n)");
  CHECK(!join(top, y));
  const auto inside = in_loops_of(top, y);
  REQUIRE(inside);
  CHECK(inside->roots[0].loops[0].name == "s");
  CHECK(inside->roots[0].loops[0].parallel);
  CHECK(join(top, *inside));
  CHECK(!in_loops_of(nest_of(program, "top", "lanes(s) parallel(s)"), nest_of(program, "y", "lanes(n) parallel(s)")));
}

TEST_CASE("sums for the elements of a short axis, and what is made of them, share one loop over rows") {
  const Program program = specialise(parse(R"(dim S = 1000, N = 900
index s:S, n:N, d in 0..3
input x[S,3], y[N,3], c[N]
output total[s] = sum[n](exp(x[s,0]*y[n,0])*c[n])
let moved[s,d] = sum[n](exp(x[s,0]*y[n,0])*(x[s,d] - y[n,d]))
output twice[s,d] = 2*moved[s,d]
)"),
                                     {});
  const Nest moved = nest_of(program, "moved", "unroll(d, 3) unroll(s, 4) lanes(sum) parallel(s)");
  const Nest total = nest_of(program, "total", "lanes(sum) parallel(s)");
  const Nest twice = nest_of(program, "twice", "reorder(s, d) lanes(d) parallel(s)");
  CHECK(!join(moved, twice));
  const auto in_all_loops = in_loops_of_producers(moved, twice);
  REQUIRE(in_all_loops);
  CHECK(join(moved, *in_all_loops));
  CHECK_MESSAGE(!in_loops_of_producers(total, twice), "it does not read total");
  const auto calls = [&](const Nest& joint) {
    const LoweredKernel kernel = lower(fuse(program, Products::kernels, Layouts::row_major), joint);
    return std::ranges::count_if(kernel.program.values, [](const Value& value) {
      const auto* call = std::get_if<op::Call>(&value.operation);
      return call && call->function->name == "exp2";
    });
  };
  const std::vector<Nest> joint = joint_nests(total, moved);
  REQUIRE(!joint.empty());
  CHECK(std::ranges::any_of(joint, [&](const Nest& nest) { return calls(nest) == 4; }));  // of a tile of four rows
}

TEST_CASE("loops are taken over by their range, wherever the axis stands") {
  const Program program = specialise(parse(R"(dim S = 1000, N = 900
index s:S, n:N, d in 0..3
input x[S], y[N]
output total[s] = sum[n](x[s]*y[n])
output turned[d,s] = sum[n](x[s]*y[n]^d)
)"),
                                     {});
  const Nest total = nest_of(program, "total", "lanes(sum) parallel(s)");
  const auto inside = in_loops_of(total, nest_of(program, "turned", "unroll(d, 3) lanes(sum) parallel(s)"));
  REQUIRE(inside);
  CHECK(inside->roots[0].loops[0].name == "s");
}
