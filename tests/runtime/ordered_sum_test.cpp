// Sums over the elements that compare below another one: which definitions are sorted, and their values on every
// device.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "compiler/diff/differentiate.h"
#include "compiler/reference/evaluate.h"
#include "runtime/host_tensor.h"
#include "runtime/plan.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::size_t count_sorted(const Program& program, const DimValues& extents = {}) {
  const Plan plan = make_plan(program, {}, {.extents = extents});
  return static_cast<std::size_t>(std::ranges::count_if(
      plan.steps, [](const PlanStep& step) { return std::holds_alternative<OrderedSumCall>(step); }));
}

/// Infinity and NaN count as the same: a factor that is infinite leaves the sum, as docs/precision.md says.
void check_values(const TensorValues& found, const TensorValues& expected, double tolerance) {
  for (const auto& [name, values] : found) {
    CAPTURE(name);
    double largest = 1;
    for (const double value : expected.at(name)) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
    for (std::size_t k = 0; k < values.size(); ++k) {
      const double want = expected.at(name)[k];
      const bool is_same = values[k] == want || (!std::isfinite(values[k]) && !std::isfinite(want)) ||
                           std::abs(values[k] - want) <= tolerance * largest;
      CAPTURE(k);
      CAPTURE(values[k]);
      CAPTURE(want);
      REQUIRE(is_same);
    }
  }
}

/// Numbers with many ties, zeros of both signs, infinities and NaN.
std::vector<double> hostile_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<double> rare = {0.0, -0.0, kInfinity, -kInfinity, kNaN, 1e-30, -1e-30, 1e9, -1e9};
  std::vector<double> values(count);
  for (double& value : values) {
    const unsigned draw = random();
    value =
        draw % 3 == 0 ? rare[draw / 3 % rare.size()] : static_cast<double>(static_cast<int>(draw / 3 % 21) - 10) / 4;
  }
  return values;
}

/// Inputs that are compared are hostile; g, h and u, which are added and multiplied, are if asked for.
TensorValues hostile_inputs(const Program& program, const DimValues& dims, bool with_weights) {
  TensorValues inputs = test::wave_inputs(program, dims);
  unsigned seed = 1;
  for (auto& [name, values] : inputs) {
    const bool is_weight = name.starts_with("g") || name == "h" || name == "u";
    if (!is_weight || with_weights) values = hostile_values(values.size(), ++seed);
  }
  return inputs;
}

/// The values of the evaluator, which compares all pairs, on every device.
void check_devices(const Program& program, const DimValues& dims, bool with_weights, double tolerance) {
  const TensorValues inputs = hostile_inputs(program, dims, with_weights);
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(test::run_on(device, program, dims, inputs), expected, tolerance);
  }
}

/// The outputs of one run of the plan.
TensorValues run_plan(Device& device, const std::shared_ptr<const Plan>& plan, const DimValues& dims,
                      const TensorValues& inputs) {
  std::map<std::string, HostTensor> memory;
  for (const InputDecl& input : plan->program.inputs)
    memory[input.name] =
        make_host_tensor(input.dtype, extents_of(plan->program, input.name, dims), inputs.at(input.name));
  for (const Definition& definition : plan->program.definitions) {
    const std::vector<double> zeros(static_cast<std::size_t>(count_elements(plan->program, definition.name, dims)));
    memory[definition.name] =
        make_host_tensor(definition.dtype, extents_of(plan->program, definition.name, dims), zeros);
  }
  device.prepare(plan, dims)->run([&](const std::string& name) { return memory.at(name).data.data(); }, 0, 0);
  TensorValues outputs;
  for (const Definition& definition : plan->program.definitions) {
    if (definition.output) outputs[definition.name] = to_doubles(memory.at(definition.name));
  }
  return outputs;
}

