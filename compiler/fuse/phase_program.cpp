#include "compiler/fuse/phase_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/rewrite/algebra/scope.h"

namespace moxie {
namespace {

Expr compared(const char* relation, const Affine& a, const Affine& b) {
  return call(relation, {index_value(a), index_value(b)});
}
Expr chosen(const Expr& condition, const Expr& yes, const Expr& no) { return call("where", {condition, yes, no}); }

std::vector<Affine> axes_from(std::size_t count, std::uint32_t first = 0) {
  std::vector<Affine> axes;
  for (std::uint32_t k = 0; k < count; ++k) axes.emplace_back(Symbol::axis(first + k));
  return axes;
}

class PhaseProgram {
 public:
  PhaseProgram(const Phases& phases, int number, const ChunkDims& dims)
      : phases_(phases),
        timed_(phases.timed),
        number_(number),
        phase_(phases.phases[static_cast<std::size_t>(number)]),
        dims_(dims),
        first_(Symbol::dim(dims.axis.first)),
        count_(dims.axis.count.empty() ? Affine(dims.axis.block) : Affine(Symbol::dim(dims.axis.count))) {
    result_ = timed_.program;
    result_.definitions.clear();
    for (const std::string& dim : {dims.axis.first, dims.axis.count, dims.numbers.slots}) {
      if (!dim.empty()) result_.dims.push_back({dim, std::nullopt, true});
    }
    slices_.axes = {dims.axis};
    slices_.numbers = dims.numbers;
    slices_.backwards = phase_.backwards;
  }

  ProgramPart run() {
    for (const Definition& definition : timed_.program.definitions) {
      if (!phase_.computes.contains(definition.name)) continue;
      result_.definitions.push_back(timed_.is_sum(definition.name) ? sum_of_chunk(definition) : in_chunk(definition));
    }
    for (const Definition& definition : timed_.program.definitions) {
      if (!phase_.computes.contains(definition.name)) continue;
      if (timed_.is_sum(definition.name)) add_up(definition);
      if (phase_.whole.contains(definition.name)) store_whole(definition);
      const auto stored = phases_.stored.find({number_, definition.name});
      if (stored != phases_.stored.end()) store_steps(definition, stored->second);
    }
    return {std::move(result_), std::move(slices_), std::move(results_), {}, std::move(behind_)};
  }

 private:
  // ---- Names and tensors ----

  std::string fresh(const std::string& stem) const {
    std::string name = unused_name(timed_.program, stem);
    const auto is_taken = [&] { return result_.find_input(name) || result_.find_definition(name); };
    for (int k = 1; is_taken(); ++k) name = fmt::format("{}.{}", stem, k);
    return name;
  }

  /// Adds what a chunk leaves behind in `whole`, from the elements on that these dims count.
  void add_result(Definition chunk, Definition whole, std::vector<std::string> first) {
    chunk.output = true;
    slices_.views[chunk.name] = {whole.name, std::move(first)};
    result_.definitions.push_back(std::move(chunk));
    whole.body = constant(0);
    results_.push_back(std::move(whole));
  }

  /// A part of `tensor` that a chunk reads, under a new name.
  std::string add_view(const std::string& stem, const std::string& tensor, std::vector<std::string> first, DType dtype,
                       ValueDomain domain, std::vector<Affine> shape) {
    const auto [known, is_new] = views_.emplace(stem, "");
    if (!is_new) return known->second;
    known->second = fresh(stem);
    result_.inputs.push_back({known->second, dtype, std::move(shape), domain});
    slices_.views[known->second] = {tensor, std::move(first)};
    return known->second;
  }

  static Definition derived(const Definition& from, std::string name) {
    Definition definition = from;
    definition.name = std::move(name);
    definition.output = false;
    definition.role = {};
    definition.scan.reset();
    definition.recomputed = false;
    return definition;
  }

  static void put_axis_first(Definition& definition, const std::string& wanted, const Affine& extent) {
    std::string name = wanted;
    while (std::ranges::count(definition.axes, name, &AxisDecl::name) > 0) name += "_";
    Replacement shifted;
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k)
      shifted.emplace_back(Symbol::axis(k), Affine(Symbol::axis(k + 1)));
    const auto lookup = [&](Symbol symbol) -> const Affine* {
      const auto it = std::ranges::find(shifted, symbol, &std::pair<Symbol, Affine>::first);
      return it == shifted.end() ? nullptr : &it->second;
    };
    for (AxisDecl& axis : definition.axes) axis.range = axis.range.substitute(lookup);
    definition.axes.insert(definition.axes.begin(), {std::move(name), extent, Range::extent(extent)});
  }

