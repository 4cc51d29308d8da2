#include "runtime/constant_steps.h"

#include <algorithm>
#include <set>
#include <string>

namespace moxie {
namespace {

std::set<std::string> written_by(const PlanStep& step) {
  std::set<std::string> names;
  for (const MatrixProduct* product : products_of(step)) names.insert(stored_in(step, product->out.tensor));
  for (const AlgebraCall* call : algebra_calls_of(step)) names.insert(stored_in(step, call->definition.name));
  for (const OrderedSumCall* call : ordered_sums_of(step)) names.insert(stored_in(step, call->definition.name));
  if (const auto* slices = std::get_if<LoweredSlices>(&step)) {
    for (const auto& [name, view] : slices->slices.parts) names.insert(view.tensor);
  }
  for (const LoweredKernel* kernel : kernels_of(step)) {
    for (const BufferUse& use : kernel->uses) {
      if (use.written || use.partial) names.insert(stored_in(step, use.tensor));
    }
  }
  return names;
}

/// A check must fail in every run that it should fail in.
bool is_the_same_every_time(const PlanStep& step) {
  if (!algebra_calls_of(step).empty()) return false;  // it checks its matrix
  return std::ranges::all_of(kernels_of(step), [](const LoweredKernel* kernel) {
    return kernel->program.checks.empty() && !draws_random(kernel->program);
  });
}

}  // namespace

std::vector<bool> constant_steps(const Plan& plan) {
  const Program& program = plan.fused.program;
  std::set<std::string> constants;
  std::vector<bool> result;
  for (const PlanStep& step : plan.steps) {
    const std::set<std::string> written = written_by(step);
    const auto is_kept = [&](const std::string& name) {
      const Definition* definition = program.find_definition(name);
      return definition && !definition->output;
    };
    const auto is_known = [&](const std::string& name) { return written.contains(name) || constants.contains(name); };
    result.push_back(is_the_same_every_time(step) && std::ranges::all_of(written, is_kept) &&
                     std::ranges::all_of(tensors_of(step), is_known));
    if (result.back()) constants.insert(written.begin(), written.end());
  }
  return result;
}

}  // namespace moxie
