// Schedules that a user gives for kernels on the CPU: they are taken, or refused with what is wrong.
#include <doctest/doctest.h>

#include <algorithm>

#include "compiler/schedule/pieces.h"
#include "compiler/support/error.h"
#include "runtime/atomic_file.h"
#include "runtime/given_schedules.h"
#include "runtime/plan.h"
#include "runtime/temporary_folder.h"

using namespace moxie;

namespace {

constexpr const char* kProgram =
    "dim S = 40, N = 30\nindex s:S, n:N, m:N\ninput x[S,N]\n"
    "output y[s,n] = exp(x[s,n])\noutput z[s] = sum[m](exp(x[s,m]))\noutput t[s] = sum[m in 0..s+1](exp(m*x[s,0]))\n";

Plan plan_with(const std::string& schedules, const char* text = kProgram) {
  return make_plan(specialise(parse(text), {}), {},
                   {.machine = &default_machine("x86-64-v4"), .given = parse_given_schedules(schedules).nests});
}

const ScheduleChoice& choice_of(const Plan& plan, const std::string& kernel) {
  const auto found = std::ranges::find(plan.choices, kernel, &ScheduleChoice::kernel);
  REQUIRE(found != plan.choices.end());
  return *found;
}

std::string error_of(const std::string& schedules, const char* text = kProgram) {
  try {
    plan_with(schedules, text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("parts with steps are for CPUs, the others for GPUs") {
  const GivenByUser given = parse_given_schedules("threads=128; y: unroll(s, 4)  lanes(n); k_y: team=1 ;");
  CHECK(given.nests == GivenSchedules{{"y", parse_schedule("unroll(s, 4) lanes(n)")}});
  CHECK(given.gpu.all.threads == 128);
  CHECK(given.gpu.of("k_y").team == 1);
  CHECK(parse_given_schedules("").nests.empty());
}

TEST_CASE("schedules come from a file, with comments") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "schedules").string();
  write_text_file(file, "# of y; and not of z\ny: lanes(n)  # along rows\n\nthreads=64\n");
  const GivenByUser given = parse_given_schedules("@" + file);
  CHECK(given.nests == GivenSchedules{{"y", parse_schedule("lanes(n)")}});
  CHECK(given.gpu.all.threads == 64);
  CHECK_THROWS_AS(parse_given_schedules("@" + file + ".absent"), DataError);
}

TEST_CASE("a given schedule is taken, whatever it costs, and splits the kernel that computes more") {
  CHECK(contains(choice_of(plan_with(""), "k_y").reason, "compute"));
  for (const char* name : {"y", "k_y"}) {
    const Plan plan = plan_with(std::string(name) + ": reorder(n, s) unroll(n, 3)");
    CHECK(choice_of(plan, "k_y").chosen == "reorder(n, s) unroll(n, 3)");
    CHECK(choice_of(plan, "k_y").reason.starts_with("given; "));
    CHECK(plan.steps.size() == plan.choices.size());
  }
  CHECK(choice_of(plan_with("z: lanes(sum) parallel(s); y: lanes(s)"), "k_z").chosen == "lanes(sum) parallel(s)");
  CHECK(plan_with("absent: lanes(n)").choices == plan_with("").choices);
}

TEST_CASE("two loops in the place of one, in which its quotients and remainders are indices") {
  const char* text = "dim S = 40, N = 96\nindex s:S, n:N\ninput x[S,6,16]\noutput y[s,n] = x[s,n/16,n%16]\n";
  const Plan plan = plan_with("y: split(n, 16) reorder(s, n.o, n.i) lanes(n.i) parallel(s)", text);
  CHECK(choice_of(plan, "k_y").chosen == "split(n, 16) reorder(s, n.o, n.i) lanes(n.i) parallel(s)");
  const std::string loops = print(kernels_of(plan.steps.front()).front()->program);
  CHECK_MESSAGE(contains(loops, "x[s, n.o, n.i]"), loops);
  CHECK_MESSAGE(contains(loops, "y[s, 16*n.o + n.i]"), loops);
  CHECK_MESSAGE(contains(loops, "y = x[s,n/16,n%16]"), "the comment is the formula as it was written: ", loops);
}

/// The state lies in a folded tensor, and the second definition reads it where it is computed.
constexpr const char* kScan =
    "dim T = 20, S = 40, N = 30\nindex t:T, s:S, n:N, m:N\ninput x[T,S,N], w[N,N]\nscan t {\n"
    "  let h[t,s,n] = tanh(x[t,s,n] + sum[m](where(t == 0, 0, h[t-1,s,m])*w[m,n]))\n"
    "  let g[t,s,n] = h[t,s,n]^2 + where(t == 0, 0, g[t-1,s,n])/2\n}\noutput y[s,n] = g[T-1,s,n]\n";

TEST_CASE("a given schedule is taken inside of a scan") {
  const Plan plan = plan_with("h: unroll(s, 4) lanes(n) parallel(s)", kScan);
  const ScheduleChoice& choice = choice_of(plan, "k_h");
  CHECK(choice.chosen == "unroll(s, 4) lanes(n) parallel(s)");
  CHECK(choice.reason.starts_with("given; "));
  CHECK(choice.reason.ends_with("; one step of a scan"));
  const auto& scan = std::get<LoweredScan>(plan.steps.front());
  CHECK(extent_of(*std::get<LoweredKernel>(scan.steps.front()).tiles, {}) == 10);  // tiles of 4 rows
  CHECK(contains(error_of("h: lanes(t)", kScan), "step `lanes(t)` of kernel h: there is no loop `t`; loops: n, s"));
}

TEST_CASE("nests read where the last step of a scan lies") {
  const Plan plan = plan_with("y: lanes(k)",
                              "dim T = 40, N = 3\nindex t:T, n:N, k in 0..9, d in 0..8\ninput x[N], c[9,8]\nscan t {\n"
                              "  let u[t,n] = where(t == 0, x[n], sin(2*u[t-1,(n+1)%N] + x[n]))\n}\n"
                              "output y[n,k] = sum[d](exp(-(u[T-1,n] - c[k,d])^2))\n");
  CHECK(choice_of(plan, "k_y").chosen == "lanes(k)");
  REQUIRE(plan.fused.folded.at("u") == 2);
  const std::string loops = print(kernels_of(plan.steps.back()).front()->program);
  CHECK_MESSAGE(contains(loops, " = u[0, n]"), loops);
}

TEST_CASE("what is wrong with a schedule is said with the step, the kernel and what is legal") {
  CHECK(contains(error_of("y: frobnicate(s)"), "y: schedule step `frobnicate(s)`: unknown step; known steps: reorder"));
  CHECK(contains(error_of("lanes(n)"), "write NAME: lanes(n)"));
  CHECK(contains(error_of("y: lanes(k)"), "step `lanes(k)` of kernel y: there is no loop `k`; loops: n, s"));
  CHECK(contains(error_of("y: lanes(n) unroll(n, 4)"), "step `unroll(n, 4)` of kernel y: `n` runs over lanes"));
  CHECK(contains(error_of("z: rfactor(sum)"), "step `rfactor(sum)`: expected a loop and a factor, for example"));
  CHECK(contains(error_of("z: rfactor(m, 4)"), "`m` is no reduction; reductions: sum, sum.sum"));
  CHECK(contains(error_of("z: rfactor(sum.sum, 4)"), "1 reductions stand directly inside each other"));
  CHECK(contains(error_of("z: rfactor(sum, 4) rfactor(sum, 2)"), "a reduction is split into chunks already"));
  CHECK(contains(error_of("y: rfactor(sum, 4)"), "the definition is no reduction, but an expression of other values"));
  CHECK(contains(error_of("t: rfactor(sum, 4)"), "the range of the reduction depends on other loops"));
  CHECK(contains(error_of("y: split(n, 7)"),
                 "step `split(n, 7)` of kernel y: 7 does not divide the 30 iterations of `n`"));
  CHECK(contains(error_of("y: lanes(n) split(n, 5)"), "step `split(n, 5)` of kernel y: other steps have changed `n`"));
  CHECK(contains(error_of("y: split(n, 5) lanes(n)"), "there is no loop `n`; loops: n.i, n.o, s"));
  const char* inverse = "dim N = 3\nindex n:N, m:N\ninput a[N,N]\noutput b[n,m] = inverse[n,m](a[n,m])\n";
  CHECK(contains(error_of("b: lanes(m)", inverse), "no schedule can be given for b: it is computed by linear algebra"));
}
