#include "compiler/codegen/llvm/addressing.h"

#include <algorithm>
#include <bit>

#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

std::optional<std::int64_t> constant_bound(const std::vector<Bound>& bounds, bool is_low) {
  std::optional<std::int64_t> result;
  for (const Bound& bound : bounds) {
    if (!bound.value.is_constant()) return std::nullopt;
    const std::int64_t value = bound.value.constant();
    const std::int64_t rounded = is_low ? ceil_div(value, bound.divisor) : floor_div(value, bound.divisor);
    result = !result ? rounded : (is_low ? std::max(*result, rounded) : std::min(*result, rounded));
  }
  return result;
}

bool is_literal(const Val& value, std::string_view text) { return value.text == text; }

Coefficient scaled(Coefficient coefficient, std::int64_t factor) {
  coefficient.constant = checked_mul(coefficient.constant, factor);
  for (auto& term : coefficient.terms) term.second = checked_mul(term.second, factor);
  return coefficient;
}

void accumulate(Coefficient& sum, const Coefficient& summand) {
  sum.constant = checked_add(sum.constant, summand.constant);
  sum.terms.insert(sum.terms.end(), summand.terms.begin(), summand.terms.end());
}

}  // namespace

std::optional<std::int64_t> constant_trip_count(const Range& range) {
  const auto low = constant_bound(range.lows, true), high = constant_bound(range.highs, false);
  if (!low || !high) return std::nullopt;
  return std::max<std::int64_t>(0, checked_add(checked_add(*high, 1), -*low));
}

std::optional<std::int64_t> only_iteration(const Range& range) {
  std::optional<std::int64_t> first, last;
  for (const auto& [divisor, low] : range.lows)
    if (low.is_constant()) first = std::max(first.value_or(INT64_MIN), ceil_div(low.constant(), divisor));
  for (const auto& [divisor, high] : range.highs)
    if (high.is_constant()) last = std::min(last.value_or(INT64_MAX), floor_div(high.constant(), divisor));
  return first == last ? first : std::nullopt;
}

Val Addressing::add(const Val& a, const Val& b) {
  if (is_literal(a, "0")) return b;
  return is_literal(b, "0") ? a : ir_.binary("add nsw", a, b);
}

Val Addressing::multiply(const Val& a, const Val& b) {
  if (is_literal(a, "1")) return b;
  return is_literal(b, "1") ? a : ir_.binary("mul nsw", a, b);
}

Val Addressing::value(const Affine& affine) {
  Coefficient one;
  one.constant = 1;
  return offset({affine}, {one}, std::nullopt).first;
}

Val Addressing::materialise(const Coefficient& coefficient) {
  Val sum = integer(0);
  for (const auto& [value, factor] : coefficient.terms) sum = add(sum, multiply(value, integer(factor)));
  return add(sum, integer(coefficient.constant));
}

std::vector<Coefficient> Addressing::strides(const BufferDecl& buffer) {
  std::vector<Coefficient> result(buffer.shape.size());
  std::int64_t constant = 1;
  Val dynamic = integer(1);
  for (auto axis = buffer.layout.rbegin(); axis != buffer.layout.rend(); ++axis) {
    Coefficient& stride = result.at(*axis);
    if (is_literal(dynamic, "1")) {
      stride.constant = constant;
    } else {
      stride.terms = {{dynamic, constant}};
    }
    const Affine& extent = buffer.shape.at(*axis);
    if (extent.is_constant()) {
      constant = checked_mul(constant, extent.constant());
    } else {
      dynamic = multiply(dynamic, value(extent));
    }
  }
  return result;
}