/// Hostile inputs, on the devices that sort and the one that says what the step means.
void check_plan(const std::shared_ptr<const Plan>& plan, const DimValues& dims) {
  for (const bool with_weights : {false, true}) {
    const TensorValues inputs = hostile_inputs(plan->program, dims, with_weights);
    const TensorValues expected = evaluate(plan->program, dims, inputs);
    for (const char* name : {"interp", "cpu"}) {
      CAPTURE(name);
      if (const auto device = test::test_device(name))
        check_values(run_plan(*device, plan, dims, inputs), expected, 1e-5);
    }
  }
}

struct Form {
  const char* text;
  std::size_t sorted;
};

const std::string kHead =
    "dim M dynamic, N dynamic, Q dynamic, D = 3\nindex m:M, n:N, l:N, q:Q, d:D\n"
    "input a[M,N], b[M,Q], c[N], t[Q], g[M,N], u[Q], h[N], gd[N,D]\n";

const Form kForms[] = {
    {"output y[m,q] = sum[l](where(a[m,l] < b[m,q], g[m,l], 0))", 1},
    {"output y[m,q] = sum[l](where(a[m,l] <= b[m,q], g[m,l], 0))", 1},
    {"output y[m,q] = sum[l](where(b[m,q] < a[m,l], g[m,l], 0))", 1},
    {"output y[q,m] = sum[l](where(a[m,l] >= b[m,q], 2, 0))", 1},
    {"output y[q] = sum[l](where(c[l] > t[q], 1, 0))/N", 1},
    {"output y[m,n] = sum[l](where(a[m,l] < a[m,n] or (a[m,l] == a[m,n] and l < n), 1, 0))", 1},
    {"output y[m,n]: i32 = sum[l](where(f64(a[m,l]) > f64(a[m,n]) or (l >= n and f64(a[m,n]) == f64(a[m,l])), 1, 0))",
     1},
    {"output y[n] = sum[l](where(c[l] > c[n] or (c[l] == c[n] and n <= l), h[l], 0))", 1},
    {"output y[n] = sum[l](where(c[l] < c[n] or (c[n] == c[l] and l <= n + 2), h[l], 0))", 1},
    {"output y[q,d] = sum[l](where(c[l] < t[q], gd[l,d], 0))", 1},
    {"output y[q,d] = sum[l](where(c[l] + 1 < 2*t[q], gd[l,d]*u[q], 0))", 1},
    {"output y[q] = sum[l](where(h[l] > 0 and c[l] < t[q] and u[q] < 1, 1, 0))", 1},
    {"output y = sum[q,l](where(c[l] <= t[q], u[q]*h[l], 0))", 1},
    {"output y[q] = sum[l](where(c[l] < t[q], 1, 0)*h[l])", 1},
    {"output y[q] = u[q]*sum[l](where(t[q] > c[l], 1, 0)*h[l])", 1},
    {"output y[n] = sum[l](where(c[l] < n, h[l], 0))", 1},
    // Weights that each query has for itself, selections by two orders, and single queries are compared pair by pair.
    {"output y[q] = sum[l](where(c[l] < t[q], exp(h[l]*t[q]), 0))", 0},
    {"output y[q] = sum[l](where(c[l] < t[q] and h[l] < u[q], 1, 0))", 0},
    {"output y[m] = sum[l](where(a[m,l] < u[0], g[m,l], 0))", 0},
    {"output y[q] = sum[l](where(c[l] == t[q], h[l], 0))", 0},
    {"output y[q] = sum[l](where(not c[l] < t[q], h[l], 0))", 0},
};

}  // namespace

TEST_CASE("sums over the elements below another one are sorted where that takes less time") {
  const DimValues large = {{"M", 3}, {"N", 2000}, {"Q", 2000}}, small = {{"M", 3}, {"N", 20}, {"Q", 20}};
  for (const Form& form : kForms) {
    const std::string text = form.text;
    CAPTURE(text);
    const Program program = specialise(parse(kHead + form.text), {});
    CHECK(count_sorted(program, large) == form.sorted);
    CHECK(count_sorted(specialise_all(program, large)) == form.sorted);
    CHECK(count_sorted(program, small) == 0);
  }
}

