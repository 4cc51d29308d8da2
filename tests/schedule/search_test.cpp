// How much is tried to find the loops of a kernel: counts, which no other program on the machine changes.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/schedule/pattern.h"
#include "compiler/schedule/search.h"
#include "runtime/plan.h"

using namespace moxie;

namespace {

const Machine& machine() { return default_machine("x86-64-v4"); }

/// Sums over the rows of triangles, which shared loops have no lanes for.
std::string triangles(int outputs) {
  std::string text = "dim I = 300\nindex i:I, j:I\n";
  for (int n = 0; n < outputs; ++n) {
    const std::string number = std::to_string(n);
    text += "input x" + number + "[I,I]\noutput y" + number + "[i] = sum[j in 0..i+1](x" + number + "[i,j])\n";
  }
  return text;
}

Plan plan_of(const std::string& text) { return make_plan(specialise(parse(text), {}), {}, {.machine = &machine()}); }

FusedProgram fused(const std::string& text) {
  return fuse(specialise(parse(text), {}), Products::kernels, Layouts::row_major);
}

}  // namespace

TEST_CASE("a definition with two loops takes some dozen candidates at most") {
  const Plan plan = plan_of(triangles(1));
  CHECK(plan.candidates > 2);
  CHECK(plan.candidates < 24);
}

TEST_CASE("definitions that differ in names only are searched once") {
  const std::size_t one = plan_of(triangles(1)).candidates, three = plan_of(triangles(3)).candidates;
  CHECK(three > one);
  CHECK(three <=
        one + 2 * 3);  // of each further one the shared loops, in both layouts, and what was found for the first
}

TEST_CASE("patterns leave out names of tensors and nothing else") {
  const FusedProgram program = fused(R"(dim N = 8, M = 9
index n:N, m:M, k:N
input a[N,M], b[N,M], c[N,N], d[N,M]: f64
output y[n,m] = a[n,m]*exp(b[n,m])
output same[n,m] = exp(d[n,m])*exp(a[n,m])*a[n,m] + b[n,m]
output also_same[n,m] = exp(d[n,m])*exp(b[n,m])*b[n,m] + a[n,m]
output twice[n,m] = a[n,m]*exp(a[n,m])
output wide[n,m] = a[n,m]*exp(d[n,m])
output square[n,k] = c[n,k]*exp(c[k,n])
output straight[n,k] = c[n,k]*exp(c[n,k])
)");
  const auto pattern = [&](const char* name) { return pattern_of(program, *program.program.find_definition(name)); };
  CHECK(pattern("same") == pattern("also_same"));
  for (const char* other : {"twice", "wide", "square"}) CHECK(pattern("y") != pattern(other));
  CHECK(pattern("square") != pattern("straight"));
}

TEST_CASE("the same candidates are tried every time") {
  const FusedProgram program = fused(triangles(1));
  const Definition& definition = *program.program.find_definition("y0");
  const auto schedules = [&] {
    std::vector<std::string> texts;
    for (const Candidate& tried : search(program, definition, {{"I", 300}}, machine()))
      texts.push_back(print(tried.schedule));
    return texts;
  };
  CHECK(schedules() == schedules());
}

TEST_CASE("kernels that are done at once are not tiled, unless a scan runs them many times") {
  const auto count_tiled = [](const std::string& text, const char* name) {
    const FusedProgram program = fused(text);
    const auto candidates = search(program, *program.program.find_definition(name), {}, machine());
    return std::ranges::count_if(candidates, [](const Candidate& candidate) {
      return std::ranges::count(candidate.schedule.steps, ScheduleStep::Kind::Unroll, &ScheduleStep::kind) > 0;
    });
  };
  const auto product = [](int n) {
    return "dim N = " + std::to_string(n) +
           "\nindex i:N, j:N, k:N\ninput a[N,N], b[N,N]\noutput y[i,j] = sum[k](max(a[i,k], b[k,j]))\n";
  };
  CHECK(count_tiled(product(4), "y") == 0);
  CHECK(count_tiled(product(64), "y") > 0);
  const auto scan = [](int steps) {
    return "dim T = " + std::to_string(steps) +
           ", N = 8\nindex t:T, i:N, k:N\ninput a[N,N], x[T,N]\n"
           "scan t {\noutput h[t,i] = where(t == 0, 0, sum[k](max(a[i,k], h[t-1,k]))) + x[t,i]\n}\n";
  };
  CHECK(count_tiled(scan(2), "h") == 0);
  CHECK(count_tiled(scan(1000), "h") > 0);
}

TEST_CASE("loops that share a long sum over a short axis are tried however busy the arithmetic is") {
  const Plan plan = plan_of(
      "dim N = 2000\nindex i:N, j:N, d:3, e:3\ninput x[N,3], m[N]\n"
      "output a[i,d] = sum[j](m[j]*(x[j,d] - x[i,d])*(sum[e]((x[j,e] - x[i,e])^2) + 1)^-1.5)\n");
  CHECK(std::ranges::any_of(plan.choices, [](const ScheduleChoice& choice) {
    return choice.chosen.find("unroll(d, 3)") != std::string::npos;
  }));
}

