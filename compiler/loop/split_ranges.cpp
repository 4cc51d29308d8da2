#include "compiler/loop/split_ranges.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ranges>
#include <string_view>

#include "compiler/expression/functions.h"
#include "compiler/loop/known_values.h"
#include "compiler/loop/lane_count.h"
#include "compiler/loop/operands.h"
#include "compiler/loop/overload.h"

namespace moxie {
namespace {

/// The bounds of a vector loop's parts are multiples of this, the most lanes of singles that a register has. A split
/// then adds no partial vector.
constexpr std::int64_t kMaxLanes = 16;
/// A part of an innermost loop with fewer iterations gets no code of its own. Of loops around others one iteration is
/// worth it, since register tiles leave few: a convolution of 16 x 16 pixels in tiles of 4 takes a third of the time.
constexpr std::int64_t kMinIterations = 16;
/// A loop that has more than this many times the iterations of the longest part is not split.
constexpr std::int64_t kMaxRatio = 3;
/// Statements that copies may add to a kernel. LLVM takes about 0.25 ms for each, until what is known is taken out: 3.7
/// s for the 15,000 of a chain of 200 definitions with its gradient. A step of a flow on a periodic grid needs 1,240
/// with its gradient, and takes 0.3 ms instead of 1.9.
constexpr std::size_t kMaxAdded = 2000;

/// Iterations from `begin` to `end`, which is not one of them.
struct Iterations {
  std::int64_t begin, end;
  std::int64_t count() const { return end - begin; }
};

/// A comparison of indices: whether `difference` is below `bound`, or zero; or the opposite.
struct LoopCondition {
  Affine difference;
  std::optional<std::int64_t> bound;  // nothing: whether it is zero
  bool negated = false;
};

struct ConditionKind {
  std::string_view name;
  std::optional<std::int64_t> bound;
  bool negated;
};
constexpr std::array kConditions = {ConditionKind{"<", 0, false},   ConditionKind{"<=", 1, false},
                                    ConditionKind{">", 1, true},    ConditionKind{">=", 0, true},
                                    ConditionKind{"==", {}, false}, ConditionKind{"!=", {}, true}};

std::optional<LoopCondition> comparison_in(const LoopProgram& program, const Value& value) {
  const auto* call = std::get_if<op::Call>(&value.operation);
  if (!call || call->args.size() != 2) return std::nullopt;
  const auto kind = std::ranges::find(kConditions, call->function->name, &ConditionKind::name);
  if (kind == kConditions.end()) return std::nullopt;
  const auto left = index_in(program.values[call->args[0]]), right = index_in(program.values[call->args[1]]);
  if (!left || !right) return std::nullopt;
  return LoopCondition{*left - *right, kind->bound, kind->negated};
}

std::optional<bool> decided(const LoopCondition& comparison, const KnownValues& known) {
  const auto values = values_of(comparison.difference, known);
  if (!values) return std::nullopt;
  const auto [low, high] = *values;
  std::optional<bool> holds;
  if (comparison.bound) {
    const auto bound = static_cast<double>(*comparison.bound);
    if (high < bound) holds = true;
    if (low >= bound) holds = false;
  } else {
    if (low > 0 || high < 0) holds = false;
    if (low == 0 && high == 0) holds = true;
  }
  return holds ? std::optional(*holds != comparison.negated) : std::nullopt;
}

/// The iterations of a loop in which the comparison may depend on the variables of other loops. Before them its result
/// is constant, and so it is after them.
std::optional<Iterations> undecided_iterations(LoopCondition comparison, Symbol variable, const KnownValues& others) {
  std::int64_t factor = comparison.difference.coefficient(variable);
  if (factor == 0) return std::nullopt;
  if (factor < 0) {  // d < b is not(-d < 1 - b)
    factor = -factor;
    comparison.difference = comparison.difference * -1;
    if (comparison.bound) comparison.bound = 1 - *comparison.bound;
  }
  const auto rest = values_of(comparison.difference - Affine(variable) * factor, others);
  if (!rest) return std::nullopt;
  const auto low = static_cast<std::int64_t>(rest->low), high = static_cast<std::int64_t>(rest->high);
  if (!comparison.bound) return Iterations{ceil_div(-high, factor), floor_div(-low, factor) + 1};
  return Iterations{ceil_div(*comparison.bound - high, factor), ceil_div(*comparison.bound - low, factor)};
}

KnownValues with(KnownValues known, Symbol symbol, const std::optional<VariableRange>& values) {
  known.erase(symbol);
  if (values && values->low <= values->high) known.emplace(symbol, *values);
  return known;
}

/// The iterations of an outer loop at which conditions in its body change.
class Changes {
 public:
  Changes(const LoopProgram& program, Symbol variable) : program_(program), variable_(variable) {}