TEST_CASE("ties, NaN, infinities and zeros of both signs select as comparisons do, on every device") {
  const DimValues dims = {{"M", 2}, {"N", 90}, {"Q", 70}, {"D", 3}};
  for (const Form& form : kForms) {
    const std::string text = form.text;
    CAPTURE(text);
    for (const bool with_weights : {false, true}) {
      CAPTURE(with_weights);
      check_devices(specialise(parse(kHead + text), {}), dims, with_weights, 1e-5);
    }
  }
}

TEST_CASE("sorted rows of any length, without keys and queries too, have the values of the evaluator") {
  for (const Form& form : kForms) {
    const std::string text = form.text;
    CAPTURE(text);
    const Program program = specialise(parse(kHead + text), {});
    // A plan for large extents keeps its steps when it runs with small ones.
    const auto plan =
        std::make_shared<const Plan>(make_plan(program, {}, {.extents = {{"M", 3}, {"N", 4000}, {"Q", 4000}}}));
    for (const std::int64_t n : {0, 1, 2, 300}) {
      for (const std::int64_t q : {0, 1, 3, 350}) {
        CAPTURE(n);
        CAPTURE(q);
        if (text.find("u[0]") != std::string::npos && q == 0) continue;
        check_plan(plan, {{"M", 2}, {"N", n}, {"Q", q}, {"D", 3}});
      }
    }
  }
}

TEST_CASE("keys that a kernel computes are there before they are sorted") {
  const DimValues dims = {{"M", 2}, {"N", 600}, {"K", 4}};
  const Program program = specialise(parse(R"(dim M dynamic, N, K
index m:M, n:N, l:N, k:K
input x[M], y[N]
let r[m,n] = (x[m] - y[n])^2 + sum[k](sin(k*y[n]))^2
let rank[m,n] = sum[l](where(r[m,l] < r[m,n] or (r[m,l] == r[m,n] and l < n), 1, 0))
output nearest[m,k] = sum[n](where(rank[m,n] == k, n, 0))
)"),
                                     {{"N", 600}, {"K", 4}});
  CHECK(count_sorted(program, dims) == 1);
  TensorValues inputs = test::wave_inputs(program, dims);
  for (std::size_t n = 0; n < 600; ++n) inputs["y"][n] = static_cast<double>((n * 7) % 600) / 64;
  const TensorValues expected = evaluate(program, dims, inputs);
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    check_values(test::run_on(device, program, dims, inputs), expected, 1e-5);
  }
}

TEST_CASE("any number of threads gives the same bits") {
  const Program program =
      specialise_all(parse(kHead + "output y[m,q] = sum[l](where(a[m,l] < b[m,q], g[m,l], 0))\n"
                                   "output z[n] = sum[l](where(c[l] > c[n] or (c[l] == c[n] and l < n), h[l], 0))"),
                     {{"M", 5}, {"N", 2000}, {"Q", 1500}});
  const DimValues dims = {{"M", 5}, {"N", 2000}, {"Q", 1500}, {"D", 3}};
  REQUIRE(count_sorted(program) == 2);
  const TensorValues inputs = hostile_inputs(program, dims, false);
  const auto one = test::test_device("cpu", {.threads = 1}), two = test::test_device("cpu", {.threads = 2});
  if (!one || !two) return;
  const TensorValues values = test::run_on(one, program, dims, inputs),
                     others = test::run_on(two, program, dims, inputs);
  for (const auto& [name, found] : values) CHECK(found == others.at(name));
}

