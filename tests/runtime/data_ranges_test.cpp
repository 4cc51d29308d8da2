// Reductions over ranges that integer tensors give, on every device: against loops written out, and the evaluator.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <type_traits>
#include <variant>

#include "compiler/builder/builder.h"
#include "compiler/diff/differentiate.h"
#include "compiler/fuse/fuse.h"
#include "compiler/loop/lower.h"
#include "compiler/reference/evaluate.h"
#include "compiler/rewrite/passes.h"
#include "compiler/support/error.h"
#include "runtime/plan.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/diff/gradient_check.h"

using namespace moxie;
using Values = std::vector<double>;

namespace {

constexpr const char* kHead = "dim N, K, M, D\nindex i:N, k:K, d:D\ninput start[N+1]: i32, col[K]: i32 >= 0\n";
constexpr const char* kSparse = "input val[K], x[M]\noutput y[i] = sum[k in start[i]..start[i+1]](val[k]*x[col[k]])\n";
const DimValues kDims = {{"N", 5}, {"K", 9}, {"M", 4}, {"D", 3}, {"H", 2}, {"F", 20}};

/// An empty row, one that ends before it begins, and ends outside of 0..K.
const Values kStart = {-2, 3, 3, 7, 5, 12};
const Values kColumn = {2, 0, 3, 1, 1, 2, 0, 3, 2};

void check_close(const Values& found, const Values& expected, double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    CAPTURE(k);
    if (expected[k] == found[k]) continue;  // infinities too
    CHECK(found[k] == doctest::Approx(expected[k]).epsilon(tolerance).scale(1));
  }
}

/// What is not linear in the elements of ranges: the gradient comes back to them by another index, by two, in a scan.
constexpr const char* kExponentials =
    "input l[N], r[N]\noutput y[i] = sum[k in start[i]..start[i+1]](exp(l[i] + r[col[k]]))\n";
constexpr const char* kAttention =
    "index h:D\ninput l[N], r[N], z[N,D]\ndef leaky(u) = where(u > 0, u, 0.2*u)\n"
    "let total[i] = 1 + sum[k in start[i]..start[i+1]](exp(leaky(l[i] + r[col[k]])))\n"
    "output y[i,h] = sum[k in start[i]..start[i+1]](exp(leaky(l[i] + r[col[k]]))*z[col[k],h])/total[i]\n";
constexpr const char* kRank =
    "dim T = 4\nindex t:T\ninput weight[K], x[N]\nscan t {\n"
    "  let r[t,i] = 0.2 + 0.3*sum[k in start[i]..start[i+1]](weight[k]*where(t == 0, x[col[k]], r[t-1,col[k]]))\n}\n"
    "output y[i] = r[T-1,i]\n";

/// Segment softmax: the gradient of a maximum asks for its position.
constexpr const char* kMaximum =
    "input l[N], r[N]\nlet m[i] = max[k in start[i]..start[i+1]](l[i]*r[col[k]])\n"
    "output y[i] = where(start[i] < start[i+1], log(sum[k in start[i]..start[i+1]](exp(l[i]*r[col[k]] - m[i]))) + "
    "m[i], 0)\n";

/// Every output on every device, in both precisions, against the evaluator.
void check_everywhere(const std::string& text, const std::vector<std::string>& outputs = {},
                      const std::vector<std::string>& wrt = {}) {
  CAPTURE(text);
  for (const DType dtype : {DType::f64, DType::f32}) {
    Program program = with_dtype(parse(text), dtype);
    if (!outputs.empty()) program = differentiate(program, outputs, wrt);
    CHECK(parse(print(program)) == parse(print(parse(print(program)))));
    TensorValues inputs = test::random_inputs(program, kDims, 3);
    inputs["start"] = kStart;
    inputs["col"] = kColumn;
    const TensorValues expected = evaluate(program, kDims, inputs);
    for (const auto& device : test::test_devices()) {
      CAPTURE(device->name());
      for (const auto& [name, values] : test::run_on(device, program, kDims, inputs)) {
        CAPTURE(name);
        check_close(values, expected.at(name), dtype == DType::f64 ? 1e-12 : 1e-5);
      }
    }
  }
}

}  // namespace