  void collect(const Block& block, const KnownValues& others) {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement))
        collect(loop->body, with(others, loop->variable, values_of(loop->range, others)));
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto comparison = let ? comparison_in(program_, program_.values[let->id]) : std::nullopt;
      const auto found = comparison ? undecided_iterations(*comparison, variable_, others) : std::nullopt;
      if (found) changes_.push_back(*found);
    }
  }

  /// The longest part of the range without a change. Conditions that are undecided in most of it do not count.
  Iterations longest_part(const Iterations& range) {
    std::erase_if(changes_, [&](const Iterations& change) {
      const Iterations inside{std::max(change.begin, range.begin), std::min(change.end, range.end)};
      return inside.count() * 2 > range.count();
    });
    std::ranges::sort(changes_, {}, &Iterations::begin);
    Iterations longest{range.begin, range.begin};
    std::int64_t begin = range.begin;
    const auto add_part = [&](std::int64_t end) {
      if (std::min(end, range.end) - begin > longest.count()) longest = {begin, std::min(end, range.end)};
    };
    for (const Iterations& change : changes_) {
      add_part(change.begin);
      begin = std::max(begin, change.end);
    }
    add_part(range.end);
    // Where conditions change in both of two iterations, each of them as a part may decide some.
    if (longest.count() == 0 && range.count() == 2 && !changes_.empty()) longest.end = range.begin + 1;
    return longest;
  }

 private:
  const LoopProgram& program_;
  const Symbol variable_;
  std::vector<Iterations> changes_;
};

/// In which parts of a loop the loops inside are split, too. The longest part has most of the iterations.
enum class SplitInside { AllParts, LongestPart };

/// Writes a program anew, with loops in parts, and what is known of conditions in the place of testing them.
class RangeSplitter {
 public:
  RangeSplitter(const LoopProgram& program, SplitInside inside)
      : program_(program), inside_(inside), result_(program), now_(program.values.size()) {
    result_.values.clear();
  }

  /// Nothing if all stays as it is.
  std::optional<LoopProgram> run(const KnownValues& arguments) {
    result_.body = block(program_.body, arguments, true);
    return changed_ ? std::optional(std::move(result_)) : std::nullopt;
  }

  /// Whether loops stayed whole since copies would have been too many.
  bool is_limited() const { return limited_; }

 private:
  /// What stands for a value of the program in the part that is being written.
  struct Now {
    ValueId id = 0;
    std::optional<bool> truth;  // where it is known
  };

  Block block(const Block& statements, const KnownValues& known, bool may_split) {
    Block written;
    for (const Statement& statement : statements) {
      if (const auto* let = std::get_if<stmt::Let>(&statement))
        write_let(let->id, known, written);
      else if (const auto* loop = std::get_if<stmt::For>(&statement))
        write_loop(*loop, known, may_split, written);
      else
        written.push_back(with_values(statement));
    }
    return written;
  }

  // ---- loops ----
  void write_loop(const stmt::For& loop, const KnownValues& known, bool may_split, Block& written) {
    const auto values = values_of(loop.range, known);
    const KnownValues inside = with(known, loop.variable, values);
    const auto found = may_split && values ? part_of(loop, *values, known) : std::nullopt;
    // Loops inside come first: they test their conditions more often.
    const bool exceeds = found && added_ + found->added + added_inside(loop.body, inside) > kMaxAdded;
    limited_ |= exceeds;
    if (!found || exceeds) return write_part(loop, loop.range, inside, may_split, written);
    changed_ = true;
    added_ += found->added;
    const Iterations& part = found->iterations;
    const Iterations whole{static_cast<std::int64_t>(values->low), static_cast<std::int64_t>(values->high) + 1};
    for (const Iterations& iterations : {Iterations{whole.begin, part.begin}, part, Iterations{part.end, whole.end}}) {
      if (iterations.count() == 0) continue;
      Range range = loop.range;
      if (iterations.begin != whole.begin) add_low(range, iterations.begin);
      if (iterations.end != whole.end) add_high(range, iterations.end - 1);
      const VariableRange covered{static_cast<double>(iterations.begin), static_cast<double>(iterations.end - 1)};
      const bool splits_inside = inside_ == SplitInside::AllParts || iterations.begin == part.begin;
      write_part(loop, range, with(known, loop.variable, covered), splits_inside, written);
    }
  }

