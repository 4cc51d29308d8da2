// Parts of a Program that run slice by slice: which do, and that their results are those of whole tensors.
#include "compiler/fuse/slices.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "compiler/diff/differentiate.h"
#include "compiler/fuse/slice_group.h"
#include "compiler/rewrite/passes.h"
#include "compiler/schedule/machine.h"
#include "runtime/buffer.h"
#include "runtime/device.h"
#include "runtime/host_tensor.h"
#include "runtime/plan.h"
#include "runtime/plan_bytes.h"
#include "tests/devices.h"

using namespace moxie;

namespace {

constexpr double kCache = 64 << 10;

/// A processor on which a few rows fill the cache.
Machine small_machine() {
  Machine machine = default_machine("x86-64-v3");
  machine.levels.at(1).bytes = kCache;
  return machine;
}

Plan plan_of(const Program& program, const DimValues& extents, std::vector<std::string> without = {}) {
  static const Machine machine = small_machine();
  return make_plan(program, {}, {.machine = &machine, .extents = extents}, std::move(without));
}

std::vector<const LoweredSlices*> slices_of(const Plan& plan) {
  std::vector<const LoweredSlices*> found;
  for (const PlanStep& step : plan.steps) {
    if (const auto* slices = std::get_if<LoweredSlices>(&step)) found.push_back(slices);
  }
  return found;
}

using Outputs = std::map<std::string, std::vector<float>>;

Outputs run(const Plan& plan, const DimValues& dims, const TensorValues& inputs, Device& device) {
  std::map<std::string, std::unique_ptr<Buffer>> memory;
  const auto fill = [&](const std::string& name, std::span<const float> values) {
    auto& buffer = memory[name] = device.make_buffer();
    buffer->resize(values.size_bytes());
    std::ranges::copy(std::as_bytes(values), buffer->write().begin());
  };
  for (const auto& [name, values] : inputs) fill(name, std::vector<float>(values.begin(), values.end()));
  Outputs outputs;
  for (const Definition& definition : plan.program.definitions) {
    if (!definition.output) continue;
    auto& out = outputs[definition.name];
    out.resize(static_cast<std::size_t>(count_elements(plan.program, definition.name, dims)), NAN);
    fill(definition.name, out);
  }
  const auto executable = device.prepare(std::make_shared<const Plan>(plan), dims);
  const auto address = [&](const std::string& name) -> void* {
    return outputs.contains(name) ? memory.at(name)->kernel_output() : memory.at(name)->kernel_input();
  };
  executable->run(address, 1, 0);
  executable->run(address, 1, 0);  // nothing is left of the run before
  device.wait();
  for (auto& [name, out] : outputs)
    std::ranges::copy(memory.at(name)->read(), std::as_writable_bytes(std::span(out)).begin());
  return outputs;
}

Outputs run(const Plan& plan, const DimValues& dims, const TensorValues& inputs, int threads = 1) {
  return run(plan, dims, inputs, *open_device("cpu", {.threads = threads, .cache_directory = "0"}));
}

void check_near(const Outputs& values, const Outputs& expected) {
  for (const auto& [name, wanted] : expected) {
    CAPTURE(name);
    float worst = 0, largest = 1e-3F;
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      REQUIRE(std::isfinite(values.at(name)[k]));
      worst = std::max(worst, std::abs(values.at(name)[k] - wanted[k]));
      largest = std::max(largest, std::abs(wanted[k]));
    }
    CHECK(worst <= 1e-4F * largest);
  }
}

