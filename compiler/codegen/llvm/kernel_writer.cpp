#include "compiler/codegen/llvm/kernel_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "compiler/expression/reductions.h"
#include "compiler/loop/lane_count.h"
#include "compiler/loop/lower.h"
#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

/// The words of a KernelStatus, in the order of its fields.
enum StatusWord : int { kFailed = 0, kCheck = 1, kCoordinates = 2, kOffendingValue = 6 };
static_assert(offsetof(KernelStatus, check) == 8 * kCheck && offsetof(KernelStatus, coordinates) == 8 * kCoordinates &&
              offsetof(KernelStatus, value) == 8 * kOffendingValue);

/// A scratch array as if it were a buffer; lanes are its last and fastest axis.
BufferDecl as_buffer(const ArrayDecl& array, int lanes) {
  BufferDecl buffer;
  buffer.shape.assign(array.extents.begin(), array.extents.end());
  if (array.varying) buffer.shape.emplace_back(lanes);
  buffer.layout.resize(buffer.shape.size());
  std::iota(buffer.layout.begin(), buffer.layout.end(), 0U);
  return buffer;
}

std::string var_name(VarId var, int copy) {
  return copy == 0 ? fmt::format("%var{}", var) : fmt::format("%var{}.{}", var, copy);
}

}  // namespace

Scalar scalar_of(ValueType type) {
  if (type == ValueType::truth) return Scalar::i1;
  if (type == ValueType::index) return Scalar::i64;
  return type == ValueType::f32 ? Scalar::f32 : Scalar::f64;
}

KernelWriter::KernelWriter(const LoopProgram& program, const LanePlan& plan)
    : program_(program),
      plan_(plan),
      ir_(plan.avx512),
      addressing_(ir_),
      memory_(ir_, addressing_, plan.lanes),
      elements_(ir_, plan.converts),
      values_(program.values.size()),
      lines_(statement_lines(program)) {}

std::string KernelWriter::write() {
  label("entry");
  for (std::size_t i = 0; i < program_.arguments.size(); ++i) {
    addressing_.open(Symbol::dim(program_.arguments[i]), {Scalar::i64, 1, fmt::format("%argument{}", i)});
  }
  allocate_vars();
  for (const BufferDecl& buffer : program_.buffers) buffer_strides_.push_back(addressing_.strides(buffer));
  for (const ArrayDecl& array : program_.arrays)
    array_strides_.push_back(addressing_.strides(as_buffer(array, plan_.lanes)));
  write(program_.body);
  ir_.line("ret void");
  return ir_.text();
}

void KernelWriter::allocate_vars() {
  for (VarId i = 0; i < program_.vars.size(); ++i) {
    const VarDecl& var = program_.vars[i];
    for (int copy = 0; copy < plan_.var_copies.at(i); ++copy)
      ir_.line(fmt::format("{} = alloca {}", var_name(i, copy), type_name(scalar_of(var.type), lanes_of(var.varying))));
  }
}

// ---- helpers ----

const Val& KernelWriter::operand(ValueId id) const {
  const std::optional<Val>& value = values_.at(id);
  if (!value) throw InternalError(fmt::format("kernel {}: value {} is used before it is computed", program_.name, id));
  return *value;
}

std::optional<Symbol> KernelWriter::lane_variable() const {
  return round_ ? std::optional(round_->variable) : std::nullopt;
}

Place KernelWriter::buffer_place(BufferId buffer, const std::vector<Affine>& subscripts) {
  return {fmt::format("%buffer{}", buffer), scalar_of(program_.buffers.at(buffer).dtype),
          addressing_.offset(subscripts, buffer_strides_.at(buffer), lane_variable())};
}

Place KernelWriter::array_place(ArrayId array, const std::vector<Affine>& subscripts) {
  const ArrayDecl& decl = program_.arrays.at(array);
  Offset offset = addressing_.offset(subscripts, array_strides_.at(array), lane_variable());
  if (decl.varying) offset.step.constant = 1;
  return {fmt::format("%array{}", array), scalar_of(decl.dtype), std::move(offset)};
}

