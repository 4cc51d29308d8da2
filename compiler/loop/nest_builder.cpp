#include "compiler/loop/nest_builder.h"

#include <algorithm>
#include <limits>
#include <numbers>

#include "compiler/ir/functions.h"
#include "compiler/loop/progression.h"
#include "compiler/loop/staging.h"
#include "compiler/rewrite/algebra.h"
#include "compiler/support/error.h"

namespace moxie {

ValueType value_type(DType dtype) { return dtype == DType::f32 ? ValueType::f32 : ValueType::f64; }

namespace {

bool is_truth(const Expr& expr) { return expr->kind == NodeKind::Call && expr->function->result == ResultType::Truth; }

}  // namespace

NestBuilder::NestBuilder(LoopProgram& program, const std::map<std::string, BufferId>& buffers, const Program& source)
    : program_(program), buffers_(buffers), source_(source) {
  frames_.push_back({{}, Symbol::fresh(), Symbol::bound(0), {}, {}, {}, {}, {}, {}});
}

void NestBuilder::count_factors(const Expr& expr) {
  alive_.push_back(expr);
  visit(expr, [&](const Expr& e) {
    if (is_call(e, "*") && counted_.insert(e.get()).second) {
      for (const Expr& arg : e->args) ++popularity_[arg.get()];
    }
  });
}

// ---- Loops ----

void NestBuilder::open_loop(Symbol index, const Range& range, const std::string& name, LoopTraits traits) {
  frames_.push_back({{}, index, Symbol::bound(next_variable_++), range, traits, loop_name(name, range), {}, {}, {}});
  if (stages_.empty()) return;
  const IndexDomain domain = domain_at(frames_.size() - 1);
  if (domain.prove_nonnegative(index) != Proof::Holds) return;
  for (const Stage& stage : stages_) {
    if (domain.prove_nonnegative(Affine(stage.staged.extent - 1) - Affine(index)) != Proof::Holds) continue;
    const Expr here = substitute(stage.staged.expr, {{stage.staged.placeholder, index}});
    alive_.push_back(here);
    frames_.back().staged[{here.get(), stage.staged.type}] = stage.array;
  }
}

/// Whether all loads stay inside their tensors for the whole extent, which inner loops need not run through.
bool NestBuilder::is_safe_everywhere(const Staged& staged) const {
  IndexDomain domain = domain_at(frames_.size() - 1);
  domain.add_range(staged.placeholder, Range::extent(staged.extent));
  return InsideProof(source_, Inside::Storage).holds_within(staged.expr, domain);
}

/// Computes beforehand what inner loops would compute again in every round of a loop over `index`.
void NestBuilder::stage(const std::vector<Work>& works, Symbol index) {
  const std::function<bool(Symbol)> known = [this](Symbol symbol) { return is_known(symbol); };
  for (const Work& work : works) {
    for (Staged& staged : find_staged(work.body, work.type, index, known)) {
      const auto same = [&](const Stage& stage) {
        return stage.staged.type == staged.type && stage.staged.extent >= staged.extent &&
               substitute(stage.staged.expr, {{stage.staged.placeholder, staged.placeholder}}) == staged.expr;
      };
      if (std::ranges::any_of(stages_, same) || !is_safe_everywhere(staged)) continue;
      const ArrayId array = new_array("stage", staged.type, {staged.extent}, is_varying(staged.expr));
      open_loop(staged.placeholder, Range::extent(staged.extent), {}, {.parallel = true, .comment = "beforehand, for " + work.source});
      count_factors(staged.expr);
      const ValueId value = emit(staged.expr, staged.type);
      append(stmt::StoreArray{array, {resolve(staged.placeholder)}, value});
      close_loop();
      stages_.push_back({std::move(staged), array});
    }
  }
}

std::string NestBuilder::loop_name(const std::string& wanted, const Range& range) const {
  const auto is_open = [&](const std::string& name) { return std::ranges::any_of(frames_, [&](const Frame& f) { return f.name == name; }); };
  if (!wanted.empty() && !is_open(wanted)) return wanted;
  for (const IndexDecl& index : source_.indices) {
    const bool fits = index.range == range || (index.range.highs == range.highs && !range.as_extent());
    if (fits && !is_open(index.name)) return index.name;
  }
  return {};
}

void NestBuilder::close_loop() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  Range range = frame.range;
  for (auto* bounds : {&range.lows, &range.highs}) {
    for (Bound& bound : *bounds) bound.value = resolve(bound.value);
  }
  append(stmt::For{frame.variable, std::move(range), frame.traits.vector, std::move(frame.block), frame.name, frame.traits.parallel, std::move(frame.traits.comment)});
}