/// The gradients of `outputs` run in that many steps with slices, have the values of whole tensors, and the bits of one
/// thread on two. No tensor of that many elements is stored. Returns the plan.
Plan check_slices(std::string_view text, const DimValues& dims, const std::vector<std::string>& outputs,
                  std::size_t steps, std::int64_t elements) {
  const Program formula = specialise(parse(text), dims);
  std::vector<std::string> wrt;
  for (const InputDecl& input : formula.inputs) wrt.push_back(input.name);
  const Program program = differentiate(formula, outputs, wrt);
  const Plan plan = plan_of(program, dims);
  CHECK(slices_of(plan).size() >= steps);
  const DimValues all = with_slice_dims(plan, dims);
  const MemoryPlan memory = plan_memory(plan, all, std::vector<std::int64_t>(plan.steps.size(), 1));
  for (const auto& [name, slot] : memory.tensors) CHECK_MESSAGE(slot.bytes < 4 * elements, name);
  TensorValues inputs = test::wave_inputs(program, dims);
  for (auto& [name, values] : inputs) {
    for (double& value : values) value *= 0.25;
  }
  const Outputs values = run(plan, dims, inputs);
  check_near(values, run(plan_of(program, dims, {kSlicesPass}), dims, inputs));
  CHECK(run(plan, dims, inputs, 2) == values);
  return plan;
}

constexpr const char* kAttention = R"(dim B, H, T dynamic, J, D
index b:B, h:H, i:T, j:J, d:D
input q[B,H,T,D], k[B,H,J,D], v[B,H,J,D]
let p[b,h,i,j] = softmax[j](sum[d](q[b,h,i,d]*k[b,h,j,d])/sqrt(D))
output y[b,h,i,d] = sum[j](p[b,h,i,j]*v[b,h,j,d])
)";

}  // namespace

TEST_CASE("attention never stores all pairs, nor does its gradient") {
  const DimValues dims = {{"B", 2}, {"H", 2}, {"T", 200}, {"J", 384}, {"D", 128}};
  const Plan plan = check_slices(kAttention, dims, {"y"}, 1, 2 * 2 * 200 * 384);
  const Slices& slices = slices_of(plan).at(0)->slices;
  REQUIRE(slices.axes.size() == 3);
  CHECK(slices.axes[0].block == 1);
  CHECK(slices.axes[1].block == 1);
  CHECK(slices.axes[2].block >= 64);
  CHECK_MESSAGE(!slices.axes[2].count.empty(), "the extent is not known when kernels are compiled");
  CHECK(slices.sums.size() == 2);  // those of grad.k and grad.v
  CHECK(slices.parts.empty());
  const auto in_slices = [](const ScheduleChoice& choice) { return choice.chosen.ends_with("; in each of 8 slices"); };
  CHECK_MESSAGE(std::ranges::count_if(plan.choices, in_slices) >= 2, "dumps say how often a kernel runs");
  const std::string bytes = to_bytes(plan);
  CHECK(plan_from_bytes(bytes, plan.program).steps == plan.steps);
}

TEST_CASE("GPUs run attention and its gradient in slices") {
  const auto device = test::test_device("cuda-emu", {.cache_directory = "0"});
  if (!device) return;
  const DimValues dims = {{"B", 2}, {"H", 24}, {"T", 24}, {"J", 64}, {"D", 64}};
  const Program formula = specialise(parse(kAttention), dims);
  const Program program = differentiate(formula, {"y"}, {"q", "k", "v"});
  for (const Products products : {Products::blas, Products::kernels}) {
    const auto plan_for = [&](std::int64_t slice_bytes) {
      return make_plan(program, {},
                       {.products = products, .gpu = GpuLimits{.slice_bytes = slice_bytes}, .extents = dims});
    };
    const Plan plan = plan_for(48 << 10);
    REQUIRE(slices_of(plan).size() >= 1);
    const MemoryPlan memory =
        plan_memory(plan, with_slice_dims(plan, dims), std::vector<std::int64_t>(plan.steps.size(), 1));
    for (const auto& [name, slot] : memory.tensors) CHECK_MESSAGE(slot.bytes < 4 * 2 * 24 * 24 * 64, name);
    for (const std::int64_t rows : {24, 13, 0}) {
      DimValues own = dims;
      own["T"] = rows;
      check_near(run(plan, own, test::wave_inputs(program, own), *device),
                 run(plan_for(1 << 30), own, test::wave_inputs(program, own), *device));
    }
  }
}