  /// The definition with its axis of time first, over `steps` steps of which the first is `start`.
  Definition with_time_first(const Definition& definition, std::string name, const Affine& steps, const Affine& start) {
    Definition result = derived(definition, std::move(name));
    const std::uint32_t time = timed_.axes.at(definition.name);
    AxisDecl axis = result.axes[time];
    axis.extent = steps;
    axis.range = Range::extent(steps);
    result.axes.erase(result.axes.begin() + time);
    result.axes.insert(result.axes.begin(), axis);
    std::vector<Affine> moved;
    for (std::uint32_t k = 0; k < result.axes.size(); ++k)
      moved.push_back(k == time ? Affine(Symbol::axis(0)) + start : Affine(Symbol::axis(k < time ? k + 1 : k)));
    const auto lookup = [&](Symbol symbol) {
      return symbol.kind() == Symbol::Kind::Axis ? &moved.at(symbol.number()) : nullptr;
    };
    for (std::size_t k = 1; k < result.axes.size(); ++k) result.axes[k].range = result.axes[k].range.substitute(lookup);
    return result;
  }

  /// The element of a definition with an axis of time where its copy with time first has its own.
  std::vector<Affine> at_step(const Definition& definition, const Affine& step) const {
    std::vector<Affine> subscripts = axes_from(definition.axes.size() - 1, 1);
    subscripts.insert(subscripts.begin() + timed_.axes.at(definition.name), step);
    return subscripts;
  }

  // ---- What a chunk computes ----

  Definition in_chunk(const Definition& given) {
    const std::uint32_t time = timed_.axes.at(given.name);
    Definition definition = derived(given, given.name);
    definition.scan = given.scan;
    definition.recomputed = given.recomputed;
    if (definition.scan) definition.scan->checkpoints.reset();
    const Affine now = Affine(Symbol::axis(time)) + first_;
    for (AxisDecl& axis : definition.axes)
      axis.range = axis.range.substitute([&](Symbol s) { return s == Symbol::axis(time) ? &now : nullptr; });
    definition.axes[time].extent = count_;
    definition.axes[time].range = Range::extent(count_);
    definition.body = in_chunk(given.body, Symbol::axis(time));
    return definition;
  }

  Definition sum_of_chunk(const Definition& given) {
    Definition definition = derived(given, given.name);
    definition.dtype = dtype_of_sum(given);
    const OpenedSum sum = open_sum(timed_, given.body);
    const Symbol time = sum.loops[sum.time].index;
    const Affine now = Affine(time) + first_;
    definition.body = in_chunk(sum.summand(), time);
    for (std::size_t k = sum.loops.size(); k-- > 0;) {
      const Range& range = sum.loops[k].range;
      const Range in_loop = k == sum.time ? range_of_chunk(range)
                                          : range.substitute([&](Symbol s) { return s == time ? &now : nullptr; });
      definition.body = reduce(ReduceKind::Sum, sum.loops[k].index, in_loop, definition.body);
    }
    return definition;
  }

  /// Where sums are added up in double, so are those of chunks.
  DType dtype_of_sum(const Definition& sum) const {
    const bool in_double = timed_.program.precision == Precision::Accurate && computed_dtype(sum.dtype) == DType::f32;
    return in_double ? DType::f64 : sum.dtype;
  }

  Range range_of_chunk(const Range& range) const {
    Range part = Range::extent(count_);
    if (range == Range::extent(timed_.clock.steps)) return part;
    for (const Bound& low : range.lows) part.lows.push_back({low.divisor, low.value - first_ * low.divisor});
    for (const Bound& high : range.highs) part.highs.push_back({high.divisor, high.value - first_ * high.divisor});
    return part;
  }

  /// The body at the step `time` of the chunk.
  Expr in_chunk(const Expr& body, Symbol time) {
    const Symbol local = Symbol::fresh();
    const Expr at_local = read_in_chunk(body, time, local);
    return substitute(substitute(at_local, {{time, Affine(local) + first_}}), {{local, Affine(time)}});
  }

  /// `now` is the step in all of time, `local` that of the chunk.
  Expr read_in_chunk(const Expr& expr, Symbol now, Symbol local) {
    if (expr->kind != NodeKind::Access) {
      const Expr inner = map_children(expr, [&](const Expr& child) { return read_in_chunk(child, now, local); });
      const bool is_moved = expr->kind == NodeKind::Reduce && mentions(expr->range, now);
      return is_moved ? within_time(inner, now) : inner;
    }
    std::vector<Expr> values;
    for (const Expr& value : expr->args) values.push_back(read_in_chunk(value, now, local));
    const bool is_here = timed_.is_timed(expr->tensor) && phase_.computes.contains(expr->tensor);
    if (is_here) {
      if (const auto offset = offset_of(timed_, expr, Affine(now))) return near(expr, values, local, *offset);
    }
    const std::vector<Affine> shape = timed_.program.shape_of(expr->tensor);
    const bool is_slice = !shape.empty() && shape[0] == timed_.clock.steps && expr->subscripts[0] == Affine(now);
    if (is_slice) {
      const Expr slice = slice_of(expr, std::move(values), shape, local);
      return slice->depends_on(now) ? within_time(slice, now) : slice;
    }
    const Expr access = tensor_access(expr->tensor, expr->subscripts, std::move(values));
    add_whole_input(expr->tensor, shape);
    return access->depends_on(now) ? within_time(access, now) : access;
  }