Val KernelWriter::read_var(VarId var) {
  const VarDecl& decl = program_.vars.at(var);
  const Scalar type = scalar_of(decl.type);
  const int lanes = lanes_of(decl.varying);
  return ir_.raw(type, lanes, fmt::format("load {}, ptr {}", type_name(type, lanes), var_name(var, copy_of(var))));
}

void KernelWriter::set_var(VarId var, const Val& value) {
  ir_.line(fmt::format("store {}, ptr {}", typed(value), var_name(var, copy_of(var))));
}

int KernelWriter::copy_of(VarId var) const {
  const auto holds = [&](const Accumulation& partial) { return partial.var == var || partial.position == var; };
  return std::ranges::any_of(partials_, holds) ? copy_ : 0;
}

void KernelWriter::jump(const std::string& label) { ir_.line("br label %" + label); }

void KernelWriter::branch(const Val& condition, const std::string& yes, const std::string& no,
                          std::string_view metadata) {
  ir_.line(fmt::format("br i1 {}, label %{}, label %{}{}", condition.text, yes, no, metadata));
}

// ---- statements ----

/// Under masks lanes gather and scatter: a run would access elements of inactive lanes.
void KernelWriter::write(const Block& block) {
  std::vector<LaneRun> runs;
  if (round_ && !active()) runs = lane_runs(program_, block, round_->variable, plan_.lanes);
  std::vector<bool> in_run(block.size());
  for (const LaneRun& run : runs) {
    for (const std::size_t statement : run.statements) in_run[statement] = true;
  }
  for (std::size_t k = 0; k < block.size(); ++k) {
    const auto line = lines_.find(&block[k]);
    marks_.open(ir_.text().size(), line == lines_.end() ? std::vector<int>{} : std::vector<int>{line->second});
    if (!in_run[k]) write(block[k]);
    for (const LaneRun& run : runs) {
      if (run.place() == k) write_run(block, run);
    }
    marks_.close(ir_.text().size());
  }
}

void KernelWriter::write(const Statement& statement) {
  std::visit([this](const auto& s) { write(s); }, static_cast<const Statement::variant&>(statement));
}

void KernelWriter::write_run(const Block& block, const LaneRun& run) {
  if (run.stores) {
    const auto& first = std::get<stmt::Store>(block[run.statements[0]]);
    std::vector<Val> values;
    for (const std::size_t k : run.statements)
      values.push_back(ir_.splat(operand(std::get<stmt::Store>(block[k]).value), plan_.lanes));
    memory_.store_run(buffer_place(first.buffer, first.subscripts), values);
    return;
  }
  const ValueId first = std::get<stmt::Let>(block[run.statements[0]]).id;
  const auto& load = std::get<op::Load>(program_.values.at(first).operation);
  const std::vector<Val> values = memory_.load_run(buffer_place(load.buffer, load.subscripts), run.statements.size());
  for (std::size_t k = 0; k < values.size(); ++k) values_[std::get<stmt::Let>(block[run.statements[k]]).id] = values[k];
}

void KernelWriter::write(const stmt::Let& s) {
  const Value& value = program_.values.at(s.id);
  const Val result = std::visit([&](const auto& o) { return emit(value, o); }, value.operation);
  values_[s.id] = ir_.splat(result, lanes_of(value.varying));
  if (value.type == ValueType::index) addressing_.set(Symbol::value(s.id), *values_[s.id]);
}

void KernelWriter::write(const stmt::SetVar& s) {
  Val value = ir_.splat(operand(s.value), lanes_of(program_.vars.at(s.var).varying));
  const bool keeps_inactive = (plan_.var_outlives_round.at(s.var) || divergent_ > 0) && value.lanes > 1;
  if (keeps_inactive && active()) value = ir_.select(*active(), value, read_var(s.var));
  set_var(s.var, value);
}

void KernelWriter::write(const stmt::Store& s) {
  const Place place = buffer_place(s.buffer, s.subscripts);
  const Val value = elements_.element(operand(s.value), program_.buffers.at(s.buffer).dtype);
  memory_.store(place, ir_.splat(value, lanes_of(round_.has_value())), active());
}