TEST_CASE("a sparse matrix in rows, and its gradient, whatever the ends of rows say") {
  const Program program = differentiate(parse("dtype f64\n" + std::string(kHead) + kSparse), {"y"}, {"val", "x"});
  const Values val = {1, 2, 3, 4, 5, 6, 7, 8, 9}, x = {0.5, -1, 2, 3}, cotangent = {1, -2, 3, 0.5, 4};
  Values y(5), grad_val(9), grad_x(4);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t k = 0; k < 9; ++k) {
      if (static_cast<double>(k) < kStart[i] || static_cast<double>(k) >= kStart[i + 1]) continue;
      const auto column = static_cast<std::size_t>(kColumn[k]);
      y[i] += val[k] * x[column];
      grad_val[k] += cotangent[i] * x[column];
      grad_x[column] += cotangent[i] * val[k];
    }
  }
  const TensorValues inputs = {{"start", kStart}, {"col", kColumn}, {"val", val}, {"x", x}, {"cot.y", cotangent}};
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues found = test::run_on(device, program, kDims, inputs);
    check_close(found.at("y"), y, 1e-12);
    check_close(found.at("grad.val"), grad_val, 1e-12);
    check_close(found.at("grad.x"), grad_x, 1e-12);
  }
}

TEST_CASE("every reduction over a range by data, in lanes along another axis or none, and inside others") {
  const std::string head = kHead;
  for (const char* body :
       {"input w[K]\noutput y[i] = prod[k in start[i]..start[i+1]](w[k])",
        "input w[K]\noutput y[i] = max[k in start[i]..start[i+1]](w[k])",
        "input w[K]\noutput y[i] = min[k in start[i]..start[i+1]](w[k])",
        "input w[K]\noutput y[i] = logsumexp[k in start[i]..start[i+1]](w[k])",
        "input w[K]\noutput y[i] = where(start[i] < start[i+1] , argmax[k in start[i]..start[i+1]](w[k]), -1)",
        "input w[K]\noutput y[i] = where(any[k in start[i]..start[i+1]](w[k] > 0), 1, 0)",
        "input w[K]\noutput y[i] = where(all[q in start[i]..start[i+1] of K](w[q] > 0), 1, 0)",
        "input w[K]\noutput y[i] = where(start[i] < start[i+1], mean[k in start[i]..start[i+1]](w[k]), 0)",
        "input w[K]\noutput y = sum[i,k in start[i]..start[i+1]](w[k]*i)",
        R"(input w[K], h[M,D], v[D]
output y[i] = where(start[i] < start[i+1], sum[d](v[d]*sum[k in start[i]..start[i+1]](h[col[k],d]*w[k])), 0))",
        "input h[M,D]\noutput y[i,d] = exp(sum[k in start[i]+1..start[i+1]](h[col[k],d])/4) + d"})
    check_everywhere(head + body);
  check_everywhere(head + "input w[K], h[M,D]\noutput y[i,d] = sum[k in start[i]..start[i+1]](w[k]*h[col[k],d])", {"y"},
                   {"w", "h"});
  check_everywhere(head + kSparse, {"y"}, {"val", "x"});
}

TEST_CASE("quotients choose the ends of ranges: of a block of rows, one range") {
  const std::string head = std::string(kHead) + "input w[K], h[M,D]\nindex p in 0..2*N\n";
  for (const char* body : {"output y[p in 0..2*N of 2*N] = sum[k in start[p/2]..start[p/2+1]](w[k]*p)",
                           "output y[p in 0..2*N of 2*N] = max[k in start[p/2]..start[(p+1)/2]](w[k])",
                           "output y[p in 0..2*N of 2*N] = where(any[k in start[p/2]..start[p/2+1]](w[k] > 0), 1, p%2)",
                           "output y[p in 0..2*N of 2*N] = where(start[p/2] < start[p/2+1], "
                           "argmax[k in start[p/2]..start[p/2+1]](w[k]), -1)",
                           "output y[p in 0..2*N of 2*N] = where(start[p/2] < start[p/2+1], "
                           "mean[k in start[p/2]..start[p/2+1]](w[k]), 0)",
                           "output y = sum[p, k in start[p/2]..start[p/2+1]](w[k]*p)",
                           "output y[d] = sum[p, k in start[p/2]+p%2..start[p/2+1]](w[k]*h[col[k],d])"})
    check_everywhere(head + body);
  check_everywhere(head + "output y[p in 0..2*N of 2*N,d] = sum[k in start[p/2]..start[p/2+1]](w[k]*h[col[k],d])",
                   {"y"}, {"w", "h"});
}

