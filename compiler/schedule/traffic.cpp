#include "compiler/schedule/traffic.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "compiler/loop/operands.h"

namespace moxie {
namespace {

/// Rows that the prefetchers of a processor follow line by line at the same time.
constexpr double kStreams = 32;

/// A tensor or a scratch array.
struct Object {
  double bytes = 0;
  double element_bytes = 0;  // of all lanes, for a varying array
  std::vector<double> strides;
};

/// Accesses of one object that differ in a constant only.
struct AccessGroup {
  std::size_t object = 0;
  std::vector<std::size_t> loops;  // around them, from the outermost inwards
  std::vector<double> distances;   // between iterations of these, in bytes
  std::vector<Affine> by_value;    // the parts of the subscripts that values give
  std::set<double> offsets;        // the constants, in bytes
  bool stored = false;
};

class TrafficCounter {
 public:
  TrafficCounter(const LoopTree& tree, const Machine& machine) : tree_(tree), machine_(machine) {
    const LoopProgram& program = tree.program();
    for (const BufferDecl& buffer : program.buffers) {
      const auto element = static_cast<double>(bytes_of(buffer.dtype));
      Object object{element, element, strides_of(tree, buffer)};
      for (const Affine& extent : buffer.shape) object.bytes *= std::max(0.0, tree.value(extent));
      objects_.push_back(std::move(object));
    }
    for (const ArrayDecl& array : program.arrays) {
      const double element = static_cast<double>(bytes_of(array.dtype)) * (array.varying ? tree.lanes() : 1);
      Object object{element, element, std::vector<double>(array.extents.size())};
      double stride = 1;
      for (std::size_t axis = array.extents.size(); axis-- > 0;) {
        object.strides[axis] = stride;
        stride *= std::max(0.0, tree.value(array.extents[axis]));
      }
      object.bytes *= stride;
      objects_.push_back(std::move(object));
    }
    collect(program.body);
  }

  std::vector<Traffic> run() const {
    std::vector<Traffic> traffic;
    for (const CacheLevel& level : machine_.levels) {
      traffic.emplace_back();
      if (whole() <= level.bytes) continue;
      const std::vector<double> sets = iteration_sets(level);
      for (std::size_t k = 0; k < groups_.size(); ++k) add(k, sets, level, traffic.back());
    }
    return traffic;
  }

 private:
  void collect(const Block& block) {
    for (const Statement& statement : block) std::visit([&](const auto& s) { collect(s); }, statement);
  }
  void collect(const stmt::For& s) {
    path_.push_back(tree_.index_of(s));
    collect(s.body);
    path_.pop_back();
  }
  void collect(const stmt::Let& s) {
    const Operation& operation = tree_.program().values.at(s.id).operation;
    if (const auto* load = std::get_if<op::Load>(&operation)) note(load->buffer, load->subscripts, false);
    if (const auto* load = std::get_if<op::LoadArray>(&operation)) note(array(load->array), load->subscripts, false);
  }
  void collect(const stmt::Store& s) { note(s.buffer, s.subscripts, true); }
  void collect(const stmt::StoreArray& s) { note(array(s.array), s.subscripts, true); }
  void collect(const stmt::SetVar&) {}
  void collect(const stmt::Check&) {}

  std::size_t array(ArrayId id) const { return tree_.program().buffers.size() + id; }

  /// Subscripts that depend on values jump: each iteration touches a line of its own.
  double jump(const Object& object, const std::vector<Affine>& subscripts, Symbol variable) const {
    double distance = 0;
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      if (!subscripts[axis].mentions_value() || !moves_with(tree_.program(), subscripts[axis], variable)) continue;
      distance = std::max({distance, machine_.line_bytes, object.element_bytes * object.strides[axis]});
    }
    return distance;
  }

  /// The subscript before op::Subscript moved it into the tensor: so x[idx+1] is a neighbour of x[idx].
  Affine before_moving(const Affine& subscript) const {
    return subscript.substitute([&](Symbol symbol) -> const Affine* {
      if (!symbol.is_value()) return nullptr;
      const auto* moved = std::get_if<op::Subscript>(&tree_.program().values.at(symbol.number()).operation);
      return moved ? &moved->value : nullptr;
    });
  }

  static Affine part_by_value(const Affine& subscript) {
    Affine part;
    for (const auto& [symbol, coefficient] : subscript.terms()) {
      if (symbol.is_value()) part += Affine(symbol) * coefficient;
    }
    return part;
  }