void NestBuilder::append(Statement statement) {
  Block& block = frames_.size() == 1 ? program_.body : frames_.back().block;
  block.push_back(std::move(statement));
}

VarId NestBuilder::new_var(ValueType type, bool varying) {
  program_.vars.push_back({type, varying});
  return static_cast<VarId>(program_.vars.size() - 1);
}

ArrayId NestBuilder::new_array(std::string name, ValueType type, std::vector<std::int64_t> extents, bool varying) {
  program_.arrays.push_back({std::move(name), type == ValueType::f32 ? DType::f32 : DType::f64, std::move(extents), varying});
  return static_cast<ArrayId>(program_.arrays.size() - 1);
}

Affine NestBuilder::resolve(const Affine& affine) const {
  std::vector<Affine> replacements;
  replacements.reserve(frames_.size());
  return affine.substitute([&](Symbol symbol) -> const Affine* {
    for (const Frame& frame : frames_) {
      if (frame.index == symbol) return &replacements.emplace_back(frame.variable);
    }
    if (!symbol.is_dim()) throw InternalError("an index is used outside its loop: " + symbol.name());
    return nullptr;
  });
}

bool NestBuilder::is_varying(const Expr& expr) const {
  return std::ranges::any_of(frames_, [&](const Frame& frame) { return frame.traits.vector && expr->depends_on(frame.index); });
}

bool NestBuilder::is_varying(const Affine& affine) const {
  return std::ranges::any_of(frames_, [&](const Frame& frame) { return frame.traits.vector && affine.mentions(frame.index); });
}

// ---- Placing values ----

std::size_t NestBuilder::depth_of(const Affine& affine) const {
  for (std::size_t depth = frames_.size(); depth-- > 1;) {
    if (affine.mentions(frames_[depth].index)) return depth;
  }
  return 0;
}

std::optional<ValueId> NestBuilder::find_value(const Expr& expr, ValueType type) const {
  for (std::size_t depth = frames_.size(); depth-- > 0;) {
    const auto it = frames_[depth].values.find({expr.get(), type});
    if (it != frames_[depth].values.end()) return it->second;
  }
  return std::nullopt;
}

std::size_t NestBuilder::depth_of(const Expr& expr, ValueType type) {
  if (const auto id = find_value(expr, type)) return value_depth_[*id];
  std::size_t depth = 0;
  for (std::size_t d = frames_.size(); d-- > 1 && depth == 0;) {
    if (expr->depends_on(frames_[d].index)) depth = d;
  }
  if (expr->kind == NodeKind::Reduce) return depth;
  for (const Expr& arg : expr->args) depth = std::max(depth, depth_of(arg, argument_type(expr, type)));
  return depth;
}

ValueId NestBuilder::place(Value value, std::size_t depth) {
  const auto id = static_cast<ValueId>(program_.values.size());
  program_.values.push_back(std::move(value));
  value_depth_.push_back(depth);
  Block& block = depth == 0 ? program_.body : frames_[depth].block;
  block.push_back(stmt::Let{id});
  return id;
}

ValueId NestBuilder::place_call(const ScalarFunction& f, std::vector<ValueId> args, ValueType type) {
  std::size_t depth = 0;
  bool varying = false;
  for (const ValueId arg : args) {
    depth = std::max(depth, value_depth_[arg]);
    varying |= program_.values[arg].varying;
  }
  auto& calls = frames_[depth].calls;
  const std::pair key(&f, args);
  if (const auto it = calls.find(key); it != calls.end()) return it->second;
  const ValueType result = f.result == ResultType::Truth ? ValueType::truth : type;
  return calls[key] = place({result, varying, op::Call{&f, std::move(args)}}, depth);
}