TEST_CASE("the last slice may have fewer rows") {
  const DimValues dims = {{"B", 1}, {"H", 3}, {"T", 227}, {"J", 384}, {"D", 128}};
  const Plan plan = check_slices(kAttention, dims, {"y"}, 1, 3 * 227 * 384);
  const Slices& slices = slices_of(plan).at(0)->slices;
  CHECK(227 % slices.axes.back().block != 0);
  // The same plan takes other extents, also such that one slice has all rows, or there are none.
  for (const std::int64_t rows : {5, 64, 0}) {
    DimValues other = dims;
    other["T"] = rows;
    const TensorValues inputs = test::wave_inputs(plan.program, other);
    const Plan whole = plan_of(plan.program, dims, {kSlicesPass});
    check_near(run(plan, other, inputs), run(whole, other, inputs));
  }
}

TEST_CASE("masks see the whole index, and slices of a triangle are bands") {
  const Plan plan = check_slices(R"(dim H, T, D
index h:H, i:T, j:T, d:D
input q[H,T,D], k[H,T,D], v[H,T,D]
let p[h,i,j] = softmax[j](where(j <= i, sum[d](q[h,i,d]*k[h,j,d])/sqrt(D) - 0.01*(i - j), -inf))
output y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
)",
                                 {{"H", 2}, {"T", 320}, {"D", 128}}, {"y"}, 1, 2 * 320 * 320);
  int half_read = 0;
  for (const PlanStep& step : plan.steps) {
    for (const MatrixProduct* product : products_of(step)) half_read += product->needed.has_value();
  }
  CHECK_MESSAGE(half_read == 2, "the scores and the derivatives by weights are read up to the diagonal");
}

TEST_CASE("queries that share keys: a product of a slice is added once to the sum over all of them") {
  check_slices(R"(dim H, G, T, D
index h:H, g:G, i:T, j:T, d:D
input q[H,G,T,D], k[H,T,D], v[H,T,D]
let s[h,g,i,j] = where(j <= i, sum[d](q[h,g,i,d]*k[h,j,d]), -inf)
output y[h,g,i,d] = sum[j](softmax[j](s[h,g,i,j])*v[h,j,d])
)",
               {{"H", 2}, {"G", 2}, {"T", 256}, {"D", 32}}, {"y"}, 1, 2 * 2 * 256 * 256);
}

TEST_CASE("what is computed again is read before and behind what stands between: searches come to an end") {
  // Mixtures of Gaussians as ADBench has them. A product keeps its own matrix from slices, and all that reads the
  // product is behind it: copies would only take the place of what they copy.
  const DimValues dims = {{"N", 128}, {"K", 128}, {"D", 128}};
  const Program formula = specialise(parse(R"(dim N, K, D
index n:N, k:K, i:D, j:D
input alpha[K], mu[K,D], q[K,D], L[K,D,D], x[N,D], gamma, m
let sum_q[k] = sum[i](q[k,i])
let Q[k,i,j] = where(i == j, exp(q[k,i]), where(j < i, L[k,i,j], 0))
let Qx[n,k,i] = sum[j](Q[k,i,j]*(x[n,j] - mu[k,j]))
let main[n,k] = alpha[k] + sum_q[k] - .5*sum[i](Qx[n,k,i]^2)
let slse = sum[n](logsumexp[k](main[n,k]))
let frobenius = sum[k,i](exp(q[k,i])^2) + sum[k,i,j](where(j < i, L[k,i,j]^2, 0))
output err = -N*D*.5*log(2*3.141592653589793) + slse - N*logsumexp[k](alpha[k]) )"
                                           R"(+ .5*gamma*gamma*frobenius - m*sum[k](sum_q[k])
)"),
                                     dims);
  const Plan plan = plan_of(differentiate(formula, {"err"}, {}), dims);
  CHECK_FALSE(plan.fused.program.find_definition("Qx.again"));
}

TEST_CASE("a product that a condition reads as a whole is computed as a whole") {
  const Plan plan = check_slices(R"(dim H, T, D
index h:H, i:T, j:T, d:D
input q[H,T,D], k[H,T,D], v[H,T,D], b[H,T]
let s[h,i,j] = sum[d](q[h,i,d]*k[h,j,d])
let p[h,i,j] = where(j <= i, s[h,i,j], 0) + where(s[h,i,j] > 0.5, b[h,j], 0)
output y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
)",
                                 {{"H", 2}, {"T", 320}, {"D", 128}}, {"y"}, 1, 2 * 2 * 320 * 320);
  for (const PlanStep& step : plan.steps) {
    for (const MatrixProduct* product : products_of(step))
      CHECK(!(product->needed && product->definition.name.starts_with("s")));
  }
}

