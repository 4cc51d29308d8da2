#include "runtime/sliced_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/rewrite/scope.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

/// What schedule() makes of every part, as one: tensors that a part has of another are where that one put them.
class JointParts {
 public:
  /// `whole` is the Program that was taken apart.
  explicit JointParts(const Program& whole);
  /// `scheduled` is what became of the part.
  void add(const ProgramPart& part, ScheduledProgram scheduled);
  ScheduledProgram finish();

 private:
  void add_steps(ScheduledProgram part, const Slices& slices);
  void add_views(const Slices& slices, const Program& part);

  ScheduledProgram joint_;
};

JointParts::JointParts(const Program& whole) {
  joint_.fused.program = whole;
  joint_.fused.program.definitions.clear();
}

void JointParts::add(const ProgramPart& part, ScheduledProgram scheduled) {
  Program& program = joint_.fused.program;
  for (const DimDecl& dim : scheduled.fused.program.dims) {
    if (!program.find_dim(dim.name)) program.dims.push_back(dim);
  }
  if (part.slices) add_views(*part.slices, scheduled.fused.program);
  std::ranges::copy(part.results, std::back_inserter(program.definitions));
  std::ranges::move(scheduled.fused.program.definitions, std::back_inserter(program.definitions));
  std::ranges::move(scheduled.fused.steps, std::back_inserter(joint_.fused.steps));
  joint_.fused.layouts.merge(scheduled.fused.layouts);
  std::ranges::move(scheduled.choices, std::back_inserter(joint_.choices));
  joint_.candidates += scheduled.candidates;
  if (part.slices)
    add_steps(std::move(scheduled), *part.slices);
  else
    std::ranges::move(scheduled.steps, std::back_inserter(joint_.steps));
}

ScheduledProgram JointParts::finish() { return std::move(joint_); }

/// What slices read of whole tensors; what they write has definitions.
void JointParts::add_views(const Slices& slices, const Program& part) {
  for (const InputDecl& input : part.inputs) {
    if (slices.views.contains(input.name) && !joint_.fused.program.find_input(input.name))
      joint_.fused.program.inputs.push_back(input);
  }
}

void JointParts::add_steps(ScheduledProgram part, const Slices& slices) {
  LoweredSlices lowered{slices, {}};
  for (LoweredStep& step : part.steps) {
    if (auto* kernel = std::get_if<LoweredKernel>(&step)) {
      lowered.steps.emplace_back(std::move(*kernel));
    } else if (auto* product = std::get_if<MatrixProduct>(&step)) {
      const auto sum = slices.sums.find(product->definition.name);
      if (sum != slices.sums.end()) product->slices = sum->second;
      lowered.steps.emplace_back(std::move(*product));
    } else {
      throw InternalError("slices have a step that is neither a kernel nor a matrix product");
    }
  }
  joint_.steps.emplace_back(std::move(lowered));
}

/// What a slice should fit into: the cache that a core has to itself.
double cache_of_a_core(const Machine& machine) {
  return machine.levels.at(std::min<std::size_t>(1, machine.levels.size() - 1)).bytes;
}

/// Estimates are those of one launch.
void say_how_often(ScheduledProgram& part, std::int64_t slices) {
  for (ScheduleChoice& choice : part.choices) choice.chosen += fmt::format("; in each of {} slices", slices);
}

}  // namespace

DimValues typical_extents(const Program& program, DimValues known) {
  for (const DimDecl& dim : program.dims)
    known.emplace(dim.name, dim.value.value_or(static_cast<std::int64_t>(kAssumedExtent)));
  return known;
}

ScheduledProgram schedule_in_slices(const Program& optimised, const PlanTarget& target, bool with_slices) {
  const DimValues extents = typical_extents(optimised, target.extents);
  std::vector<ProgramPart> parts;
  if (target.products != Products::kernels && with_slices)
    parts = in_slices(optimised, target.products == Products::library, extents, cache_of_a_core(*target.machine));
  if (parts.empty() || (parts.size() == 1 && !parts.front().slices))
    return schedule(optimised, target.products, extents, *target.machine, target.given);
  JointParts joint(optimised);
  for (const ProgramPart& part : parts) {
    DimValues of_part = extents;
    if (part.slices) set_slice_dims(*part.slices, 0, of_part);
    ScheduledProgram scheduled =
        schedule(part.program, target.products, typical_extents(part.program, of_part), *target.machine, target.given);
    if (part.slices) say_how_often(scheduled, slice_count(*part.slices, of_part));
    joint.add(part, std::move(scheduled));
  }
  return joint.finish();
}

}  // namespace moxie