Offset Addressing::offset(const std::vector<Affine>& subscripts, const std::vector<Coefficient>& strides,
                          std::optional<Symbol> lane_variable) {
  const auto total = [&](auto part_of) {
    Coefficient sum;
    for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
      const std::int64_t factor = part_of(subscripts[axis]);
      if (factor != 0) accumulate(sum, scaled(strides.at(axis), factor));
    }
    return sum;
  };
  Val sum = integer(0);
  for (const auto& [symbol, value] : scope_) {
    const Coefficient coefficient = total([s = symbol](const Affine& a) { return a.coefficient(s); });
    if (!coefficient.is(0)) sum = add(sum, multiply(value, materialise(coefficient)));
  }
  for (const Affine& subscript : subscripts) {
    for (const auto& [symbol, coefficient] : subscript.terms()) {
      if (symbol.is_value()) continue;
      const auto known = [&s = symbol](const auto& entry) { return entry.first == s; };
      if (std::ranges::none_of(scope_, known))
        throw InternalError("a subscript uses '" + symbol.name() + "', which no loop or argument defines");
    }
  }
  sum = add(sum, materialise(total([](const Affine& a) { return a.constant(); })));
  Offset offset{sum,
                lane_variable ? total([&](const Affine& a) { return a.coefficient(*lane_variable); }) : Coefficient{}};
  add_values(offset, subscripts, strides);
  return offset;
}

void Addressing::add_values(Offset& offset, const std::vector<Affine>& subscripts,
                            const std::vector<Coefficient>& strides) {
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
    for (const auto& [symbol, coefficient] : subscripts[axis].terms()) {
      if (!symbol.is_value()) continue;
      const Val& number = values_.at(symbol);
      const Val factor = materialise(scaled(strides.at(axis), coefficient));
      if (number.lanes == 1) {
        offset.first = add(offset.first, multiply(number, factor));
        continue;
      }
      const Val scattered =
          is_literal(factor, "1") ? number : ir_.binary("mul nsw", number, ir_.splat(factor, number.lanes));
      offset.scattered = offset.scattered ? ir_.binary("add nsw", *offset.scattered, scattered) : scattered;
    }
  }
}

Val Addressing::floor_divide(const Val& dividend, std::int64_t divisor) {
  if (divisor == 1) return dividend;
  if (std::has_single_bit(static_cast<std::uint64_t>(divisor))) {
    return ir_.binary("ashr", dividend, integer(std::countr_zero(static_cast<std::uint64_t>(divisor))));
  }
  const Val quotient = ir_.binary("sdiv", dividend, integer(divisor));
  const Val negative = ir_.icmp("slt", ir_.binary("srem", dividend, integer(divisor)), integer(0));
  return ir_.binary("add nsw", quotient, ir_.extend(negative, Scalar::i64, true));
}

Val Addressing::rounded(const Bound& bound, bool round_up) {
  const auto& [divisor, affine] = bound;
  if (affine.is_constant()) return integer((round_up ? ceil_div : floor_div)(affine.constant(), divisor));
  // ceil(v / d) = floor((v + d - 1) / d)
  return floor_divide(value(round_up ? affine + Affine(divisor - 1) : affine), divisor);
}

Val Addressing::extreme(const std::vector<Bound>& bounds, bool is_low) {
  if (bounds.empty()) throw InternalError("a loop has no bound on one side");
  Val result = rounded(bounds[0], is_low);
  for (std::size_t i = 1; i < bounds.size(); ++i) {
    const Val next = rounded(bounds[i], is_low);
    result = ir_.select(ir_.icmp(is_low ? "sgt" : "slt", result, next), result, next);
  }
  return result;
}

Val Addressing::contains(const Range& range, std::int64_t value) {
  std::optional<Val> all;
  const auto add = [&](const Val& condition) { all = all ? ir_.binary("and", *all, condition) : condition; };
  for (const Bound& low : range.lows)
    if (!low.value.is_constant()) add(ir_.icmp("sle", rounded(low, true), integer(value)));
  for (const Bound& high : range.highs)
    if (!high.value.is_constant()) add(ir_.icmp("sge", rounded(high, false), integer(value)));
  return all.value_or(Val{Scalar::i1, 1, "true"});
}

Val Addressing::first(const Range& range) { return extreme(range.lows, true); }
Val Addressing::last(const Range& range) { return extreme(range.highs, false); }

}  // namespace moxie::llvm_ir
