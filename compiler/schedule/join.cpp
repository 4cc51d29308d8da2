#include "compiler/schedule/join.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "compiler/rewrite/algebra/scope.h"
#include "compiler/schedule/lower_nest.h"

namespace moxie {
namespace {

/// A joint nest is lowered in a few milliseconds.
constexpr double kMaxExpandedSize = 1000;

/// Whether the loop is a register tile as a whole, so that all of its iterations stand side by side.
bool is_one_tile(const NestRoot& root, const NestLoop& loop) {
  const auto extent = known_extent(root.definition.axes[loop.axis].range);
  return extent && *extent <= std::max<std::int64_t>(loop.unroll, 1) && !loop.lanes;
}

/// Loops up to the one that is split over threads, itself included, without tiles, which are no loops; none if none is
/// split.
std::vector<NestLoop> shared_loops(const NestRoot& root) {
  std::vector<NestLoop> loops;
  for (const NestLoop& loop : root.loops) {
    if (loop.parallel || !is_one_tile(root, loop)) loops.push_back(loop);
    if (loop.parallel) return loops;
  }
  return {};
}

std::vector<NestLoop> inner_loops(const NestRoot& root) {
  std::vector<NestLoop> loops = root.loops;
  for (const NestLoop& shared : shared_loops(root)) std::erase(loops, shared);
  return loops;
}

bool have_same_outer_loops(const NestRoot& a, const NestRoot& b) {
  const auto same = [&](const NestLoop& x, const NestLoop& y) {
    return a.definition.axes[x.axis].range == b.definition.axes[y.axis].range && x.unroll == y.unroll &&
           x.lanes == y.lanes;
  };
  const auto loops = shared_loops(a), others = shared_loops(b);
  return !loops.empty() && std::ranges::equal(loops, others, same);
}

std::set<std::string> tensors_of(const NestRoot& root) {
  std::set<std::string> tensors = {root.definition.name};
  visit(root.definition.body, [&](const Expr& e) {
    if (e->kind == NodeKind::Access) tensors.insert(e->tensor);
  });
  return tensors;
}

bool share_a_tensor(const NestRoot& a, const NestRoot& b) {
  const std::set<std::string> tensors = tensors_of(a);
  return std::ranges::any_of(tensors_of(b), [&](const std::string& name) { return tensors.contains(name); });
}

/// Whether the element is one of another step of the scan, which is in memory.
bool is_of_another_step(const Definition& producer, const Expr& access) {
  return producer.scan && access->subscripts[0] != Affine(Symbol::axis(0));
}

/// The ranges that the loops run over, in the order of the axes.
std::vector<Range> ranges_of(const Definition& definition) {
  std::vector<Range> ranges;
  for (std::size_t axis = definition.scan ? 1 : 0; axis < definition.axes.size(); ++axis)
    ranges.push_back(definition.axes[axis].range);
  return ranges;
}

/// Whether the reader needs no elements of the producer but those that the same iteration of the shared loops computes,
/// in the same dtype.
bool reads_in_step(const NestRoot& producer, const NestRoot& reader) {
  const auto loops = shared_loops(producer), own = shared_loops(reader);
  const auto inner = inner_loops(producer);
  bool fits = true;
  visit(reader.definition.body, [&](const Expr& e) {
    if (e->kind != NodeKind::Access || e->tensor != producer.definition.name) return;
    if (is_of_another_step(producer.definition, e)) return;
    fits &= takes_what_is_computed(reader.definition, producer.definition, e);
    for (std::size_t k = 0; fits && k < loops.size(); ++k)
      fits = e->subscripts[loops[k].axis] == Affine(Symbol::axis(own[k].axis));
    for (const NestLoop& loop : inner) {
      const auto read = std::ranges::find_if(
          reader.loops, [&](const NestLoop& l) { return e->subscripts[loop.axis] == Affine(Symbol::axis(l.axis)); });
      fits &= is_one_tile(producer, loop) && read != reader.loops.end() && is_one_tile(reader, *read);
    }
  });
  return fits;
}

/// Nodes of the largest body once reads of earlier definitions are replaced by what these compute, each counted as
/// often as it is reached: chains of definitions that are read twice each double it with every link.
double expanded_size(const Nest& nest) {
  std::map<std::string, double> sizes;
  double largest = 0;
  for (const NestRoot& root : nest.roots) {
    std::unordered_map<const Node*, double> counted;
    visit(root.definition.body, [&](const Expr& e) {
      double size = 1;
      for (const Expr& arg : e->args) size += counted.at(arg.get());
      if (e->kind == NodeKind::Access && sizes.contains(e->tensor)) size += sizes.at(e->tensor);
      counted[e.get()] = size;
    });
    const double size = counted.at(root.definition.body.get());
    sizes[root.definition.name] = size;
    largest = std::max(largest, size);
  }
  return largest;
}

}  // namespace

std::optional<Nest> join(const Nest& first, const Nest& second) {
  if (first.chunks_depth > 0 || second.chunks_depth > 0) return std::nullopt;
  // Readers find an element of a producer by its axes, which are not those of the tensor where one is split.
  const auto is_split = [](const NestRoot& root) { return !root.element.empty(); };
  if (std::ranges::any_of(first.roots, is_split) || std::ranges::any_of(second.roots, is_split)) return std::nullopt;
  if (first.lanes_depth > 0 && second.lanes_depth > 0 && first.lanes_depth != second.lanes_depth) return std::nullopt;
  bool share = false;
  for (const NestRoot& root : second.roots) {
    for (const NestRoot& earlier : first.roots) {
      if (!have_same_outer_loops(earlier, root) || !reads_in_step(earlier, root)) return std::nullopt;
      share |= share_a_tensor(earlier, root);
    }
  }
  if (!share) return std::nullopt;
  Nest joint = first;
  std::ranges::copy(second.roots, std::back_inserter(joint.roots));
  joint.lanes_depth = std::max(first.lanes_depth, second.lanes_depth);
  return expanded_size(joint) <= kMaxExpandedSize ? std::optional(std::move(joint)) : std::nullopt;
}

namespace {

/// The register tile of the loop of the first definition that is split over threads: 1 if it is none.
std::int64_t split_tile(const Nest& nest) {
  const auto shared = shared_loops(nest.roots.front());
  return shared.empty() ? 1 : shared.back().unroll;
}

/// The nest with that tile for all of its definitions.
Nest with_split_tile(Nest nest, std::int64_t factor) {
  for (NestRoot& root : nest.roots) {
    const auto split = std::ranges::find(root.loops, true, &NestLoop::parallel);
    if (split != root.loops.end() && !split->lanes) split->unroll = factor;
  }
  return nest;
}

/// The loop over the range; over that axis if there are several.
std::vector<NestLoop>::iterator loop_over(NestRoot& root, const Range& range, std::uint32_t axis) {
  const auto runs_over = [&](const NestLoop& loop) { return root.definition.axes[loop.axis].range == range; };
  const auto same = std::ranges::find(root.loops, axis, &NestLoop::axis);
  return same != root.loops.end() && runs_over(*same) ? same : std::ranges::find_if(root.loops, runs_over);
}

}  // namespace

std::optional<Nest> in_loops_of(const Nest& first, Nest second) {
  const NestRoot& leader = first.roots.front();
  for (NestRoot& root : second.roots) {
    std::vector<NestLoop> loops;
    for (const NestLoop& shared : shared_loops(leader)) {
      const auto own = loop_over(root, leader.definition.axes[shared.axis].range, shared.axis);
      if (own == root.loops.end()) return std::nullopt;
      loops.push_back({own->axis, own->name, shared.unroll, shared.lanes, shared.parallel});
      root.loops.erase(own);
    }
    for (NestLoop& loop : root.loops) {
      loop.parallel = false;
      loops.push_back(std::move(loop));
    }
    if (std::ranges::count(loops, true, &NestLoop::lanes) > 1) return std::nullopt;
    root.loops = std::move(loops);
  }
  return second;
}

std::optional<Nest> in_loops_of_producers(const Nest& first, Nest second) {
  for (NestRoot& root : second.roots) {
    const auto is_read = [&](const NestRoot& producer) {
      return tensors_of(root).contains(producer.definition.name) &&
             ranges_of(producer.definition) == ranges_of(root.definition);
    };
    const auto producer = std::ranges::find_if(first.roots, is_read);
    if (producer == first.roots.end()) return std::nullopt;
    root.loops = producer->loops;
  }
  return second;
}

Nest without_tiles(Nest nest) {
  for (NestRoot& root : nest.roots) {
    for (NestLoop& loop : root.loops) loop.unroll = 1;
  }
  return nest;
}

std::vector<Nest> joint_nests(const Nest& first, const Nest& second) {
  std::vector<std::pair<Nest, std::optional<Nest>>> pairs;
  const Nest leader = without_tiles(first);
  const Nest follower = without_tiles(second);
  pairs.emplace_back(first, second);
  pairs.emplace_back(leader, follower);
  pairs.emplace_back(leader, in_loops_of(leader, follower));
  pairs.emplace_back(first, in_loops_of_producers(first, second));
  for (const std::int64_t tile : std::set{split_tile(first), split_tile(second), std::int64_t{1}}) {
    const Nest tiled = with_split_tile(first, tile);
    pairs.emplace_back(tiled, in_loops_of(tiled, second));
  }
  std::vector<Nest> nests;
  for (const auto& [one, other] : pairs) {
    auto joint = other ? join(one, *other) : std::nullopt;
    if (joint && std::ranges::find(nests, *joint) == nests.end()) nests.push_back(std::move(*joint));
  }
  return nests;
}

}  // namespace moxie