ValueId NestBuilder::emit_call(std::string_view name, std::vector<ValueId> args) {
  const ValueType type = program_.values[args.back()].type;
  return place_call(function(name), std::move(args), type);
}

ValueId NestBuilder::emit_operation(Operation operation, ValueType type, bool varying) {
  return place({type, varying, std::move(operation)}, frames_.size() - 1);
}

// ---- Expressions ----

ValueId NestBuilder::emit(const Expr& expr, ValueType type) {
  if (const auto id = find_value(expr, type)) return *id;
  const ValueId id = emit_node(expr, type);
  alive_.push_back(expr);
  frames_[value_depth_[id]].values[{expr.get(), type}] = id;
  return id;
}

std::optional<ValueId> NestBuilder::read_staged(const Expr& expr, ValueType type) {
  for (std::size_t depth = frames_.size(); depth-- > 1;) {
    const auto it = frames_[depth].staged.find({expr.get(), type});
    if (it == frames_[depth].staged.end()) continue;
    return place({type, program_.arrays[it->second].varying, op::LoadArray{it->second, {Affine(frames_[depth].variable)}}}, depth);
  }
  return std::nullopt;
}

ValueId NestBuilder::emit_node(const Expr& expr, ValueType type) {
  if (const auto staged = read_staged(expr, type)) return *staged;
  switch (expr->kind) {
    case NodeKind::Constant: return place({type, false, op::Constant{expr->value}}, 0);
    case NodeKind::IndexValue:
      return place({type, is_varying(expr->affine), op::Number{resolve(expr->affine)}}, depth_of(expr->affine));
    case NodeKind::Access: return emit_access(expr, type);
    case NodeKind::Call: return emit_call_node(expr, type);
    case NodeKind::Random: {
      std::vector<Affine> coordinates;
      std::size_t depth = 0;
      for (const Affine& coordinate : expr->subscripts) {
        coordinates.push_back(resolve(coordinate));
        depth = std::max(depth, depth_of(coordinate));
      }
      return place({type, is_varying(expr), op::Random{expr->random, expr->stream, std::move(coordinates)}}, depth);
    }
    case NodeKind::Reduce: throw InternalError("a reduction is used before it is computed");
    case NodeKind::LinearAlgebra: throw InternalError("linear algebra stands inside an expression; it must be the root of a definition");
  }
  throw InternalError("unknown kind of expression");
}

/// What is known of the indices of the outermost `depth` loops.
IndexDomain NestBuilder::domain_at(std::size_t depth) const {
  IndexDomain domain({});
  for (std::size_t d = 1; d <= depth; ++d) {
    const auto piece = std::ranges::find(pieces_, frames_[d].range, &std::pair<Range, Range>::first);
    domain.add_range(frames_[d].index, piece == pieces_.end() ? frames_[d].range : piece->second);
  }
  return domain;
}

/// A load leaves a loop only where it needs nothing that the loop says: the loop may have no rounds.
ValueId NestBuilder::emit_access(const Expr& access, ValueType type) {
  std::size_t depth = depth_of(access, type);
  const InsideProof proof(source_, Inside::Storage);
  while (depth + 1 < frames_.size() && !proof.holds(access, domain_at(depth))) ++depth;
  return place_load(access, type, depth, std::nullopt);
}

ValueId NestBuilder::emit_guarded_access(const Expr& access, ValueType type, const Expr& condition, ValueId guard) {
  std::size_t depth = std::max(depth_of(access, type), value_depth_[guard]);
  const InsideProof proof(source_, Inside::Storage);
  while (depth + 1 < frames_.size() && !proof.holds(access, domain_at(depth).where(condition, true))) ++depth;
  return place_load(access, type, depth, guard);
}