  /// Chunks end where time does: no range of a chunk says so to those who look for what stands outside of a tensor.
  Expr within_time(const Expr& expr, Symbol now) const {
    return chosen(compared("<", now, timed_.clock.steps), expr, constant(0));
  }

  /// At a step of this chunk, or of those next to it.
  Expr near(const Expr& access, const std::vector<Expr>& values, Symbol local, std::int64_t offset) {
    const std::uint32_t time = timed_.axes.at(access->tensor);
    const Affine step = Affine(local) + Affine(offset);
    std::vector<Affine> subscripts = access->subscripts;
    subscripts[time] = step;
    const Expr here = tensor_access(access->tensor, subscripts, values);
    if (offset == 0) return here;
    const bool is_before = offset < 0;
    const std::string halo = halo_of(*timed_.program.find_definition(access->tensor), is_before);
    subscripts.erase(subscripts.begin() + time);
    const Affine place = is_before ? step + Affine(steps_in(halo)) : step - count_;
    subscripts.insert(subscripts.begin(), place);
    const Expr there = tensor_access(halo, subscripts, values);
    return is_before ? chosen(compared(">=", step, 0), here, there) : chosen(compared("<", step, count_), here, there);
  }

  std::int64_t steps_in(const std::string& halo) const { return result_.find_input(halo)->shape[0].constant(); }

  Expr slice_of(const Expr& access, std::vector<Expr> values, std::vector<Affine> shape, Symbol local) {
    shape[0] = count_;
    const std::string& tensor = access->tensor;
    const std::string name = add_view(tensor + ".chunk", tensor, {dims_.axis.first}, timed_.program.dtype_of(tensor),
                                      timed_.program.domain_of(tensor), std::move(shape));
    std::vector<Affine> subscripts = access->subscripts;
    subscripts[0] = local;
    return tensor_access(name, std::move(subscripts), std::move(values));
  }

  void add_whole_input(const std::string& tensor, const std::vector<Affine>& shape) {
    if (result_.find_input(tensor) || result_.find_definition(tensor)) return;
    result_.inputs.push_back({tensor, timed_.program.dtype_of(tensor), shape, timed_.program.domain_of(tensor)});
  }

  // ---- What a chunk leaves to others ----

  std::string store_name(int phase, const std::string& tensor) const {
    const char* stem = phases_.stored.at({phase, tensor}).checkpoints ? "checkpoints" : "carry";
    return unused_name(timed_.program, fmt::format("{}.{}.{}", stem, tensor, phase));
  }

  /// The input that holds the steps of a tensor next to this chunk.
  std::string halo_of(const Definition& definition, bool is_before) {
    const Halo& halo = (is_before ? phase_.before : phase_.later).at(definition.name);
    const StoredSteps& stored = phases_.stored.at({halo.writer, definition.name});
    const std::string& slot =
        stored.checkpoints ? (is_before ? dims_.numbers.number : dims_.numbers.next) : dims_.numbers.other;
    std::vector<Affine> shape = {stored.steps};
    for (std::uint32_t k = 0; k < definition.axes.size(); ++k) {
      if (k != timed_.axes.at(definition.name)) shape.push_back(definition.axes[k].extent);
    }
    return add_view(definition.name + (is_before ? ".before" : ".later"), store_name(halo.writer, definition.name),
                    {slot}, definition.dtype, definition.domain, std::move(shape));
  }