TEST_CASE("positions of extrema: of equal elements the first, of ranges without a better element the first of all") {
  constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();
  const Program program =
      parse("dtype f64\n" + std::string(kHead) +
            "input w[K]\noutput high[i] = argmax[k in start[i]..start[i+1]](w[k])\n"
            "output inner[i]: i32 = argmax[k in 2..K](where(start[i] <= k and k < start[i+1], w[k], -inf))\n"
            "output low[i]: i32 = argmin[k](where(start[i] <= k and k < start[i+1], f32(w[k]), inf))\n");
  const TensorValues inputs = {
      {"start", {0, 2, 2, 5, 7, 9}}, {"col", Values(9)}, {"w", {-kInf, -kInf, 1, 3, 3, 2, kNan, kInf, kInf}}};
  for (const auto& device : test::test_devices()) {
    CAPTURE(device->name());
    const TensorValues found = test::run_on(device, program, kDims, inputs);
    CHECK(found.at("high") == Values{0, kInf, 3, 6, 7});
    CHECK(found.at("inner") == Values{2, 2, 3, 6, 7});
    CHECK(found.at("low") == Values{0, 0, 2, 6, 0});
  }
}

TEST_CASE("gradients of what stands inside of ranges") {
  const std::string head = kHead;
  check_everywhere(head + kExponentials, {"y"}, {});
  check_everywhere(head + kAttention, {"y"}, {});
  check_everywhere(head + kRank, {"y"}, {});
  check_everywhere(head + kMaximum, {"y"}, {});
  check_everywhere(
      head + "input l[N], r[N,D]\noutput y[i] = max[k in start[i]..start[i+1]](prod[d](l[i] + r[col[k],d]))", {"y"},
      {});
  check_everywhere(head + "input l[N], w[N]\noutput y[i] = sum[k in start[i]..start[i+1]](sqrt(abs(l[i]))*w[col[k]])",
                   {"y"}, {});
}

namespace {

/// Loops that run through all of 3001 elements, or 701 rows, inside of another loop than that of D.
int dense_loops(const std::string& kernel) {
  std::vector<bool> open;
  int found = 0;
  std::istringstream lines(kernel);
  for (std::string line; std::getline(lines, line);) {
    const bool is_whole = line.find("in 0..3001") != std::string::npos || line.find("in 0..701") != std::string::npos;
    if (is_whole && std::ranges::count(open, true) > 0) ++found;
    if (line.ends_with("{"))
      open.push_back(line.find(" for ") != std::string::npos && line.find(" for d in") == std::string::npos);
    if (line.ends_with("}")) open.pop_back();
  }
  return found;
}

}  // namespace

TEST_CASE("gradients take a step for each pair of a row and an element of its range, and keep no tensor of all pairs") {
  for (const char* formula : {kRank, kSparse, kExponentials, kAttention, kMaximum}) {
    CAPTURE(formula);
    const Program program = differentiate(parse(kHead + std::string(formula)), {"y"}, {});
    const DimValues dims = {{"N", 701}, {"K", 3001}, {"M", 50}, {"D", 1}};
    const FusedProgram fused = fuse(optimise(specialise(program, dims)));
    for (const Definition& definition : fused.program.definitions) {
      CAPTURE(definition.name);
      const auto has = [&](std::int64_t extent) {
        return std::ranges::count(definition.axes, Affine(extent), &AxisDecl::extent) > 0;
      };
      CHECK(!(has(701) && has(3001)));
    }
    const auto check_kernel = [&](const auto& step) {
      if constexpr (std::is_same_v<std::decay_t<decltype(step)>, Kernel>) {
        const std::string text = print(lower(fused, step).program);
        CAPTURE(text);
        CHECK(dense_loops(text) == 0);
      }
    };
    for (const Step& step : fused.steps) {
      std::visit(check_kernel, step);
      if (const auto* scan = std::get_if<ScanLoop>(&step)) {
        for (const ScanStep& part : scan->steps) std::visit(check_kernel, part);
      }
    }
  }
}

TEST_CASE("sums in the gradient of a softmax over segments are computed for pairs that belong together") {
  const std::string weights = "input m[N], s[K], z[K,D]\noutput y[i,d] = sum[k";
  for (const std::string& formula : {weights + " in start[i]..start[i+1]](exp(s[k] - m[i])*z[k,d])\n",
                                     weights + "](where(col[k] == i, exp(s[k] - m[i])*z[k,d], 0))\n"}) {
    CAPTURE(formula);
    const Program program = differentiate(parse(kHead + formula), {"y"}, {});
    const DimValues dims = {{"N", 701}, {"K", 3001}, {"M", 50}, {"D", 64}};
    for (const Definition& definition : optimise(specialise(program, dims)).definitions) {
      CAPTURE(definition.name);
      const auto has = [&](std::int64_t extent) {
        return std::ranges::count(definition.axes, Affine(extent), &AxisDecl::extent) > 0;
      };
      CHECK(!(has(701) && has(3001)));
    }
    check_everywhere(kHead + formula, {"y"});
  }
}

