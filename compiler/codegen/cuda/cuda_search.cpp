// Sums by value: a warp looks through all terms for those that go to its rows.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/cuda/cuda_writer.h"

namespace moxie::cuda_text {
namespace {

/// Terms that a lane has under way at once: a load takes as long as some ten of them.
constexpr int kTermsOfLane = 8;

bool has_lanes(const stmt::For& loop) {
  bool found = false;
  visit_statements(loop.body, [&](const Statement& statement) {
    const auto* inner = std::get_if<stmt::For>(&statement);
    found = found || (inner && inner->vector);
  });
  return found;
}

}  // namespace

const stmt::For* own_rows(const stmt::For& terms) {
  const auto is_bound = [](const Bound& bound) { return bound.value.mentions(Symbol::dim(argument::kChunkLow)); };
  for (const Statement& statement : terms.body) {
    const auto* loop = std::get_if<stmt::For>(&statement);
    if (loop && !terms.parallel && std::ranges::any_of(loop->range.lows, is_bound)) return loop;
  }
  return nullptr;
}

void CudaWriter::write_of_search(const stmt::For& s) {
  const std::string name = names_.open(s);
  const stmt::For* around = vector_;
  if (const stmt::For* own = own_rows(s)) {
    write_search(s, *own, name);
  } else if (s.vector) {
    vector_ = &s;
    const std::string low = first(s.range);
    open_scope(fmt::format("for (Index {0} = {1}lane; {2}; {0} += {3}) {{", name, low == "0" ? "" : low + " + ",
                           within(name, s.range), kWarp));
    write(s.body);
    close_scope();
  } else {
    write_serial(s, name);
  }
  vector_ = around;
  names_.close(s);
}

/// Each lane finds out of several terms whether they are the warp's, so that it waits for all of them at once; then all
/// lanes compute these, in the order of the terms.
void CudaWriter::write_search(const stmt::For& s, const stmt::For& own, const std::string& name) {
  const std::string group = names_.fresh(name + "_of_warp"), k = names_.fresh("k"), is_own = names_.fresh("is_own"),
                    of_lane = names_.fresh("found_of_lane"), found = names_.fresh("found");
  const auto term = [&](const std::string& last) { return fmt::format("{} + {} * {} + {}", group, k, kWarp, last); };
  open_scope(fmt::format("for (Index {0} = {1}; {2}; {0} += {3}) {{", group, first(s.range), within(group, s.range),
                         kTermsOfLane * kWarp));
  line(fmt::format("unsigned {} = 0, {} = 0;", is_own, of_lane));
  line("#pragma unroll");
  open_scope(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, kTermsOfLane));
  // Without branches, all loads are in flight at once: with one for each term, a group took 2500 cycles on an H200.
  const std::string wanted = names_.fresh(name + "_of_lane");
  line(fmt::format("const Index {} = {};", wanted, term("lane")));
  line(fmt::format("const Index {} = least(Index({}), Index({}));", name, wanted, extreme(s.range.highs, false)));
  for (const Statement& statement : s.body) {
    if (const auto* let = std::get_if<stmt::Let>(&statement)) write(*let);
  }
  line(fmt::format("const bool {} = ({} == {}) & ({} <= {});", found, name, wanted, first(own.range),
                   extreme(own.range.highs, false)));
  line(fmt::format("{} |= unsigned({}) << {};", is_own, found, k));
  close_scope();
  line("#pragma unroll");
  open_scope(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, kTermsOfLane));
  line(fmt::format("const unsigned {} = __ballot_sync(0xffffffffu, {} >> {} & 1);", found, is_own, k));
  line(fmt::format("if (lane == {}) {} = {};", k, of_lane, found));
  close_scope();
  line(fmt::format("if (!__any_sync(0xffffffffu, {} != 0)) continue;", of_lane));
  open_scope(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {{", k, kTermsOfLane));
  open_scope(fmt::format("for (unsigned {0} = __shfl_sync(0xffffffffu, {1}, {2}); {0} != 0; {0} &= {0} - 1) {{", found,
                         of_lane, k));
  line(fmt::format("const Index {} = {};", name, term(fmt::format("__ffs({}) - 1", found))));
  if (has_lanes(s)) {
    write(s.body);
  } else {
    vector_ = &s;  // one lane reads and stores the element
    open_scope("if (lane == 0) {");
    write(s.body);
    close_scope();
  }
  close_scope();
  close_scope();
  close_scope();
}

}  // namespace moxie::cuda_text
