#include "runtime/sliced_plan.h"

#include <algorithm>

#include "compiler/support/error.h"

namespace moxie {

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

}  // namespace moxie