  /// The bound in the place of a constant one, or with those that are none.
  static void add_low(Range& range, std::int64_t low) {
    std::erase_if(range.lows, [](const Bound& bound) { return bound.value.is_constant(); });
    range.lows.push_back({1, Affine(low)});
  }
  static void add_high(Range& range, std::int64_t high) {
    std::erase_if(range.highs, [](const Bound& bound) { return bound.value.is_constant(); });
    range.highs.push_back({1, Affine(high)});
  }

  void write_part(const stmt::For& loop, const Range& range, const KnownValues& known, bool may_split, Block& written) {
    stmt::For part = loop;
    part.range = range.substitute([this](Symbol symbol) { return replacement(symbol); });
    const auto values = known.find(loop.variable);
    const bool is_single = values != known.end() && values->second.low == values->second.high && !loop.vector;
    if (is_single) constants_.emplace(loop.variable, Affine(static_cast<std::int64_t>(values->second.low)));
    part.body = block(loop.body, known, may_split);
    if (is_single) constants_.erase(loop.variable);
    written.emplace_back(std::move(part));
  }

  /// A part of a loop's range, and how many statements the copies for the iterations around it add.
  struct Part {
    Iterations iterations;
    std::size_t added;
  };

  /// The iterations in which most conditions are known.
  std::optional<Part> part_of(const stmt::For& loop, const VariableRange& values, const KnownValues& known) const {
    const Iterations whole{static_cast<std::int64_t>(values.low), static_cast<std::int64_t>(values.high) + 1};
    const bool is_outer = std::ranges::any_of(
        loop.body, [](const Statement& statement) { return std::holds_alternative<stmt::For>(statement); });
    const std::int64_t least = is_outer ? 1 : kMinIterations;
    if (whole.count() < least) return std::nullopt;
    Changes changes(program_, loop.variable);
    changes.collect(loop.body, with(known, loop.variable, values));
    Iterations part = changes.longest_part(whole);
    if (loop.vector) {
      part.begin = whole.begin + ceil_div(part.begin - whole.begin, kMaxLanes) * kMaxLanes;
      if (part.end != whole.end) part.end = whole.begin + (part.end - whole.begin) / kMaxLanes * kMaxLanes;
    }
    const int borders = (part.begin != whole.begin ? 1 : 0) + (part.end != whole.end ? 1 : 0);
    const std::size_t added = static_cast<std::size_t>(borders) * count_statements(loop.body);
    if (borders == 0 || part.count() < least || part.count() * kMaxRatio < whole.count()) return std::nullopt;
    return Part{part, added};
  }

  /// The statements that the loops inside add if each of them is split.
  std::size_t added_inside(const Block& body, const KnownValues& known) const {
    std::size_t added = 0;
    for (const Statement& statement : body) {
      const auto* loop = std::get_if<stmt::For>(&statement);
      if (!loop) continue;
      const auto values = values_of(loop->range, known);
      if (const auto part = values ? part_of(*loop, *values, known) : std::nullopt) added += part->added;
      added += added_inside(loop->body, with(known, loop->variable, values));
    }
    return added;
  }

  // ---- values ----
  const Affine* replacement(Symbol symbol) {
    const auto constant = constants_.find(symbol);
    if (constant != constants_.end()) return &constant->second;
    if (!symbol.is_value()) return nullptr;
    replacement_ = Affine(Symbol::value(now_[symbol.number()].id));
    return &replacement_;
  }
  Affine with_values(const Affine& affine) {
    return affine.substitute([this](Symbol symbol) { return replacement(symbol); });
  }
  std::vector<Affine> with_values(std::vector<Affine> affines) {
    for (Affine& affine : affines) affine = with_values(affine);
    return affines;
  }
  ValueId now(ValueId id) const { return now_[id].id; }

