// NestBuilder: ranges whose ends are read from tensors, and loops that conditions on their index split.
#include <algorithm>

#include "compiler/loop/masked_parts.h"
#include "compiler/loop/nest_builder.h"

namespace moxie {

bool NestBuilder::Reduction::runs_with(const Reduction& other) const {
  if (expr->range != other.expr->range || ranged.has_value() != other.ranged.has_value()) return false;
  return !ranged ||
         (ranged->range.values == other.ranged->range.values && ranged->range.lows == other.ranged->range.lows &&
          ranged->range.highs == other.ranged->range.highs);
}

bool NestBuilder::may_bound(const ValueRange& range) const {
  const InsideProof proof(source_, Inside::Storage);
  const IndexDomain here = domain_at(frames_.size() - 1);
  const auto is_readable = [&](const Expr& value) {
    return is_available(value) && (lanes_are_threads_ || !is_varying(value)) && proof.holds_within(value, here);
  };
  const auto is_end = [&](const Affine& end) {
    return (lanes_are_threads_ || !is_varying(end)) && std::ranges::all_of(end.terms(), [&](const Affine::Term& term) {
             return term.first.is_value() || is_known(term.first);
           });
  };
  return std::ranges::all_of(range.values, is_readable) && std::ranges::all_of(range.lows, is_end) &&
         std::ranges::all_of(range.highs, is_end);
}

/// The reduction over a range by data, if its ends can be read here, before its loop.
std::optional<RangedReduce> NestBuilder::ranged(const Expr& reduction) const {
  if (!bounds_by_values_) return std::nullopt;
  auto found = ranged_reduce(source_, reduction);
  return found && may_bound(found->range) ? std::move(found) : std::nullopt;
}

Range NestBuilder::with_values(Range range, const ValueRange& values) {
  std::vector<Affine> numbers;
  for (const Expr& value : values.values) numbers.emplace_back(Symbol::value(emit(value, ValueType::index)));
  const auto known = [&](const Affine& end) {
    return end.substitute([&](Symbol symbol) { return symbol.is_value() ? &numbers.at(symbol.number()) : nullptr; });
  };
  for (const Affine& low : values.lows) range.lows.push_back({1, known(low)});
  for (const Affine& high : values.highs) range.highs.push_back({1, known(high)});
  return range;
}

/// Works that a condition on the index of their last loop divides, in parts that need none.
std::vector<Work> NestBuilder::without_masks(std::vector<Work> works) const {
  if (!keeps_rows_ || !lanes_are_chosen_) return works;
  const IndexDomain here = domain_at(frames_.size() - 1);
  const auto is_end = [&](const Affine& end) {
    return !is_varying(end) &&
           std::ranges::all_of(end.terms(), [&](const Affine::Term& term) { return is_known(term.first); });
  };
  std::vector<Work> result;
  for (Work& work : works) {
    const bool is_stored = work.target == Work::Target::Buffer && !work.accumulate && !work.running && !work.position;
    std::vector<MaskedPart> parts;
    if (is_stored && work.loops.size() == 1)
      parts = masked_parts(work.body, work.loops[0].symbol, work.loops[0].range, here, is_end);
    for (MaskedPart& part : parts) {
      result.push_back(work);
      result.back().body = std::move(part.body);
      result.back().loops[0].range = std::move(part.range);
    }
    if (parts.empty()) result.push_back(std::move(work));
  }
  return result;
}

}  // namespace moxie
