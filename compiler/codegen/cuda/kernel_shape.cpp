#include "compiler/codegen/cuda/kernel_shape.h"

#include <algorithm>
#include <map>

#include "compiler/support/error.h"

namespace moxie::cuda_text {
namespace {

bool runs_over(const stmt::For& loop, const char* low_argument) {
  return loop.range.lows.size() == 1 && loop.range.lows[0].value == Affine(Symbol::dim(low_argument));
}

/// Every access to an array, with the loops around it.
struct ArrayAccess {
  ArrayId array;
  const std::vector<Affine>* subscripts;
  bool store;
  std::vector<const stmt::For*> loops;
};

class Accesses {
 public:
  explicit Accesses(const LoopProgram& program) : program_(program) { collect(program.body); }
  const std::vector<ArrayAccess>& all() const { return all_; }

 private:
  void collect(const Block& block) {
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<stmt::For>(&statement)) {
        loops_.push_back(loop);
        collect(loop->body);
        loops_.pop_back();
      } else if (const auto* store = std::get_if<stmt::StoreArray>(&statement)) {
        all_.push_back({store->array, &store->subscripts, true, loops_});
      } else if (const auto* let = std::get_if<stmt::Let>(&statement)) {
        if (const auto* load = std::get_if<op::LoadArray>(&program_.values.at(let->id).operation)) {
          all_.push_back({load->array, &load->subscripts, false, loops_});
        }
      }
    }
  }

  const LoopProgram& program_;
  std::vector<const stmt::For*> loops_;
  std::vector<ArrayAccess> all_;
};

bool mentions(const std::vector<Affine>& subscripts, Symbol variable) {
  return std::ranges::any_of(subscripts, [&](const Affine& s) { return s.mentions(variable); });
}

bool is_inside(const ArrayAccess& access, const stmt::For* loop) {
  return std::ranges::find(access.loops, loop) != access.loops.end();
}

/// Counts the rounds of the loops over `variables`, outermost first; nothing where a bound is not known.
std::optional<std::int64_t> count_rounds(const std::vector<const stmt::For*>& loops, const std::set<Symbol>& variables,
                                         std::size_t next, std::map<Symbol, Affine>& values) {
  if (next == loops.size()) return 1;
  const stmt::For& loop = *loops[next];
  if (!variables.contains(loop.variable)) return count_rounds(loops, variables, next + 1, values);
  const Range range = loop.range.substitute([&](Symbol s) -> const Affine* {
    const auto it = values.find(s);
    return it == values.end() ? nullptr : &it->second;
  });
  const auto rounds = constant_rounds(range);
  constexpr std::int64_t kMost = 4096;
  if (!rounds || *rounds > kMost) return std::nullopt;
  const std::int64_t first = range.lows[0].value.constant();  // lowest value only matters for counting
  std::int64_t total = 0;
  for (std::int64_t i = 0; i < *rounds && total <= kMost; ++i) {
    values[loop.variable] = Affine(first + i);
    const auto inner = count_rounds(loops, variables, next + 1, values);
    if (!inner) return std::nullopt;
    total += *inner;
  }
  values.erase(loop.variable);
  return total;
}

class ShapeFinder {
 public:
  explicit ShapeFinder(const LoweredKernel& kernel) : kernel_(kernel), program_(kernel.program), accesses_(program_) {}

  KernelShape run() {
    shape_.arrays.resize(program_.arrays.size());
    shape_.has_partials =
        std::ranges::any_of(kernel_.uses, [](const BufferUse& use) { return use.partial.has_value(); });
    shape_.draws_random = draws_random(program_);
    visit_statements(program_.body, [&](const Statement& s) {
      if (const auto* loop = std::get_if<stmt::For>(&s)) classify(*loop);
    });
    shape_.elements = element_loops(kernel_);
    if (shape_.sample_loop) keep_per_thread(*shape_.sample_loop);
    share_out(program_.body);
    for (const stmt::For* loop : shape_.shared_out) keep_per_thread(*loop);
    if (shape_.lanes_reduce) {
      for (ArrayShape& array : shape_.arrays) array.per_thread = true;
    }
    if (!shape_.sample_loop && !shape_.lanes_reduce && program_.arrays.empty())
      shape_.reductions = find_team_reductions(program_, shape_);
    if (!shape_.lanes_reduce && shape_.elements.loops.empty())
      shape_.uniform_reductions = find_uniform_reductions(program_, shape_);
    measure();
    return std::move(shape_);
  }

 private:
  void classify(const stmt::For& loop) {
    const bool over_samples = runs_over(loop, argument::kChunkLow);
    if (loop.vector) {
      shape_.vector_loop = &loop;
      shape_.lanes_reduce = over_samples;
    } else if (over_samples) {
      shape_.sample_loop = &loop;
    }
  }

  /// Arrays that rounds of `loop` store and that its variable does not tell apart.
  void keep_per_thread(const stmt::For& loop) {
    for (const ArrayAccess& access : accesses_.all()) {
      if (access.store && is_inside(access, &loop) && !mentions(*access.subscripts, loop.variable))
        shape_.arrays[access.array].per_thread = true;
    }
  }

