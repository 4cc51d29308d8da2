#include "compiler/codegen/cuda/cuda_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/cuda/code_size.h"
#include "compiler/expression/functions.h"
#include "compiler/loop/operands.h"

namespace moxie::cuda_text {
namespace {

/// Longer expressions get a name.
constexpr std::size_t kLongestInlined = 90;
/// A loop inside of unrolled loops is not unrolled too, where that would make more copies of its body: compilers take
/// seconds, and all registers.
constexpr std::int64_t kMostCopies = 512;

/// Where each var is set first, if nothing outside of that block touches it.
class FirstSets {
 public:
  explicit FirstSets(const LoopProgram& program) : program_(program) { visit(program.body); }

  std::set<const stmt::SetVar*> result() const {
    std::set<const stmt::SetVar*> sets;
    for (const auto& [var, first] : first_) {
      if (first.alone) sets.insert(first.set);
    }
    return sets;
  }

 private:
  struct First {
    const stmt::SetVar* set;
    const Block* block;
    bool alone = true;
  };

  void touch(VarId var, const stmt::SetVar* set) {
    const auto [it, fresh] = first_.try_emplace(var, First{set, blocks_.back()});
    First& first = it->second;
    if (fresh)
      first.alone = set != nullptr;
    else
      first.alone = first.alone && std::ranges::find(blocks_, first.block) != blocks_.end();
  }

  void visit(const Block& block) {
    blocks_.push_back(&block);
    for (const Statement& statement : block) {
      if (const auto* set = std::get_if<stmt::SetVar>(&statement)) touch(set->var, set);
      const auto* let = std::get_if<stmt::Let>(&statement);
      const auto* read = let ? std::get_if<op::ReadVar>(&program_.values.at(let->id).operation) : nullptr;
      if (read) touch(read->var, nullptr);
      if (const auto* loop = std::get_if<stmt::For>(&statement)) visit(loop->body);
    }
    blocks_.pop_back();
  }

