// The whole catalogue, with gradients, as one library called from C: bit for bit what the CPU device computes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "ops/catalogue.h"
#include "runtime/aot/interface.h"
#include "runtime/cpu/host.h"
#include "runtime/temporary_folder.h"
#include "tests/aot/aot_sample.h"
#include "tests/skip.h"

namespace moxie::test {
namespace {

std::vector<CCall> calls_of(const std::vector<std::string_view>& ops, DType dtype) {
  std::vector<CCall> calls;
  for (const std::string_view op : ops) {
    CCall call = sample_call(aot::c_name(op), load_op(op), dtype);
    call.program = specialise(call.program, static_dims(call));
    calls.push_back(std::move(call));
  }
  return calls;
}

/// Made once: drawing points inside the domains of all formulas takes longer than calling them.
const std::vector<CCall>& catalogue_calls() {
  static const std::vector<CCall> calls = [] {
    std::vector<std::string_view> names;
    for (const Op& op : catalogue()) names.push_back(op.name);
    return calls_of(names, DType::f32);
  }();
  return calls;
}

/// Vector functions in double, sums, small linear algebra and random numbers.
const std::vector<std::string_view> kInDouble = {"activation.softmax",
                                                 "dense.elu",
                                                 "gpn.kl",
                                                 "gpn.kappa",
                                                 "gpn.response_mean",
                                                 "probact.sample",
                                                 "sp_gru.sigmoid",
                                                 "sp_gru.gamma_moments",
                                                 "optimiser.adam",
                                                 "sp_gru.poisson_moments"};

aot::LibraryRequest library_of(const std::vector<CCall>& calls, const std::vector<std::string>& targets) {
  aot::LibraryRequest request{"catalogue", {}, {}, {}};
  for (const CCall& call : calls) request.functions.push_back({call.function, call.program, call.dims});
  for (const std::string& target : targets) request.targets.push_back(aot::parse_target(target));
  return request;
}

/// As `moxie check` has it.
void check_close(const HostTensor& got, const HostTensor& want, double tolerance) {
  const std::vector<double> a = to_doubles(got), b = to_doubles(want);
  double scale = 1, error = 0;
  for (const double value : b) scale = std::max(scale, 1 + std::abs(value));
  for (std::size_t i = 0; i < b.size(); ++i) error = std::max(error, std::abs(a[i] - b[i]));
  CHECK(std::ranges::none_of(a, [](double value) { return std::isnan(value); }));
  CHECK(error <= tolerance * scale);
}

void check_on_aarch64(const std::vector<CCall>& calls, double tolerance) {
  const TemporaryFolder folder;
  const auto results = call_from_c(folder.path(), library_of(calls, {"cpu:aarch64"}), calls,
                                   {"aarch64-linux-gnu-gcc", "-static", "qemu-aarch64"});
  const auto reference = open_device("interp");
  for (std::size_t k = 0; k < calls.size(); ++k) {
    CAPTURE(calls[k].function);
    CHECK_EQ(results[k].message, "");
    for (const auto& [name, tensor] : run_on(calls[k], reference)) {
      CAPTURE(name);
      check_close(results[k].outputs.at(name), tensor, tolerance);
    }
  }
}

bool can_run_aarch64() {
  try {
    shell("aarch64-linux-gnu-gcc --version && qemu-aarch64 --version");
    return true;
  } catch (const std::runtime_error&) {
    test::skip("no aarch64-linux-gnu-gcc and qemu-aarch64 (Debian: g++-aarch64-linux-gnu, qemu-user)");
    return false;
  }
}

}  // namespace

TEST_CASE(
    "every formula of the catalogue gives the bits of the CPU device, but for products that it leaves to OpenBLAS") {
  const auto& calls = catalogue_calls();
  const TemporaryFolder folder;
  const auto results = call_from_c(folder.path(), library_of(calls, {host_target()}), calls);
  const auto device = open_device("cpu", {2, "0"});
  std::size_t with_products = 0;
  for (std::size_t k = 0; k < calls.size(); ++k) {
    CAPTURE(calls[k].function);
    CHECK_EQ(results[k].message, "");
    CHECK_EQ(results[k].status, 0);
    const DeviceRun run = run_with_plan(calls[k], device);
    with_products += run.has_products ? 1 : 0;
    for (const auto& [name, tensor] : run.outputs) {
      CAPTURE(name);
      if (run.has_products)
        check_close(results[k].outputs.at(name), tensor, 1e-5);
      else
        CHECK(results[k].outputs.at(name) == tensor);
    }
  }
  CHECK(with_products < calls.size() / 4);
}

TEST_CASE("a library for several levels takes the widest that the processor has") {
  const CCall call = sample_call("cell", load_op("gpn.response_mean"));
  aot::LibraryRequest request{"levels", {{"cell", call.program, call.dims}}, static_dims(call), {}};
  for (const MachineLevel& level : machine_levels()) {
    if (level.machine.triple == host_machine().triple)
      request.targets.push_back({aot::Target::Kind::cpu, std::string(level.name)});
  }
  const TemporaryFolder folder;
  const auto results = call_from_c(folder.path(), request, {call});
  CHECK_EQ(results[0].message, "");
  CHECK(results[0].outputs == run_on(call, open_device("cpu", {1, "0"})));
}

TEST_CASE("sums in chunks, random numbers, recurrences and gaps") {
  const CCall call = call_of(kManyKinds, {{"S", 1000}, {"N", 5}});
  const aot::LibraryRequest request{
      "many", {{"f", call.program, call.dims}}, static_dims(call), {aot::parse_target(host_target())}};
  const TemporaryFolder folder;
  const auto results = call_from_c(folder.path(), request, {call});
  CHECK_EQ(results[0].message, "");
  for (const auto& [name, tensor] : run_on(call, open_device("cpu", {2, "0"}))) {
    CAPTURE(name);
    CHECK(results[0].outputs.at(name) == tensor);
  }
}

TEST_CASE("attention and scans with checkpoints run in slices") {
  const auto device = open_device("cpu", {1, "0"});
  for (const auto& [text, dims] :
       {std::pair(kAttention, DimValues{{"H", 2}, {"T", 1000}, {"J", 1536}, {"D", 16}}),
        std::pair(kAttention, DimValues{{"H", 2}, {"T", 0}, {"J", 1536}, {"D", 16}}),
        std::pair(kCheckpoints, DimValues{{"T", 50}, {"N", 4}}), std::pair(kCheckpoints, DimValues{{"T", 1}, {"N", 4}}),
        std::pair(kCheckpoints, DimValues{{"T", 0}, {"N", 4}})}) {
    const CCall call = gradients_of(text, dims);
    DimValues typical = dims;
    typical["T"] = std::max<std::int64_t>(dims.at("T"), 1000);
    const Plan plan = make_plan(
        specialise(call.program, static_dims(call)), {},
        {.products = Products::kernels, .machine = &default_machine("x86-64-v4"), .extents = extent_classes(typical)});
    const auto is_sliced = [](const PlanStep& step) { return std::holds_alternative<LoweredSlices>(step); };
    CHECK(std::ranges::any_of(plan.steps, is_sliced));
    const aot::LibraryRequest request{
        "sliced", {{"f", call.program, typical}}, static_dims(call), {aot::parse_target(host_target())}};
    const TemporaryFolder folder;
    const auto results = call_from_c(folder.path(), request, {call});
    CHECK_EQ(results[0].message, "");
    for (const auto& [name, tensor] : run_on(call, device)) {
      CAPTURE(name);
      check_close(results[0].outputs.at(name), tensor, 1e-5);
    }
  }
}

TEST_CASE("matrices of sizes that are not known when compiling") {
  const auto device = open_device("cpu", {1, "0"});
  CCall call = gradients_of(kMatrices, {{"S", 3}, {"M", 9}, {"N", 5}});
  const TemporaryFolder folder;
  const aot::LibraryRequest request{"matrices", {{"f", call.program, {}}}, {}, {aot::parse_target(host_target())}};
  for (const DimValues& dims : {DimValues{{"S", 3}, {"M", 9}, {"N", 5}}, DimValues{{"S", 1}, {"M", 40}, {"N", 33}},
                                DimValues{{"S", 20}, {"M", 2}, {"N", 2}}, DimValues{{"S", 2}, {"M", 1}, {"N", 1}},
                                DimValues{{"S", 2}, {"M", 3}, {"N", 0}}}) {
    CAPTURE(dims.at("N"));
    call = gradients_of(kMatrices, dims);
    const auto results = call_from_c(folder.path(), request, {call});
    CHECK_EQ(results[0].message, "");
    for (const auto& [name, tensor] : run_on(call, device)) {
      CAPTURE(name);
      check_close(results[0].outputs.at(name), tensor, 2e-4);
    }
  }
  call = gradients_of(kMatrices, {{"S", 1}, {"M", 5}, {"N", 5}});
  call.dims["M"] = 3;
  call.inputs.at("T") = make_host_tensor(DType::f32, {1, 3, 5}, std::vector<double>(15, 1.0));
  CHECK(call_from_c(folder.path(), request, {call})[0].message.find("at least as many rows as columns") !=
        std::string::npos);
}

TEST_CASE("the catalogue runs on aarch64, within the tolerances of `moxie check`" * doctest::test_suite("aarch64")) {
  if (!can_run_aarch64()) return;
  check_on_aarch64(catalogue_calls(), 2e-3);
  check_on_aarch64(calls_of(kInDouble, DType::f64), 1e-9);
}

}  // namespace moxie::test
