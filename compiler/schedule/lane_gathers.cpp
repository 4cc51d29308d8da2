#include "compiler/schedule/lane_gathers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/pieces.h"

namespace moxie {
namespace {

/// The axis of the tensor along which the index runs, if it is not the last, and no other axis moves with it, by value
/// or otherwise.
std::optional<std::uint32_t> gathered_axis(const Expr& access, Symbol index) {
  if (std::ranges::any_of(access->args, [&](const Expr& value) { return value->depends_on(index); }))
    return std::nullopt;
  std::optional<std::uint32_t> found;
  for (std::uint32_t axis = 0; axis < access->subscripts.size(); ++axis) {
    if (!access->subscripts[axis].mentions(index)) continue;
    if (found || access->subscripts[axis] != Affine(index)) return std::nullopt;
    found = axis;
  }
  return found && *found + 1 < access->subscripts.size() ? found : std::nullopt;
}

/// Calls visit(access, scope, index) for each access of a definition that stands inside a loop whose `index` runs over
/// lanes.
class LaneAccesses {
 public:
  using Visit = std::function<void(const Expr& access, const Scope& scope, Symbol index)>;
  LaneAccesses(int lanes_depth, Visit visit) : lanes_depth_(lanes_depth), visit_(std::move(visit)) {}

  void visit(const NestRoot& root) const {
    const auto lanes = std::ranges::find(root.loops, true, &NestLoop::lanes);
    std::optional<Symbol> index;
    if (lanes != root.loops.end()) index = Symbol::axis(lanes->axis);
    walk(root.definition.body, Scope::of(root.definition), 0, index);
  }

 private:
  void walk(const Expr& expr, const Scope& scope, int depth, std::optional<Symbol> index) const {
    if (expr->kind == NodeKind::Access && index) visit_(expr, scope, *index);
    if (expr->kind != NodeKind::Reduce) {
      for (const Expr& arg : expr->args) walk(arg, scope, depth, index);
      return;
    }
    const OpenedReduce opened = open(expr);
    if (!index && depth + 1 == lanes_depth_) index = opened.index;
    walk(opened.body, scope.with(opened.index, opened.range), depth + 1, index);
  }

  const int lanes_depth_;
  const Visit visit_;
};

/// Whether the loops that leave the access where it is have many iterations together.
bool is_read_again(const Expr& access, const Scope& scope) {
  std::int64_t times = 1;
  for (const auto& [symbol, range] : scope.open) {
    const auto moves = [&](const Affine& subscript) { return subscript.mentions(symbol); };
    if (std::ranges::any_of(access->subscripts, moves)) continue;
    if (is_long(range)) return true;
    times = checked_mul(times, std::max<std::int64_t>(known_extent(range).value_or(1), 1));
  }
  return times >= kLongExtent;
}

/// Whether the steps of a scan walk along what lies together in memory: each of them gathers one element of lines that
/// the next step gathers from, too.
bool steps_along_rows(const Expr& access, const Definition& definition) {
  return definition.scan && !access->subscripts.empty() && access->subscripts.back().mentions(Symbol::axis(0));
}

bool has_lanes(const Nest& nest) {
  return nest.lanes_depth > 0 || std::ranges::any_of(nest.roots, [](const NestRoot& root) {
           return std::ranges::any_of(root.loops, &NestLoop::lanes);
         });
}

/// The gathers of lanes along the last axis.
std::set<LaneGather> gathers_in_rows(const Program& program, const Definition& definition) {
  Nest nest = plain_nest(std::span(&definition, 1));
  if (nest.roots.front().loops.empty()) return {};
  nest.roots.front().loops.back().lanes = true;
  return gathers_of(program, nest);
}

double elements_of(const Program& program, const std::string& tensor, const DimValues& extents) {
  double count = 1;
  for (const Affine& extent : program.shape_of(tensor)) count *= static_cast<double>(evaluate(extent, extents));
  return count;
}

class TransposedCopies {
 public:
  TransposedCopies(const Program& program, const std::set<LaneGather>& gathers) : result_(program), gathers_(gathers) {}

  Program run() {
    std::vector<Definition> definitions = std::move(result_.definitions);
    result_.definitions.clear();
    for (Definition& definition : definitions) {
      for (const LaneGather& gather : gathers_) {
        if (gather.definition == definition.name) definition.body = reading_copy(definition, gather);
      }
      result_.definitions.push_back(std::move(definition));
    }
    return std::move(result_);
  }

 private:
  Expr reading_copy(const Definition& definition, const LaneGather& gather) {
    const std::string copy = copy_of(definition, gather);
    return rewrite_bottom_up(definition.body, {}, [&](const Expr& e, const Scope&) -> Expr {
      if (e->kind != NodeKind::Access || e->tensor != gather.tensor) return e;
      std::vector<Affine> subscripts = e->subscripts;
      const auto axis = subscripts.begin() + gather.axis;
      std::rotate(axis, axis + 1, subscripts.end());
      return tensor_access(copy, std::move(subscripts), e->args);
    });
  }