TEST_CASE("gradients of sorted sums are sorted sums, and agree with finite differences") {
  const Program cox = specialise(parse(R"(dim N
index i:N, j:N
input t[N], eta[N], event[N]
let risk[i] = sum[j](where(t[j] >= t[i], exp(eta[j]), 0))
output loss = sum[i](event[i]*(log(risk[i]) - eta[i]))
)"),
                                 {{"N", 500}});
  const Program auc = specialise(parse(R"(dim N
index i:N, j:N
input s[N], a[N], b[N]
output auc = sum[i,j](where(s[i] > s[j], a[i]*b[j], 0))
)"),
                                 {{"N", 500}});
  struct Case {
    const Program& program;
    const char* output;
    std::vector<std::string> wrt;
    std::size_t sorted;
  };
  for (const Case& c : {Case{cox, "loss", {"eta", "event"}, 2}, Case{auc, "auc", {"a", "b"}, 3}}) {
    const std::string name = c.output;
    CAPTURE(name);
    const DimValues dims = {{"N", 500}};
    const Program gradient = differentiate(c.program, {name}, c.wrt);
    CHECK(count_sorted(gradient) == c.sorted);
    TensorValues inputs = test::random_inputs(gradient, dims, 3);
    const TensorValues expected = evaluate(gradient, dims, inputs);
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      check_values(test::run_on(device, gradient, dims, inputs), expected, 1e-4);
    }
  }
  const Program small = specialise(parse(R"(dim N = 12
index i:N, j:N
input t[N], eta[N]
let risk[i] = sum[j](where(t[j] >= t[i], exp(eta[j]), 0))
output loss = sum[i](log(risk[i]))
)"),
                                   {});
  CHECK(test::worst_gradient_error(small, {"loss"}, {"eta"}, {{"N", 12}}, test::random_inputs(small, {{"N", 12}}, 5)) <
        1e-6);
}

namespace {

/// The most that each sorted sum of a plan counts, -1 where it counts on.
std::vector<std::int64_t> most_counted(const Plan& plan) {
  std::vector<std::int64_t> most;
  for (const PlanStep& step : plan.steps) {
    if (const auto* call = std::get_if<OrderedSumCall>(&step)) most.push_back(call->most.value_or(-1));
  }
  return most;
}

struct RankForm {
  const char* text;
  std::int64_t most;
};

const RankForm kRankForms[] = {
    {"let r[m,n] = sum[l](where(a[m,l] < a[m,n] or (a[m,l] == a[m,n] and l < n), 1, 0))\n"
     "output y[m,k in 0..3] = sum[n](where(r[m,n] == k, g[m,n], 0))",
     3},
    {"let r[m,n]: i32 = sum[l](where(a[m,l] > a[m,n] or (a[m,l] == a[m,n] and l > n), 1, 0))\n"
     "output y[m,k in 0..3] = sum[n](where(r[m,n] == k, n, 0))\noutput z[m,n] = where(r[m,n] < 7, 1, 0)",
     8},
    {"let r[m,q] = sum[l](where(a[m,l] <= b[m,q], 1, 0))\noutput y[m,q] = where(r[m,q] >= 2, where(r[m,q] != 4, 1, 2), "
     "3)",
     5},
    {"let r[q] = sum[l](where(c[l] < t[q], 1, 0))\noutput y[q] = where(0 == r[q], u[q], 1)", 1},
    // More than that is read, or a number that is not known before the run.
    {"let r[q] = sum[l](where(c[l] < t[q], 1, 0))\noutput y[q] = where(r[q] < 3, r[q], 1)", -1},
    {"let r[m,n] = sum[l](where(a[m,l] < a[m,n], 1, 0))\noutput y[m,k in 0..N] = sum[n](where(r[m,n] == k, g[m,n], 0))",
     -1},
    {"let r[q] = sum[l](where(c[l] < t[q], h[l], 0))\noutput y[q] = where(r[q] < 3, 2, 1)", -1},
    {"output r[q] = sum[l](where(c[l] < t[q], 1, 0))\noutput y[q] = where(r[q] < 3, 2, 1)", -1},
};

}  // namespace

TEST_CASE("ranks that are compared with small integers only are counted no further") {
  for (const RankForm& form : kRankForms) {
    const std::string text = form.text;
    CAPTURE(text);
    for (const std::int64_t keys : {17, 200, 1000}) {
      const DimValues dims = {{"M", 3}, {"N", keys}, {"Q", 70}};
      const auto plan = std::make_shared<const Plan>(
          make_plan(specialise(parse(kHead + form.text), {}), {}, {.extents = {{"M", 3}, {"N", 2000}, {"Q", 2000}}}));
      CHECK(most_counted(*plan) == std::vector<std::int64_t>{form.most});
      check_plan(plan, dims);
    }
  }
}
