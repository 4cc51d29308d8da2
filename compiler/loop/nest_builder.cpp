#include "compiler/loop/nest_builder.h"

#include <algorithm>
#include <ranges>

#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/fuse/fold_storage.h"
#include "compiler/loop/paired_rounds.h"
#include "compiler/loop/staging.h"
#include "compiler/rewrite/algebra/algebra.h"
#include "compiler/rewrite/algebra/range_bounds.h"
#include "compiler/rewrite/algebra/scope.h"
#include "compiler/support/error.h"

namespace moxie {

NestBuilder::NestBuilder(LoopProgram& program, const std::map<std::string, BufferId>& buffers, const Program& source)
    : program_(program), buffers_(buffers), source_(source) {
  frames_.push_back({{}, Symbol::bound(0), Symbol::bound(0), {}, {}, {}, {}, {}, {}});
}

void NestBuilder::count_factors(const Expr& expr) {
  alive_.push_back(expr);
  visit(expr, [&](const Expr& e) {
    if (!is_call(e, "*") || !counted_.insert(e.get()).second) return;
    for (const Expr& arg : e->args) ++popularity_[arg.get()];
    for (std::size_t i = 0; i < e->args.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) ++pairs_[std::minmax(e->args[i].get(), e->args[k].get())];
    }
  });
}

// ---- Loops ----

void NestBuilder::open_loop(Symbol index, const Range& range, const std::string& name, LoopTraits traits) {
  frames_.push_back(
      {{}, index, Symbol::bound(next_variable_++), range, std::move(traits), loop_name(name, range), {}, {}, {}});
  if (stages_.empty()) return;
  const IndexDomain domain = domain_at(frames_.size() - 1);
  if (domain.prove_nonnegative(index) != Proof::Holds) return;
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Staged& staged = stages_[i].staged;
    const bool is_box = staged.range == Range::extent(staged.extent);
    if (!is_part_of(range, staged.range) &&
        !(is_box && domain.prove_nonnegative(Affine(staged.extent - 1) - Affine(index)) == Proof::Holds))
      continue;
    frames_.back().staged.emplace(staged.expr->shape_hash, i);
  }
}

std::string NestBuilder::loop_name(const std::string& wanted, const Range& range) const {
  const auto is_open = [&](const std::string& name) {
    return std::ranges::any_of(frames_, [&](const Frame& f) { return f.name == name; });
  };
  if (!wanted.empty() && !is_open(wanted)) return wanted;
  for (const IndexDecl& index : source_.indices) {
    const bool fits = index.range == range || (index.range.highs == range.highs && !range.as_extent());
    if (fits && !is_open(index.name)) return index.name;
  }
  return {};
}

void NestBuilder::know_steps(const FusedProgram& fused, const Definition& definition) {
  for (const std::string& argument : program_.arguments) {
    if (const auto folded = folded_step(argument))
      know_range(Symbol::dim(argument), Range::extent(folded->count));
    else if (argument == kScanStep)
      know_range(Symbol::dim(argument), steps_of(fused, definition));
  }
}

void NestBuilder::close_loop() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  Range range = frame.range;
  for (auto* bounds : {&range.lows, &range.highs}) {
    for (Bound& bound : *bounds) bound.value = resolve(bound.value);
  }
  append(stmt::For{frame.variable, std::move(range), frame.traits.vector, std::move(frame.block), frame.name,
                   frame.traits.parallel, std::move(frame.traits.comment)});
}

void NestBuilder::append(Statement statement) {
  Block& block = frames_.size() == 1 ? program_.body : frames_.back().block;
  block.push_back(std::move(statement));
}

VarId NestBuilder::new_var(ValueType type, bool varying) {
  program_.vars.push_back({type, varying});
  return static_cast<VarId>(program_.vars.size() - 1);
}

ArrayId NestBuilder::new_array(std::string name, ValueType type, std::vector<Affine> extents, bool varying) {
  program_.arrays.push_back(
      {std::move(name), type == ValueType::f32 ? DType::f32 : DType::f64, std::move(extents), varying});
  return static_cast<ArrayId>(program_.arrays.size() - 1);
}