TEST_CASE("tensors whose sliced axes are not the first are read from copies, and copied") {
  const Plan plan = check_slices(R"(dim B, T, H, D
index b:B, i:T, j:T, h:H, d:D
input q[B,T,H,D], k[B,T,H,D], v[B,T,H,D]
let p[b,h,i,j] = softmax[j](sum[d](q[b,i,h,d]*k[b,j,h,d])/sqrt(D))
output y[b,i,h,d] = sum[j](p[b,h,i,j]*v[b,j,h,d])
)",
                                 {{"B", 2}, {"T", 640}, {"H", 2}, {"D", 64}}, {"y"}, 1, 2 * 2 * 640 * 640);
  CHECK(plan.fused.program.find_definition("y.in_slices"));
}

TEST_CASE("a product whose rows are sliced is one of one matrix, not one for each row") {
  const DimValues dims = {{"N", 8}, {"C", 64}, {"O", 64}, {"H", 28}, {"W", 28}};
  const Program gradient = differentiate(parse(R"(dim N, C, O, H, W
index n:N, c:C, o:O, i:H, j:W, p:3, q:3
input x[N,C,H,W], k[O,C,3,3]
output u[n,o,i,j] = sum[c,p,q](where(i+p >= 1 and i+p <= H and j+q >= 1 and j+q <= W,
                                     k[o,c,p,q]*x[n,c,i+p-1,j+q-1], 0))
)"),
                                         {"u"}, {"x"});
  SliceTarget target;
  target.cache_bytes = 1 << 20;
  const std::vector<ProgramPart> parts = in_slices(optimise(specialise(gradient, dims)), target, {});
  const auto sliced = std::ranges::find_if(parts, [](const ProgramPart& part) { return part.slices.has_value(); });
  REQUIRE(sliced != parts.end());
  // Rows and then what is summed over: c, p, q, o.
  CHECK(sliced != parts.begin());
  CHECK(parts.front().program.find_definition("k.in_slices.1.2.3.0"));
}

TEST_CASE("sums over sliced indices that are no products are added slice by slice") {
  const Plan plan = check_slices(R"(dim H, T, J, D
index h:H, i:T, j:J, d:D
input q[H,T,D], k[H,J,D], v[H,J,D], bias[H,J], scale
let p[h,i,j] = softmax[j](scale*sum[d](q[h,i,d]*k[h,j,d]) + bias[h,j])
output y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
)",
                                 {{"H", 2}, {"T", 320}, {"J", 384}, {"D", 128}}, {"y"}, 1, 2 * 320 * 384);
  CHECK(slices_of(plan).at(0)->slices.parts.size() >= 2);  // of bias, and of scale
}

TEST_CASE("a loss between attention and its gradient: the weights are computed twice") {
  const Plan plan = check_slices(R"(dim H, T, D, E
index h:H, i:T, j:T, d:D, e:E
input x[T,E], wq[H,D,E], wk[H,D,E], wv[H,D,E], wo[E,H,D]
let q[h,i,d] = sum[e](wq[h,d,e]*x[i,e])
let k[h,i,d] = sum[e](wk[h,d,e]*x[i,e])
let v[h,i,d] = sum[e](wv[h,d,e]*x[i,e])
let p[h,i,j] = softmax[j](where(j <= i, sum[d](q[h,i,d]*k[h,j,d])/sqrt(D), -inf))
let y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
let o[i,e] = sum[h,d](wo[e,h,d]*y[h,i,d])
let centre[e] = sum[i](o[i,e])/T
output loss = sum[i,e]((x[i,e] - o[i,e] + centre[e])^2)/(T*E)
)",
                                 {{"H", 2}, {"T", 640}, {"D", 128}, {"E", 64}}, {"loss"}, 2, 2 * 640 * 640);
  CHECK(plan.fused.program.find_definition("p.again"));
}

