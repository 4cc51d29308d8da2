// Loops around each other whose rounds are elements or shared out by teams, counted through by one number.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/cuda/cuda_writer.h"

namespace moxie::cuda_text {

// ---- elements ----

/// Loops of elements, counted through.
void CudaWriter::write_elements() {
  const std::string elements = names_.fresh("elements"), element = names_.fresh("element");
  line(fmt::format("const Index {} = {};", elements, rounds_of(shape_.elements)));
  if (program().arrays.empty()) return write_own_elements(element, elements);
  open_elements(element, {"0", elements + " - 1",
                          [&](const std::string& other) { return fmt::format("{} < {}", other, elements); }});
  vector_ = shape_.vector_loop;
  open_round(shape_.elements, element, "const Index");
  write_counted(*shape_.elements.outermost);
  close_round(shape_.elements);
  vector_ = nullptr;
  close_scope();
}

/// Threads, or teams, that never wait for those with other elements go through theirs by themselves.
void CudaWriter::write_own_elements(const std::string& element, const std::string& elements) {
  const int count = elements_per_block(schedule_);
  const bool team = schedule_.mapping == CudaMapping::team;
  const std::string own = !team ? " + lane" : schedule_.rows > 1 ? " + row" : "";
  const std::string first = (count == 1 ? "blockIdx.x" : fmt::format("Index(blockIdx.x) * {}", count)) + own;
  vector_ = shape_.vector_loop;
  waits_for_none_ = true;
  if (schedule_.persistent)
    write_rounds(shape_.elements, {"Index", element, first, elements, fmt::format("gridDim.x * {}", count)});
  else
    write_one(element, first, elements);
  waits_for_none_ = false;
  vector_ = nullptr;
}

void CudaWriter::write_one(const std::string& element, const std::string& first, const std::string& elements) {
  line(fmt::format("const Index {} = {};", element, first));
  open_scope(fmt::format("if ({} < {}) {{", element, elements));
  open_round(shape_.elements, element, "const Index");
  write_counted(*shape_.elements.outermost);
  close_round(shape_.elements);
  close_scope();
}

std::string CudaWriter::rounds_of(const CountedLoops& counted, std::size_t k) const {
  std::string product;
  for (; k < counted.rounds.size(); ++k) {
    const Affine& rounds = counted.rounds[k];
    const bool counts = rounds.is_constant() || rounds.as_symbol();  // else it may be negative
    const std::string text = counts ? affine(rounds) : fmt::format("greatest(Index({}), Index(0))", affine(rounds));
    product += (product.empty() ? "" : " * ") + text;
  }
  return product;
}

/// The variables of the loops in one of all rounds.
void CudaWriter::open_round(const CountedLoops& counted, const std::string& round, const std::string& type) {
  for (std::size_t k = 0; k < counted.loops.size(); ++k) {
    const std::string inner = rounds_of(counted, k + 1), name = names_.open(*counted.loops[k]);
    std::string text = inner.empty() ? round : fmt::format("{} / ({})", round, inner);
    if (k > 0) text += fmt::format(" % ({})", rounds_of({{}, {counted.rounds[k]}}));
    line(fmt::format("{} {} = Index({});", type, name, text));
  }
  counted_.insert(counted.loops.begin(), counted.loops.end());
}

void CudaWriter::close_round(const CountedLoops& counted) {
  for (const stmt::For* loop : counted.loops) {
    counted_.erase(loop);
    names_.close(*loop);
  }
}

/// From `first` to before `last`: the variables of the loops are counted on like digits, as divisions take long.
void CudaWriter::write_rounds(const CountedLoops& counted, const Rounds& rounds) {
  const std::size_t loops = counted.loops.size();
  // Where there are no iterations, an extent that is divided by may be 0.
  const bool divides = std::any_of(counted.rounds.begin() + 1, counted.rounds.end(),
                                   [](const Affine& extent) { return !extent.is_constant(); });
  open_scope(divides ? fmt::format("if ({} < {}) {{", rounds.first, rounds.last) : "{");
  line(fmt::format("{} {} = {};", rounds.type, rounds.name, rounds.first));
  open_round(counted, rounds.name, "Index");
  std::vector<std::string> extents, steps, names;
  for (std::size_t k = 0; k < loops; ++k) {
    const std::string inner = rounds_of(counted, k + 1), own = rounds_of({{}, {counted.rounds[k]}});
    names.push_back(names_.symbol(counted.loops[k]->variable));
    extents.push_back(own);
    steps.push_back(names_.fresh(names.back() + "_step"));
    std::string step =
        inner.empty() ? fmt::format("({})", rounds.step) : fmt::format("({}) / ({})", rounds.step, inner);
    if (k > 0) step += fmt::format(" % ({})", own);
    if (loops > 1) line(fmt::format("const Index {} = Index({});", steps.back(), step));
  }
  open_scope(fmt::format("for (; {0} < {1}; {0} += {2}) {{", rounds.name, rounds.last, rounds.step));
  write_counted(*counted.outermost);
  if (loops == 1) line(fmt::format("{} += {};", names[0], rounds.step));
  for (std::size_t k = loops > 1 ? loops : 0; k-- > 0;) {
    line(fmt::format("{} += {};", names[k], steps[k]));
    if (k + 1 < loops) line(fmt::format("if ({0} >= {1}) {0} -= {1}, ++{2};", names[k + 1], extents[k + 1], names[k]));
  }
  close_scope();
  close_round(counted);
  close_scope();
}

/// The body, where its round is one of the loop's own.
void CudaWriter::write_counted(const stmt::For& s) {
  const std::string name = names_.symbol(s.variable);
  const bool all = has_all_rounds(s);
  if (!all) open_scope(fmt::format("if ({} <= {} && {}) {{", first(s.range), name, within(name, s.range)));
  write(s.body);
  if (!all) close_scope();
}

// ---- reductions ----

const Reductions& CudaWriter::shared_reductions() const {
  static const Reductions kNone;
  if (schedule_.mapping == CudaMapping::team) return shape_.reductions;
  return schedule_.mapping == CudaMapping::thread && schedule_.lanes == kWarp ? shape_.uniform_reductions : kNone;
}

/// Every lane adds up some of the rounds; then all of them have the whole.
void CudaWriter::write_reduction(const stmt::For& s) {
  const SharedReduction& reduction = shared_reductions().at(&s);
  const stmt::For* around = schedule_.mapping == CudaMapping::team ? std::exchange(shared_out_, &s) : shared_out_;
  if (reduction.counted.loops.size() <= 1 && !shares_chunks()) {
    const std::string name = names_.open(s), low = first(s.range);
    open_scope(fmt::format("for (Index {0} = {1}lane; {2}; {0} += {3}) {{", name, low == "0" ? "" : low + " + ",
                           within(name, s.range), schedule_.lanes));
    write(s.body);
    close_scope();
    names_.close(s);
  } else {
    write_rounds(reduction);
  }
  shared_out_ = around;
  for (const Accumulation& sum : reduction.sums) write_combination(sum, reduction);
}

void CudaWriter::write_combination(const Accumulation& sum, const SharedReduction& reduction) {
  const std::string name = Names::var(sum.var);
  const ValueType type = program().vars.at(sum.var).type;
  std::string own = name;
  if (sum.position_of) {
    own = fmt::format("is_same({0}_of_lane, {0}) ? {1} : infinity<{2}>()", Names::var(*sum.position_of), name,
                      type_name(type));
  } else if (std::ranges::find(reduction.sums, sum.var, &Accumulation::position_of) != reduction.sums.end()) {
    line(fmt::format("const {0} {1}_of_lane = {1};", type_name(program().vars.at(sum.var).type), name));
  }
  line(fmt::format("{} = {};", name, combined_over_lanes(sum.kind, type, own)));
}

/// All rounds of loops around each other, or those of a chunk, which this lane shares with the others. There may be
/// more of them than an index counts.
void CudaWriter::write_rounds(const SharedReduction& reduction) {
  const auto rounds = constant_rounds(reduction);
  const bool few = rounds && *rounds < INT32_MAX - schedule_.lanes;
  const std::string type = few ? "int" : "long long", all = (few ? "" : "1ll * ") + rounds_of(reduction.counted);
  const std::string round = names_.fresh("round");
  const auto [low, high] = shares_chunks() ? write_chunk_bounds(round, all, type, "0") : std::pair{std::string(), all};
  write_rounds(reduction.counted,
               {type, round, low.empty() ? "lane" : low + " + lane", high, std::to_string(schedule_.lanes)});
}

}  // namespace moxie::cuda_text