/// An array of uniform values ends where it ends. Of others whole vectors are stored, also in a partial round, with
/// what inactive lanes held if that is used outside: a processor may not hand on a masked store to a load that follows.
void KernelWriter::write(const stmt::StoreArray& s) {
  const Place place = array_place(s.array, s.subscripts);
  const bool in_row =
      std::ranges::any_of(s.subscripts, [&](const Affine& subscript) { return lane_step(subscript) != 0; });
  const bool varying = program_.arrays.at(s.array).varying;
  Val value = ir_.splat(ir_.convert(operand(s.value), place.type), lanes_of(in_row || varying));
  const bool keeps_inactive = plan_.array_outlives_round.at(s.array) || divergent_ > 0;
  if (varying && !in_row && keeps_inactive && active() && value.lanes > 1)
    value = ir_.select(*active(), value, memory_.load(place, true, std::nullopt, std::nullopt));
  memory_.store(place, value, in_row ? active() : std::nullopt);
}

namespace {

/// Pieces of the vector loop begin at a multiple of the lanes.
bool begins_at_lanes(const Range& range, int lanes) {
  return std::ranges::all_of(range.lows, [&](const Bound& low) {
    const bool is_piece =
        low.value == Affine(Symbol::dim(argument::kTileLow)) || low.value == Affine(Symbol::dim(argument::kChunkLow));
    return low.divisor == 1 && (is_piece || (low.value.is_constant() && low.value.constant() % lanes == 0));
  });
}

/// Whether the first `count` lanes are active, and no others.
Val first_lanes(int lanes, std::int64_t count) {
  std::string text;
  for (int lane = 0; lane < lanes; ++lane)
    text += fmt::format("{}i1 {}", lane == 0 ? "" : ", ", lane < count ? "true" : "false");
  return {Scalar::i1, lanes, "<" + text + ">"};
}

}  // namespace

void KernelWriter::write(const stmt::For& s) {
  if (is_divergent(s)) return write_divergent(s);
  const auto trips = constant_trip_count(s.range);
  if (trips == 0) return;
  if (const auto only = only_iteration(s.range); only && !trips && !s.vector) return write_if(s, *only);
  const Val first = addressing_.first(s.range), last = addressing_.last(s.range);
  const std::int64_t lanes = lanes_of(s.vector);
  const bool has_tail = lanes > 1 && (!trips || *trips % lanes != 0);
  if (has_tail && s.interleave == 1 && count_statements(s.body) > kMaxStatementsTwice) {
    const Val end = ir_.binary("add nsw", last, integer(lanes - 1));
    const auto steps = trips ? std::optional(ceil_div(*trips, lanes)) : std::nullopt;
    in_blocks(s, {first, end, lanes, steps}, [&](const Steps& block) {
      return repeat(block, [&](const Val& i) { write_iteration(s, i, Partial{active_lanes(i, last), last}); });
    });
    return;
  }
  const Val rest = in_blocks(s, {first, last, lanes, trips ? std::optional(*trips / lanes) : std::nullopt},
                             [&](const Steps& block) { return write_whole(s, block); });
  if (!has_tail) return;
  if (trips) return write_iteration(s, rest, Partial{first_lanes(plan_.lanes, *trips % lanes), last});
  const std::string tail = ir_.fresh("tail"), after = ir_.fresh("after");
  branch(ir_.icmp("sle", rest, last), tail, after);
  label(tail);
  write_iteration(s, rest, Partial{active_lanes(rest, last), last});
  jump(after);
  label(after);
}

/// A loop that has this iteration or none.
void KernelWriter::write_if(const stmt::For& s, std::int64_t iteration) {
  const Val index = integer(iteration);
  const std::string inside = ir_.fresh("inside"), after = ir_.fresh("after");
  branch(addressing_.contains(s.range, iteration), inside, after);
  label(inside);
  write_iteration(s, index, std::nullopt);
  jump(after);
  label(after);
}

namespace {

/// Terms that are added one after the other before their sum is added to the others.
constexpr std::int64_t kBlock = 128;

}  // namespace

