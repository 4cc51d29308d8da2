#include "compiler/loop/lane_runs.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>

#include "compiler/loop/lane_count.h"
#include "compiler/loop/operands.h"

namespace moxie {
namespace {

/// Shorter runs gather: each load of a lane would bring two or three elements, and a shuffle would follow it.
constexpr std::size_t kShortestRun = 4;

/// An access of one element for each lane.
struct LaneAccess {
  BufferId buffer;
  const std::vector<Affine>* subscripts;
  bool stores;
};

/// What the accesses of a run have in common: they differ in the constant of the fastest subscript.
struct RowAccesses {
  BufferId buffer;
  bool stores;
  std::vector<Affine> subscripts;  // without that constant
  bool operator==(const RowAccesses&) const = default;
};

/// The distance of lanes, if it is known.
std::optional<std::int64_t> known_step(const BufferDecl& buffer, const std::vector<Affine>& subscripts,
                                       Symbol variable) {
  std::int64_t stride = 1, step = 0;
  for (auto axis = buffer.layout.rbegin(); axis != buffer.layout.rend(); ++axis) {
    step += stride * subscripts.at(*axis).coefficient(variable);
    const Affine& extent = buffer.shape.at(*axis);
    if (!extent.is_constant()) return std::nullopt;
    stride *= extent.constant();
  }
  return step;
}

class RunFinder {
 public:
  RunFinder(const LoopProgram& program, const Block& block, Symbol variable, int lanes)
      : program_(program), block_(block), variable_(variable), most_(static_cast<std::size_t>(lanes)) {}

  std::vector<LaneRun> run() {
    for (std::size_t k = 0; k < block_.size(); ++k) {
      if (std::holds_alternative<stmt::For>(block_[k])) {
        end_rows([](const RowAccesses&) { return true; });
        continue;
      }
      const auto access = access_of(block_[k]);
      if (!access) continue;
      const auto row = row_of(block_[k], *access);
      end_rows([&](const RowAccesses& open) { return !(row && open == *row) && conflicts(open, *access); });
      if (row) add(*row, fastest(*access).constant(), k);
    }
    end_rows([](const RowAccesses&) { return true; });
    return std::move(runs_);
  }

 private:
  using Members = std::map<std::int64_t, std::size_t>;  // from the constant to the statement

  std::optional<LaneAccess> access_of(const Statement& statement) const {
    if (const auto* store = std::get_if<stmt::Store>(&statement)) return {{store->buffer, &store->subscripts, true}};
    const auto* let = std::get_if<stmt::Let>(&statement);
    const auto* load = let ? std::get_if<op::Load>(&program_.values.at(let->id).operation) : nullptr;
    return load ? std::optional(LaneAccess{load->buffer, &load->subscripts, false}) : std::nullopt;
  }

  const Affine& fastest(const LaneAccess& access) const {
    return access.subscripts->at(program_.buffers.at(access.buffer).layout.back());
  }

  /// The row that the access can belong to.
  std::optional<RowAccesses> row_of(const Statement& statement, const LaneAccess& access) const {
    const BufferDecl& buffer = program_.buffers.at(access.buffer);
    if (buffer.layout.empty() || (buffer.dtype != DType::f32 && buffer.dtype != DType::f64)) return std::nullopt;
    if (!access.stores && !is_plain(std::get<stmt::Let>(statement), buffer)) return std::nullopt;
    const auto varies = [&](const Affine& subscript) { return mentions_varying(program_, subscript); };
    const auto moves = [&](const Affine& subscript) { return subscript.mentions(variable_); };
    if (std::ranges::any_of(*access.subscripts, varies) || std::ranges::none_of(*access.subscripts, moves) ||
        moves(fastest(access)))
      return std::nullopt;
    const auto step = access.stores ? std::nullopt : known_step(buffer, *access.subscripts, variable_);
    if (step && std::abs(*step) <= kMaxShuffledStride) return std::nullopt;
    RowAccesses row{access.buffer, access.stores, *access.subscripts};
    row.subscripts.at(buffer.layout.back()) = fastest(access) - Affine(fastest(access).constant());
    return row;
  }

  /// Whether it loads what the tensor holds, as it is, in all lanes.
  bool is_plain(const stmt::Let& let, const BufferDecl& buffer) const {
    const Value& value = program_.values.at(let.id);
    return value.varying && !std::get<op::Load>(value.operation).guard && value.type == value_type(buffer.dtype);
  }

  /// Whether moving the accesses of the row past this one may change a value: if one of them stores what the other one
  /// accesses. Within a lane, subscripts that differ in constants name different elements; iterations of different
  /// lanes do not depend on each other.
  static bool conflicts(const RowAccesses& row, const LaneAccess& access) {
    if (row.buffer != access.buffer || !(row.stores || access.stores)) return false;
    const auto differs_in_a_constant = [](const Affine& a, const Affine& b) { return (a - b).is_constant(); };
    return row.stores != access.stores ||
           !std::ranges::equal(row.subscripts, *access.subscripts, differs_in_a_constant);
  }

  void add(const RowAccesses& row, std::int64_t constant, std::size_t statement) {
    auto open = std::ranges::find(rows_, row, &std::pair<RowAccesses, Members>::first);
    if (open != rows_.end() && row.stores && open->second.contains(constant)) {
      end_rows([&](const RowAccesses& other) { return other == row; });
      open = rows_.end();
    }
    if (open == rows_.end()) open = rows_.insert(rows_.end(), {row, {}});
    open->second.try_emplace(constant, statement);
  }

  template <class Predicate>
  void end_rows(const Predicate& ends) {
    for (const auto& [row, members] : rows_) {
      if (ends(row)) add_runs(row, members);
    }
    std::erase_if(rows_, [&](const auto& open) { return ends(open.first); });
  }

  void add_runs(const RowAccesses& row, const Members& members) {
    for (auto begin = members.begin(); begin != members.end();) {
      std::vector<std::size_t> neighbours = {begin->second};
      auto end = std::next(begin);
      for (; end != members.end() && end->first == std::prev(end)->first + 1; ++end) neighbours.push_back(end->second);
      cut(row, neighbours);
      begin = end;
    }
  }

  void cut(const RowAccesses& row, const std::vector<std::size_t>& neighbours) {
    for (auto from = neighbours.begin(); from != neighbours.end();) {
      const auto left = static_cast<std::size_t>(neighbours.end() - from);
      const std::size_t length = std::min(most_, std::bit_floor(left));
      if (length < kShortestRun) return;
      const auto to = from + static_cast<std::ptrdiff_t>(length);
      runs_.push_back({{from, to}, row.stores});
      from = to;
    }
  }

  const LoopProgram& program_;
  const Block& block_;
  const Symbol variable_;
  const std::size_t most_;
  std::vector<std::pair<RowAccesses, Members>> rows_;
  std::vector<LaneRun> runs_;
};

}  // namespace

std::size_t LaneRun::place() const {
  const auto [first, last] = std::ranges::minmax(statements);
  return stores ? last : first;
}

std::vector<LaneRun> lane_runs(const LoopProgram& program, const Block& block, Symbol variable, int lanes) {
  return lanes == 1 ? std::vector<LaneRun>{} : RunFinder(program, block, variable, lanes).run();
}

}  // namespace moxie
