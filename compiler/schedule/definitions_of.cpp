#include "compiler/schedule/definitions_of.h"

#include <algorithm>
#include <set>
#include <string>

namespace moxie {
namespace {

using Names = std::set<std::string>;

/// What lies in memory when all steps have run.
Names stored_by(const FusedProgram& fused) {
  Names names;
  for (const Step& step : fused.steps) {
    for (const MatrixProduct* product : products_of(step)) names.insert(product->definition.name);
    for (const AlgebraCall* call : algebra_calls_of(step)) names.insert(call->definition.name);
    if (const auto* call = std::get_if<OrderedSumCall>(&step)) names.insert(call->definition.name);
    for (const Kernel* kernel : kernels_of(step)) {
      for (const KernelRoot& root : kernel->roots) names.insert(root.definition.name);
    }
  }
  return names;
}

}  // namespace

std::vector<Definition> definitions_of(const FusedProgram& fused, const Kernel& kernel) {
  const Names stored = stored_by(fused);
  Names wanted;
  for (const KernelRoot& root : kernel.roots) wanted.insert(root.definition.name);
  std::vector<Definition> definitions;
  for (auto it = fused.program.definitions.rbegin(); it != fused.program.definitions.rend(); ++it) {
    if (!wanted.contains(it->name)) continue;
    visit(it->body, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || stored.contains(e->tensor)) return;
      if (fused.program.find_definition(e->tensor)) wanted.insert(e->tensor);
    });
    definitions.push_back(*it);
  }
  std::ranges::reverse(definitions);
  return definitions;
}

bool is_nest(const Kernel& kernel) {
  return std::ranges::none_of(kernel.roots, [](const KernelRoot& root) {
    return root.prefix || root.definition.body->kind == NodeKind::LinearAlgebra;
  });
}

}  // namespace moxie