  /// The outermost loops of independent rounds that all threads of a row can do without each other.
  void share_out(const Block& block) {
    for (const Statement& statement : block) {
      const auto* loop = std::get_if<stmt::For>(&statement);
      if (!loop || (loop->vector && shape_.lanes_reduce)) continue;
      const bool counted = std::ranges::find(shape_.elements.loops, loop) != shape_.elements.loops.end();
      if (!counted && (loop == shape_.sample_loop || (loop->parallel && stands_alone(*loop)))) {
        shape_.shared_out.insert(loop);
        if (const auto rounds = constant_rounds(loop->range))
          shape_.shared_rounds = std::max(shape_.shared_rounds, *rounds);
      } else {
        share_out(loop->body);
      }
    }
  }

  bool stands_alone(const stmt::For& loop) const {
    bool alone = true;
    visit_statements(loop.body, [&](const Statement& s) {
      if (const auto* store = std::get_if<stmt::Store>(&s)) alone = alone && !kernel_.uses[store->buffer].partial;
    });
    return alone && std::ranges::none_of(accesses_.all(), [&](const ArrayAccess& access) {
             return is_inside(access, &loop) && shape_.arrays[access.array].per_thread;
           });
  }

  void measure() {
    for (const ArrayAccess& access : accesses_.all()) {
      ArrayShape& array = shape_.arrays[access.array];
      for (const Affine& subscript : *access.subscripts) {
        for (const auto& [symbol, coefficient] : subscript.terms()) {
          if (symbol.is_dim())
            array.known_subscripts = false;
          else
            array.variables.insert(symbol);
        }
      }
    }
    for (const ArrayAccess& access : accesses_.all()) {
      ArrayShape& array = shape_.arrays[access.array];
      std::map<Symbol, Affine> values;
      const auto rounds = count_rounds(access.loops, array.variables, 0, values);
      if (!rounds)
        array.known_subscripts = false;
      else if (access.store)
        array.elements = std::max(array.elements, *rounds);
    }
  }

  const LoweredKernel& kernel_;
  const LoopProgram& program_;
  Accesses accesses_;
  KernelShape shape_;
};

}  // namespace

std::optional<std::int64_t> constant_rounds(const Range& range) {
  std::optional<std::int64_t> low, high;
  for (const Bound& bound : range.lows) {
    if (!bound.value.is_constant()) return std::nullopt;
    const std::int64_t value = ceil_div(bound.value.constant(), bound.divisor);
    low = low ? std::max(*low, value) : value;
  }
  for (const Bound& bound : range.highs) {
    if (!bound.value.is_constant()) return std::nullopt;
    const std::int64_t value = floor_div(bound.value.constant(), bound.divisor);
    high = high ? std::min(*high, value) : value;
  }
  if (!low || !high) return std::nullopt;
  return std::max<std::int64_t>(0, *high - *low + 1);
}

std::size_t lane_axis(const LoopProgram& program, BufferId table, Symbol vector) {
  for (const Value& value : program.values) {
    const auto* load = std::get_if<op::Load>(&value.operation);
    if (!load || load->buffer != table) continue;
    const auto axis = std::ranges::find(load->subscripts, Affine(vector));
    if (axis != load->subscripts.end()) return static_cast<std::size_t>(axis - load->subscripts.begin());
  }
  throw InternalError("no lane reads the table " + program.buffers.at(table).name);
}

bool searches_terms(const LoweredKernel& kernel) {
  return !kernel.threads && kernel.chunks && kernel.chunks->repeats_work;
}

KernelShape kernel_shape(const LoweredKernel& kernel) { return ShapeFinder(kernel).run(); }

/// Threads with scratch in common wait for each other, so that none may leave rounds out.
CountedLoops element_loops(const LoweredKernel& kernel) {
  if (kernel.tiles) return {};
  const bool may_wait = !kernel.program.arrays.empty();
  CountedLoops counted;
  for (const stmt::For* loop = only_loop(kernel.program.body); loop && loop->parallel && counted.add(*loop);
       loop = only_loop(loop->body)) {
    if (may_wait && !has_all_rounds(*loop)) return {};
    if (loop->vector) return counted;
  }
  return {};
}

std::vector<Range> element_ranges(const LoweredKernel& kernel) {
  if (searches_terms(kernel)) return {};
  if (kernel.tiles) return {kernel.tiles->range};
  std::vector<Range> ranges;
  for (const Affine& rounds : element_loops(kernel).rounds) ranges.push_back(Range::extent(rounds));
  return ranges;
}

std::vector<Range> chunked_ranges(const LoweredKernel& kernel) {
  if (kernel.team == 0) return {kernel.chunks->range};
  const KernelShape shape = kernel_shape(kernel);
  const auto& [outermost, reduction] = *shape.reductions.begin();
  if (reduction.counted.loops.empty()) return {outermost->range};
  std::vector<Range> ranges;
  for (const Affine& rounds : reduction.counted.rounds) ranges.push_back(Range::extent(rounds));
  return ranges;
}

std::optional<std::int64_t> constant_elements(const LoweredKernel& kernel) {
  std::int64_t elements = 1;
  for (const Range& range : element_ranges(kernel)) {
    const auto rounds = constant_rounds(range);
    if (!rounds) return std::nullopt;
    elements = checked_mul(elements, *rounds);
  }
  return elements;
}

}  // namespace moxie::cuda_text
