// The interpreter compiles the statement tree into closures over slots, then runs them.
#include "compiler/loop/interpreter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "compiler/arithmetic/exact_integer.h"
#include "compiler/arithmetic/philox.h"
#include "compiler/expression/functions.h"
#include "compiler/loop/loop_text.h"
#include "compiler/support/error.h"

namespace moxie {
namespace {

using Integers = std::vector<std::int64_t>;

/// Values that may be read only after they were written.
struct Scratch {
  explicit Scratch(std::size_t size) : values(size, std::numeric_limits<double>::quiet_NaN()), written(size) {}
  void set(std::size_t i, double value) { values[i] = value, written[i] = 1; }
  std::vector<double> values;
  std::vector<char> written;
};

/// All that changes while a program runs.
struct Frame {
  Integers loops;  // the value of the loop variable at every depth
  std::vector<double> values;
  std::vector<double> operands;  // of the call being computed
  Scratch vars{0};
  std::vector<Scratch> arrays;
  KernelStatus status;
};

/// An affine expression in loop variables; the arguments are folded into the constant.
struct Linear {
  std::int64_t constant = 0;
  std::vector<std::pair<std::size_t, std::int64_t>> terms;  // depth of the loop, coefficient
  std::vector<std::pair<ValueId, std::int64_t>> values = {};

  std::int64_t operator()(const Frame& frame) const {
    std::int64_t sum = constant;
    for (const auto& [depth, coefficient] : terms) sum += coefficient * frame.loops[depth];
    for (const auto& [id, coefficient] : values) sum += coefficient * nearest_exact_integer(frame.values[id]);
    return sum;
  }
};

struct BoundQuotient {
  std::int64_t divisor;
  Linear value;
};

/// Where the elements of a buffer or array lie.
struct Storage {
  std::string name;
  Integers shape, strides;
  std::int64_t size = 1;
};

Storage storage(std::string name, Integers shape, const std::vector<std::uint32_t>& layout) {
  Storage result{std::move(name), std::move(shape), Integers(layout.size())};
  for (std::size_t i = layout.size(); i-- > 0;) {
    const std::int64_t extent = result.shape[layout[i]];
    result.strides[layout[i]] = result.size;
    result.size = checked_mul(result.size, extent);
  }
  return result;
}

using Action = std::function<void(Frame&)>;
using Evaluation = std::function<double(Frame&)>;
using Actions = std::vector<Action>;

void run(const Actions& steps, Frame& frame) {
  for (const Action& step : steps) step(frame);
}

class Compiler {
 public:
  Compiler(const LoopProgram& program, std::span<const std::span<double>> buffers,
           std::span<const std::int64_t> arguments)
      : program_(program), data_(buffers.begin(), buffers.end()), arguments_(arguments.begin(), arguments.end()) {
    require_count(arguments.size(), program.arguments.size(), "arguments");
    require_count(buffers.size(), program.buffers.size(), "buffers");
    for (const BufferDecl& b : program.buffers) {
      buffers_.push_back(storage(b.name, known_shape(b.shape), b.layout));
      require_count(data_[buffers_.size() - 1].size(), static_cast<std::size_t>(buffers_.back().size),
                    "elements of " + b.name);
    }
    for (const ArrayDecl& a : program.arrays) {
      std::vector<std::uint32_t> row_major(a.extents.size());
      std::iota(row_major.begin(), row_major.end(), 0);
      arrays_.push_back(storage(a.name, known_shape(a.extents), row_major));
    }
  }

  Actions compile() { return compile(program_.body); }

  /// Call after compile(): only then is the depth of the loops known.
  Frame frame() const {
    Frame frame;
    frame.loops.resize(deepest_);
    frame.values.resize(program_.values.size());
    frame.vars = Scratch(program_.vars.size());
    for (const Storage& array : arrays_) frame.arrays.emplace_back(static_cast<std::size_t>(array.size));
    return frame;
  }

 private:
  void require_count(std::size_t got, std::size_t wanted, const std::string& what) const {
    if (got != wanted)
      throw InternalError(fmt::format("loop program {}: {} {} instead of {}", program_.name, got, what, wanted));
  }