  Statement with_values(const Statement& statement) {
    return std::visit(
        Overload{[&](const stmt::SetVar& s) { return Statement(stmt::SetVar{s.var, now(s.value)}); },
                 [&](const stmt::Check& s) {
                   return Statement(stmt::Check{now(s.bad), s.check, with_values(s.coordinates), now(s.value)});
                 },
                 [&](const stmt::Store& s) {
                   return Statement(stmt::Store{s.buffer, with_values(s.subscripts), now(s.value)});
                 },
                 [&](const stmt::StoreArray& s) {
                   return Statement(stmt::StoreArray{s.array, with_values(s.subscripts), now(s.value)});
                 },
                 [](const auto& s) { return Statement(s); }},
        static_cast<const Statement::variant&>(statement));
  }

  /// A guard that is known to hold is none.
  std::optional<ValueId> with_guard(const std::optional<ValueId>& guard) {
    if (!guard) return std::nullopt;
    if (now_[*guard].truth != true) return now(*guard);
    changed_ = true;
    return std::nullopt;
  }

  Operation with_values(const Operation& operation) {
    return std::visit(
        Overload{
            [&](const op::Number& o) { return Operation(op::Number{with_values(o.value)}); },
            [&](const op::Load& o) {
              return Operation(op::Load{o.buffer, with_values(o.subscripts), with_guard(o.guard)});
            },
            [&](const op::Subscript& o) {
              return Operation(op::Subscript{o.buffer, o.axis, with_values(o.value), with_guard(o.guard)});
            },
            [&](const op::LoadArray& o) { return Operation(op::LoadArray{o.array, with_values(o.subscripts)}); },
            [&](const op::Call& o) {
              op::Call call = o;
              for (ValueId& arg : call.args) arg = now(arg);
              return Operation(std::move(call));
            },
            [&](const op::Convert& o) { return Operation(op::Convert{now(o.value)}); },
            [&](const op::Random& o) { return Operation(op::Random{o.kind, o.stream, with_values(o.coordinates)}); },
            [&](const op::CombineLanes& o) { return Operation(op::CombineLanes{o.kind, now(o.value)}); },
            [&](const op::PrefixLanes& o) { return Operation(op::PrefixLanes{o.kind, now(o.value)}); },
            [&](const op::LastLane& o) { return Operation(op::LastLane{now(o.value)}); },
            [](const auto& o) { return Operation(o); }},
        operation);
  }

  void write_let(ValueId id, const KnownValues& known, Block& written) {
    const Value& value = program_.values[id];
    const std::optional<bool> truth = truth_of(value, known);
    const auto same = truth ? std::nullopt : same_as(value);
    if (same) {
      now_[id] = now_[*same];
      changed_ = true;
      return;
    }
    now_[id] = {static_cast<ValueId>(result_.values.size()), truth};
    result_.values.push_back({value.type, value.varying, with_values(value.operation)});
    written.emplace_back(stmt::Let{now_[id].id});
  }

  std::optional<bool> truth_of(const Value& value, const KnownValues& known) const {
    if (value.type != ValueType::truth) return std::nullopt;
    if (const auto comparison = comparison_in(program_, value)) return decided(*comparison, known);
    const auto* call = std::get_if<op::Call>(&value.operation);
    if (!call) return std::nullopt;
    const std::string_view name = call->function->name;
    const auto is = [&](bool truth) { return [this, truth](ValueId arg) { return now_[arg].truth == truth; }; };
    if (name == "not") return now_[call->args[0]].truth ? std::optional(!*now_[call->args[0]].truth) : std::nullopt;
    if (name != "and" && name != "or") return std::nullopt;
    const bool deciding = name == "or";  // one such argument decides
    if (std::ranges::any_of(call->args, is(deciding))) return deciding;
    if (std::ranges::all_of(call->args, is(!deciding))) return !deciding;
    return std::nullopt;
  }

