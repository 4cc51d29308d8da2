// Every legal schedule of a random Program, also with kernels that share loops, gives the values of evaluate().
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/rewrite/passes.h"
#include "compiler/schedule/definitions_of.h"
#include "compiler/schedule/join.h"
#include "compiler/schedule/lane_gathers.h"
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
  const auto kind = static_cast<Kind>(random.between(0, 5));
  if (kind == Kind::Rfactor) return {kind, {random.chance(70) ? "sum" : "sum.sum"}, random.between(1, 5)};
  if (kind == Kind::Lanes && (loops.empty() || random.chance(40)))
    return {kind, {random.chance(70) ? "sum" : "sum.sum"}};
  if (loops.empty()) return {kind, {"none"}};
  if (kind == Kind::Reorder) {
    random.shuffle(loops);
    return {kind, loops};
  }
  return {kind, {random.pick(loops)}, kind == Kind::Unroll || kind == Kind::Split ? random.between(1, 5) : 1};
}

/// A nest after random steps; those that are not legal are left out. `text` gets the schedule.
Nest random_nest(const Definition& definition, Random& random, std::string& text) {
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
  return nest;
}

int joined_kernels = 0, copied_tensors = 0, nests_in_scans = 0, joined_in_scans = 0;

/// Some definitions read what the lanes of random loops would gather from copies.
Program with_random_copies(const Program& program, Random& random) {
  std::set<LaneGather> gathers;
  for (const Definition& definition : program.definitions) {
    std::string unused;
    if (random.chance(50)) continue;
    gathers.merge(gathers_of(program, random_nest(definition, random, unused)));
  }
  copied_tensors += static_cast<int>(gathers.size());
  return with_copies(program, gathers);
}

/// The plan as it grows. The last nest waits for the next one, since both may share their loops.
class RandomPlan {
 public:
  RandomPlan(const Program& program, Random& random, std::string& text)
      : plan_{program, fuse(with_random_copies(optimise(program), random), Products::library, Layouts::row_major), {}},
        random_(random),
        text_(text) {}

  Plan run() {
    for (const Step& step : plan_.fused.steps) std::visit([this](const auto& part) { add(part); }, step);
    flush();
    return std::move(plan_);
  }

 private:
  void append(PlanStep step) {
    flush();
    plan_.steps.push_back(std::move(step));
  }
  /// The kernels of a step are scheduled as any others.
  void add(const ScanLoop& scan) {
    flush();
    std::vector<PlanStep> before = std::exchange(plan_.steps, {});
    for (const ScanStep& step : scan.steps) std::visit([this](const auto& part) { add(part); }, step);
    flush();
    LoweredScan lowered{scan.name, scan.extent, scan.backwards, {}};
    for (PlanStep& step : std::exchange(plan_.steps, std::move(before))) {
      if (auto* kernel = std::get_if<LoweredKernel>(&step))
        lowered.steps.emplace_back(std::move(*kernel));
      else
        lowered.steps.emplace_back(std::get<MatrixProduct>(step));
    }
    append(std::move(lowered));
  }
  void add(const MatrixProduct& product) { append(product); }
  void add(const OrderedSumCall& sum) { append(sum); }
  void add(const AlgebraCall& call) { append(call); }
  void add(const Kernel& kernel) {
    if (!is_nest(kernel)) return append(lower(plan_.fused, kernel));
    for (const Definition& definition : DefinitionsOf(plan_.fused)(kernel)) {
      Nest nest = random_nest(definition, random_, text_);
      nests_in_scans += definition.scan ? 1 : 0;
      auto joint = waiting_ && random_.chance(80) ? in_one_kernel(*waiting_, nest) : std::nullopt;
      if (joint) {
        ++joined_kernels;
        joined_in_scans += definition.scan ? 1 : 0;
        text_ += ", in the kernel before it";
      } else {
        flush();
      }
      waiting_ = joint ? std::move(*joint) : std::move(nest);
    }
  }

  /// Nothing where they share no loops, or where those would not be legal.
  std::optional<Nest> in_one_kernel(const Nest& first, const Nest& second) const {
    std::vector<Nest> nests = joint_nests(first, second);
    random_.shuffle(nests);
    for (const Nest& nest : nests) {
      try {
        if (!lower(plan_.fused, nest).uses.empty()) return nest;
      } catch (const CompileError&) {
        continue;
      }
    }
    return std::nullopt;
  }

  void flush() {
    if (waiting_) plan_.steps.emplace_back(lower(plan_.fused, *waiting_));
    waiting_.reset();
  }

  Plan plan_;
  Random& random_;
  std::string& text_;
  std::optional<Nest> waiting_;
};

Finding schedules_agree(const Sample& sample, const char* device_name) {
  const auto want = reference(in_double(sample));
  if (!want) return std::nullopt;
  for (unsigned schedule = 0; schedule < 4; ++schedule) {
    Random random(sample.seed * 4 + schedule);
    std::string text;
    const auto plan = std::make_shared<const Plan>(RandomPlan(want->program, random, text).run());
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
  joined_kernels = copied_tensors = nests_in_scans = joined_in_scans = 0;
  check_property(60, [](const Sample& sample) { return schedules_agree(sample, "interp"); });
  MESSAGE(joined_kernels << " kernels took another one in");
  CHECK(joined_kernels > 0);
  MESSAGE(copied_tensors << " tensors were copied for lanes");
  CHECK(copied_tensors > 0);
  MESSAGE(nests_in_scans << " nests are steps of scans, " << joined_in_scans << " of them in the kernel before them");
  CHECK(nests_in_scans > 0);
  CHECK(joined_in_scans > 0);
}

TEST_CASE("random schedules give the values of evaluate in native code") {
  check_property(25, [](const Sample& sample) { return schedules_agree(sample, "cpu"); });
}