  const LoopProgram& program_;
  std::map<VarId, First> first_;
  std::vector<const Block*> blocks_;
};

}  // namespace

std::string without_parentheses(std::string text) {
  if (text.size() < 2 || text.front() != '(') return text;
  int depth = 0;
  for (std::size_t k = 0; k < text.size(); ++k) {
    depth += text[k] == '(' ? 1 : text[k] == ')' ? -1 : 0;
    if (depth == 0) return k + 1 == text.size() ? text.substr(1, k - 1) : text;
  }
  return text;
}

CudaWriter::CudaWriter(const LoweredKernel& kernel, const CudaSchedule& schedule)
    : kernel_(kernel),
      schedule_(schedule),
      shape_(kernel_shape(kernel)),
      names_(kernel.program),
      inlining_(kernel.program,
                [this](const Value& value) {
                  const auto* load = std::get_if<op::LoadArray>(&value.operation);
                  return load && !shape_.arrays.at(load->array).per_thread;
                }),
      first_sets_(FirstSets(kernel.program).result()),
      unrolled_(loops_to_unroll(shape_, schedule.arrays)),
      value_texts_(kernel.program.values.size()),
      value_origins_(kernel.program.values.size()),
      lines_(statement_lines(kernel.program)) {}

std::string CudaWriter::write() {
  write_head();
  write(program().body);
  return std::move(out_);
}

// ---- lines ----

void CudaWriter::line(const std::string& text) {
  out_ += std::string(static_cast<std::size_t>(2 * indent_), ' ') + text + "\n";
}

void CudaWriter::open_scope(const std::string& head) {
  line(head);
  ++indent_;
}

void CudaWriter::close_scope() {
  --indent_;
  line("}");
}

// ---- which thread ----

std::string CudaWriter::guard() const {
  if (schedule_.mapping == CudaMapping::search) return vector_ ? "" : "lane == 0";
  if (shape_.lanes_reduce) return vector_ || schedule_.lanes == 1 ? "" : "lane == 0";
  std::string text = vector_ && !waits_for_none_ && schedule_.mapping != CudaMapping::block ? "active" : "";
  if (schedule_.mapping == CudaMapping::team && is_uniform()) return text + (text.empty() ? "" : " && ") + "lane == 0";
  if (schedule_.mapping == CudaMapping::team) return text;
  if (is_uniform() && (schedule_.rows > 1 || schedule_.spread)) text += text.empty() ? "first_row" : " && first_row";
  return text;
}

std::string CudaWriter::guard_of_array(const stmt::StoreArray& s) const {
  if (shape_.arrays.at(s.array).per_thread) return "";
  std::string text = is_uniform() && schedule_.rows > 1 ? "row == 0" : "";
  if (!program().arrays.at(s.array).varying && schedule_.lanes > 1)
    text += text.empty() ? "lane == 0" : " && lane == 0";
  return text;
}

/// Whether other threads of the block may touch the array.
bool CudaWriter::is_common(ArrayId array) const {
  return !shape_.arrays.at(array).per_thread &&
         (schedule_.rows > 1 || (schedule_.lanes > 1 && !program().arrays.at(array).varying));
}

CudaWriter::Touched CudaWriter::touched(const Block& block) const {
  Touched result;
  visit_statements(block, [&](const Statement& s) {
    if (const auto* store = std::get_if<stmt::StoreArray>(&s); store && is_common(store->array))
      result.writes.insert(store->array);
    const auto* let = std::get_if<stmt::Let>(&s);
    const auto* load = let ? std::get_if<op::LoadArray>(&program().values.at(let->id).operation) : nullptr;
    if (load && is_common(load->array)) result.reads.insert(load->array);
  });
  return result;
}

/// In a loop that rows share out, the barrier stands before the loop.
void CudaWriter::wait_for(const Touched& touched) {
  if (is_uniform() && barriers_.before(touched.reads, touched.writes)) barrier();
}

// ---- statements ----

void CudaWriter::write(const Block& block) {
  for (std::size_t k = 0; k < block.size(); ++k) {
    const Traced traced(*this, block[k]);
    comment(announcement(block, k));
    std::visit([&](const auto& s) { write(s); }, static_cast<const Statement::variant&>(block[k]));
  }
}

/// Of a loop whose accumulators are set from here on, or which begins here; of a definition whose element is stored.
std::string CudaWriter::announcement(const Block& block, std::size_t k) const {
  const auto is_set = [&](std::size_t i) { return i < block.size() && std::holds_alternative<stmt::SetVar>(block[i]); };
  if (const auto* store = std::get_if<stmt::Store>(&block[k])) return kernel_.uses.at(store->buffer).source;
  if (k > 0 && is_set(k - 1)) return {};
  while (is_set(k)) ++k;
  const auto* loop = k < block.size() ? std::get_if<stmt::For>(&block[k]) : nullptr;
  return loop ? loop->comment : "";
}

/// The same is not said twice in a row.
void CudaWriter::comment(const std::string& text) {
  if (text.empty() || text == last_comment_) return;
  line("// " + text);
  last_comment_ = text;
}

CudaWriter::Traced::Traced(CudaWriter& writer, const Statement& statement) : writer_(writer) {
  std::vector<int> from = writer.origins(statement);
  const auto* let = std::get_if<stmt::Let>(&statement);
  if (let && writer.inlining_(let->id)) writer.value_origins_[let->id] = from;
  writer.marks_.open(writer.out_.size(), std::move(from));
}

/// The statement's own line, and those of values that are written into it.
std::vector<int> CudaWriter::origins(const Statement& statement) const {
  std::vector<int> from;
  if (const auto line = lines_.find(&statement); line != lines_.end()) from.push_back(line->second);
  for (const ValueId id : operands(program(), statement)) {
    if (inlining_(id)) from.insert(from.end(), value_origins_.at(id).begin(), value_origins_.at(id).end());
  }
  std::ranges::sort(from);
  from.erase(std::ranges::unique(from).begin(), from.end());
  return from;
}

void CudaWriter::write(const stmt::Let& s) {
  const Value& value = program().values.at(s.id);
  if (const auto* load = std::get_if<op::LoadArray>(&value.operation); load && is_common(load->array))
    wait_for({{load->array}, {}});
  std::string text = this->text(s.id);
  const bool literal =
      std::holds_alternative<op::Constant>(value.operation) || std::holds_alternative<op::Number>(value.operation);
  if (inlining_(s.id) && (literal || text.size() <= kLongestInlined)) {
    value_texts_[s.id] = std::move(text);
    return;
  }
  const std::string declared = kept_.contains(s.id) ? "" : "const " + type_name(value.type) + " ";
  const std::string name = kept_.contains(s.id) ? operand(s.id) : Names::value(s.id);
  line(fmt::format("{}{} = {};", declared, name, without_parentheses(std::move(text))));
}

/// The other summand, where the value is the sum of what `held` reads and one thing more.
std::optional<std::string> CudaWriter::added_to(ValueId id, const std::string& held) const {
  if (!inlining_(id) || value_texts_.at(id).empty()) return std::nullopt;
  const auto* call = std::get_if<op::Call>(&program().values.at(id).operation);
  if (!call || call->function->name != "+" || call->args.size() != 2 || operand(call->args[0]) != held)
    return std::nullopt;
  return without_parentheses(operand(call->args[1]));
}

void CudaWriter::write(const stmt::SetVar& s) {
  const std::string name = Names::var(s.var);
  if (const auto summand = added_to(s.value, name)) return line(fmt::format("{} += {};", name, *summand));
  const bool declare = first_sets_.contains(&s);
  line(fmt::format("{}{} = {};", declare ? type_name(program().vars.at(s.var).type) + " " : "", name,
                   without_parentheses(operand(s.value))));
}

std::string CudaWriter::stored_text(const stmt::Store& store) const {
  const std::string value = without_parentheses(operand(store.value));
  const std::string_view function = info_of(program().buffers.at(store.buffer).dtype).cuda_store;
  return function.empty() ? value : fmt::format("{}({})", function, value);
}

void CudaWriter::write(const stmt::Store& s) {
  const BufferDecl& buffer = program().buffers.at(s.buffer);
  std::string value = stored_text(s);
  const auto& partial = kernel_.uses.at(s.buffer).partial;
  if (partial && shape_.combines_rows() && schedule_.rows > 1) {
    const std::string name = names_.fresh(buffer.name + "_all");
    const ValueType type = program().values.at(s.value).type;
    line(fmt::format("const {} {} = combine_rows<{}, {}, {}>({}, rows_{}, turn);", type_name(type), name,
                     combination_name(*partial), schedule_.lanes, schedule_.rows, number_operand(s.value),
                     type == ValueType::f32 ? "f32" : "f64"));
    value = name;
  }
  const std::string condition = guard();
  line(fmt::format("{}{} = {};", condition.empty() ? "" : "if (" + condition + ") ",
                   element(buffer, names_.buffer(s.buffer), s.subscripts), value));
}

void CudaWriter::write(const stmt::StoreArray& s) {
  if (is_common(s.array)) wait_for({{}, {s.array}});
  const std::string place = array_element(s.array, s.subscripts), condition = guard_of_array(s);
  const auto summand = added_to(s.value, place);
  line(fmt::format("{}{} {} {};", condition.empty() ? "" : "if (" + condition + ") ", place, summand ? "+=" : "=",
                   summand ? *summand : without_parentheses(operand(s.value))));
}

void CudaWriter::write(const stmt::Check& s) {
  const std::string condition = guard();
  std::string coordinates;
  for (std::size_t k = 0; k < 4; ++k) coordinates += ", " + (k < s.coordinates.size() ? affine(s.coordinates[k]) : "0");
  line(fmt::format("if ({}{}) fail(status, first_check + {}{}, {});", condition.empty() ? "" : condition + " && ",
                   operand(s.bad), s.check, coordinates, operand(s.value)));
}

void CudaWriter::write(const stmt::For& s) {
  if (schedule_.mapping == CudaMapping::search) return write_of_search(s);
  if (counted_.contains(&s)) return write_counted(s);
  if (!shape_.elements.loops.empty() && &s == shape_.elements.loops.front()) return write_elements();
  if (shared_reductions().contains(&s)) return write_reduction(s);
  const std::string name = names_.open(s);
  if (s.vector)
    write_vector_loop(s, name);
  else if (shape_.shared_out.contains(&s))
    write_shared_out(s, name);
  else
    write_serial(s, name);
  names_.close(s);
}

void CudaWriter::write_vector_loop(const stmt::For& s, const std::string& name) {
  vector_ = &s;
  if (shape_.lanes_reduce) {
    const auto [low, high] = write_chunk_bounds(name, kernel_.chunks->range);
    open_scope(fmt::format("for (Index {0} = {1}{2}; {0} < {3}; {0} += {4}) {{", name, low,
                           schedule_.lanes > 1 ? " + lane" : "", high, schedule_.lanes));
  } else {
    const Range& range = kernel_.tiles->range;
    open_elements(name, {first(range), extreme(range.highs, false),
                         [&](const std::string& element) { return within(element, range); }});
  }
  if (schedule_.width > 1)
    neighbour_ = names_.fresh("k"), write_wide(s.body);
  else
    write(s.body);
  close_scope();
  vector_ = nullptr;
}

/// What this thread, or the team that it is in, has of the elements.
void CudaWriter::open_elements(const std::string& name, const Span& elements) {
  const auto& [low, high, holds] = elements;
  const int count = elements_per_block(schedule_), width = schedule_.width;
  const std::string start = low == "0" ? "" : low + " + ";
  const std::string of_block = count == 1 ? "blockIdx.x" : fmt::format("Index(blockIdx.x) * {}", count);
  std::string begin = start + of_block;
  if (schedule_.persistent) {
    const std::string block = names_.fresh(name + "_of_block");
    open_scope(fmt::format("for (Index {0} = {1}; {2}; {0} += gridDim.x * {3}) {{", block, begin, holds(block), count));
    begin = block;
  } else {
    open_scope("{");
  }
  if (schedule_.mapping == CudaMapping::block) return line(fmt::format("const Index {} = {};", name, begin));
  const bool team = schedule_.mapping == CudaMapping::team;
  const std::string own = !team                ? (schedule_.lanes == 1 ? ""
                                                  : width > 1          ? fmt::format(" + lane * {}", width)
                                                                       : " + lane")
                          : schedule_.rows > 1 ? " + row"
                                               : "";
  const std::string wanted = names_.fresh(name + "_of_" + (team ? "team" : "lane"));
  // Threads beyond the end do as the last ones do, and store nothing.
  line(fmt::format("const Index {} = {}{};", wanted, begin, own));
  line(fmt::format("const bool active = {};", holds(wanted)));
  const std::string last = width > 1 ? std::to_string(*constant_elements(kernel_) - width) : high;
  line(fmt::format("const Index {} = active ? {} : {};", name, wanted, last));
  stage_tables();
}

/// The rounds of this block: from the first name that is given to before the second.
std::pair<std::string, std::string> CudaWriter::write_chunk_bounds(const std::string& name, const Range& range) {
  const std::string low = first(range), high = extreme(range.highs, false);
  const std::string count = low == "0" ? fmt::format("({}) + 1", high) : fmt::format("({}) - ({}) + 1", high, low);
  return write_chunk_bounds(name, fmt::format("greatest<long long>(0, {})", count), "Index", low);
}

std::pair<std::string, std::string> CudaWriter::write_chunk_bounds(const std::string& name, const std::string& count,
                                                                   const std::string& type, const std::string& low) {
  const std::string rounds = names_.fresh(name + "_rounds"), begin = names_.fresh(name + "_low"),
                    end = names_.fresh(name + "_high");
  line(fmt::format("const long long {} = {};", rounds, count));
  for (const auto& [bound, number] : {std::pair{begin, "chunk"}, std::pair{end, "(chunk + 1)"}}) {
    line(fmt::format("const {0} {1} = {2}({0})({3} * {4} / chunks);", type, bound, low == "0" ? "" : low + " + ",
                     rounds, number));
  }
  return {begin, end};
}

void CudaWriter::write_shared_out(const stmt::For& s, const std::string& name) {
  wait_for(touched(s.body));
  const bool spread = schedule_.spread, team = schedule_.mapping == CudaMapping::team;
  const int sharers = team ? schedule_.lanes : schedule_.rows;
  const std::string own = sharers == 1 ? "" : team ? "lane" : "row";
  const std::string row = spread ? fmt::format("Index(blockIdx.y) * {} + {}", sharers, own.empty() ? "0" : own) : own;
  const std::string step = spread ? fmt::format("{} * gridDim.y", sharers) : std::to_string(sharers);
  const auto plus_row = [&](const std::string& low) {
    return row.empty() ? low : low == "0" ? row : low + " + " + row;
  };
  std::string head;
  if (&s == shape_.sample_loop) {
    const auto [low, high] = write_chunk_bounds(name, kernel_.chunks->range);
    head = fmt::format("for (Index {0} = {1}; {0} < {2}; {0} += {3}) {{", name, plus_row(low), high, step);
  } else {
    head = fmt::format("for (Index {0} = {1}; {2}; {0} += {3}) {{", name, plus_row(first(s.range)),
                       within(name, s.range), step);
  }
  shared_out_ = &s;
  open_scope(head);
  if (schedule_.width > 1)
    write_wide(s.body);
  else
    write(s.body);
  close_scope();
  shared_out_ = nullptr;
}

/// A round may touch what the round before it touched, so that the threads wait at its end.
void CudaWriter::write_serial(const stmt::For& s, const std::string& name) {
  const Touched inside = is_uniform() ? touched(s.body) : Touched{};
  const bool waits = !inside.writes.empty();
  if (!waits) wait_for(inside);
  if (waits && barriers_.is_pending()) {
    barrier();
    barriers_.passed();
  }
  const std::int64_t rounds = constant_rounds(s.range).value_or(kAssumedTripCount);
  const bool unroll = unrolled_.contains(s.variable);
  if (unroll)
    line("#pragma unroll");
  else if (schedule_.unroll > 0)
    line(fmt::format("#pragma unroll {}", schedule_.unroll));
  else if (copies_ > 1 && copies_ * rounds > kMostCopies)
    line("#pragma unroll 1");
  const std::int64_t copies = std::exchange(copies_, unroll ? copies_ * std::max<std::int64_t>(rounds, 1) : copies_);
  open_scope(fmt::format("for (Index {0} = {1}; {2}; ++{0}) {{", name, first(s.range), within(name, s.range)));
  write(s.body);
  copies_ = copies;
  if (waits && barriers_.is_pending()) {
    barrier();
    barriers_.passed();
  }
  close_scope();
}

}  // namespace moxie::cuda_text