TEST_CASE("random numbers are those of whole tensors, also where they are drawn twice") {
  const Plan plan = check_slices(R"(dim H, T, D, E
index h:H, i:T, j:T, d:D, e:E
input x[T,E], q[H,T,D], k[H,T,D], v[H,T,D], wo[E,H,D]
let p[h,i,j] = where(randu(1) < 0.9, softmax[j](sum[d](q[h,i,d]*k[h,j,d]))/0.9, 0)
let y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
let o[i,e] = sum[h,d](wo[e,h,d]*y[h,i,d])
let centre[e] = sum[i](o[i,e])/T
output loss = sum[i,e]((x[i,e] - o[i,e] + centre[e])^2)/(T*E)
)",
                                 {{"H", 2}, {"T", 640}, {"D", 128}, {"E", 64}}, {"loss"}, 2, 2 * 640 * 640);
  const auto is_again = [](const Definition& definition) { return definition.name.ends_with(".again"); };
  CHECK(std::ranges::any_of(plan.fused.program.definitions, is_again));
}

TEST_CASE("kernels of distances in many dimensions") {
  check_slices(R"(dim N, M, D, E
index n:N, m:M, d:D, e:E
input x[N,D], y[M,D], b[M,E]
let K[n,m] = exp(-sum[d]((x[n,d] - y[m,d])^2)/D)
output f[n,e] = sum[m](K[n,m]*b[m,e])
)",
               {{"N", 320}, {"M", 640}, {"D", 128}, {"E", 128}}, {"f"}, 1, 320 * 640);
}

TEST_CASE("what does not gain from slices has none") {
  const DimValues dims = {{"B", 2}, {"H", 2}, {"T", 200}, {"J", 384}, {"D", 128}};
  const Program attention = specialise(parse(kAttention), dims);
  CHECK(slices_of(plan_of(attention, dims)).size() == 1);
  CHECK(slices_of(plan_of(attention, dims, {kSlicesPass})).empty());
  static const Machine large = default_machine("x86-64-v3");
  CHECK_MESSAGE(slices_of(make_plan(attention, {}, {.machine = &large, .extents = dims})).empty(),
                "all pairs fit into the cache");
  static const Machine small = small_machine();
  const Plan checked = make_plan(attention, {.nan = true}, {.machine = &small, .extents = dims});
  CHECK_MESSAGE(slices_of(checked).empty(), "checks look at whole tensors");
  const Program layers = specialise(parse(R"(dim S, I, H, O
index s:S, i:I, h:H, o:O
input x[S,I], w[H,I], v[O,H]
let z[s,h] = tanh(sum[i](w[h,i]*x[s,i]))
output y[s,o] = sum[h](v[o,h]*z[s,h])
)"),
                                    {{"S", 2048}, {"I", 300}, {"H", 300}, {"O", 300}});
  CHECK_MESSAGE(slices_of(plan_of(layers, {})).empty(), "its products take longer than its memory");
}

TEST_CASE("results of kernels go to their places in whole tensors") {
  check_slices(R"(dim H, T, J, D
index h:H, i:T, j:J, d:D
input q[H,T,D], k[H,J,D], v[H,J,D]
let p[h,i,j] = softmax[j](sum[d](q[h,i,d]*k[h,j,d]))
output y[h,i,d] = sum[j](p[h,i,j]*v[h,j,d])
output norm[h,i] = sum[j](p[h,i,j]^2)
output first[h,i] = 3*norm[h,i] + p[h,i,0]
)",
               {{"H", 2}, {"T", 320}, {"J", 384}, {"D", 128}}, {"y"}, 1, 2 * 320 * 384);
}

TEST_CASE("a definition reads what stands in any of its sums") {
  const Program rays = parse(R"(dim R, S, H
index r:R, s:S, h:H, c in 0..3
input o[R,3], d[R,3], z[R,S], hidden[R,S,H], w[H]
output density[r,s] = sqrt(sum[c]((o[r,c] + z[r,s]*d[r,c])^2) + 1) + 0.1*sum[h](hidden[r,s,h]*w[h]) - 1
)");
  const SliceSearch search(rays, {});
  for (const std::string tensor : {"o", "d", "z", "hidden", "w"})
    CHECK_MESSAGE(search.reads("density", tensor), tensor);
}
