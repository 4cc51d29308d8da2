// What each operation of a LoopProgram becomes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "compiler/codegen/llvm/kernel_writer.h"
#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/expression/functions.h"
#include "compiler/expression/reductions.h"
#include "compiler/loop/accumulations.h"
#include "compiler/loop/operands.h"
#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

/// <0, step, 2 step, ...>
Val lane_multiples(TextBuilder& ir, Scalar type, int lanes, std::int64_t step) {
  std::string text;
  for (int lane = 0; lane < lanes; ++lane) {
    text += (lane == 0 ? "" : ", ") + typed(ir.number(type, 1, static_cast<double>(step * lane)));
  }
  return {type, lanes, "<" + text + ">"};
}

/// A constant that LLVM does not look into: of lanes that move into zeros it would make an expansion under a mask,
/// which takes three instructions where one picks from two registers (10^6 prefix sums on a Zen 4: 0.56 ms, now 0.25).
Val hidden(TextBuilder& ir, const Val& constant) {
  const std::string type = type_name(constant.type, constant.lanes);
  return ir.raw(constant.type, constant.lanes, fmt::format("call {} asm \"\", \"=v,0\"({})", type, typed(constant)));
}

/// The last lanes of `before`, and behind them the first of `value`.
Val shifted(TextBuilder& ir, const Val& before, const Val& value, int by) {
  std::vector<int> from(static_cast<std::size_t>(value.lanes));
  std::iota(from.begin(), from.end(), value.lanes - by);
  return ir.shuffle(before, value, from);
}

}  // namespace

Val KernelWriter::emit(const Value& value, const op::Constant& o) {
  const int lanes = lanes_of(value.varying);
  if (value.type == ValueType::truth) return ir_.integer(Scalar::i1, lanes, o.value != 0);
  return ir_.number(scalar_of(value.type), lanes, o.value);
}

/// Whether singles represent what it is in each lane.
bool KernelWriter::is_exact_in_single(const Affine& affine) const {
  constexpr double kExact = 1 << 24;
  const auto values = values_of(affine, known_);
  return values && values->low >= -kExact &&
         values->high + static_cast<double>(std::abs(lane_step(affine)) * plan_.lanes) <= kExact;
}

Val KernelWriter::emit(const Value& value, const op::Number& o) {
  if (o.value.mentions_value()) return ir_.convert(integer_value(o.value), scalar_of(value.type));
  const Val first = addressing_.value(o.value);
  const Scalar type = scalar_of(value.type);
  const std::int64_t step = lane_step(o.value);
  if (step == 0 || plan_.lanes == 1) return ir_.convert(first, type);
  if (type == Scalar::f32 && is_exact_in_single(o.value)) {
    const Val base = ir_.splat(ir_.convert(first, type), plan_.lanes);
    return ir_.fadd(base, lane_multiples(ir_, type, plan_.lanes, step));
  }
  // Integers are exact in double, so that this rounds once, and AVX2 has no conversion of 64-bit integer vectors.
  const Val base = ir_.splat(ir_.convert(first, Scalar::f64), plan_.lanes);
  return ir_.convert(ir_.fadd(base, lane_multiples(ir_, Scalar::f64, plan_.lanes, step)), type);
}

Val KernelWriter::emit(const Value& value, const op::Load& o) {
  const auto guard = o.guard ? std::optional(operand(*o.guard)) : std::nullopt;
  const Val element = memory_.load(buffer_place(o.buffer, o.subscripts), value.varying, guard, active());
  const DType dtype = program_.buffers.at(o.buffer).dtype;
  return value.type == ValueType::index ? elements_.index(element, dtype)
                                        : elements_.number(element, dtype, scalar_of(value.type));
}

Val KernelWriter::integer_value(const Affine& affine) {
  Coefficient one;
  one.constant = 1;
  const Offset offset = addressing_.offset({affine}, {one}, lane_variable());
  if (plan_.lanes == 1 || (offset.step.is(0) && !offset.scattered)) return offset.first;
  Val lanes = ir_.splat(offset.first, plan_.lanes);
  if (!offset.step.is(0))
    lanes = ir_.binary("add nsw", lanes, lane_numbers(Scalar::i64, plan_.lanes, offset.step.constant));
  return offset.scattered ? ir_.binary("add nsw", lanes, *offset.scattered) : lanes;
}

/// The last element first: a tensor has elements where it is read.
Val KernelWriter::emit(const Value& value, const op::Subscript& o) {
  const Val at = ir_.splat(integer_value(o.value), lanes_of(value.varying));
  const Val last = ir_.splat(addressing_.value(program_.buffers.at(o.buffer).shape.at(o.axis) - Affine(1)), at.lanes);
  const Val first = ir_.integer(Scalar::i64, at.lanes, 0);
  const Val below = ir_.select(ir_.icmp("slt", at, last), at, last);
  return ir_.select(ir_.icmp("sgt", below, first), below, first);
}

Val KernelWriter::emit(const Value& value, const op::LoadArray& o) {
  // Every lane of a varying array may be read; an array of uniform values ends where it ends.
  const auto mask = program_.arrays.at(o.array).varying ? std::nullopt : active();
  const Val loaded = memory_.load(array_place(o.array, o.subscripts), value.varying, std::nullopt, mask);
  return ir_.convert(loaded, scalar_of(value.type));
}

