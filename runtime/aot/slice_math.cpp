#include "runtime/aot/slice_math.h"

#include <fmt/format.h>

namespace moxie::aot {
namespace {

using llvm_ir::Scalar;
using llvm_ir::typed;

/// The smallest integer whose square is not below `value`. A root in double is off by one at most, as extents are far
/// below 2^52.
Val root_above(FunctionWriter& w, const Val& value) {
  w.module().declare("declare double @llvm.sqrt.f64(double)");
  const Val number = w.ir().raw(Scalar::f64, 1, fmt::format("sitofp {} to double", typed(value)));
  const Val root = w.ir().raw(Scalar::f64, 1, fmt::format("call double @llvm.sqrt.f64({})", typed(number)));
  const Val near = w.ir().raw(Scalar::i64, 1, fmt::format("fptosi {} to i64", typed(root)));
  Val result = w.larger(w.sub(near, w.integer(1)), w.integer(1));
  for (int k = 0; k < 2; ++k) {
    const Val is_below = w.is("slt", w.mul(result, result), value);
    result = w.select(is_below, w.add(result, w.integer(1)), result);
  }
  return result;
}

struct Blocks {
  Val extent, block, count;
};

Blocks blocks_of(FunctionWriter& w, DimMath& math, const SliceAxis& axis) {
  const Val extent = math.extent(axis.extent);
  const Val block = axis.block > 0 ? w.integer(axis.block) : root_above(w, extent);
  const Val rounded_up = w.add(extent, w.sub(block, w.integer(1)));
  return {extent, block, w.divide(rounded_up, block)};
}

/// Numbers that tell apart what slices leave to those after them.
void set_numbers(FunctionWriter& w, DimMath& math, const Slices& slices, const Val& number) {
  const SliceNumbers& names = *slices.numbers;
  const Val one = w.integer(1), two = w.integer(2);
  const Val count = count_of_slices(w, math, slices);
  const Val left = slices.backwards ? number : w.sub(w.sub(count, one), number);
  const Val distance = w.larger(left, w.sub(w.integer(0), left));
  math.set(names.number, number);
  math.set(names.next, w.add(number, one));
  math.set(names.turn, w.rem(distance, two));
  math.set(names.other, w.rem(w.add(distance, one), two));
  math.set(names.slots, w.add(count, one));
}

void set_dims(FunctionWriter& w, DimMath& math, const Slices& slices, Val number) {
  const Val zero = w.integer(0), one = w.integer(1);
  if (slices.numbers) set_numbers(w, math, slices, number);
  for (auto axis = slices.axes.rbegin(); axis != slices.axes.rend(); ++axis) {
    const Blocks blocks = blocks_of(w, math, *axis);
    const Val count = w.larger(blocks.count, one);
    const Val first = w.mul(w.rem(number, count), blocks.block);
    number = w.divide(number, count);
    math.set(axis->first, first);
    if (!axis->count.empty())
      math.set(axis->count, w.smaller(w.larger(w.sub(blocks.extent, first), zero), blocks.block));
  }
}

}  // namespace

Val count_of_slices(FunctionWriter& w, DimMath& math, const Slices& slices) {
  Val count = w.integer(1);
  for (const SliceAxis& axis : slices.axes) count = w.saturating_mul(count, blocks_of(w, math, axis).count);
  return count;
}

void set_dims_of_run(FunctionWriter& w, DimMath& math, const Slices& slices, const Val& done) {
  if (!slices.backwards) return set_dims(w, math, slices, done);
  const Val last = w.sub(count_of_slices(w, math, slices), w.integer(1));
  set_dims(w, math, slices, w.sub(last, done));
}

void set_dims_of_first(FunctionWriter& w, DimMath& math, const Slices& slices) {
  set_dims(w, math, slices, w.integer(0));
}

}  // namespace moxie::aot
