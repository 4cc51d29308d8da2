#include "runtime/ordered_sum_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/support/error.h"
#include "runtime/access_strides.h"
#include "runtime/plan.h"

namespace moxie {
namespace {

bool has_axis(const OrderedOperand& operand, Symbol axis) {
  return std::ranges::any_of(operand.subscripts, [&](const Affine& subscript) { return subscript.mentions(axis); });
}

/// Strides of every operand; of those that are not there, 0.
class OrderedPlaces {
 public:
  OrderedPlaces(const Plan& plan, const OrderedSumCall& call, const DimValues& dims)
      : key_(strides(plan, call.key, dims)),
        query_(strides(plan, call.query, dims)),
        weight_(strides(plan, call.weight, dims)),
        scale_(strides(plan, call.scale, dims)),
        out_(plan, call.definition.name, axes_of(call.definition), dims),
        limit_(call.selection.tie_limit.value_or(Affine(0))),
        first_limit_(value_at_zero(limit_, dims)) {}

  OrderedPlace first() const {
    const auto first_of = [](const std::optional<AccessStrides>& access) { return access ? access->first : 0; };
    return {first_of(key_), first_of(query_), first_of(weight_), first_of(scale_), out_.first, first_limit_};
  }

  OrderedPlace along(Symbol symbol) const {
    const auto step = [&](const std::optional<AccessStrides>& access) { return access ? access->along(symbol) : 0; };
    return {step(key_), step(query_), step(weight_), step(scale_), out_.along(symbol), limit_.coefficient(symbol)};
  }

 private:
  static std::optional<AccessStrides> strides(const Plan& plan, const OrderedOperand& operand, const DimValues& dims) {
    if (operand.tensor.empty()) return std::nullopt;
    return AccessStrides(plan, operand.tensor, operand.subscripts, dims);
  }

  const std::optional<AccessStrides> key_, query_, weight_, scale_;
  const AccessStrides out_;
  const Affine limit_;
  const std::int64_t first_limit_;
};

}  // namespace

OrderedSumShape ordered_sum_shape(const Plan& plan, const OrderedSumCall& call, const DimValues& dims) {
  const OrderedPlaces places(plan, call, dims);
  OrderedSumShape shape;
  shape.keys = std::max<std::int64_t>(evaluate(call.count, dims), 0);
  shape.first = places.first();
  shape.element = places.along(kOrderedElement);
  for (std::uint32_t k = 0; k < call.definition.axes.size(); ++k) {
    const Symbol axis = Symbol::axis(k);
    const OrderedLoop loop{std::max<std::int64_t>(evaluate(call.definition.axes[k].extent, dims), 0),
                           places.along(axis)};
    const bool moves_query = has_axis(call.query, axis) || loop.step.limit != 0;
    (has_axis(call.key, axis) ? shape.rows : moves_query ? shape.queries : shape.sums).push_back(loop);
  }
  constexpr std::int64_t kMaxCount = std::numeric_limits<std::uint32_t>::max();
  if (std::max(shape.keys, count_of(shape.queries)) > kMaxCount)
    throw ShapeError(fmt::format("{}: a row of {} keys and {} queries cannot be sorted; at most {} are possible",
                                 call.definition.name, shape.keys, count_of(shape.queries), kMaxCount));
  return shape;
}

std::int64_t count_of(const std::vector<OrderedLoop>& loops) {
  std::int64_t count = 1;
  for (const OrderedLoop& loop : loops) count = checked_mul(count, loop.count);
  return count;
}

OrderedPlace place_in(const std::vector<OrderedLoop>& loops, std::int64_t number) {
  if (loops.size() == 1) return loops[0].step * number;
  OrderedPlace place;
  for (std::size_t k = loops.size(); k-- > 0;) {
    place = place + loops[k].step * (number % loops[k].count);
    number /= loops[k].count;
  }
  return place;
}

}  // namespace moxie