ValueId NestBuilder::place_load(const Expr& access, ValueType type, std::size_t depth, std::optional<ValueId> guard) {
  const auto buffer = buffers_.find(access->tensor);
  if (buffer == buffers_.end()) throw InternalError("no buffer for tensor " + access->tensor);
  op::Load load{buffer->second, {}, guard};
  for (const Affine& subscript : access->subscripts) load.subscripts.push_back(resolve(subscript));
  const bool varying = is_varying(access) || (guard && program_.values[*guard].varying);
  return place({type, varying, std::move(load)}, depth);
}

ValueId NestBuilder::emit_call_node(const Expr& expr, ValueType type) {
  const ValueType inner = argument_type(expr, type);
  if (is_call(expr, "f32") || is_call(expr, "f64")) {
    const ValueId value = emit(expr->args[0], inner);
    return inner == type ? value : place({type, program_.values[value].varying, op::Convert{value}}, value_depth_[value]);
  }
  if (is_call(expr, "+") || is_call(expr, "*")) return emit_chain(expr, type);
  if (is_call(expr, "exp")) {
    if (const auto value = emit_progression(expr, type)) return *value;
  }
  if (is_call(expr, "exp") && (is_call(expr->args[0], "*") || is_call(expr->args[0], "neg"))) {
    // A product is rounded anyway: the factor log2(e) joins the part of it that stays fixed in the loop.
    const Expr exponent = scaled(expr->args[0], std::numbers::log2e);
    alive_.push_back(exponent);
    count_factors(exponent);
    return place_call(function("exp2"), {emit(exponent, type)}, type);
  }
  if (is_call(expr, "where")) {
    const ValueId condition = emit_condition(expr->args[0], type);
    // Only what the condition admits may be read.
    if (expr->args[1]->kind == NodeKind::Access && expr->args[2]->is_constant(0)) {
      return emit_guarded_access(expr->args[1], type, expr->args[0], condition);
    }
    return place_call(*expr->function, {condition, emit(expr->args[1], type), emit(expr->args[2], type)}, type);
  }
  if (is_truth(expr)) return emit_condition(expr, type);
  std::vector<ValueId> args;
  for (const Expr& arg : expr->args) args.push_back(emit(arg, inner));
  return place_call(*expr->function, std::move(args), type);
}

ValueId NestBuilder::emit_condition(const Expr& expr, ValueType type) {
  const ValueType inner = argument_type(expr, type);
  std::vector<ValueId> args;
  for (const Expr& arg : expr->args) args.push_back(is_truth(arg) ? emit_condition(arg, type) : emit(arg, inner));
  return place_call(*expr->function, std::move(args), inner);
}

/// A var holds what the round is to find; each round leaves to the next what that is to find.
std::optional<ValueId> NestBuilder::emit_progression(const Expr& exponential, ValueType type) {
  const auto innermost = std::ranges::find_if(frames_.rbegin(), frames_.rend() - 1, [&](const Frame& frame) { return exponential->depends_on(frame.index); });
  if (innermost == frames_.rend() - 1 || innermost->traits.vector || innermost->traits.parallel) return std::nullopt;
  const auto depth = static_cast<std::size_t>(frames_.rend() - innermost) - 1;
  const auto progression = progression_of(exponential, frames_[depth].index, frames_[depth].range, type);
  if (!progression) return std::nullopt;
  alive_.insert(alive_.end(), {progression->first, progression->factor});
  const ValueId first = emit(progression->first, type);
  const ValueId factor = emit(progression->factor, type);
  const bool varying = program_.values[first].varying || program_.values[factor].varying;
  const VarId var = new_var(type, varying);
  Block& before = depth == 1 ? program_.body : frames_[depth - 1].block;
  before.push_back(stmt::SetVar{var, first});
  const ValueId value = place({type, varying, op::ReadVar{var}}, depth);
  const ValueId next = place({type, varying, op::Call{&function("*"), {value, factor}}}, depth);
  frames_[depth].block.push_back(stmt::SetVar{var, next});
  return value;
}

