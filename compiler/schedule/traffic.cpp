#include "compiler/schedule/traffic.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace moxie {
namespace {

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
  std::set<double> offsets;        // the constants, in bytes
  bool stored = false;
};

double bytes_of(DType dtype) { return dtype == DType::f32 ? 4 : 8; }

class TrafficCounter {
 public:
  TrafficCounter(const LoopTree& tree, const Machine& machine) : tree_(tree), machine_(machine) {
    const LoopProgram& program = tree.program();
    for (const BufferDecl& buffer : program.buffers) {
      Object object{bytes_of(buffer.dtype), bytes_of(buffer.dtype), strides_of(tree, buffer)};
      for (const Affine& extent : buffer.shape) object.bytes *= std::max(0.0, tree.value(extent));
      objects_.push_back(std::move(object));
    }
    for (const ArrayDecl& array : program.arrays) {
      const double element = bytes_of(array.dtype) * (array.varying ? tree.lanes() : 1);
      Object object{element, element, std::vector<double>(array.extents.size())};
      double stride = 1;
      for (std::size_t axis = array.extents.size(); axis-- > 0;) {
        object.strides[axis] = stride;
        stride *= static_cast<double>(array.extents[axis]);
      }
      object.bytes *= stride;
      objects_.push_back(std::move(object));
    }
    collect(program.body);
    weigh_loops();
  }

  std::vector<double> run() const {
    std::vector<double> traffic;
    for (const CacheLevel& level : machine_.levels) {
      double bytes = 0;
      if (whole_ > level.bytes) {
        for (const AccessGroup& group : groups_) bytes += (group.stored ? 2 : 1) * moved(group, level.bytes);
      }
      traffic.push_back(bytes);
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

  void note(std::size_t object_id, const std::vector<Affine>& subscripts, bool stored) {
    const Object& object = objects_.at(object_id);
    std::vector<double> distances;
    for (const std::size_t loop : path_) {
      const Symbol variable = tree_.loops()[loop].statement->variable;
      distances.push_back(object.element_bytes * stride_along(subscripts, object.strides, variable));
    }
    double constant = 0;
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis)
      constant += object.element_bytes * object.strides[axis] * static_cast<double>(subscripts[axis].constant());
    for (AccessGroup& group : groups_) {
      if (group.object != object_id || group.loops != path_ || group.distances != distances) continue;
      group.offsets.insert(constant);
      group.stored |= stored;
      return;
    }
    groups_.push_back({object_id, path_, std::move(distances), {constant}, stored});
  }

  enum class Extent : std::uint8_t { piece, whole };

  /// Bytes that the group touches in one execution of its loops from number `outermost` of its path on, in all lanes;
  /// or in all pieces of them.
  double footprint(const AccessGroup& group, std::size_t outermost, Extent extent = Extent::piece) const {
    std::vector<std::pair<double, double>> steps;  // distances and trips
    for (std::size_t k = 0; k < group.loops.size(); ++k) {
      const CountedLoop& loop = tree_.loops()[group.loops[k]];
      if (group.distances[k] == 0 || (k < outermost && !loop.statement->vector)) continue;
      const double all = extent == Extent::whole ? loop.trips * loop.pieces : loop.trips;
      const double trips = k < outermost ? std::min<double>(tree_.lanes(), loop.trips) : all;
      steps.emplace_back(std::abs(group.distances[k]), trips);
    }
    std::ranges::sort(steps);
    const Object& object = objects_[group.object];
    double run = object.element_bytes;  // bytes that lie side by side, or within lines of each other
    double runs = 1;
    for (const auto& [distance, trips] : steps) {
      if (distance <= std::max(run, machine_.line_bytes))
        run += distance * std::max(0.0, trips - 1);
      else
        runs *= trips;
    }
    // Accesses that differ by a constant share what lies between them, if their runs meet.
    double between = 0, apart = 1;
    for (auto offset = group.offsets.begin(); std::next(offset) != group.offsets.end(); ++offset) {
      const double gap = *std::next(offset) - *offset;
      if (gap <= std::max(run, machine_.line_bytes))
        between += gap;
      else
        ++apart;
    }
    runs *= apart;
    run += between / apart;
    if (runs > 1) run = std::max(run, machine_.line_bytes);
    return std::min(runs * run, object.bytes);
  }

  /// The bytes that one execution of each loop touches.
  void weigh_loops() {
    std::vector<std::map<std::size_t, double>> touched(tree_.loops().size());
    std::map<std::size_t, double> everything;
    for (const AccessGroup& group : groups_) {
      for (std::size_t k = 0; k < group.loops.size(); ++k) touched[group.loops[k]][group.object] += footprint(group, k);
      everything[group.object] += footprint(group, 0, Extent::whole);
    }
    for (const auto& objects : touched) working_sets_.push_back(total(objects));
    whole_ = total(everything);
  }

  double total(const std::map<std::size_t, double>& bytes_by_object) const {
    double sum = 0;
    for (const auto& [object, bytes] : bytes_by_object) sum += std::min(bytes, objects_[object].bytes);
    return sum;
  }

  /// Bytes that the group moves into a cache of this size. Loops from `kept` on fit: an execution moves what it touches
  /// once. The loop around them moves only what is new in each of its iterations, and nothing if it does not move the
  /// group. Loops around that one move everything again, if anything inside them does.
  double moved(const AccessGroup& group, double capacity) const {
    std::size_t kept = group.loops.size();
    while (kept > 0 && working_sets_[group.loops[kept - 1]] <= capacity) --kept;
    const std::size_t from = kept > 0 ? kept - 1 : 0;
    double bytes = footprint(group, from);
    bool moves = kept == 0 || group.distances[from] != 0;
    for (std::size_t k = from; k-- > 0;) {
      moves |= group.distances[k] != 0;
      if (moves) bytes *= tree_.loops()[group.loops[k]].iterations;
    }
    for (std::size_t k = 0; k < group.loops.size(); ++k) {  // the same for the pieces
      const double pieces = tree_.loops()[group.loops[k]].pieces;
      moves |= pieces > 1 && group.distances[k] != 0;
      if (moves) bytes *= pieces;
    }
    return bytes;
  }

  const LoopTree& tree_;
  const Machine& machine_;
  std::vector<Object> objects_;  // buffers, then arrays
  std::vector<AccessGroup> groups_;
  std::vector<std::size_t> path_;
  std::vector<double> working_sets_;
  double whole_ = 0;
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

std::vector<double> count_traffic(const LoopTree& tree, const Machine& machine) {
  return TrafficCounter(tree, machine).run();
}

}  // namespace moxie