  // ---- affine expressions ----
  /// An extent such as S-2 of a temporary has no elements where S is 1.
  Integers known_shape(const std::vector<Affine>& extents) const {
    Integers shape;
    for (const Affine& extent : extents) shape.push_back(std::max<std::int64_t>(linear(extent).constant, 0));
    return shape;
  }
  std::int64_t argument(std::string_view name) const {
    const auto found = std::ranges::find(program_.arguments, name);
    return arguments_[static_cast<std::size_t>(found - program_.arguments.begin())];
  }
  Linear linear(const Affine& affine) const {
    Linear result{affine.constant(), {}};
    for (const auto& [symbol, coefficient] : affine.terms()) {
      if (symbol.is_value())
        result.values.emplace_back(symbol.number(), coefficient);
      else if (symbol.is_dim())
        result.constant = checked_add(result.constant, checked_mul(coefficient, argument(symbol.name())));
      else
        result.terms.emplace_back(static_cast<std::size_t>(std::ranges::find(loops_, symbol) - loops_.begin()),
                                  coefficient);
    }
    return result;
  }
  std::vector<Linear> linears(const std::vector<Affine>& affines) const {
    std::vector<Linear> result;
    for (const Affine& affine : affines) result.push_back(linear(affine));
    return result;
  }
  std::vector<BoundQuotient> quotients(const std::vector<Bound>& bounds) const {
    std::vector<BoundQuotient> result;
    for (const Bound& bound : bounds) result.push_back({bound.divisor, linear(bound.value)});
    return result;
  }

  // ---- elements ----
  [[noreturn]] void fail(const Frame& frame, const Storage& where, const std::vector<Linear>& subscripts,
                         std::string_view what, const Statement& statement) const {
    Integers values;
    for (const Linear& subscript : subscripts) values.push_back(subscript(frame));
    throw InternalError(fmt::format("loop program {}: {}[{}] {}; its shape is [{}], in `{}`", program_.name, where.name,
                                    fmt::join(values, ", "), what, fmt::join(where.shape, ", "),
                                    describe(program_, statement)));
  }

  /// The offset of an element, checked axis by axis.
  auto element(const Storage& where, const std::vector<Affine>& subscripts) const {
    return [this, &where, indices = linears(subscripts), statement = current_](const Frame& frame) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < indices.size(); ++axis) {
        const std::int64_t index = indices[axis](frame);
        if (index < 0 || index >= where.shape[axis]) fail(frame, where, indices, "lies outside", *statement);
        offset += index * where.strides[axis];
      }
      return static_cast<std::size_t>(offset);
    };
  }

  // ---- operations ----
  Evaluation evaluation(const op::Constant& o) const {
    return [value = o.value](Frame&) { return value; };
  }
  Evaluation evaluation(const op::Number& o) const {
    return [number = linear(o.value)](Frame& frame) { return static_cast<double>(number(frame)); };
  }
  Evaluation evaluation(const op::Load& o) const {
    const auto load = [data = data_[o.buffer].data(), offset = element(buffers_[o.buffer], o.subscripts)](
                          Frame& frame) { return data[offset(frame)]; };
    if (!o.guard) return load;
    return [load, guard = *o.guard](Frame& frame) { return frame.values[guard] != 0 ? load(frame) : 0.0; };
  }
  Evaluation evaluation(const op::Subscript& o) const {
    const Storage& where = buffers_[o.buffer];
    return [this, &where, axis = o.axis, value = linear(o.value), guard = o.guard, statement = current_](Frame& frame) {
      const std::int64_t at = value(frame), extent = where.shape[axis];
      if ((!guard || frame.values[*guard] != 0) && (at < 0 || at >= extent)) {
        throw DataError(
            fmt::format("`{}` is read at {} along axis {}, which has the extent {}, in `{}` of {}; give other "
                        "values, or guard the read with where(...)",
                        where.name, at, axis, extent, describe(program_, *statement), program_.name));
      }
      return static_cast<double>(std::max<std::int64_t>(std::min(at, extent - 1), 0));
    };
  }
  Evaluation evaluation(const op::LoadArray& o) const {
    const Storage& where = arrays_[o.array];
    return [this, &where, id = o.array, offset = element(where, o.subscripts), indices = linears(o.subscripts),
            statement = current_](Frame& frame) {
      const std::size_t i = offset(frame);
      if (!frame.arrays[id].written[i]) fail(frame, where, indices, "is read but was never written", *statement);
      return frame.arrays[id].values[i];
    };
  }
  Evaluation evaluation(const op::ReadVar& o) const {
    return [this, var = o.var, statement = current_](Frame& frame) {
      if (!frame.vars.written[var])
        throw InternalError(fmt::format("loop program {}: acc{} is read but was never set, in `{}`", program_.name, var,
                                        describe(program_, *statement)));
      return frame.vars.values[var];
    };
  }
  Evaluation evaluation(const op::Call& o) const {
    return [reference = o.function->reference, args = o.args](Frame& frame) {
      frame.operands.clear();
      for (const ValueId arg : args) frame.operands.push_back(frame.values[arg]);
      return reference(frame.operands);
    };
  }
  Evaluation evaluation(const op::Convert& o) const {
    return [value = o.value](Frame& frame) { return frame.values[value]; };
  }
  Evaluation evaluation(const op::Random& o) const {
    const PhiloxStream stream(philox_key(static_cast<std::uint64_t>(argument("%seed")), o.stream,
                                         static_cast<std::uint64_t>(argument("%step"))));
    return [kind = o.kind, stream, indices = linears(o.coordinates)](Frame& frame) {
      Integers coordinates;
      for (const Linear& index : indices) coordinates.push_back(index(frame));
      return kind == RandomKind::Uniform ? stream.uniform(coordinates) : stream.normal(coordinates);
    };
  }
  /// One lane combined with no other is itself.
  Evaluation evaluation(const op::CombineLanes& o) const {
    return [value = o.value](Frame& frame) { return frame.values[value]; };
  }

