#include "compiler/loop/lower_sort.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "compiler/expression/functions.h"
#include "compiler/fuse/shared_factor.h"
#include "compiler/loop/algebra_writer.h"

namespace moxie {
namespace {

/// NaN is sorted as infinity with a place behind all others: place `k` of the row counts as `k + size` then. So
/// elements are in a total order, and the result is the same in whatever order they are compared.
class SortWriter : public AlgebraWriter {
 public:
  SortWriter(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying)
      : AlgebraWriter(nest, program, root, varying),
        count_(known_size(root)),
        key_type_(is_single(root.body->args[0]) ? ValueType::f32 : ValueType::f64),
        place_type_(2 * count_ <= kExactSingle ? ValueType::f32 : ValueType::f64),
        keys_(nest.new_array("keys", key_type_, {std::max<std::int64_t>(count_, 1)}, varying)),
        places_(nest.new_array("places", place_type_, {std::max<std::int64_t>(count_, 1)}, varying)) {}

  void run(BufferId output) {
    load_row();
    const std::int64_t run = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(stored())));
    for (std::int64_t width = 2; width <= run; width *= 2) merge(width);
    for (std::int64_t distance = run; distance < count_; distance *= 2) keep_smaller(run, distance);
    store_positions(output);
  }

 private:
  static constexpr std::int64_t kExactSingle = std::int64_t{1} << 24;  // whole numbers up to here are exact in f32

  /// Which elements are compared is fixed when compiling.
  static std::int64_t known_size(const KernelRoot& root) {
    const Affine& size = root.body->size.rows;
    if (size.is_constant()) return size.constant();
    throw CompileError("the row that is sorted in " + root.definition.name + " has " + print(size) +
                       " elements, which are not known when compiling; a kernel sorts rows of one size: declare the " +
                       "dims without `dynamic`, and give their values (--dim N=8)");
  }

  bool is_single(const Expr& row) const {
    if (row->kind == NodeKind::Access) return computed_dtype(nest_.source().dtype_of(row->tensor)) == DType::f32;
    return row->kind == NodeKind::Call && row->function->name == to_string(DType::f32);
  }

  ValueId get(ArrayId array, const Affine& at, ValueType type) {
    return nest_.emit_operation(op::LoadArray{array, {nest_.resolve(at)}}, type, varying_);
  }
  ValueId number(double value, ValueType type) { return nest_.emit(constant(value), type); }
  ValueId choose(ValueId condition, ValueId a, ValueId b) { return nest_.emit_call("where", {condition, a, b}); }

  void load_row() {
    const OpenedLinearAlgebra opened = open_algebra(root_.body);
    const Symbol k = opened.row;
    nest_.open_loop(k, Range::extent(count_), {}, {.parallel = true, .comment = cited_ + "the row"});
    const ValueId value = nest_.emit(nest_.guarded(opened.matrix), key_type_);
    const ValueId is_number = binary("==", value, value);
    const double infinity = std::numeric_limits<double>::infinity();
    store(keys_, {k}, choose(is_number, value, number(infinity, key_type_)));
    const ValueId place = nest_.emit(index_value(k), place_type_);
    const ValueId behind = nest_.emit(index_value(Affine(k) + Affine(count_)), place_type_);
    store(places_, {k}, choose(is_number, place, behind));
    nest_.close_loop();
  }

  /// Sorted runs of width/2 elements become runs of `width`: the second is read backwards, so that the halves of what
  /// both make, element by element the smaller ones and the larger ones, are bitonic. Elements beyond the row count as
  /// larger than all others and never move.
  void merge(std::int64_t width) {
    const std::int64_t half = width / 2;
    compare(half, true, cited_ + "runs of " + std::to_string(std::min(width, count_)) + " in order");
    for (std::int64_t distance = half / 2; distance >= 1; distance /= 2) compare(distance, false, {});
  }

  /// How many elements of the result are asked for.
  std::int64_t stored() const {
    const Symbol element = *root_.definition.body->subscripts[0].as_symbol();
    const Affine& extent = root_.definition.axes[element.number()].extent;
    return std::clamp<std::int64_t>(extent.is_constant() ? extent.constant() : count_, 1,
                                    std::max<std::int64_t>(count_, 1));
  }

  /// Of sorted runs that start at multiples of 2*distance, and those `distance` behind them, the smaller elements take
  /// the places of the first, in order.
  void keep_smaller(std::int64_t run, std::int64_t distance) {
    const std::int64_t runs = (count_ + 2 * distance - 1) / (2 * distance);
    const Symbol pair = Symbol::fresh(), number = Symbol::fresh();
    // element t of run `number`, in pair = number*run + t, and element run-1-t of the run behind it
    const Affine low = Affine(pair) + Affine(number) * (2 * distance - run);
    const Affine high = Affine(number) * (2 * distance + run) + Affine(distance + run - 1) - Affine(pair);
    nest_.open_loop(
        pair, Range::extent(runs * run), {},
        {.parallel = true, .comment = cited_ + "the first of " + std::to_string(std::min(2 * distance, count_))});
    Range one = quotient(pair, run);
    one.highs.push_back({2 * distance + run, Affine(count_ - distance - run) + Affine(pair)});
    nest_.open_loop(number, one);
    exchange(low, high);
    nest_.close_loop();
    nest_.close_loop();
    for (std::int64_t step = run / 2; step >= 1; step /= 2) order_runs(run, distance, step);
  }