Affine NestBuilder::resolve(const Affine& affine) const {
  std::vector<Affine> replacements;
  replacements.reserve(frames_.size());
  return affine.substitute([&](Symbol symbol) -> const Affine* {
    for (const Frame& frame : frames_) {
      if (frame.index == symbol) return &replacements.emplace_back(frame.variable);
    }
    if (!symbol.is_dim() && !symbol.is_value())
      throw InternalError("an index is used outside its loop: " + symbol.name());
    return nullptr;
  });
}

bool NestBuilder::is_varying(const Expr& expr) const {
  return std::ranges::any_of(frames_,
                             [&](const Frame& frame) { return frame.traits.vector && expr->depends_on(frame.index); });
}

bool NestBuilder::is_varying(const Affine& affine) const {
  return std::ranges::any_of(frames_,
                             [&](const Frame& frame) { return frame.traits.vector && affine.mentions(frame.index); });
}

bool NestBuilder::is_varying(const Range& range) const {
  const auto varies = [&](const Bound& end) { return is_varying(end.value); };
  return std::ranges::any_of(range.lows, varies) || std::ranges::any_of(range.highs, varies);
}

// ---- Reductions and works ----

bool NestBuilder::is_available(const Expr& expr) const {
  return std::ranges::all_of(expr->free_symbols, [this](Symbol symbol) { return is_known(symbol); });
}

bool NestBuilder::is_known(Symbol symbol) const {
  return symbol.is_dim() || std::ranges::any_of(frames_, [&](const Frame& frame) { return frame.index == symbol; });
}

/// Reductions that can be computed here, those inside first. One that stands inside a loop still to be opened is
/// computed before it only if no access needs what that loop says.
void NestBuilder::collect_reductions(const Work& work, std::vector<Reduction>& found) const {
  const InsideProof proof(source_, Inside::Storage);
  const IndexDomain here = domain_at(frames_.size() - 1);
  std::set<std::pair<Key, bool>> seen;
  const std::function<void(const Expr&, ValueType, bool)> walk = [&](const Expr& e, ValueType t, bool inside) {
    if (e->height == 0 || !seen.insert({{e.get(), t}, inside}).second || find_value(e, t)) return;
    for (const Expr& arg : e->args) walk(arg, argument_type(e, t, source_), inside || e->kind == NodeKind::Reduce);
    if (e->kind != NodeKind::Reduce || !is_available(e) || (inside && !proof.holds_within(e, here))) return;
    const bool known = std::ranges::any_of(found, [&](const Reduction& r) { return r.expr == e && r.type == t; });
    if (!known) found.push_back({e, t, work.source, ranged(e)});
  };
  walk(work.body, work.type, !work.loops.empty());
  if (work.position) walk(work.position->expr, work.position->type, false);
}

bool NestBuilder::has_vector_loop() const {
  return std::ranges::any_of(frames_, [](const Frame& frame) { return frame.traits.vector; });
}

bool NestBuilder::reduces_in_lanes() const { return reduction_depth_ + 1 == lanes_depth_ && !has_vector_loop(); }

bool NestBuilder::waits_for(const Expr& expr, const std::vector<Reduction>& pending) const {
  bool waits = false;
  visit(expr, [&](const Expr& e) {
    waits |=
        e->kind == NodeKind::Reduce && std::ranges::any_of(pending, [&](const Reduction& r) { return r.expr == e; });
  });
  return waits;
}

void NestBuilder::build(std::vector<Work> given) {
  std::vector<Work> works = without_masks(std::move(given));
  std::vector<Work*> looping;
  for (Work& work : works) {
    if (!work.loops.empty()) looping.push_back(&work);
  }
  run_loops(works, std::move(looping));
  for (const Work& work : works) {
    if (work.loops.empty()) finish_work(work);
  }
}

void NestBuilder::reduce_before_loops(Work work) { run_loops({std::move(work)}, {}); }

