// Random Programs compute the same on every device as by evaluate().
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "runtime/cpu/cpu_device.h"
#include "runtime/cpu/plugin.h"
#include "runtime/session.h"
#include "tests/property/check.h"
#include "tests/property/device_run.h"
#include "tests/property/fenced_memory.h"

using namespace moxie;
using namespace moxie::test;

namespace {

std::shared_ptr<Device> cpu(std::string_view level, int threads) {
  DeviceOptions options;
  options.threads = threads;
  options.cache_directory = "0";
  return make_cpu_device(options, machine_level(level));
}

using MakeReference = std::optional<Reference> (*)(const Sample&, double, double);

Finding interp_agrees(const Sample& sample, MakeReference make) {
  const auto want = make(in_double(sample), 1e-12, 1e-8);
  if (!want) return std::nullopt;
  const auto got = run(open_device("interp"), want->program, sample.dims, want->inputs);
  return difference(want->program, got, want->values, kTolerance);
}

/// Every level and number of threads gives the values; neither the number of threads nor what ran before changes a bit.
Finding cpu_agrees(const Sample& sample, MakeReference make, std::string_view level) {
  const auto want = make(in_double(sample), 1e-12, 1e-8);
  if (!want) return std::nullopt;
  Session session(want->program, hidden_dims(want->program, sample.dims), cpu(level, 1));
  const auto one = run(session, want->program, sample.dims, want->inputs);
  if (auto finding = difference(want->program, one, want->values, kTolerance)) return finding;
  if (run(session, want->program, sample.dims, want->inputs) != one)
    return "a second run gives other bits than the first";
  const auto two = run(cpu(level, 2), want->program, sample.dims, want->inputs);
  return one == two ? Finding() : Finding("two threads give other bits than one");
}

Finding other_extents_agree(const Sample& sample) {
  const auto want = reference(in_double(sample));
  const Sample other = with_other_extents(in_double(sample));
  const auto want_other = reference(other);
  if (!want || !want_other || !hidden_dims(want->program, sample.dims).empty()) return std::nullopt;
  Session session(want->program, {}, cpu("x86-64-v3", 1));
  if (auto finding =
          difference(want->program, run(session, want->program, sample.dims, want->inputs), want->values, kTolerance))
    return finding;
  const std::int64_t compiled = llvm_compilations();
  const auto got = run(session, want->program, other.dims, want_other->inputs);
  if (auto finding = difference(want->program, got, want_other->values, kTolerance))
    return "with other extents: " + *finding;
  const bool same_classes = extent_classes(sample.dims) == extent_classes(other.dims);
  if (same_classes && llvm_compilations() != compiled) return "other extents of the same classes compile again";
  const auto again = run(session, want->program, sample.dims, want->inputs);
  return difference(want->program, again, want->values, kTolerance);
}

Finding single_agrees(const Sample& sample, MakeReference make) {
  const auto want = make(sample, 1e-5, 1e-4);
  if (!want) return std::nullopt;
  const auto got = run(cpu("x86-64-v3", 1), want->program, sample.dims, want->inputs);
  return difference(want->program, got, want->values, kSingleTolerance);
}

/// Inputs and outputs lie against memory that may not be touched; a crash is the finding.
Finding stays_inside(const Sample& sample, std::string_view level, bool at_end) {
  const auto want = reference(in_double(sample));
  if (!want) return std::nullopt;
  std::map<std::string, FencedMemory> memory;
  TensorValues got;
  for (const InputDecl& input : want->program.inputs) {
    const std::vector<double>& values = want->inputs.at(input.name);
    const auto [tensor, added] = memory.emplace(input.name, FencedMemory(values.size() * sizeof(double), at_end));
    std::ranges::copy(values, reinterpret_cast<double*>(tensor->second.data()));
  }
  for (const Definition& definition : want->program.definitions) {
    if (!definition.output) continue;
    got[definition.name].resize(want->values.at(definition.name).size());
    memory.emplace(definition.name, FencedMemory(got.at(definition.name).size() * sizeof(double), at_end));
  }
  const auto plan = std::make_shared<const Plan>(make_plan(want->program));
  const auto device = cpu(level, 1);
  const auto executable = device->prepare(plan, sample.dims);
  executable->run([&](const std::string& name) -> void* { return memory.at(name).data(); }, 0, 0);
  for (auto& [name, values] : got)
    std::copy_n(reinterpret_cast<const double*>(memory.at(name).data()), values.size(), values.begin());
  return difference(want->program, got, want->values, kTolerance);
}

/// The domain that values lie in. Those that are near its bound may lie beyond it by rounding.
ValueDomain observed_domain(const std::vector<double>& values) {
  const auto all = [&](const auto& holds) { return !values.empty() && std::ranges::all_of(values, holds); };
  if (all([](double x) { return x > 1e-3; })) return ValueDomain::Positive;
  if (all([](double x) { return x == 0 || x > 1e-3; })) return ValueDomain::NonNegative;
  if (all([](double x) { return x < -1e-3; })) return ValueDomain::Negative;
  return ValueDomain::Any;
}

/// Checks find nothing in what evaluate() finds in order.
Finding checks_pass(const Sample& sample, const Program& program, const Checks& checks) {
  const auto want = reference(in_double(sample));
  const auto plan = std::make_shared<const Plan>(make_plan(program, checks));
  std::map<std::string, std::vector<double>> tensors = want->inputs;
  for (const auto& [name, values] : want->values) tensors[name].resize(values.size());
  for (const char* name : {"interp", "cpu"}) {
    const auto device = open_device(name, {1, "0"});
    const auto executable = device->prepare(plan, sample.dims);
    executable->run([&](const std::string& name) -> void* { return tensors.at(name).data(); }, 0, 0);
    TensorValues got;
    for (const auto& [name, values] : want->values) got[name] = tensors.at(name);
    if (auto finding = difference(want->program, got, want->values, kTolerance)) return name + (": " + *finding);
  }
  return std::nullopt;
}

/// ... and neither do those of domains, when every definition promises what it holds. They keep definitions that
/// nothing reads, the shift of an empty log-sum-exp among them, which is -inf: so `nan` looks at the program as it is.
Finding all_checks_pass(const Sample& sample) {
  const auto want = reference(in_double(sample));
  if (!want) return std::nullopt;
  if (auto finding = checks_pass(sample, want->program, {true, false, true})) return finding;
  Program promising = want->program;
  const TensorValues all = evaluate(promising, sample.dims, want->inputs);
  for (Definition& definition : promising.definitions) definition.domain = observed_domain(all.at(definition.name));
  return checks_pass(sample, promising, {false, true, true});
}

}  // namespace

