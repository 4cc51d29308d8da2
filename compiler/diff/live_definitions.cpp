#include "compiler/diff/live_definitions.h"

#include <set>

namespace moxie {

std::vector<Definition> live_definitions(const Program& program, const std::vector<std::string>& wanted) {
  std::set<std::string, std::less<>> live;
  std::vector<std::string> pending = wanted;
  while (!pending.empty()) {
    const std::string name = std::move(pending.back());
    pending.pop_back();
    const Definition* definition = program.find_definition(name);
    if (!definition || !live.insert(name).second) continue;
    visit(definition->body, [&](const Expr& e) {
      if (e->kind == NodeKind::Access) pending.push_back(e->tensor);
    });
  }
  std::vector<Definition> result;
  for (const Definition& definition : program.definitions) {
    if (live.contains(definition.name)) result.push_back(definition);
  }
  return result;
}

}  // namespace moxie
