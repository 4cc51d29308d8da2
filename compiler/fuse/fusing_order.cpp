#include "compiler/fuse/fusing_order.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "compiler/program/scans.h"
#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

using Names = std::set<std::string>;

/// The iterations of the two longest loops of a definition together, which are those of its kernel. Loops over dynamic
/// dims, which count samples, are the longest.
double longest_loops(const Definition& definition) {
  double longest = 1, second = 1;
  const auto see = [&](const Range& range) {
    const bool dynamic = is_long(range) && !known_extent(range);
    const double extent = dynamic ? HUGE_VAL : std::max(1.0, assumed_extent(range));
    second = std::max(second, std::min(longest, extent));
    longest = std::max(longest, extent);
  };
  for (const AxisDecl& axis : definition.axes) see(axis.range);
  visit(definition.body, [&](const Expr& e) {
    if (e->kind == NodeKind::Reduce) see(e->range);
  });
  return longest * second;
}

double longest_loops(const Group& group) {
  return std::ranges::max(group | std::views::transform([](const Definition& d) { return longest_loops(d); }));
}

/// What the group reads of others.
Names tensors_read(const Group& group) {
  Names names;
  for (const Definition& definition : group) names.merge(tensors_read(definition.body));
  for (const Definition& definition : group) names.erase(definition.name);
  return names;
}

/// What is to be ordered: definitions that stay together, and what they wait for.
struct Unit {
  Group group;
  Names reads;
  int rank;  // of those that are ready, the lowest goes first
};

/// Matrix products as early as they can be, definitions with shorter loops than the longest too, then what matrix
/// products wait for: so kernels over samples come to stand next to each other and can join.
int rank_of(const Group& group, const ProductTensors& products, double longest) {
  if (products.results.contains(group[0].name)) return 0;
  if (longest_loops(group) < longest) return 1;
  return products.operands.contains(group[0].name) ? 2 : 3;
}

std::vector<Group> ordered(std::vector<Unit> units) {
  Names waiting;
  for (const Unit& unit : units) {
    for (const Definition& definition : unit.group) waiting.insert(definition.name);
  }
  const auto is_ready = [&](const Unit& unit) {
    return std::ranges::none_of(unit.reads, [&](const std::string& name) { return waiting.contains(name); });
  };
  std::vector<Group> order;
  while (!units.empty()) {
    auto next = units.end();
    for (auto unit = units.begin(); unit != units.end(); ++unit) {
      if ((next == units.end() || unit->rank < next->rank) && is_ready(*unit)) next = unit;
    }
    order.push_back(next->group);
    for (const Definition& definition : next->group) waiting.erase(definition.name);
    units.erase(next);
  }
  return order;
}

}  // namespace

Names tensors_read(const Expr& expr) {
  Names names;
  visit(expr, [&](const Expr& e) {
    if (e->kind == NodeKind::Access) names.insert(e->tensor);
  });
  return names;
}

std::vector<Group> in_fusing_order(const Program& program, const ProductTensors& products,
                                   const PrefixPlans& prefixes) {
  const std::vector<Group> groups = groups_of(program);
  double longest = 0;
  for (const Group& group : groups) longest = std::max(longest, longest_loops(group));
  std::vector<Unit> units;
  for (const Group& group : groups) {
    units.push_back({group, tensors_read(group), rank_of(group, products, longest)});
    const auto prefix = prefixes.find(group[0].name);
    if (prefix != prefixes.end() && prefix->second.blocks) units.back().reads.insert(prefix->second.tensor_of_blocks());
  }
  return ordered(std::move(units));
}

Names read_at_step(const Definition& definition) {
  Names names;
  visit(definition.body, [&](const Expr& e) {
    const bool at_step =
        e->kind == NodeKind::Access && !e->subscripts.empty() && e->subscripts[0] == Affine(Symbol::axis(0));
    if (at_step) names.insert(e->tensor);
  });
  return names;
}

std::vector<Group> in_step_order(const Group& scan, const ProductTensors& products) {
  std::vector<Unit> units;
  for (std::size_t k = 0; k < scan.size(); ++k) {
    const Group member = scan.subspan(k, 1);
    units.push_back({member, read_at_step(member[0]), rank_of(member, products, 0)});
  }
  return ordered(std::move(units));
}

}  // namespace moxie
