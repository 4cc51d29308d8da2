#include "compiler/schedule/definitions_of.h"

#include <algorithm>
#include <functional>
#include <set>

namespace moxie {

DefinitionsOf::DefinitionsOf(const FusedProgram& fused) : fused_(fused) {
  for (std::size_t k = 0; k < fused.program.definitions.size(); ++k) places_[fused.program.definitions[k].name] = k;
  for (const Step& step : fused.steps) {
    for (const MatrixProduct* product : products_of(step)) stored_.insert(product->definition.name);
    for (const AlgebraCall* call : algebra_calls_of(step)) stored_.insert(call->definition.name);
    if (const auto* call = std::get_if<OrderedSumCall>(&step)) stored_.insert(call->definition.name);
    for (const Kernel* kernel : kernels_of(step)) {
      for (const KernelRoot& root : kernel->roots) stored_.insert(root.definition.name);
    }
  }
}

std::vector<Definition> DefinitionsOf::operator()(const Kernel& kernel) const {
  std::set<std::size_t, std::greater<>> wanted;  // places; readers come behind what they read
  for (const KernelRoot& root : kernel.roots) {
    if (const auto place = places_.find(root.definition.name); place != places_.end()) wanted.insert(place->second);
  }
  std::vector<Definition> definitions;
  while (!wanted.empty()) {
    const std::size_t last = *wanted.begin();
    wanted.erase(wanted.begin());
    const Definition& definition = fused_.program.definitions[last];
    visit(definition.body, [&](const Expr& e) {
      if (e->kind != NodeKind::Access || stored_.contains(e->tensor)) return;
      // In a scan, definitions read those behind them too, at other steps; these are stored.
      const auto place = places_.find(e->tensor);
      if (place != places_.end() && place->second < last) wanted.insert(place->second);
    });
    definitions.push_back(definition);
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