/// Writes the steps, and where they add to vars, block by block: of n terms, a sum of singles that takes one after the
/// other has an error of n roundings of what is there, one of blocks of kBlock + n/kBlock. Returns the index after
/// them.
Val KernelWriter::in_blocks(const stmt::For& s, const Steps& steps,
                            const std::function<Val(const Steps&)>& write_steps) {
  const bool is_short = steps.count && *steps.count <= 2 * kBlock * s.interleave;
  const std::vector<VarId> sums = is_short ? std::vector<VarId>{} : running_sums(program_, s.body);
  if (sums.empty()) return write_steps(steps);
  const std::int64_t length = kBlock * s.interleave * steps.width;
  const Val end = ir_.binary("add nsw", steps.last, integer(length - steps.width));
  repeat({steps.first, end, length, std::nullopt}, [&](const Val& index) {
    const Val last = ir_.binary("add nsw", index, integer(length - 1));
    std::vector<Val> held;
    for (const VarId var : sums) {
      held.push_back(read_var(var));
      set_var(var, ir_.number(Scalar::f32, held.back().lanes, 0));
    }
    write_steps({index, ir_.select(ir_.icmp("slt", last, steps.last), last, steps.last), steps.width, std::nullopt});
    for (std::size_t k = 0; k < sums.size(); ++k)
      set_var(sums[k], emit_function(ir_, "+", {held[k], read_var(sums[k])}));
  });
  const Val trips = ir_.binary("add nsw", ir_.binary("sub nsw", steps.last, steps.first), integer(1));
  const Val whole = ir_.binary("mul nsw", ir_.binary("sdiv", trips, integer(steps.width)), integer(steps.width));
  const Val covered = ir_.select(ir_.icmp("sgt", whole, integer(0)), whole, integer(0));
  return ir_.binary("add nsw", steps.first, covered);
}

/// The iterations that need no masks: as many at once as the loop says, then one by one. Returns the index after them.
Val KernelWriter::write_whole(const stmt::For& s, const Steps& steps) {
  const auto write_one = [&](const Val& index) { write_iteration(s, index, std::nullopt); };
  if (s.interleave == 1) return repeat(steps, write_one);
  const auto write_copies = [&](const Val& index) {
    for (copy_ = 0; copy_ < s.interleave; ++copy_)
      write_one(copy_ == 0 ? index : ir_.binary("add nsw", index, integer(copy_ * steps.width)));
    copy_ = 0;
  };
  const auto count = [&](std::int64_t number) { return steps.count ? std::optional(number) : std::nullopt; };
  const std::int64_t known = steps.count.value_or(0);
  partials_ = accumulations(program_, s.body);
  const Val rest = repeat(
      {steps.first, steps.last, s.interleave * steps.width, count(known / s.interleave)}, write_copies,
      [&] { start_partials(s.interleave); }, [&] { combine_partials(s.interleave); });
  partials_.clear();
  return repeat({rest, steps.last, steps.width, count(known % s.interleave)}, write_one);
}

void KernelWriter::start_partials(int count) {
  const auto start = [&](VarId id, double value) {
    const VarDecl& var = program_.vars.at(id);
    const Val neutral = ir_.number(scalar_of(var.type), lanes_of(var.varying), value);
    for (copy_ = 1; copy_ < count; ++copy_) set_var(id, neutral);
  };
  for (const Accumulation& partial : partials_) {
    start(partial.var, neutral_value(partial.kind));
    if (partial.position) start(*partial.position, neutral_value(*position_of(partial.kind)));
  }
  copy_ = 0;
}

/// Halves the number of partial results until one is left.
void KernelWriter::combine_partials(int count) {
  for (const Accumulation& partial : partials_) {
    if (partial.position) {
      combine_searches(partial, count);
      continue;
    }
    std::vector<Val> values;
    for (copy_ = 0; copy_ < count; ++copy_) values.push_back(read_var(partial.var));
    copy_ = 0;
    for (; values.size() > 1; values.resize((values.size() + 1) / 2))
      for (std::size_t low = 0, high = (values.size() + 1) / 2; high < values.size(); ++low, ++high)
        values[low] = emit_function(ir_, folding_function(partial.kind), {values[low], values[high]});
    set_var(partial.var, values[0]);
  }
}