/// The reductions that can be computed here, and the works that have loops of their own.
void NestBuilder::run_loops(const std::vector<Work>& works, std::vector<Work*> looping) {
  std::vector<Reduction> pending;
  for (const Work& work : works) collect_reductions(work, pending);
  while (!pending.empty() || !looping.empty()) {
    std::vector<Reduction> ready;
    for (const Reduction& r : pending) {
      if (std::ranges::none_of(r.expr->args, [&](const Expr& arg) { return waits_for(arg, pending); }))
        ready.push_back(r);
    }
    std::vector<Work*> ready_works;
    for (Work* work : looping) {
      if (!waits_for(work->body, pending)) ready_works.push_back(work);
    }
    // Reductions first: works that wait for them can then share later loops. Of reductions one first whose loop nothing
    // that still waits could share.
    const auto leader = std::ranges::find_if(ready, [&](const Reduction& r) {
      return later_over(r.expr->range, ready, pending, ready_works, looping).is_empty();
    });
    if (leader != ready.end()) std::rotate(ready.begin(), leader, leader + 1);
    const Range range = ready.empty() ? ready_works.front()->loops.front().range : ready.front().expr->range;
    const bool vector = ready.empty() ? ready_works.front()->loops.front().lanes : reduces_in_lanes();
    const bool by_values = !ready.empty() && ready.front().ranged;
    if (!ready.empty())
      std::erase_if(ready, [first = ready.front()](const Reduction& r) { return !r.runs_with(first); });
    std::erase_if(ready_works, [&](const Work* work) {
      return by_values || work->loops.front().range != range || work->loops.front().lanes != vector;
    });
    run_group(range, vector, ready, ready_works, later_over(range, ready, pending, ready_works, looping));
    std::erase_if(pending, [&](const Reduction& p) { return find_value(p.expr, p.type).has_value(); });
    std::erase_if(looping, [&](const Work* work) { return std::ranges::find(ready_works, work) != ready_works.end(); });
  }
}

namespace {

/// Whether rounds of a loop over `index` touch elements of their own.
bool tells_apart(const Work& work, Symbol index) {
  return !work.accumulate || std::ranges::find(work.subscripts, Affine(index)) != work.subscripts.end();
}

}  // namespace

/// "sum for mean (line 4), variance (line 5)"
std::string NestBuilder::comment_on(const std::vector<Reduction>& reductions, const std::vector<Work*>& works) {
  static constexpr const char* kNames[] = {
      "sum", "product", "maximum", "minimum", "log-sum-exp", "position of the maximum", "position of the minimum"};
  constexpr std::size_t kMost = 3;
  std::string text =
      reductions.empty() ? "" : kNames[static_cast<int>(reductions.front().expr->reduce)] + std::string(" for ");
  std::vector<std::string> sources;
  const auto note = [&](const std::string& source) {
    if (!source.empty() && std::ranges::find(sources, source) == sources.end()) sources.push_back(source);
  };
  for (const Reduction& reduction : reductions) note(reduction.source);
  for (const Work* work : works) note(work->source);
  for (std::size_t k = 0; k < std::min(sources.size(), kMost); ++k) text += (k > 0 ? ", " : "") + sources[k];
  if (sources.size() > kMost) text += " and " + std::to_string(sources.size() - kMost) + " more";
  return sources.empty() ? "" : text;
}

/// What stands for the loop that the works share: a symbol of theirs, so that works that have it need no substitution,
/// if it sorts behind those of the loops around.
Symbol NestBuilder::index_for(const std::vector<Work*>& works) const {
  const auto first_symbol = [](const Work* work) { return work->loops.front().symbol; };
  if (works.empty()) return Symbol::fresh();
  const Symbol own = std::ranges::min(works | std::views::transform(first_symbol));
  const bool is_inside = std::ranges::all_of(frames_, [&](const Frame& frame) { return frame.index < own; });
  return is_inside ? own : Symbol::fresh();
}