  /// The last steps of the chunk, or the first ones where the phase goes back; those of the chunks before it where it
  /// is shorter.
  void store_steps(const Definition& definition, const StoredSteps& stored) {
    const Affine steps(stored.steps);
    const Affine step = phase_.backwards ? Affine(Symbol::axis(0)) : Affine(Symbol::axis(0)) + count_ - steps;
    Definition part = with_time_first(definition, fresh(definition.name + ".stored"), steps,
                                      phase_.backwards ? first_ : first_ + count_ - steps);
    part.body = tensor_access(definition.name, at_step(definition, step));
    if (!count_.is_constant() || count_.constant() < stored.steps) {
      std::vector<Affine> there = axes_from(definition.axes.size());
      there[0] = phase_.backwards ? step - count_ : Affine(Symbol::axis(0)) + count_;
      const Expr other = tensor_access(halo_of(definition, !phase_.backwards), there);
      part.body = phase_.backwards ? chosen(compared("<", step, count_), part.body, other)
                                   : chosen(compared(">=", step, 0), part.body, other);
    }
    Definition whole = with_time_first(definition, store_name(number_, definition.name), steps, 0);
    for (std::size_t k = 1; k < whole.axes.size(); ++k) whole.axes[k].range = Range::extent(whole.axes[k].extent);
    const Affine slots = stored.checkpoints ? Affine(Symbol::dim(dims_.numbers.slots)) : Affine(2);
    put_axis_first(whole, "slot", slots);
    const std::string& slot = !stored.checkpoints ? dims_.numbers.turn
                              : phase_.backwards  ? dims_.numbers.number
                                                  : dims_.numbers.next;
    add_result(std::move(part), std::move(whole), {slot});
  }

  void store_whole(const Definition& definition) {
    const bool is_permuted = timed_.axes.at(definition.name) != 0;
    Definition part = with_time_first(definition, fresh(definition.name + ".whole"), count_, first_);
    part.body = tensor_access(definition.name, at_step(definition, Symbol::axis(0)));
    const std::string name =
        is_permuted ? unused_name(timed_.program, definition.name + ".in_chunks") : definition.name;
    Definition whole = with_time_first(definition, name, timed_.clock.steps, 0);
    if (is_permuted) {
      Definition copy = definition;
      std::vector<Affine> subscripts = axes_from(definition.axes.size());
      std::rotate(subscripts.begin(), subscripts.begin() + timed_.axes.at(definition.name),
                  subscripts.begin() + timed_.axes.at(definition.name) + 1);
      copy.body = tensor_access(name, std::move(subscripts));
      behind_.push_back(std::move(copy));
    }
    add_result(std::move(part), std::move(whole), {dims_.axis.first});
  }

  /// A sum over time is added up from chunk to chunk.
  void add_up(const Definition& sum) {
    const std::string name = unused_name(timed_.program, sum.name + ".by_chunks");
    std::vector<Affine> shape;
    for (const AxisDecl& axis : sum.axes) shape.push_back(axis.extent);
    const std::string before = add_view(sum.name + ".before", name, {dims_.numbers.other}, dtype_of_sum(sum),
                                        ValueDomain::Any, std::move(shape));
    const Expr is_first =
        phase_.backwards ? compared("==", first_ + count_, timed_.clock.steps) : compared("==", first_, 0);
    Definition part = derived(sum, fresh(sum.name + ".so_far"));
    part.dtype = dtype_of_sum(sum);
    const std::vector<Affine> own = axes_from(sum.axes.size());
    part.body = chosen(is_first, constant(0), tensor_access(before, own)) + tensor_access(sum.name, own);
    Definition whole = derived(part, name);
    put_axis_first(whole, "slot", 2);
    Definition final = derived(sum, sum.name);
    std::vector<Affine> last = own;
    last.insert(last.begin(), 0);
    final.body = tensor_access(name, std::move(last));
    if (!timed_.clock.steps.is_constant())
      final.body = chosen(compared(">=", timed_.clock.steps, 1), final.body, constant(0));
    behind_.push_back(std::move(final));
    add_result(std::move(part), std::move(whole), {dims_.numbers.turn});
  }

  const Phases& phases_;
  const TimedProgram& timed_;
  const int number_;
  const Phase& phase_;
  const ChunkDims& dims_;
  const Affine first_, count_;
  Program result_;
  Slices slices_;
  std::vector<Definition> results_, behind_;
  std::map<std::string, std::string> views_;  // their names by stems
};

std::string unused_dim(const Program& program, const std::string& stem) {
  std::string name = stem;
  for (int k = 1; program.find_dim(name); ++k) name = fmt::format("{}.{}", stem, k);
  return name;
}

}  // namespace

ChunkDims chunk_dims(const Program& program, const Clock& clock) {
  const auto dim = [&](const char* stem) { return unused_dim(program, fmt::format("{}.{}", stem, clock.name)); };
  const std::int64_t block = clock.checkpoints.every ? clock.checkpoints.every->constant() : 0;
  SliceAxis axis{clock.name, clock.steps, block, dim("first"), ""};
  const bool is_even = block > 0 && clock.steps.is_constant() && clock.steps.constant() % block == 0;
  if (!is_even) axis.count = dim("count");
  return {std::move(axis), {dim("chunk"), dim("next_chunk"), dim("turn"), dim("other_turn"), dim("chunks")}};
}

ProgramPart phase_program(const Phases& phases, int number, const ChunkDims& dims) {
  return PhaseProgram(phases, number, dims).run();
}

}  // namespace moxie