Val KernelWriter::emit(const Value&, const op::ReadVar& o) { return read_var(o.var); }

/// A comparison of indices, in 32-bit integers instead of doubles. Their distance is clamped, which keeps its sign.
std::optional<Val> KernelWriter::compared_indices(const Value& value, const op::Call& o) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPredicates = {
      {{"<", "slt"}, {"<=", "sle"}, {">", "sgt"}, {">=", "sge"}, {"==", "eq"}, {"!=", "ne"}}};
  constexpr std::int64_t kFar = 1 << 30;
  const auto predicate = std::ranges::find(kPredicates, o.function->name, &decltype(kPredicates)::value_type::first);
  if (predicate == kPredicates.end()) return std::nullopt;
  const auto left = index_in(program_.values.at(o.args[0])), right = index_in(program_.values.at(o.args[1]));
  if (!left || !right) return std::nullopt;
  const Affine distance = *left - *right;
  const std::int64_t step = lane_step(distance);
  const int lanes = lanes_of(value.varying);
  if (distance.mentions_value() || std::abs(step) * lanes >= kFar) return std::nullopt;
  const auto limit = [&](std::int64_t number) { return ir_.integer(Scalar::i64, 1, number); };
  Val first = addressing_.value(distance);
  if (step == 0 || lanes == 1) return ir_.splat(ir_.icmp(predicate->second, first, limit(0)), lanes);
  first = ir_.select(ir_.icmp("slt", first, limit(kFar)), first, limit(kFar));
  first = ir_.select(ir_.icmp("sgt", first, limit(-kFar)), first, limit(-kFar));
  const Val threshold = ir_.extend(ir_.binary("sub", limit(0), first), Scalar::i32, true);
  return ir_.icmp(predicate->second, lane_numbers(Scalar::i32, lanes, step), ir_.splat(threshold, lanes));
}

/// `acc + where(c, e, 0)` as where(c, acc + e, acc): processors with masks add in the lanes that the condition selects,
/// and multiply in the same instruction. A sum that starts at 0 is never -0, the one number that
/// adding 0 changes.
std::optional<Val> KernelWriter::masked_accumulation(const Value& value, const op::Call& o) {
  const auto masked = masked_term(program_, o);
  if (!masked) return std::nullopt;
  const auto in_lanes = [&](ValueId id) { return ir_.splat(operand(id), lanes_of(value.varying)); };
  const Val before = in_lanes(masked->held);
  const Val after = emit_function(ir_, o.function->name, {before, in_lanes(masked->term)});
  return ir_.select(in_lanes(masked->condition), after, before);
}

Val KernelWriter::emit(const Value& value, const op::Call& o) {
  if (const auto compared = compared_indices(value, o)) return *compared;
  if (const auto masked = masked_accumulation(value, o)) return *masked;
  std::vector<Val> args;
  for (const ValueId arg : o.args) args.push_back(ir_.splat(operand(arg), lanes_of(value.varying)));
  return emit_function(ir_, o.function->name, args);
}

Val KernelWriter::emit(const Value& value, const op::Convert& o) {
  return ir_.convert(operand(o.value), scalar_of(value.type));
}

// ---- lanes to one value: the upper half onto the lower half until one is left ----

Val KernelWriter::fold_lanes(std::string_view function, Val value) {
  while (value.lanes > 1) {
    const int half = value.lanes / 2;
    const auto part = [&](int from) {
      if (half == 1) return ir_.raw(value.type, 1, fmt::format("extractelement {}, i64 {}", typed(value), from));
      std::vector<int> lanes(static_cast<std::size_t>(half));
      std::iota(lanes.begin(), lanes.end(), from);
      return ir_.shuffle(value, lanes);
    };
    const Val lower = part(0), upper = part(half);
    value = emit_function(ir_, function, {lower, upper});
  }
  return value;
}

Val KernelWriter::emit(const Value&, const op::CombineLanes& o) {
  const Val& value = operand(o.value);
  return value.lanes == 1 ? value : fold_lanes(folding_function(o.kind), value);
}

/// The vector is combined with itself, shifted by one lane, two, four, ...
Val KernelWriter::emit(const Value& value, const op::PrefixLanes& o) {
  const int lanes = plan_.lanes;
  Val sum = ir_.splat(operand(o.value), lanes);
  if (lanes == 1) return sum;
  Val neutral = ir_.number(scalar_of(value.type), lanes, neutral_value(o.kind));
  if (active()) sum = ir_.select(*active(), sum, neutral);
  constexpr int kRegisterBytes = 64;  // of AVX-512
  const bool is_one_register = lanes * bytes_of(neutral.type) <= kRegisterBytes;
  if (plan_.avx512 && is_one_register) neutral = hidden(ir_, neutral);
  for (int by = 1; by < lanes; by *= 2)
    sum = emit_function(ir_, folding_function(o.kind), {shifted(ir_, neutral, sum, by), sum});
  return sum;
}

Val KernelWriter::emit(const Value&, const op::LastLane& o) {
  const Val& value = operand(o.value);
  if (value.lanes == 1) return value;
  return ir_.raw(value.type, 1, fmt::format("extractelement {}, i64 {}", typed(value), value.lanes - 1));
}

}  // namespace moxie::llvm_ir