void NestBuilder::run_group(const Range& range, bool vector, std::vector<Reduction> reductions,
                            std::vector<Work*> works, const Later& later) {
  Symbol index = index_for(works);
  std::vector<Work> inner;
  std::vector<Work> started;
  std::vector<bool> in_lanes;  // of each reduction, whether its lanes are combined after the loop
  drop_extrema_of_searches(reductions);
  for (const Reduction& r : reductions) {
    Work work = work_of(r, index);
    in_lanes.push_back(vector || open_sums_to_lanes(work));
    set_neutral(work, r, in_lanes.back() || is_varying(r.expr));
    started.push_back(work);
    inner.push_back(std::move(work));
  }
  for (const Work* work : works) inner.push_back(inside_first_loop(*work, index));
  const bool parallel =
      reductions.empty() && std::ranges::all_of(inner, [&](const Work& work) { return tells_apart(work, index); });
  // With lanes in an inner loop there is nothing to gain.
  const ValueRange* by_values = !reductions.empty() && reductions[0].ranged ? &reductions[0].ranged->range : nullptr;
  const std::optional<Range> pairs =
      parallel || lanes_are_chosen_ || by_values ? std::nullopt : range_of_pairs(range, inner, index);
  if (pairs) {
    const Symbol pair = Symbol::fresh();
    inner = in_pairs(inner, index, pair);
    index = pair;
  }
  for (const Work& work : inner) count_factors(work.body);
  const std::size_t outer_stages = stages_.size();
  stage(inner, index);
  const std::vector<Stage> kept = kept_for(later, inner, index, range);
  const std::string name = loop_name(works.empty() ? std::string() : works.front()->loops.front().name, range);
  open_loop(index, by_values ? with_values(range, *by_values) : pairs.value_or(range), name,
            {.vector = vector, .parallel = parallel, .comment = comment_on(reductions, works)});
  if (!reductions.empty()) ++reduction_depth_;
  for (const Stage& row : kept) {
    const Expr here = substitute(row.staged.expr, {{row.staged.placeholder, index}});
    append(stmt::StoreArray{row.array, {resolve(index)}, emit(here, row.staged.type)});
  }
  build(std::move(inner));
  if (!reductions.empty()) --reduction_depth_;
  close_loop();
  stages_.erase(stages_.begin() + static_cast<std::ptrdiff_t>(outer_stages), stages_.end());
  stages_.insert(stages_.end(), kept.begin(), kept.end());
  for (std::size_t i = 0; i < reductions.size(); ++i) note_results(reductions[i], started[i], in_lanes[i]);
}

namespace {

/// The element that a search for a position compares, in the type that f32(...) or f64(...) gives it. A single element
/// is compared in single: positions are often computed in double.
std::pair<Expr, ValueType> compared(const Program& source, const Expr& search, ValueType type) {
  const Expr& value = search->args[0];
  if (value->kind == NodeKind::Access && computed_dtype(source.dtype_of(value->tensor)) == DType::f32)
    return {value, ValueType::f32};
  const bool cast = is_call(value, "f32") || is_call(value, "f64");
  return {cast ? value->args[0] : value, cast ? argument_type(value, type, source) : type};
}

/// The extremum that a search finds along with its position.
Expr extremum_of_search(const Expr& search, const Expr& value) {
  const Symbol index = Symbol::fresh();
  return reduce(*extremum_of(search->reduce), index, search->range,
                substitute(value, {{Symbol::bound(search->height), index}}));
}

}  // namespace

void NestBuilder::drop_extrema_of_searches(std::vector<Reduction>& reductions) const {
  std::vector<std::pair<Expr, ValueType>> found;
  for (const Reduction& r : reductions) {
    if (!extremum_of(r.expr->reduce)) continue;
    const auto [value, type] = compared(source_, r.expr, r.type);
    found.emplace_back(extremum_of_search(r.expr, value), type);
  }
  std::erase_if(reductions,
                [&](const Reduction& r) { return std::ranges::find(found, std::pair(r.expr, r.type)) != found.end(); });
}