  Evaluation evaluation(const op::PrefixLanes& o) const { return evaluation(op::CombineLanes{o.kind, o.value}); }
  Evaluation evaluation(const op::LastLane& o) const { return evaluation(op::CombineLanes{ReduceKind::Sum, o.value}); }

  // ---- statements ----
  Action step(const stmt::Let& s) const {
    const Evaluation compute =
        std::visit([&](const auto& o) { return evaluation(o); }, program_.values[s.id].operation);
    return [compute, id = s.id](Frame& frame) { frame.values[id] = compute(frame); };
  }
  Action step(const stmt::SetVar& s) const {
    return [var = s.var, value = s.value](Frame& frame) { frame.vars.set(var, frame.values[value]); };
  }
  Action step(const stmt::Store& s) const {
    return [data = data_[s.buffer].data(), value = s.value, offset = element(buffers_[s.buffer], s.subscripts),
            dtype = program_.buffers[s.buffer].dtype](Frame& frame) {
      data[offset(frame)] = stored_value(dtype, frame.values[value]);
    };
  }
  Action step(const stmt::StoreArray& s) const {
    return [array = s.array, value = s.value, offset = element(arrays_[s.array], s.subscripts)](Frame& frame) {
      frame.arrays[array].set(offset(frame), frame.values[value]);
    };
  }
  Action step(const stmt::For& s) {
    const std::size_t depth = loops_.size();
    const auto lows = quotients(s.range.lows), highs = quotients(s.range.highs);
    loops_.push_back(s.variable);
    deepest_ = std::max(deepest_, loops_.size());
    Actions body = compile(s.body);
    loops_.pop_back();
    // Rounds said to be independent run backwards: a loop wrongly marked shows in its results.
    return [depth, lows, highs, backwards = s.parallel, body = std::move(body)](Frame& frame) {
      std::int64_t first = std::numeric_limits<std::int64_t>::min(), last = std::numeric_limits<std::int64_t>::max();
      for (const auto& [divisor, value] : lows) first = std::max(first, ceil_div(value(frame), divisor));
      for (const auto& [divisor, value] : highs) last = std::min(last, floor_div(value(frame), divisor));
      for (std::int64_t i = first; i <= last; ++i) {
        frame.loops[depth] = backwards ? first + last - i : i;
        run(body, frame);
      }
    };
  }
  Action step(const stmt::Check& s) const {
    return [bad = s.bad, value = s.value, check = s.check, coordinates = linears(s.coordinates)](Frame& frame) {
      if (frame.status.failed || frame.values[bad] == 0) return;
      frame.status.failed = 1;
      frame.status.check = check;
      frame.status.value = frame.values[value];
      for (std::size_t i = 0; i < coordinates.size(); ++i) frame.status.coordinates[i] = coordinates[i](frame);
    };
  }

  Actions compile(const Block& block) {
    Actions steps;
    for (const Statement& statement : block) {
      current_ = &statement;
      steps.push_back(std::visit([&](const auto& s) { return step(s); }, statement));
    }
    return steps;
  }

  const LoopProgram& program_;
  std::vector<std::span<double>> data_;
  Integers arguments_;
  std::vector<Storage> buffers_, arrays_;
  std::vector<Symbol> loops_;  // around the statement being compiled
  std::size_t deepest_ = 0;
  const Statement* current_ = nullptr;
};

}  // namespace

KernelStatus interpret(const LoopProgram& program, std::span<const std::span<double>> buffers,
                       std::span<const std::int64_t> arguments) {
  verify(program);
  Compiler compiler(program, buffers, arguments);
  const Actions steps = compiler.compile();
  Frame frame = compiler.frame();
  run(steps, frame);
  return frame.status;
}

}  // namespace moxie