  void note(std::size_t object_id, std::vector<Affine> subscripts, bool stored) {
    const Object& object = objects_.at(object_id);
    std::vector<Affine> by_value;
    for (Affine& subscript : subscripts) {
      subscript = before_moving(subscript);
      by_value.push_back(part_by_value(subscript));
    }
    std::vector<double> distances;
    for (const std::size_t loop : path_) {
      const Symbol variable = tree_.loops()[loop].statement->variable;
      distances.push_back(object.element_bytes * stride_along(subscripts, object.strides, variable) +
                          jump(object, subscripts, variable));
    }
    double constant = 0;
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis)
      constant += object.element_bytes * object.strides[axis] * static_cast<double>(subscripts[axis].constant());
    for (AccessGroup& group : groups_) {
      if (group.object != object_id || group.loops != path_ || group.distances != distances ||
          group.by_value != by_value)
        continue;
      group.offsets.insert(constant);
      group.stored |= stored;
      return;
    }
    groups_.push_back({object_id, path_, std::move(distances), std::move(by_value), {constant}, stored});
  }

  /// What a group touches: lines, or longer pieces of memory, that lie apart.
  struct Footprint {
    double runs = 1;
    double run_bytes = 0;
    std::vector<std::pair<double, double>> steps;  // distances between runs, and their numbers
    double bytes() const { return runs * run_bytes; }
  };

  /// Of one execution of the group's loops from number `outermost` of its path on, in all lanes.
  Footprint footprint(const AccessGroup& group, std::size_t outermost) const {
    std::vector<std::pair<double, double>> steps;  // distances and trips
    for (std::size_t k = 0; k < group.loops.size(); ++k) {
      const CountedLoop& loop = tree_.loops()[group.loops[k]];
      if (group.distances[k] == 0 || (k < outermost && !loop.statement->vector)) continue;
      const double trips = k < outermost ? std::min<double>(tree_.lanes(), loop.trips) : loop.trips;
      if (trips > 1) steps.emplace_back(std::abs(group.distances[k]), trips);
    }
    std::ranges::sort(steps);
    Footprint result;
    result.run_bytes = objects_[group.object].element_bytes;
    for (const auto& [distance, trips] : steps) {
      if (distance <= std::max(result.run_bytes, machine_.line_bytes)) {
        result.run_bytes += distance * (trips - 1);
      } else {
        result.runs *= trips;
        result.steps.emplace_back(distance, trips);
      }
    }
    // Accesses that differ by a constant share what lies between them, if their runs meet.
    double between = 0, apart = 1, last_gap = 0;
    for (auto offset = group.offsets.begin(); std::next(offset) != group.offsets.end(); ++offset) {
      const double gap = *std::next(offset) - *offset;
      if (gap <= std::max(result.run_bytes, machine_.line_bytes)) {
        between += gap;
      } else {
        ++apart;
        last_gap = gap;
      }
    }
    result.runs *= apart;
    if (apart > 1) result.steps.emplace_back(last_gap, apart);
    result.run_bytes += between / apart;
    if (result.runs > 1) result.run_bytes = std::max(result.run_bytes, machine_.line_bytes);
    return result;
  }

  /// The bytes of a cache that must be free for a footprint to stay. Runs at distances that share a factor with the
  /// size of a way meet in few of its sets, and leave the others empty.
  double occupied_bytes(const AccessGroup& group, std::size_t outermost, const CacheLevel& level) const {
    const Footprint touched = footprint(group, outermost);
    const double bytes = std::min(touched.bytes(), objects_[group.object].bytes);
    if (level.way_bytes == 0) return bytes;
    double places = 1;  // for runs, in a way
    for (const auto& [distance, trips] : touched.steps) {
      const auto apart = static_cast<std::int64_t>(distance), way = static_cast<std::int64_t>(level.way_bytes);
      places *= std::min(trips, level.way_bytes / static_cast<double>(std::gcd(apart, way)));
    }
    places = std::min(places, level.way_bytes / touched.run_bytes);
    return places < 1 ? bytes : std::max(bytes, touched.runs / places * level.way_bytes);
  }

  /// The bytes of the level that one iteration of each loop occupies.
  std::vector<double> iteration_sets(const CacheLevel& level) const {
    std::vector<std::map<std::size_t, double>> occupied(tree_.loops().size());
    for (const AccessGroup& group : groups_) {
      for (std::size_t k = 0; k < group.loops.size(); ++k)
        occupied[group.loops[k]][group.object] += occupied_bytes(group, k + 1, level);
    }
    std::vector<double> sets;
    for (const auto& objects : occupied) {
      sets.push_back(0);
      for (const auto& [object, bytes] : objects) sets.back() += bytes;
    }
    return sets;
  }