/// What each iteration of the reduction does, with vars that are still to be made.
Work NestBuilder::work_of(const Reduction& reduction, Symbol index) const {
  const Expr& expr = reduction.expr;
  const Replacement inside = {{Symbol::bound(expr->height), index}};
  const bool searches = extremum_of(expr->reduce).has_value();
  const auto [value, type] =
      searches ? compared(source_, expr, reduction.type) : std::pair(expr->args[0], reduction.type);
  const Expr body = reduction.ranged ? substitute(reduction.ranged->body, {{reduction.ranged->index, index}})
                                     : substitute(value, inside);
  Work work{Work::Target::Var, 0, {}, expr->reduce, type, body, {}, reduction.source};
  if (searches) {
    const Expr position = reduction.ranged ? substitute(reduction.ranged->position, {{reduction.ranged->index, index}})
                                           : substitute(expr->args[1], inside);
    const bool ascends = !reduction.ranged && position == index_value(Affine(index)) && expr->range.lows.size() == 1 &&
                         expr->range.highs.size() == 1 && expr->range.lows[0].divisor == 1 &&
                         expr->range.highs[0].divisor == 1;
    work.position = {0, reduction.type, position, ascends};
  }
  return work;
}

/// Makes the vars of a reduction, and sets them to its neutral element.
void NestBuilder::set_neutral(Work& work, const Reduction& reduction, bool varying) {
  const auto start = [&](ValueId value) {
    const VarId var = new_var(program_.values[value].type, varying);
    append(stmt::SetVar{var, value});
    return var;
  };
  work.id = start(neutral(extremum_of(*work.accumulate).value_or(*work.accumulate), work.type));
  if (!work.position) return;
  const bool begins = reduction.ranged && reduction.ranged->first;
  work.position->var = start(begins ? emit(first_position(*reduction.ranged->first), work.position->type)
                                    : neutral(*work.accumulate, work.position->type));
}

void NestBuilder::know_value(const Expr& expr, ValueId value) {
  alive_.push_back(expr);
  frames_.back().values[{expr.get(), program_.values[value].type}] = value;
}

/// The values of the reduction after its loop; of one in lanes, of all lanes together.
void NestBuilder::note_results(const Reduction& reduction, const Work& work, bool in_lanes) {
  const auto held = [&](VarId var, ValueType type) {
    return emit_operation(op::ReadVar{var}, type, program_.vars[var].varying);
  };
  const auto combined = [&](ReduceKind kind, ValueId value) {
    return in_lanes ? emit_operation(op::CombineLanes{kind, value}, program_.values[value].type, false) : value;
  };
  const Expr& expr = reduction.expr;
  const ValueId best = held(work.id, work.type);
  if (!work.position) return know_value(expr, combined(expr->reduce, best));
  const ValueId extremum = combined(*extremum_of(expr->reduce), best);
  know_value(extremum_of_search(expr, compared(source_, expr, reduction.type).first), extremum);
  ValueId position = held(work.position->var, work.position->type);
  if (in_lanes) {
    // The smallest position of the lanes that hold the extremum.
    const ValueId none = neutral(expr->reduce, work.position->type);
    position = combined(ReduceKind::Min, emit_call("where", {are_same(best, extremum), position, none}));
  }
  if (work.position->ascends) {
    const ValueId first = emit(first_position(expr->range), work.position->type);
    const ValueId none = neutral(expr->reduce, work.position->type);
    position = emit_call("where", {emit_call("<", {position, none}), position, first});
  }
  know_value(expr, position);
}

/// Equal, or both NaN.
ValueId NestBuilder::are_same(ValueId a, ValueId b) {
  const ValueId are_nan = emit_call("and", {emit_call("!=", {a, a}), emit_call("!=", {b, b})});
  return emit_call("or", {emit_call("==", {a, b}), are_nan});
}

/// Reductions of one kind that are nested down to one in lanes accumulate in one var: the lanes are combined once,
/// after the outermost loop. Their loops become the work's own.
bool NestBuilder::open_sums_to_lanes(Work& work) const {
  if (work.position || lanes_depth_ <= reduction_depth_ + 1 || has_vector_loop()) return false;
  Work opened = work;
  for (int depth = reduction_depth_ + 2; depth <= lanes_depth_; ++depth) {
    if (opened.body->kind != NodeKind::Reduce || opened.body->reduce != *work.accumulate) return false;
    const bool lanes = depth == lanes_depth_;
    const OpenedReduce reduce = open(opened.body);
    opened.loops.push_back({reduce.index, reduce.range, "", lanes});
    opened.body = reduce.body;
  }
  work = std::move(opened);
  return true;
}