/// Sums and products associate from the outermost loop inwards, so that what is fixed in a loop is combined before it.
ValueId NestBuilder::emit_chain(const Expr& expr, ValueType type) {
  struct Operand {
    ValueId id;
    std::size_t depth;
    int popularity;
  };
  std::vector<Operand> operands;
  for (const Expr& arg : expr->args) {
    const ValueId id = emit(arg, type);
    const auto popular = popularity_.find(arg.get());
    operands.push_back({id, value_depth_[id], popular == popularity_.end() ? 0 : popular->second});
  }
  std::ranges::stable_sort(operands, [](const Operand& a, const Operand& b) {
    return a.depth != b.depth ? a.depth < b.depth : a.popularity > b.popularity;
  });
  ValueId result = operands[0].id;
  for (std::size_t i = 1; i < operands.size(); ++i) result = place_call(*expr->function, {result, operands[i].id}, type);
  return result;
}

// ---- Reductions and works ----

bool NestBuilder::is_available(const Expr& expr) const {
  return std::ranges::all_of(expr->free_symbols, [this](Symbol symbol) { return is_known(symbol); });
}

bool NestBuilder::is_known(Symbol symbol) const {
  return symbol.is_dim() || std::ranges::any_of(frames_, [&](const Frame& frame) { return frame.index == symbol; });
}

/// Reductions that can be computed here, those inside first. One that stands inside a loop still to be opened is computed before it only if no access
/// needs what that loop says.
void NestBuilder::collect_reductions(const Work& work, std::vector<Reduction>& found) const {
  const InsideProof proof(source_, Inside::Storage);
  const IndexDomain here = domain_at(frames_.size() - 1);
  std::set<std::pair<Key, bool>> seen;
  const std::function<void(const Expr&, ValueType, bool)> walk = [&](const Expr& e, ValueType t, bool inside) {
    if (e->height == 0 || !seen.insert({{e.get(), t}, inside}).second || find_value(e, t)) return;
    for (const Expr& arg : e->args) walk(arg, argument_type(e, t), inside || e->kind == NodeKind::Reduce);
    if (e->kind != NodeKind::Reduce || !is_available(e) || (inside && !proof.holds_within(e, here))) return;
    const bool known = std::ranges::any_of(found, [&](const Reduction& r) { return r.expr == e && r.type == t; });
    if (!known) found.push_back({e, t, work.source});
  };
  walk(work.body, work.type, !work.loops.empty());
}

bool NestBuilder::waits_for(const Expr& expr, const std::vector<Reduction>& pending) const {
  bool waits = false;
  visit(expr, [&](const Expr& e) {
    waits |= e->kind == NodeKind::Reduce && std::ranges::any_of(pending, [&](const Reduction& r) { return r.expr == e; });
  });
  return waits;
}