TEST_CASE("kernels that check what they compute agree with evaluate") { check_property(40, all_checks_pass); }

TEST_CASE("the interpreter agrees with evaluate") {
  check_property(250, [](const Sample& sample) { return interp_agrees(sample, reference); });
}

TEST_CASE("the interpreter agrees with evaluate on gradients") {
  check_property(60, [](const Sample& sample) { return interp_agrees(sample, gradient_reference); });
}

TEST_CASE("native code in double agrees with evaluate") {
  for (const char* level : {"x86-64-v4", "x86-64-v3", "x86-64"}) {
    CAPTURE(level);
    if (host_supports(level))
      check_property(30, [&](const Sample& sample) { return cpu_agrees(sample, reference, level); });
  }
}

TEST_CASE("native code in double agrees with evaluate on gradients") {
  if (host_supports("x86-64-v4"))
    check_property(12, [](const Sample& sample) { return cpu_agrees(sample, gradient_reference, "x86-64-v4"); });
}

TEST_CASE("other extents of dynamic dims agree, and need no new code within their classes") {
  if (host_supports("x86-64-v3")) check_property(40, other_extents_agree);
}

TEST_CASE("native code in single is close to evaluate") {
  if (host_supports("x86-64-v3"))
    check_property(40, [](const Sample& sample) { return single_agrees(sample, reference); });
}

TEST_CASE("inputs of 16 bits are read as they are stored") {
  const auto agrees = [](const Sample& sample, const std::shared_ptr<Device>& device, double tolerance) -> Finding {
    const auto want = reference(with_half_inputs(sample), tolerance * 1e-3, tolerance * 1e-1);
    if (!want) return std::nullopt;
    return difference(want->program, run(device, want->program, sample.dims, want->inputs), want->values, tolerance);
  };
  for (const char* level : {"x86-64-v4", "x86-64-v3"}) {
    if (!host_supports(level)) continue;
    check_property(20, [&](const Sample& sample) { return agrees(in_double(sample), cpu(level, 1), kTolerance); });
    check_property(20, [&](const Sample& sample) { return agrees(sample, cpu(level, 1), kSingleTolerance); });
  }
  check_property(20,
                 [&](const Sample& sample) { return agrees(in_double(sample), open_device("interp"), kTolerance); });
}

TEST_CASE("native code touches nothing but its tensors") {
  for (const char* level : {"x86-64-v4", "x86-64-v3", "x86-64"}) {
    if (!host_supports(level)) continue;
    check_property(15, [&](const Sample& sample) -> Finding {
      auto finding = stays_inside(sample, level, true);
      return finding ? finding : stays_inside(sample, level, false);
    });
  }
}