/// Takes what the other copies found into the first one: moxie::combine().
void KernelWriter::combine_searches(const Accumulation& search, int count) {
  const auto make = [&](std::string_view function, const std::vector<Val>& args) {
    return emit_function(ir_, function, args);
  };
  Val best = read_var(search.var), at = read_var(*search.position);
  for (copy_ = 1; copy_ < count; ++copy_) {
    const Val other = read_var(search.var), other_at = read_var(*search.position);
    const Val is_better = make("and", {make("not", {make(search.kind == ReduceKind::Max ? ">=" : "<=", {best, other})}),
                                       make("==", {best, best})});
    const Val are_nan = make("and", {make("!=", {best, best}), make("!=", {other, other})});
    const Val are_same = make("or", {make("==", {best, other}), are_nan});
    const Val replaces = make("or", {is_better, make("and", {are_same, make("<", {other_at, at})})});
    best = ir_.select(replaces, other, best);
    at = ir_.select(replaces, other_at, at);
  }
  copy_ = 0;
  set_var(search.var, best);
  set_var(*search.position, at);
}

/// Loops are written with the test at the end, so that what does not vary can be moved out of them without a copy of
/// the test. `enter` and `leave` write what is done once before and after if there are iterations. Returns the index
/// after them.
Val KernelWriter::repeat(const Steps& steps, const std::function<void(const Val&)>& body,
                         const std::function<void()>& enter, const std::function<void()>& leave) {
  if (steps.count == 0) return steps.first;
  const Val last = steps.width == 1 ? steps.last : ir_.binary("sub nsw", steps.last, integer(steps.width - 1));
  const LoopLabels labels{ir_.fresh("before"), ir_.fresh("enter"), ir_.fresh("body"),
                          ir_.fresh("latch"),  ir_.fresh("leave"), ir_.fresh("after")};
  jump(labels.before);
  label(labels.before);
  if (steps.count) {
    jump(labels.enter);
  } else {
    branch(ir_.icmp("sle", steps.first, last), labels.enter, labels.after);
  }
  label(labels.enter);
  enter();
  jump(labels.body);
  label(labels.body);
  const Val next{Scalar::i64, 1, "%" + ir_.fresh("next")};
  const auto index_from = [&](const std::string& first, const std::string& later) {
    return ir_.raw(Scalar::i64, 1,
                   fmt::format("phi i64 [ {}, %{} ], [ {}, %{} ]", steps.first.text, first, next.text, later));
  };
  const Val index = index_from(labels.enter, labels.latch);
  body(index);
  jump(labels.latch);
  label(labels.latch);
  ir_.line(fmt::format("{} = add nsw i64 {}, {}", next.text, index.text, steps.width));
  branch(ir_.icmp("sle", next, last), labels.body, labels.leave);
  label(labels.leave);
  leave();
  jump(labels.after);
  label(labels.after);
  return steps.count ? next : index_from(labels.before, labels.leave);
}

void KernelWriter::write_iteration(const stmt::For& s, const Val& index, const std::optional<Partial>& partial) {
  const bool diverges = s.vector && has_divergent_loops(s.body, s.variable);
  if (s.vector)
    round_ = Round{
        s.variable, partial ? std::optional(partial->active) : std::nullopt, begins_at_lanes(s.range, plan_.lanes), {}};
  if (diverges) {
    Val last = ir_.binary("add nsw", index, integer(plan_.lanes - 1));
    if (partial) last = ir_.select(ir_.icmp("slt", last, partial->last), last, partial->last);
    round_->last_lane = Symbol::fresh();
    addressing_.open(*round_->last_lane, last);
  }
  addressing_.open(s.variable, index);
  if (const auto values = values_of(s.range, known_)) known_.insert_or_assign(s.variable, *values);
  if (round_ && !s.vector && !constant_trip_count(s.range)) prefetch_rows(s);
  write(s.body);
  known_.erase(s.variable);
  addressing_.close();
  if (diverges) addressing_.close();
  if (s.vector) round_.reset();
}