TEST_CASE("gradients by what stands in ranges form the sums that features have in common once") {
  const std::string formula =
      "dim H, F\nindex h:H, f:F, g:F\ninput q[N,H,F], key[K,H,F], val[K,H,F]\n"
      "output y[i,h,f] = sum[k in start[i]..start[i+1]](exp(0.1*sum[g](q[i,h,g]*key[k,h,g]))*val[k,h,f])\n";
  const Program program = differentiate(parse(kHead + formula), {"y"}, {"key", "val"});
  const FusedProgram fused =
      fuse(optimise(specialise(program, {{"N", 701}, {"K", 3001}, {"M", 50}, {"D", 1}, {"H", 2}, {"F", 64}})));
  int gradients = 0;
  for (const Step& step : fused.steps) {
    const Kernel* kernel = std::get_if<Kernel>(&step);
    if (!kernel || !kernel->roots.front().definition.name.starts_with("grad.")) continue;
    const std::string text = print(lower(fused, *kernel).program);
    CAPTURE(text);
    CHECK(text.find("sum[lanes](") < text.find("= exp("));  // before the lanes along the features
    ++gradients;
  }
  CHECK(gradients == 2);
  check_everywhere(kHead + formula, {"y"});
}

TEST_CASE("a scatter reads functions of its elements from tables") {
  const Program program = optimise(
      specialise(parse("dim N = 300, K = 3000, D = 64\nindex i:N, k:K, d:D\ninput col[K]: i32 >= 0, w[N,D], x[K,D]\n"
                       "output y[i] = sum[k](where(col[k] == i, sum[d](exp(w[i,d])*x[k,d]), 0))\n"),
                 {}));
  const auto is_table = [](const Definition& definition) {
    return definition.axes.size() == 2 && definition.axes[0].extent == Affine(300) &&
           definition.axes[1].extent == Affine(64);
  };
  CHECK(std::ranges::any_of(program.definitions, is_table));
}

TEST_CASE("loops that schedules choose run through ranges alone too") {
  const Program program = parse(std::string(kHead) +
                                "input h[M,D], v[D]\noutput y[i] = where(start[i] < start[i+1], "
                                "sum[d](v[d]*sum[k in start[i]..start[i+1]](h[col[k],d])), 0)\n");
  const Plan plan = make_plan(specialise(program, {{"N", 2000}, {"K", 20001}, {"M", 300}, {"D", 32}}), {},
                              {.machine = &default_machine("x86-64-v4")});
  for (const PlanStep& step : plan.steps) {
    for (const LoweredKernel* kernel : kernels_of(step)) {
      const std::string text = print(kernel->program);
      CAPTURE(text);
      CHECK(text.find("0..20001") == std::string::npos);
    }
  }
}

TEST_CASE("the gradient of a sum over ranges has the same bits for any number of threads") {
  const DimValues dims = {{"N", 700}, {"K", 3000}, {"M", 50}, {"D", 1}};
  for (const char* formula : {kSparse, kExponentials, kAttention, kRank}) {
    CAPTURE(formula);
    const Program program = differentiate(parse(std::string(kHead) + formula), {"y"}, {});
    TensorValues inputs = test::random_inputs(program, dims, 5);
    for (std::size_t i = 0; i <= 700; ++i) inputs["start"][i] = static_cast<double>(4 * i + i * i % 5);
    for (std::size_t k = 0; k < 3000; ++k) inputs["col"][k] = static_cast<double>(k * k % 50);
    TensorValues first;
    for (const int threads : {1, 2, 5}) {
      DeviceOptions options;
      options.threads = threads;
      const auto device = test::test_device("cpu", options);
      if (!device) continue;
      const TensorValues found = test::run_on(device, program, dims, inputs);
      if (first.empty()) first = found;
      CHECK(found == first);
    }
  }
}

TEST_CASE("what cannot be the end of a range") {
  const auto check_fails = [](const std::string& range, const std::string& message) {
    const std::string text = std::string(kHead) + "input w[K]\noutput y[i] = sum[" + range + "](i)\n";
    CHECK_THROWS_WITH_AS(parse(text), doctest::Contains(message.c_str()), TypeError);
  };
  check_fails("k in w[i]..start[i+1]", "`w` holds numbers of dtype f32; the end of a range is an integer");
  check_fails("q in start[i]..start[i+1]", "nothing says how far it may reach");
  check_fails("k in start[i]/2..start[i+1]", "the end of a range is a sum of indices, dims and elements");
}