void NestBuilder::build(std::vector<Work> works) {
  std::vector<Reduction> pending;
  for (const Work& work : works) collect_reductions(work, pending);
  std::vector<Work*> looping;
  for (Work& work : works) {
    if (!work.loops.empty()) looping.push_back(&work);
  }
  while (!pending.empty() || !looping.empty()) {
    std::vector<Reduction> ready;
    for (const Reduction& r : pending) {
      if (!waits_for(r.expr->args[0], pending)) ready.push_back(r);
    }
    std::vector<Work*> ready_works;
    for (Work* work : looping) {
      if (!waits_for(work->body, pending)) ready_works.push_back(work);
    }
    // Reductions first: works that wait for them can then share later loops.
    const Range range = ready.empty() ? ready_works.front()->loops.front().range : ready.front().expr->range;
    std::erase_if(ready, [&](const Reduction& r) { return r.expr->range != range; });
    std::erase_if(ready_works, [&](const Work* work) { return work->loops.front().range != range; });
    run_group(range, ready, ready_works);
    std::erase_if(pending, [&](const Reduction& p) { return find_value(p.expr, p.type).has_value(); });
    std::erase_if(looping, [&](const Work* work) { return std::ranges::find(ready_works, work) != ready_works.end(); });
  }
  for (const Work& work : works) {
    if (work.loops.empty()) finish_work(work);
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
  static constexpr const char* kNames[] = {"sum", "product", "maximum", "minimum"};
  constexpr std::size_t kMost = 3;
  std::string text = reductions.empty() ? "" : kNames[static_cast<int>(reductions.front().expr->reduce)] + std::string(" for ");
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

void NestBuilder::run_group(const Range& range, std::vector<Reduction> reductions, std::vector<Work*> works) {
  const Symbol index = Symbol::fresh();
  std::vector<Work> inner;
  std::vector<VarId> vars;
  for (const Reduction& r : reductions) {
    const VarId var = new_var(r.type, is_varying(r.expr));
    append(stmt::SetVar{var, neutral(r.expr->reduce, r.type)});
    vars.push_back(var);
    const Expr body = substitute(r.expr->args[0], {{Symbol::bound(r.expr->height), index}});
    count_factors(body);
    inner.push_back({Work::Target::Var, var, {}, r.expr->reduce, r.type, body, {}, r.source});
  }
  for (const Work* work : works) {
    Work next = *work;
    const Symbol local = next.loops.front().symbol;
    const Affine replacement(index);
    const auto lookup = [&](Symbol s) { return s == local ? &replacement : nullptr; };
    next.loops.erase(next.loops.begin());
    for (LoopIndex& loop : next.loops) loop.range = loop.range.substitute(lookup);
    for (Affine& subscript : next.subscripts) subscript = subscript.substitute(lookup);
    next.body = substitute(next.body, {{local, index}});
    count_factors(next.body);
    inner.push_back(std::move(next));
  }
  const std::size_t outer_stages = stages_.size();
  stage(inner, index);
  const bool parallel = reductions.empty() && std::ranges::all_of(inner, [&](const Work& work) { return tells_apart(work, index); });
  open_loop(index, range, works.empty() ? std::string() : works.front()->loops.front().name,
            {.parallel = parallel, .comment = comment_on(reductions, works)});
  build(std::move(inner));
  close_loop();
  stages_.erase(stages_.begin() + static_cast<std::ptrdiff_t>(outer_stages), stages_.end());
  for (std::size_t i = 0; i < reductions.size(); ++i) {
    const ValueId id = emit_operation(op::ReadVar{vars[i]}, reductions[i].type, program_.vars[vars[i]].varying);
    alive_.push_back(reductions[i].expr);
    frames_.back().values[{reductions[i].expr.get(), reductions[i].type}] = id;
  }
}

ValueId NestBuilder::neutral(ReduceKind kind, ValueType type) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::Sum: return emit(constant(0), type);
    case ReduceKind::Product: return emit(constant(1), type);
    case ReduceKind::Max: return emit(constant(-infinity), type);
    case ReduceKind::Min: return emit(constant(infinity), type);
    case ReduceKind::LogSumExp: break;
  }
  throw InternalError("logsumexp must be expanded before lowering");
}

ValueId NestBuilder::combine(ReduceKind kind, ValueId a, ValueId b) {
  static constexpr std::string_view functions[] = {"+", "*", "max", "min"};
  const bool varying = program_.values[a].varying || program_.values[b].varying;
  const ValueType type = program_.values[a].type;
  // Not shared with equal calls elsewhere: `a` is what an accumulator holds right now.
  return place({type, varying, op::Call{&function(functions[static_cast<int>(kind)]), {a, b}}}, frames_.size() - 1);
}

void NestBuilder::finish_work(const Work& work) {
  ValueId value = emit(work.body, work.type);
  std::vector<Affine> subscripts;
  for (const Affine& subscript : work.subscripts) subscripts.push_back(resolve(subscript));
  if (work.target == Work::Target::Buffer) {
    append(stmt::Store{work.id, std::move(subscripts), value});
    return;
  }
  const bool varying = work.target == Work::Target::Var ? program_.vars[work.id].varying : program_.arrays[work.id].varying;
  if (work.accumulate) {
    const ValueId held = work.target == Work::Target::Var ? emit_operation(op::ReadVar{work.id}, work.type, varying)
                                                          : emit_operation(op::LoadArray{work.id, subscripts}, work.type, varying);
    value = combine(*work.accumulate, held, value);
  }
  if (work.target == Work::Target::Var) append(stmt::SetVar{work.id, value});
  else append(stmt::StoreArray{work.id, std::move(subscripts), value});
}

}  // namespace moxie