  const std::string& copy_of(const Definition& reader, const LaneGather& gather) {
    std::string& name = names_[{gather.tensor, gather.axis}];
    if (!name.empty()) return name;
    name = unused_name(result_, gather.tensor + ".transposed");
    Definition copy;
    copy.name = name;
    copy.dtype = result_.dtype_of(gather.tensor);
    copy.line = reader.line;
    const std::vector<Affine> shape = result_.shape_of(gather.tensor);
    std::vector<Affine> subscripts(shape.size());
    for (std::uint32_t k = 0; k < shape.size(); ++k) {
      const std::uint32_t source = k + 1 == shape.size() ? gather.axis : k < gather.axis ? k : k + 1;
      copy.axes.push_back({fmt::format("i{}", k), shape[source], Range::extent(shape[source])});
      subscripts[source] = Symbol::axis(k);
    }
    copy.body = tensor_access(gather.tensor, std::move(subscripts));
    // The definitions of a scan stay together.
    const auto in_scan = [&](const Definition& definition) { return reader.scan && definition.scan == reader.scan; };
    result_.definitions.insert(std::ranges::find_if(result_.definitions, in_scan), std::move(copy));
    return name;
  }

  Program result_;
  const std::set<LaneGather>& gathers_;
  std::map<std::pair<std::string, std::uint32_t>, std::string> names_;
};

}  // namespace

void LaneGathers::add(const LaneGathers& others, double times) {
  for (std::size_t k = 0; k < by_lanes.size(); ++k) {
    for (const auto& [gather, cost] : others.by_lanes[k]) by_lanes[k].emplace(gather, times * cost);
  }
}

LaneGathers lane_gathers(const Program& program, const Nest& nest, const DimValues& extents, double cost) {
  LaneGathers result;
  const auto note = [&](GatheringLanes lanes, const std::set<LaneGather>& gathers) {
    for (const LaneGather& gather : gathers) result.by_lanes[static_cast<std::size_t>(lanes)].emplace(gather, cost);
  };
  const Definition& definition = nest.roots.front().definition;
  // A step of a scan has no lanes perhaps because they would gather.
  note(GatheringLanes::found,
       definition.scan && !has_lanes(nest) ? gathers_in_rows(program, definition) : gathers_of(program, nest));
  note(GatheringLanes::along_sums, gathers_along_sums(program, definition));
  note(GatheringLanes::along_rows, gathers_along_rows(program, definition));
  note(GatheringLanes::along_other_axis, gathers_along_other_axis(program, nest, extents));
  return result;
}

std::set<LaneGather> gathers_of(const Program& program, const Nest& nest) {
  std::set<LaneGather> gathers;
  for (const NestRoot& root : nest.roots) {
    std::map<std::string, std::set<std::optional<std::uint32_t>>> axes;  // by tensor, along which lanes lie
    std::set<std::string> read_again;
    const LaneAccesses accesses(nest.lanes_depth, [&](const Expr& access, const Scope& scope, Symbol index) {
      axes[access->tensor].insert(gathered_axis(access, index));
      if (is_read_again(access, scope) || steps_along_rows(access, root.definition)) read_again.insert(access->tensor);
    });
    accesses.visit(root);
    for (const auto& [tensor, along] : axes) {
      const Definition* producer = program.find_definition(tensor);
      const bool is_there = !producer || (!producer->scan && tensor != root.definition.name);
      if (is_there && along.size() == 1 && *along.begin() && read_again.contains(tensor))
        gathers.insert({root.definition.name, tensor, **along.begin()});
    }
  }
  return gathers;
}

std::set<LaneGather> gathers_along_sums(const Program& program, const Definition& definition) {
  Nest nest = plain_nest(std::span(&definition, 1));
  nest.lanes_depth = 1;
  return gathers_of(program, nest);
}

std::set<LaneGather> gathers_along_rows(const Program& program, const Definition& definition) {
  bool by_value = false;
  visit(definition.body, [&](const Expr& e) { by_value |= reads_by_value(e); });
  return by_value ? gathers_in_rows(program, definition) : std::set<LaneGather>();
}

std::set<LaneGather> gathers_along_other_axis(const Program& program, const Nest& nest, const DimValues& extents) {
  const std::vector<NestLoop>& chosen = nest.roots.front().loops;
  const auto lanes = std::ranges::find(chosen, true, &NestLoop::lanes);
  if (lanes == chosen.end()) return {};
  std::set<LaneGather> smallest;
  double least = HUGE_VAL;
  const Nest plain = plain_nest(std::span(&nest.roots.front().definition, 1));
  for (std::size_t k = plain.roots.front().loops.size(); k-- > 0;) {  // the inner one of two that copy as much
    Nest along = plain;
    NestLoop& loop = along.roots.front().loops[k];
    if (loop.axis == lanes->axis) continue;
    loop.lanes = true;
    std::set<LaneGather> gathers = gathers_of(program, along);
    double copied = 0;
    for (const LaneGather& gather : gathers) copied += elements_of(program, gather.tensor, extents);
    if (gathers.empty() || copied >= least) continue;
    least = copied;
    smallest = std::move(gathers);
  }
  return smallest;
}

Program with_copies(const Program& program, const std::set<LaneGather>& gathers) {
  return TransposedCopies(program, gathers).run();
}

}  // namespace moxie