ValueId NestBuilder::neutral(ReduceKind kind, ValueType type) {
  if (kind == ReduceKind::LogSumExp) throw InternalError("logsumexp must be expanded before lowering");
  return emit(constant(neutral_value(kind)), type);
}

ValueId NestBuilder::combine(ReduceKind kind, ValueId a, ValueId b) {
  static constexpr std::string_view functions[] = {"+", "*", "max", "min"};
  const bool varying = program_.values[a].varying || program_.values[b].varying;
  const ValueType type = program_.values[a].type;
  // Not shared with equal calls elsewhere: `a` is what an accumulator holds right now.
  return place({type, varying, op::Call{&function(functions[static_cast<int>(kind)]), {a, b}}}, frames_.size() - 1);
}

/// What the var holds, combined with the value: so far.
ValueId NestBuilder::continued(const Work::Running& running, ValueId value) {
  const VarDecl var = program_.vars[running.var];
  const ValueId held = emit_operation(op::ReadVar{running.var}, var.type, var.varying);
  if (!frames_.back().traits.vector || var.varying) {
    const ValueId sum = combine(running.kind, held, value);
    append(stmt::SetVar{running.var, sum});
    return sum;
  }
  const ValueId prefix = emit_operation(op::PrefixLanes{running.kind, value}, var.type, true);
  const ValueId all = emit_operation(op::LastLane{prefix}, var.type, false);
  append(stmt::SetVar{running.var, combine(running.kind, held, all)});
  return combine(running.kind, held, prefix);
}

/// moxie::combine() of what is held and the element of this iteration. Where positions ascend, an equal
/// element never replaces what is held; if no element did, all equal the neutral one, and note_results() gives the
/// first.
void NestBuilder::finish_search(const Work& work) {
  const Work::Position& position = *work.position;
  const ValueId value = emit(work.body, work.type);
  const ValueId at = emit(position.expr, position.type);
  const ValueId held = emit_operation(op::ReadVar{work.id}, work.type, program_.vars[work.id].varying);
  const ValueId held_at = emit_operation(op::ReadVar{position.var}, position.type, program_.vars[position.var].varying);
  const bool largest = work.accumulate == ReduceKind::ArgMax;
  const ValueId held_number = emit_call("==", {held, held});
  const ValueId is_better =
      emit_call("and", {emit_call("not", {emit_call(largest ? ">=" : "<=", {held, value})}), held_number});
  const ValueId replaces =
      position.ascends
          ? is_better
          : emit_call("or", {is_better, emit_call("and", {are_same(held, value), emit_call("<", {at, held_at})})});
  append(stmt::SetVar{work.id, emit_call("where", {replaces, value, held})});
  append(stmt::SetVar{position.var, emit_call("where", {replaces, at, held_at})});
}

void NestBuilder::finish_work(const Work& work) {
  if (work.position) return finish_search(work);
  ValueId value = emit(work.body, work.type);
  std::vector<Affine> subscripts;
  for (const Affine& subscript : work.subscripts) subscripts.push_back(resolve(subscript));
  if (work.running) value = continued(*work.running, value);
  if (work.target == Work::Target::Buffer) {
    append(stmt::Store{work.id, std::move(subscripts), value});
    return;
  }
  const auto varies = [&](const Affine& subscript) { return is_varying(subscript); };
  const bool varying = work.target == Work::Target::Var
                           ? program_.vars[work.id].varying
                           : program_.arrays[work.id].varying || std::ranges::any_of(work.subscripts, varies);
  if (work.accumulate) {
    const ValueId held = work.target == Work::Target::Var
                             ? emit_operation(op::ReadVar{work.id}, work.type, varying)
                             : emit_operation(op::LoadArray{work.id, subscripts}, work.type, varying);
    value = combine(*work.accumulate, held, value);
  }
  if (work.target == Work::Target::Var)
    append(stmt::SetVar{work.id, value});
  else
    append(stmt::StoreArray{work.id, std::move(subscripts), value});
}

}  // namespace moxie