  /// Of all tensors and arrays that the kernel uses: a level holds what earlier launches left there.
  double whole() const {
    std::set<std::size_t> used;
    for (const AccessGroup& group : groups_) used.insert(group.object);
    double bytes = 0;
    for (const std::size_t object : used) bytes += objects_[object].bytes;
    return bytes;
  }

  /// Whether the two touch the same in each iteration of the loop at this depth, which is around both.
  bool touch_the_same(const AccessGroup& a, const AccessGroup& b, std::size_t depth) const {
    if (a.object != b.object || a.offsets != b.offsets || a.by_value != b.by_value || a.loops.size() <= depth ||
        b.loops.size() <= depth)
      return false;
    for (std::size_t k = 0; k <= depth; ++k) {
      if (a.loops[k] != b.loops[k] || a.distances[k] != b.distances[k]) return false;
    }
    const auto steps_inside = [&](const AccessGroup& group) {
      std::multiset<std::pair<double, double>> steps;
      for (std::size_t k = depth + 1; k < group.loops.size(); ++k) {
        if (group.distances[k] != 0) steps.emplace(group.distances[k], tree_.loops()[group.loops[k]].trips);
      }
      return steps;
    };
    return steps_inside(a) == steps_inside(b);
  }

  /// Whether a group before this one has just moved what it touches in an iteration of the loop at this depth.
  bool follows_another(std::size_t number, std::size_t depth) const {
    return std::any_of(groups_.begin(), groups_.begin() + static_cast<std::ptrdiff_t>(number),
                       [&](const AccessGroup& before) { return touch_the_same(before, groups_[number], depth); });
  }

  /// What the group moves into a cache. If an iteration of a loop fits, the loop moves only what is new in each of its
  /// iterations, nothing if it does not move the group, and nothing again that a group before this one moved in the
  /// same iteration. Loops around that one move everything again, if anything inside them does. What is stored is
  /// fetched first.
  void add(std::size_t number, std::span<const double> sets, const CacheLevel& level, Traffic& traffic) const {
    const AccessGroup& group = groups_[number];
    std::size_t from = group.loops.size();
    while (from > 0 && sets[group.loops[from - 1]] <= level.bytes) --from;
    const Footprint touched = footprint(group, from);
    const double times = (group.stored ? 2 : 1) - (follows_another(number, from) ? 1 : 0);
    double bytes = std::min(touched.bytes(), objects_[group.object].bytes) * times;
    bool moves = from == group.loops.size() || from == 0 || group.distances[from] != 0;
    for (std::size_t k = from; k-- > 0;) {
      moves |= group.distances[k] != 0;
      if (moves) bytes *= tree_.loops()[group.loops[k]].iterations;
    }
    for (std::size_t k = 0; k < group.loops.size(); ++k) {  // the same for the pieces
      const double pieces = tree_.loops()[group.loops[k]].pieces;
      moves |= pieces > 1 && group.distances[k] != 0;
      if (moves) bytes *= pieces;
    }
    traffic.bytes += bytes;
    const bool are_lines = touched.runs > 1 && touched.run_bytes <= machine_.line_bytes;
    const bool are_streams = touched.runs <= kStreams && goes_on(group, from);
    if (are_lines && !are_streams) traffic.scattered += bytes;
  }

  /// Whether the next iteration of the loop around this depth continues each of the group's runs where it ended: a sum
  /// over rows does, if lanes lie along the rows.
  bool goes_on(const AccessGroup& group, std::size_t depth) const {
    const auto around = std::span(group.distances).first(depth);
    const auto moving = std::find_if(around.rbegin(), around.rend(), [](double distance) { return distance != 0; });
    return moving != around.rend() && std::abs(*moving) <= machine_.line_bytes;
  }

  const LoopTree& tree_;
  const Machine& machine_;
  std::vector<Object> objects_;  // buffers, then arrays
  std::vector<AccessGroup> groups_;
  std::vector<std::size_t> path_;
};

}  // namespace

std::vector<double> strides_of(const LoopTree& tree, const BufferDecl& buffer) {
  std::vector<double> strides(buffer.shape.size());
  double stride = 1;
  for (auto axis = buffer.layout.rbegin(); axis != buffer.layout.rend(); ++axis) {
    strides.at(*axis) = stride;
    stride *= std::max(0.0, tree.value(buffer.shape.at(*axis)));
  }
  return strides;
}

double stride_along(const std::vector<Affine>& subscripts, const std::vector<double>& strides, Symbol symbol) {
  double stride = 0;
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis)
    stride += strides.at(axis) * static_cast<double>(subscripts[axis].coefficient(symbol));
  return stride;
}

std::vector<Traffic> count_traffic(const LoopTree& tree, const Machine& machine) {
  return TrafficCounter(tree, machine).run();
}

}  // namespace moxie
