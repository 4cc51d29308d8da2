// Loops whose bounds differ between lanes: each lane runs its own iterations.
#include <algorithm>
#include <cstdint>

#include "compiler/codegen/llvm/kernel_writer.h"
#include "compiler/loop/lane_count.h"
#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

bool mentions(const std::vector<Bound>& bounds, Symbol symbol) {
  return std::ranges::any_of(bounds, [&](const Bound& bound) { return bound.value.mentions(symbol); });
}

}  // namespace

bool KernelWriter::has_divergent_loops(const Block& block, Symbol lanes) const {
  return plan_.lanes > 1 && std::ranges::any_of(block, [&](const Statement& statement) {
           const auto* loop = std::get_if<stmt::For>(&statement);
           return loop && (mentions(loop->range.lows, lanes) || mentions(loop->range.highs, lanes) ||
                           has_divergent_loops(loop->body, lanes));
         });
}

bool KernelWriter::is_divergent(const stmt::For& s) const {
  return round_ && plan_.lanes > 1 &&
         (mentions(s.range.lows, round_->variable) || mentions(s.range.highs, round_->variable));
}

/// The iterations that any active lane runs, or those that all of them do.
Range KernelWriter::iterations_of_lanes(Range range, bool any) const {
  const Affine last(*round_->last_lane);
  const auto choose = [&](std::vector<Bound>& bounds, std::int64_t sign) {
    for (Bound& bound : bounds) {
      const bool in_last_lane = bound.value.coefficient(round_->variable) * sign > 0;
      if (in_last_lane)
        bound.value = bound.value.substitute([&](Symbol s) { return s == round_->variable ? &last : nullptr; });
    }
  };
  choose(range.lows, any ? -1 : 1);
  choose(range.highs, any ? 1 : -1);
  return range;
}

/// The lanes whose range holds the index.
Val KernelWriter::lanes_inside(const Range& range, const Val& index) {
  constexpr std::int64_t kFar = std::int64_t{1} << 30;
  std::optional<Val> inside = active();
  const auto narrow = [&](const Bound& bound, const char* comparison) {
    const std::int64_t step = bound.value.coefficient(round_->variable);
    if (step == 0) return;
    if (std::abs(step) * plan_.lanes >= kFar) throw InternalError("the bounds of a loop are too far apart in lanes");
    // divisor * index against first + step * lane, as far as 32 bits tell.
    const Val scaled = bound.divisor == 1 ? index : ir_.binary("mul nsw", index, integer(bound.divisor));
    Val distance = ir_.binary("sub nsw", scaled, addressing_.value(bound.value));
    distance = ir_.select(ir_.icmp("slt", distance, integer(kFar)), distance, integer(kFar));
    distance = ir_.select(ir_.icmp("sgt", distance, integer(-kFar)), distance, integer(-kFar));
    const Val distances = ir_.splat(ir_.extend(distance, Scalar::i32, true), plan_.lanes);
    const Val holds = ir_.icmp(comparison, lane_numbers(Scalar::i32, plan_.lanes, step), distances);
    inside = inside ? ir_.binary("and", *inside, holds) : holds;
  };
  for (const Bound& low : range.lows) narrow(low, "sle");
  for (const Bound& high : range.highs) narrow(high, "sge");
  return *inside;
}

/// Iterations that all lanes run need no masks; those before and after them do.
void KernelWriter::write_divergent(const stmt::For& s) {
  const Range any = iterations_of_lanes(s.range, true), all = iterations_of_lanes(s.range, false);
  const Val first = addressing_.first(any), last = addressing_.last(any);
  const auto write_masked = [&](const Val& from, const Val& to) {
    repeat({from, to, 1, std::nullopt}, [&](const Val& index) {
      const std::optional<Val> outer = round_->active;
      round_->active = lanes_inside(s.range, index);
      ++divergent_;
      write_iteration(s, index, std::nullopt);
      --divergent_;
      round_->active = outer;
    });
  };
  if (count_statements(s.body) > kMaxStatementsTwice) return write_masked(first, last);
  const auto larger = [&](const Val& a, const Val& b) { return ir_.select(ir_.icmp("sgt", a, b), a, b); };
  const auto smaller = [&](const Val& a, const Val& b) { return ir_.select(ir_.icmp("slt", a, b), a, b); };
  const bool begins_apart = mentions(s.range.lows, round_->variable);
  const bool ends_apart = mentions(s.range.highs, round_->variable);
  const Val begin = begins_apart ? addressing_.first(all) : first, end = ends_apart ? addressing_.last(all) : last;
  if (begins_apart) write_masked(first, smaller(ir_.binary("sub nsw", begin, integer(1)), last));
  write_whole(s, {begin, end, 1, std::nullopt});
  if (ends_apart) write_masked(larger(begin, ir_.binary("add nsw", end, integer(1))), last);
}

}  // namespace moxie::llvm_ir