TEST_CASE("tiles are tried where neighbours share lines, however busy the arithmetic is") {
  const Plan plan = plan_of(
      "dim N = 60\nindex i:N, j:N, k:N\ninput x[N,N,N]\n"
      "output y[i,j,k] = where(i >= 1 and i < N-1 and j >= 1 and j < N-1 and k >= 1 and k < N-1,\n"
      "  x[i,j,k] + 0.125*(x[i-1,j,k] - 2*x[i,j,k] + x[i+1,j,k]) + 0.125*(x[i,j-1,k] - 2*x[i,j,k] + x[i,j+1,k])\n"
      "  + 0.125*(x[i,j,k-1] - 2*x[i,j,k] + x[i,j,k+1]), x[i,j,k])\n");
  CHECK(plan.choices.front().chosen.find("unroll(i, ") != std::string::npos);
}

TEST_CASE("a kernel with the wrong loops is found, however much other kernels take") {
  const Plan plan = plan_of(R"(dim T = 200, B = 8, N = 256
index t:T, b:B, i:N
input u0[B,N], a
scan t {
  let x[t,b,i] = where(t == 0, u0[b,i], y[t-1,b,i])
  let y[t,b,i] = x[t,b,i] + a*(x[t,b,(i+1)%N] - x[t,b,i])
}
output s = sum[t,i,b](y[t,b,i]*x[t,b,(i+N-1)%N])
)");
  const auto sum = std::ranges::find(plan.choices, "k_s", &ScheduleChoice::kernel);
  REQUIRE(sum != plan.choices.end());
  // Fusion lays lanes across the steps, whose elements lie far apart.
  CHECK(sum->chosen.find("lanes(sum.sum") != std::string::npos);
}

TEST_CASE("register tiles share what their copies read at one quotient") {
  const Plan plan = plan_of(
      "dim N = 8, H = 54\nindex n:N, f:32, c:4, h:H, w:H, p in 0..3, q in 0..3\ninput x[N,32,H+2,H+2], k[32,4,3,3]\n"
      "output y[n,f,h,w] = sum[c,p,q](k[f,c,p,q]*x[n,4*(f//4)+c,h+p,w+q])\n");
  CHECK(plan.choices.front().chosen.find("unroll(f, 4)") != std::string::npos);
}

TEST_CASE("other loops are tried where a kernel is busy with masks, or with single numbers beside its lanes") {
  // Copies that it reads come before it.
  const auto chosen = [](const std::string& text) { return plan_of(text).choices.back().chosen; };
  CHECK(chosen("dim N = 4, C = 32, F = 32, H = 56\nindex n:N, c:C, f:F, h:H, w:H, p in 0..3, q in 0..3\n"
               "input x[N,C,H,H], k[F,C,3,3]\n"
               "output d[n,f,h,w] = sum[c,p,q](where(h+p-1 >= 0 and h+p-1 < H and w+q-1 >= 0 and w+q-1 < H,\n"
               "  x[n,c,h+p-1,w+q-1]*k[f,c,p,q], 0))\n") != "shared loops");
  // Lanes lie along the elements of a row, which all need its sum of exponentials.
  CHECK(chosen("dim S = 24000, K = 30\nindex s:S, c:K\ninput z[S,K]\noutput p[s,c] = log_softmax[c](z[s,c])\n")
            .find("lanes(sum)") != std::string::npos);
}

TEST_CASE("axes that a body divides are two loops") {
  const Plan plan = plan_of(
      "dim T = 256\nindex t:T, u:T, m in 0..512\ninput p[8,T,T], v[T,512]\n"
      "output z[t,m] = max[u](p[m/64,t,u]*v[u,m])\n");
  CHECK(plan.choices.front().chosen.starts_with("split(m, 64)"));
}

TEST_CASE("tiles are tried where masks keep the arithmetic busy, which copies share") {
  const Plan plan = plan_of(
      "dim L = 16\nindex n:2, c:8, f:8, x in 0..18, y in 0..18, z in 0..18\ninput o[2,8,L,L,L], w[8,8,3,3,3]\n"
      "output g[n,c,x,y,z] = sum[f,p in max(x-15,0)..min(x+1,3),q in max(y-15,0)..min(y+1,3),\n"
      "  r in max(z-15,0)..min(z+1,3)](o[n,f,x-p,y-q,z-r]*w[f,c,p,q,r])\n");
  const std::string& chosen = plan.choices.front().chosen;
  CHECK_MESSAGE(chosen.find("unroll(c, 8)") != std::string::npos, chosen);
  CHECK_MESSAGE(chosen.find("parallel(x)") != std::string::npos, chosen);
}