namespace {

/// Rows ahead: a row takes some hundred cycles, about as long as memory does for a few.
constexpr std::int64_t kRowsAhead = 4;
/// The processor's own prefetching follows smaller steps.
constexpr std::int64_t kFarBytes = 1024;

}  // namespace

/// A loop over samples walks down columns one vector wide. Where a row is longer than a quarter of a page, no
/// prefetcher follows, so the lines that later rounds read and write are asked for here.
void KernelWriter::prefetch_rows(const stmt::For& s) {
  const auto prefetch = [&](BufferId id, const std::vector<Affine>& subscripts, bool write) {
    const BufferDecl& buffer = program_.buffers.at(id);
    Coefficient step;
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      if (subscripts[axis].mentions_value()) return;  // nobody knows the next row
      if (subscripts[axis].mentions(s.variable)) step = buffer_strides_.at(id).at(axis);
    }
    const std::int64_t bytes = step.constant * bytes_of(buffer.dtype);
    if (!step.terms.empty() || bytes < kFarBytes) return;
    std::vector<Affine> ahead = subscripts;
    const Affine later = Affine(s.variable) + Affine(kRowsAhead);
    for (Affine& subscript : ahead)
      subscript = subscript.substitute([&](Symbol symbol) { return symbol == s.variable ? &later : nullptr; });
    memory_.prefetch(buffer_place(id, ahead), write);
  };
  for (const Statement& statement : s.body) {
    if (const auto* store = std::get_if<stmt::Store>(&statement)) prefetch(store->buffer, store->subscripts, true);
    const auto* let = std::get_if<stmt::Let>(&statement);
    const auto* load = let ? std::get_if<op::Load>(&program_.values.at(let->id).operation) : nullptr;
    if (load && program_.values.at(let->id).varying) prefetch(load->buffer, load->subscripts, false);
  }
}

/// The lanes up to the index `last`, which is not before that of the first lane.
Val KernelWriter::active_lanes(const Val& index, const Val& last) {
  const Val beyond = ir_.binary("sub nsw", last, index), most = integer(plan_.lanes - 1);
  const Val highest = ir_.select(ir_.icmp("slt", beyond, most), beyond, most);
  const Val lanes = ir_.splat(ir_.extend(highest, Scalar::i32, true), plan_.lanes);
  return ir_.icmp("ule", lane_numbers(Scalar::i32, plan_.lanes), lanes);
}

void KernelWriter::write(const stmt::Check& s) {
  Val bad = operand(s.bad);
  if (round_) bad = ir_.splat(bad, plan_.lanes);
  if (active()) bad = ir_.binary("and", bad, *active());
  const std::string failed = ir_.fresh("failed"), first = ir_.fresh("first"), passed = ir_.fresh("passed");
  branch(ir_.any(bad), failed, passed, ", !prof !0");
  label(failed);
  const Val earlier = ir_.raw(Scalar::i64, 1, "load i64, ptr %status");
  branch(ir_.icmp("eq", earlier, integer(0)), first, passed);
  label(first);
  record_failure(s, bad);
  jump(passed);
  label(passed);
}

void KernelWriter::record_failure(const stmt::Check& s, const Val& bad) {
  const auto put = [&](int word, const Val& value) {
    const std::string place = "%" + ir_.fresh("word");
    ir_.line(fmt::format("{} = getelementptr i64, ptr %status, i64 {}", place, word));
    ir_.line(fmt::format("store {}, ptr {}", typed(value), place));
  };
  const Val lane = memory_.first_lane(bad);
  put(kFailed, integer(1));
  put(kCheck, integer(s.check));
  for (std::size_t i = 0; i < s.coordinates.size(); ++i) {
    const Val ahead = ir_.binary("mul", lane, integer(lane_step(s.coordinates[i])));
    put(kCoordinates + static_cast<int>(i), ir_.binary("add", addressing_.value(s.coordinates[i]), ahead));
  }
  Val value = operand(s.value);
  if (value.lanes > 1) value = ir_.raw(value.type, 1, fmt::format("extractelement {}, {}", typed(value), typed(lane)));
  put(kOffendingValue, ir_.convert(value, Scalar::f64));
}

}  // namespace moxie::llvm_ir
