#include <algorithm>
#include <map>

#include "compiler/rewrite/passes.h"
#include "compiler/rewrite/scope.h"

namespace moxie {
namespace {

/// One that is declared stands for one that is not: the values are the same.
bool agree(const ValueDomain& a, const ValueDomain& b) {
  return a == b || a == ValueDomain::Any || b == ValueDomain::Any;
}

/// What is recomputed is there for its own scan alone.
bool same_content(const Definition& a, const Definition& b) {
  if (!agree(a.domain, b.domain)) return false;
  if (a.recomputed != b.recomputed || (a.recomputed && a.scan != b.scan)) return false;
  const auto same_axis = [](const AxisDecl& x, const AxisDecl& y) {
    return x.extent == y.extent && x.range == y.range;
  };
  return a.body == b.body && a.dtype == b.dtype && std::ranges::equal(a.axes, b.axes, same_axis);
}

Expr rename_accesses(const Expr& expr, const std::map<std::string, std::string>& names) {
  return rewrite_bottom_up(expr, {}, [&](const Expr& e, const Scope&) {
    if (e->kind != NodeKind::Access) return e;
    const auto it = names.find(e->tensor);
    return it == names.end() ? e : access_to(it->second, e);
  });
}

Expr access_to(const Definition& definition) {
  std::vector<Affine> subscripts;
  for (std::uint32_t k = 0; k < definition.axes.size(); ++k) subscripts.emplace_back(Symbol::axis(k));
  return tensor_access(definition.name, std::move(subscripts));
}

}  // namespace

Program share_definitions(const Program& program) {
  Program result = program;
  result.definitions.clear();
  std::map<std::string, std::string> renamed;
  for (Definition definition : program.definitions) {
    definition.body = rename_accesses(definition.body, renamed);
    const auto twin =
        std::ranges::find_if(result.definitions, [&](const Definition& d) { return same_content(d, definition); });
    const bool is_copy = definition.output && definition.body->kind == NodeKind::Access;
    if (twin == result.definitions.end() || is_copy) {
      result.definitions.push_back(std::move(definition));
      continue;
    }
    renamed[definition.name] = twin->name;
    if (twin->domain == ValueDomain::Any) twin->domain = definition.domain;
    if (!definition.output) continue;
    definition.body = access_to(*twin);
    result.definitions.push_back(std::move(definition));
  }
  // In a scan, definitions read those below them too.
  for (Definition& definition : result.definitions) definition.body = rename_accesses(definition.body, renamed);
  return result;
}

}  // namespace moxie