  /// Compares elements that are `step` apart in the bitonic runs that start at multiples of 2*distance.
  void order_runs(std::int64_t run, std::int64_t distance, std::int64_t step) {
    const std::int64_t runs = (count_ + 2 * distance - 1) / (2 * distance), blocks = run / (2 * step);
    const Symbol pair = Symbol::fresh(), number = Symbol::fresh(), block = Symbol::fresh();
    nest_.open_loop(pair, Range::extent(runs * run / 2), {}, {.parallel = true});
    nest_.open_loop(number, quotient(pair, run / 2));
    // block = (pair - number*run/2) / step
    const Affine within = Affine(pair) - Affine(number) * (run / 2);
    const Affine low = within + Affine(block) * step + Affine(number) * (2 * distance);
    Range one{{{step, within - Affine(step - 1)}}, {{step, within}, {1, blocks - 1}}};
    one.highs.push_back({step, Affine(count_ - 1 - step) - within - Affine(number) * (2 * distance)});
    nest_.open_loop(block, one);
    exchange(low, low + Affine(step));
    for (int loop = 0; loop < 3; ++loop) nest_.close_loop();
  }

  /// The one value of value/divisor, rounded down.
  static Range quotient(Symbol value, std::int64_t divisor) {
    return {{{divisor, Affine(value) - Affine(divisor - 1)}}, {{divisor, Affine(value)}}};
  }

  /// Compares the elements of all blocks of 2*distance: k with k+distance or, `mirrored`, with the one that is as far
  /// from the end of the block as k from its start.
  void compare(std::int64_t distance, bool mirrored, const std::string& comment) {
    const Symbol pair = Symbol::fresh(), block = Symbol::fresh();
    const std::int64_t blocks = (count_ + 2 * distance - 1) / (2 * distance);
    const Affine low = Affine(pair) + Affine(block) * distance;
    const Affine high =
        mirrored ? Affine(block) * (3 * distance) + Affine(2 * distance - 1) - Affine(pair) : low + Affine(distance);
    nest_.open_loop(pair, Range::extent(blocks * distance), {}, {.parallel = true, .comment = comment});
    // block = pair / distance, if the second element exists
    Range one = quotient(pair, distance);
    if (mirrored)
      one.highs.push_back({3 * distance, Affine(count_ - 2 * distance) + Affine(pair)});
    else
      one.highs.push_back({distance, Affine(count_ - 1 - distance) - Affine(pair)});
    nest_.open_loop(block, one);
    exchange(low, high);
    nest_.close_loop();
    nest_.close_loop();
  }

  /// Puts the smaller element first.
  void exchange(const Affine& low, const Affine& high) {
    const ValueId a = get(keys_, low, key_type_), b = get(keys_, high, key_type_);
    const ValueId i = get(places_, low, place_type_), j = get(places_, high, place_type_);
    const ValueId tied = nest_.emit_call("and", {binary("==", a, b), binary("<", j, i)});
    const ValueId swaps = nest_.emit_call("or", {binary("<", b, a), tied});
    store(keys_, {low}, choose(swaps, b, a));
    store(keys_, {high}, choose(swaps, a, b));
    store(places_, {low}, choose(swaps, j, i));
    store(places_, {high}, choose(swaps, i, j));
  }

  void store_positions(BufferId output) {
    const auto element =
        std::ranges::find_if(root_.locals, [&](const LoopIndex& l) { return is_element_index(root_, l); });
    const bool is_loop = element != root_.locals.end();
    if (is_loop)
      nest_.open_loop(element->symbol, element->range, element->name,
                      {.parallel = true, .comment = cite(root_.definition)});
    const ValueId place = get(places_, root_.body->subscripts[0], place_type_);
    const ValueId size = number(static_cast<double>(count_), place_type_);
    const ValueId position = choose(binary("<", place, size), place, minus(place, size));
    nest_.append(stmt::Store{output, resolve(root_.subscripts), converted(position)});
    if (is_loop) nest_.close_loop();
  }

  ValueId converted(ValueId value) {
    return place_type_ == type_ ? value : nest_.emit_operation(op::Convert{value}, type_, varying_);
  }

  const std::int64_t count_;
  ValueType key_type_, place_type_;
  ArrayId keys_, places_;
};

}  // namespace

void lower_sort(NestBuilder& nest, LoopProgram& program, const AlgebraResult& result, bool varying) {
  SortWriter(nest, program, *result.root, varying).run(result.output);
}

}  // namespace moxie
