#include "runtime/sliced_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/cuda/cuda_loops.h"
#include "compiler/loop/overload.h"
#include "compiler/rewrite/algebra/scope.h"
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
  void add_inputs(const Program& part);

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
  add_inputs(scheduled.fused.program);
  std::ranges::copy(part.results, std::back_inserter(program.definitions));
  std::ranges::move(scheduled.fused.program.definitions, std::back_inserter(program.definitions));
  std::ranges::move(scheduled.fused.steps, std::back_inserter(joint_.fused.steps));
  joint_.fused.layouts.merge(scheduled.fused.layouts);
  joint_.fused.folded.merge(scheduled.fused.folded);
  std::ranges::move(scheduled.choices, std::back_inserter(joint_.choices));
  joint_.candidates += scheduled.candidates;
  if (part.slices)
    add_steps(std::move(scheduled), *part.slices);
  else
    std::ranges::move(scheduled.steps, std::back_inserter(joint_.steps));
}

ScheduledProgram JointParts::finish() { return std::move(joint_); }

/// What slices read of whole tensors; what other parts have written has definitions.
void JointParts::add_inputs(const Program& part) {
  Program& program = joint_.fused.program;
  for (const InputDecl& input : part.inputs) {
    if (!program.find_input(input.name) && !program.find_definition(input.name)) program.inputs.push_back(input);
  }
}

void JointParts::add_steps(ScheduledProgram part, const Slices& slices) {
  LoweredSlices lowered{slices, {}};
  for (LoweredStep& step : part.steps) {
    if (auto* product = std::get_if<MatrixProduct>(&step)) {
      const std::string& name = product->definition.name;
      const auto sum = slices.sums.find(name);
      if (sum != slices.sums.end() && !slices.parts.contains(name)) product->slices = sum->second;
    }
    std::visit(Overload{[&](LoweredSlices&) { throw InternalError("slices have slices"); },
                        [&](auto& own) { lowered.steps.emplace_back(std::move(own)); }},
               step);
  }
  joint_.steps.emplace_back(std::move(lowered));
}

/// What a slice should fit into: the cache that a core has to itself.
double cache_of_a_core(const Machine& machine) {
  return machine.levels.at(std::min<std::size_t>(1, machine.levels.size() - 1)).bytes;
}

/// On a GPU slices save memory. Four of them suffice for that, since a slice takes much longer than its launches.
SliceTarget slices_for(const PlanTarget& target) {
  SliceTarget slices;
  slices.has_library = target.products != Products::kernels;
  slices.has_bands = target.products == Products::library;
  slices.adds_parts = !target.gpu;
  if (target.gpu) slices.least_caches = 4;
  slices.cache_bytes = target.gpu ? static_cast<double>(target.gpu->slice_bytes) : cache_of_a_core(*target.machine);
  return slices;
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

ScheduledProgram joined(
    const Program& whole, const std::vector<ProgramPart>& parts, const DimValues& extents,
    const std::function<ScheduledProgram(const ProgramPart& part, const DimValues& extents)>& make) {
  if (parts.size() == 1 && !parts.front().slices) return make(parts.front(), extents);
  JointParts joint(whole);
  for (const ProgramPart& part : parts) {
    DimValues of_part = typical_extents(whole, extents);
    if (part.slices) set_slice_dims(*part.slices, 0, of_part);
    ScheduledProgram scheduled = make(part, of_part);
    if (part.slices) say_how_often(scheduled, slice_count(*part.slices, of_part));
    joint.add(part, std::move(scheduled));
  }
  return joint.finish();
}

ScheduledProgram schedule_in_slices(const Program& optimised, const PlanTarget& target, bool with_slices) {
  const DimValues extents = typical_extents(optimised, target.extents);
  std::vector<ProgramPart> parts;
  if (with_slices) parts = in_slices(optimised, slices_for(target), extents);
  if (parts.empty()) parts.push_back({optimised, std::nullopt});
  return joined(optimised, parts, extents, [&](const ProgramPart& part, const DimValues& of_part) {
    const DimValues typical = typical_extents(part.program, of_part);
    return target.gpu ? schedule_for_gpu(part.program, target.products, typical, *target.gpu)
                      : schedule(part.program, target.products, typical, *target.machine, target.given);
  });
}

}  // namespace moxie
