// Every legal schedule of a random Program gives the values of evaluate().
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/rewrite/passes.h"
#include "compiler/schedule/definitions_of.h"
#include "compiler/schedule/lower_nest.h"
#include "compiler/support/error.h"
#include "runtime/cpu/cpu_device.h"
#include "tests/property/check.h"
#include "tests/property/device_run.h"
#include "tests/property/random.h"

using namespace moxie;
using namespace moxie::test;

namespace {

using Kind = ScheduleStep::Kind;

ScheduleStep random_step(Random& random, const Nest& nest) {
  std::vector<std::string> loops;
  for (const NestLoop& loop : nest.roots.front().loops) loops.push_back(loop.name);
  const auto kind = static_cast<Kind>(random.between(0, 4));
  if (kind == Kind::Rfactor) return {kind, {random.chance(70) ? "sum" : "sum.sum"}, random.between(1, 5)};
  if (kind == Kind::Lanes && (loops.empty() || random.chance(40)))
    return {kind, {random.chance(70) ? "sum" : "sum.sum"}};
  if (loops.empty()) return {kind, {"none"}};
  if (kind == Kind::Reorder) {
    for (std::size_t k = loops.size(); k > 1; --k)
      std::swap(loops[k - 1], loops[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(k) - 1))]);
    return {kind, loops};
  }
  return {kind, {random.pick(loops)}, kind == Kind::Unroll ? random.between(1, 5) : 1};
}

/// A nest after random steps; those that are not legal are left out. `text` gets the schedule.
LoweredKernel lower_randomly(const FusedProgram& fused, const Definition& definition, Random& random,
                             std::string& text) {
  const Nest plain = plain_nest(std::span(&definition, 1));
  Nest nest = plain;
  Schedule schedule;
  for (std::int64_t k = random.between(0, 6); k > 0; --k) {
    const ScheduleStep step = random_step(random, nest);
    try {
      nest = apply(step, nest);
      schedule.steps.push_back(step);
    } catch (const CompileError&) {
      continue;
    }
  }
  REQUIRE(apply(parse_schedule(print(schedule)), plain) == nest);
  text += fmt::format("\n# schedule of {}: {}", definition.name, print(schedule));
  return lower(fused, nest);
}

Plan plan_with_random_schedules(const Program& program, Random& random, std::string& text) {
  Plan plan{program, fuse(optimise(program), Products::library, Layouts::row_major), {}};
  for (const Step& step : plan.fused.steps) {
    if (const auto* scan = std::get_if<ScanLoop>(&step))
      plan.steps.emplace_back(lower(plan.fused, *scan));
    else if (const auto* product = std::get_if<MatrixProduct>(&step))
      plan.steps.emplace_back(*product);
    else if (const auto* sum = std::get_if<OrderedSumCall>(&step))
      plan.steps.emplace_back(*sum);
    else if (const Kernel& kernel = std::get<Kernel>(step); !is_nest(kernel))
      plan.steps.emplace_back(lower(plan.fused, kernel));
    else
      for (const Definition& definition : definitions_of(plan.fused, kernel))
        plan.steps.emplace_back(lower_randomly(plan.fused, definition, random, text));
  }
  return plan;
}

Finding schedules_agree(const Sample& sample, const char* device_name) {
  const auto want = reference(in_double(sample));
  if (!want) return std::nullopt;
  for (unsigned schedule = 0; schedule < 4; ++schedule) {
    Random random(sample.seed * 4 + schedule);
    std::string text;
    const auto plan = std::make_shared<const Plan>(plan_with_random_schedules(want->program, random, text));
    std::map<std::string, std::vector<double>> memory = want->inputs;
    TensorValues got;
    for (const Definition& definition : want->program.definitions) {
      if (definition.output) memory[definition.name].resize(want->values.at(definition.name).size());
    }
    const auto device = open_device(device_name, {1, "0"});
    const auto executable = device->prepare(plan, sample.dims);
    executable->run([&](const std::string& name) -> void* { return memory.at(name).data(); }, 0, 0);
    for (const Definition& definition : want->program.definitions) {
      if (definition.output) got[definition.name] = memory.at(definition.name);
    }
    if (const auto finding = difference(want->program, got, want->values, kTolerance)) return *finding + text;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("random schedules give the values of evaluate in the interpreter") {
  check_property(60, [](const Sample& sample) { return schedules_agree(sample, "interp"); });
}

TEST_CASE("random schedules give the values of evaluate in native code") {
  check_property(25, [](const Sample& sample) { return schedules_agree(sample, "cpu"); });
}
