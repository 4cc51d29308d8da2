// Every schedule of a GPU kernel computes what the interpreter computes, and is machine code of every architecture.
#include <doctest/doctest.h>

#include <cmath>
#include <optional>

#include "compiler/codegen/cuda/cuda_text.h"
#include "compiler/support/error.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/session.h"
#include "tests/devices.h"
#include "tests/skip.h"

using namespace moxie;

namespace {

struct Example {
  const char* preference;
  const char* fragment;  // of the text of one of its kernels
  const char* formula;   // of x[S,N], v[N] and w[S]
};

constexpr const char* kRowSums = "output y[s] = sum[n](x[s,n]^2)/w[s]\noutput most[s] = max[n](x[s,n] + v[n])\n";
constexpr const char* kSoftmax = "output y[s,n] = exp(x[s,n] - v[n])/sum[m](exp(x[s,m] - v[m]))\n";
constexpr const char* kNested =
    "index q:39\noutput y[s] = sum[q](x[s,q]*exp(w[s] + max[r](x[s,r] - v[q])))\n";  // odd: rounds do not pair
constexpr const char* kMap = "output y[s,n] = x[s,n]*v[n] + w[s]\noutput z[s,n] = where(n > 2, exp(x[s,n]), v[n]^2)\n";
constexpr const char* kPair = "index p:2\noutput y[s,p] = x[s,p]*w[s]\n";
constexpr const char* kWave = "output y[s] = w[s]*exp(-w[s]) + x[s,3]\n";
constexpr const char* kColumnSums = "output g[n] = sum[s](x[s,n]*w[s])\noutput h[n] = min[s](x[s,n])\n";
constexpr const char* kWhole = "output y = sum[s](w[s]^2)\n";

const Example kExamples[] = {
    {"", "for (Index n = lane; n < 40; n += 32)", kRowSums},
    {"team=1", "const Index s_of_lane", kRowSums},
    {"team=32,threads=64", "* 2;", kRowSums},
    {"team=64", "combine_lanes<Max, 64>", kRowSums},
    {"team=256,blocks=1", "gridDim.x * 1)", kRowSums},
    {"blocks=1", "s_of_block += gridDim.x * 8", kRowSums},
    {"", "for (Index m = lane; m < 40; m += 32)", kSoftmax},
    {"", "combine_warp<Sum>", kNested},
    {"", "load_wide<4>(x, ", kMap},
    {"width=2", "load_wide<2>(x, ", kMap},
    {"width=1", "if (active) y[", kMap},
    {"", "Index(blockIdx.x) * 2;", kPair},
    {"threads=64,blocks=1", "load_wide<4>(x, ", kMap},
    {"", "s_of_block += gridDim.x * 256", kWave},
    {"threads=32,blocks=1", "s_of_block += gridDim.x * 32", kWave},
    {"", "combine_rows<Sum, 32, 8>", kColumnSums},
    {"threads=128,blocks=4", "combine_rows<Sum, 32, 4>", kColumnSums},
    {"", "combine_lanes<Sum, 128>", kWhole},
    {"threads=32", "combine_warp<Sum>", kWhole},
    {"threads=512,blocks=1", "combine_lanes<Sum, 512>", kWhole},
};

constexpr std::int64_t kRows = 1300, kColumns = 40;

Program program_of(const Example& example, DType dtype) {
  const std::string head = "dim S dynamic, N\nindex s:S, n:N, m:N, r:N\ninput x[S,N], v[N], w[S]\n";
  return specialise(with_dtype(parse(head + example.formula, "example"), dtype), {{"N", kColumns}});
}

std::map<std::string, std::vector<double>> run(const Program& program, const std::shared_ptr<Device>& device) {
  Session session(program, {}, device);
  const DimValues dims = {{"S", kRows}};
  for (const InputDecl& input : program.inputs) {
    const auto shape = extents_of(program, input.name, dims);
    std::vector<double> values(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = 1.5 + std::sin(static_cast<double>(3 * i + input.name.size()));
    session.set(input.name, make_host_tensor(input.dtype, shape, values));
  }
  session.run();
  std::map<std::string, std::vector<double>> outputs;
  for (const Definition& definition : program.definitions) {
    if (definition.output) outputs[definition.name] = to_doubles(session.get(definition.name));
  }
  return outputs;
}

void check_on(const char* device_name, DType dtype, double tolerance) {
  for (const Example& example : kExamples) {
    const auto device = test::test_device(device_name, {.schedule = example.preference});
    if (!device) return;
    CAPTURE(std::string(example.preference));
    CAPTURE(std::string(example.formula));
    const Program program = program_of(example, dtype);
    const auto got = run(program, device);
    CHECK(run(program, device) == got);
    for (const auto& [name, want] : run(program, open_device("interp"))) {
      CAPTURE(name);
      double worst = 0;
      for (std::size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(got.at(name)[i] / want[i] - 1));
      CHECK(worst <= tolerance);
    }
  }
}

std::vector<CudaKernel> kernels_of_example(const Example& example, DType dtype) {
  std::vector<CudaKernel> texts;
  for (const PlanStep& step : make_plan(program_of(example, dtype)).steps) {
    for (const LoweredKernel* kernel : kernels_of(step))
      texts.push_back(
          cuda_kernel(*kernel, choose_cuda_schedule(*kernel, {}, parse_cuda_preference(example.preference))));
  }
  return texts;
}

std::optional<cuda::Nvrtc> nvrtc_or_nothing() {
  try {
    return std::optional<cuda::Nvrtc>(std::in_place);
  } catch (const DeviceError& error) {
    test::skip(error.what());
    return {};
  }
}

}  // namespace

TEST_CASE("every schedule is what was asked for") {
  for (const Example& example : kExamples) {
    CAPTURE(std::string(example.preference));
    std::string text;
    for (const CudaKernel& kernel : kernels_of_example(example, DType::f32)) text += kernel.own_text();
    CHECK_MESSAGE(text.find(example.fragment) != text.npos, text);
  }
}

TEST_CASE("every schedule is machine code of the oldest and of the newest architecture" *
          doctest::test_suite("nvrtc")) {
  const auto nvrtc = nvrtc_or_nothing();
  if (!nvrtc) return;
  for (const Example& example : kExamples) {
    CAPTURE(std::string(example.preference));
    for (const CudaKernel& kernel : kernels_of_example(example, DType::f32)) {
      for (const int architecture : {75, 120})
        CHECK(nvrtc->compile(kernel.text, architecture)
                  .object.starts_with("\x7f"
                                      "ELF"));
    }
  }
}

TEST_CASE("wide accesses are one instruction each" * doctest::test_suite("nvrtc")) {
  const auto nvrtc = nvrtc_or_nothing();
  if (!nvrtc) return;
  constexpr int kUnknown = 999;  // becomes PTX
  const auto ptx = [&](DType dtype) {
    return nvrtc->compile(kernels_of_example({"", "", kMap}, dtype).front().text, kUnknown).object;
  };
  for (const char* instruction : {"ld.global.nc.v4.f32", "st.global.v4.f32"})
    CHECK(ptx(DType::f32).find(instruction) != std::string::npos);
  for (const char* instruction : {"ld.global.nc.v2.f64", "st.global.v2.f64"})
    CHECK(ptx(DType::f64).find(instruction) != std::string::npos);
}

TEST_CASE("schedules on cuda-emu in double") { check_on("cuda-emu", DType::f64, 1e-12); }
TEST_CASE("schedules on cuda-emu in single") { check_on("cuda-emu", DType::f32, 2e-5); }
TEST_CASE("schedules on cuda in double") { check_on("cuda", DType::f64, 1e-12); }
TEST_CASE("schedules on cuda in single") { check_on("cuda", DType::f32, 2e-5); }
