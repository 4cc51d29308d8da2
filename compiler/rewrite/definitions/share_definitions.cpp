#include <algorithm>
#include <map>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/rewrite/definitions/permuted_twins.h"
#include "compiler/rewrite/passes.h"

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

/// The definition that stands for another one, which has its axes in this order if they are not the same.
struct Twin {
  std::string name;
  std::optional<AxisOrder> order;
};

Expr read_twins(const Expr& expr, const std::map<std::string, Twin>& twins) {
  return rewrite_bottom_up(expr, {}, [&](const Expr& e, const Scope&) {
    if (e->kind != NodeKind::Access) return e;
    const auto it = twins.find(e->tensor);
    if (it == twins.end()) return e;
    const auto& [name, order] = it->second;
    return order ? permuted_access(name, *order, e) : access_to(name, e);
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
  std::map<std::string, Twin> twins;
  PermutedTwins permuted(program);
  for (Definition definition : program.definitions) {
    definition.body = read_twins(definition.body, twins);
    const auto same =
        std::ranges::find_if(result.definitions, [&](const Definition& d) { return same_content(d, definition); });
    const bool is_copy = definition.output && definition.body->kind == NodeKind::Access;
    if (same == result.definitions.end() || is_copy) {
      if (auto twin = permuted.find(result.definitions, definition))
        twins[definition.name] = {std::move(twin->name), std::move(twin->order)};
      else
        result.definitions.push_back(std::move(definition));
      continue;
    }
    twins[definition.name] = {same->name, {}};
    if (same->domain == ValueDomain::Any) same->domain = definition.domain;
    if (!definition.output) continue;
    definition.body = access_to(*same);
    result.definitions.push_back(std::move(definition));
  }
  // In a scan, definitions read those below them too.
  for (Definition& definition : result.definitions) definition.body = read_twins(definition.body, twins);
  return result;
}

}  // namespace moxie