  /// The value that this one equals where what is known of conditions chooses it.
  std::optional<ValueId> same_as(const Value& value) const {
    const auto* call = std::get_if<op::Call>(&value.operation);
    if (!call) return std::nullopt;
    const std::string_view name = call->function->name;
    std::optional<ValueId> same;
    if (name == "where" && now_[call->args[0]].truth) same = call->args[*now_[call->args[0]].truth ? 1 : 2];
    if (name == "and" || name == "or") {
      const auto is_open = [this](ValueId arg) { return !now_[arg].truth; };
      if (std::ranges::count_if(call->args, is_open) == 1) same = *std::ranges::find_if(call->args, is_open);
    }
    return same;
  }

  const LoopProgram& program_;
  const SplitInside inside_;
  LoopProgram result_;
  std::vector<Now> now_;                // by the program's values
  std::map<Symbol, Affine> constants_;  // loop variables with one value, which a code generator cannot always tell
  Affine replacement_;
  std::size_t added_ = 0;  // statements
  bool changed_ = false, limited_ = false;
};

/// Takes out the values that nothing uses any more.
class UnusedValues {
 public:
  explicit UnusedValues(LoopProgram& program) : program_(program), used_(program.values.size()) {}
  void drop() { drop(program_.body); }

 private:
  void drop(Block& block) {
    std::vector<bool> kept(block.size(), true);
    for (std::size_t k = block.size(); k-- > 0;) {  // users stand behind what they use
      Statement& statement = block[k];
      if (auto* loop = std::get_if<stmt::For>(&statement)) {
        drop(loop->body);
        for (const auto* bounds : {&loop->range.lows, &loop->range.highs})
          for (const Bound& bound : *bounds) use(bound.value);
        continue;
      }
      const auto* let = std::get_if<stmt::Let>(&statement);
      kept[k] = !let || used_[let->id];
      if (!kept[k]) continue;
      for (const ValueId id : operands(program_, statement)) used_[id] = true;
      std::visit(Overload{[&](const stmt::Let& s) { use_coordinates(program_.values[s.id].operation); },
                          [&](const stmt::Store& s) { use(s.subscripts); },
                          [&](const stmt::StoreArray& s) { use(s.subscripts); },
                          [&](const stmt::Check& s) { use(s.coordinates); }, [](const auto&) {}},
                 static_cast<const Statement::variant&>(statement));
    }
    std::size_t next = 0;
    std::erase_if(block, [&](const Statement&) { return !kept[next++]; });
  }

  void use(const Affine& affine) {
    for (const auto& [symbol, coefficient] : affine.terms())
      if (symbol.is_value()) used_[symbol.number()] = true;
  }
  void use(const std::vector<Affine>& affines) {
    for (const Affine& affine : affines) use(affine);
  }
  void use_coordinates(const Operation& operation) {
    if (const auto* random = std::get_if<op::Random>(&operation)) use(random->coordinates);
    if (const auto* load = std::get_if<op::LoadArray>(&operation)) use(load->subscripts);
  }

  LoopProgram& program_;
  std::vector<bool> used_;
};

/// Between which numbers the bounds of pieces lie.
void know_bounds(KnownValues& known, const std::optional<SplitLoop>& split) {
  const auto values = split ? values_of(split->range, {}) : std::nullopt;
  if (!values) return;
  known.emplace(Symbol::dim(split->low_argument), *values);
  known.emplace(Symbol::dim(split->high_argument), VariableRange{values->low + 1, values->high + 1});
}

bool compares_indices(const LoopProgram& program) {
  return std::ranges::any_of(program.values, [&](const Value& value) {
    return value.type == ValueType::truth && comparison_in(program, value).has_value();
  });
}

}  // namespace

void split_ranges(LoweredKernel& kernel) {
  if (!compares_indices(kernel.program)) return;
  KnownValues known;
  know_bounds(known, kernel.tiles);
  know_bounds(known, kernel.chunks);
  RangeSplitter all_parts(kernel.program, SplitInside::AllParts);
  auto split = all_parts.run(known);
  if (all_parts.is_limited()) split = RangeSplitter(kernel.program, SplitInside::LongestPart).run(known);
  if (!split) return;
  UnusedValues(*split).drop();
  kernel.program = std::move(*split);
}

}  // namespace moxie
