#include "compiler/loop/lower_sort.h"

#include <algorithm>
#include <limits>

#include "compiler/fuse/shared_factor.h"
#include "compiler/ir/functions.h"
#include "compiler/loop/algebra_writer.h"

namespace moxie {
namespace {

/// NaN is sorted as infinity with a place behind all others: place `k` of the row counts as `k + size` then. So
/// elements are in a total order, and the result is the same in whatever order they are compared.
class SortWriter : public AlgebraWriter {
 public:
  SortWriter(NestBuilder& nest, LoopProgram& program, const KernelRoot& root, bool varying)
      : AlgebraWriter(nest, program, root, varying),
        key_type_(is_single(root.body->args[0]) ? ValueType::f32 : ValueType::f64),
        place_type_(2 * size_ <= kExactSingle ? ValueType::f32 : ValueType::f64),
        keys_(nest.new_array("keys", key_type_, {std::max<std::int64_t>(size_, 1)}, varying)),
        places_(nest.new_array("places", place_type_, {std::max<std::int64_t>(size_, 1)}, varying)) {}

  void run(BufferId output) {
    load_row();
    for (std::int64_t width = 2; width / 2 < size_; width *= 2) merge(width);
    store_positions(output);
  }

 private:
  static constexpr std::int64_t kExactSingle = std::int64_t{1} << 24;  // whole numbers up to here are exact in f32

  bool is_single(const Expr& row) const {
    if (row->kind == NodeKind::Access) return nest_.source().dtype_of(row->tensor) == DType::f32;
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
    nest_.open_loop(k, Range::extent(size_), {}, {.parallel = true, .comment = cited_ + "the row"});
    const ValueId value = nest_.emit(nest_.guarded(opened.matrix), key_type_);
    const ValueId is_number = binary("==", value, value);
    const double infinity = std::numeric_limits<double>::infinity();
    store(keys_, {k}, choose(is_number, value, number(infinity, key_type_)));
    const ValueId place = nest_.emit(index_value(k), place_type_);
    const ValueId behind = nest_.emit(index_value(Affine(k) + Affine(size_)), place_type_);
    store(places_, {k}, choose(is_number, place, behind));
    nest_.close_loop();
  }

  /// Sorted runs of width/2 elements become runs of `width`: the second is read backwards, so that the halves of what
  /// both make, element by element the smaller ones and the larger ones, are bitonic. Elements beyond the row count as
  /// larger than all others and never move.
  void merge(std::int64_t width) {
    const std::int64_t half = width / 2;
    compare(half, true, cited_ + "runs of " + std::to_string(std::min(width, size_)) + " in order");
    for (std::int64_t distance = half / 2; distance >= 1; distance /= 2) compare(distance, false, {});
  }

  /// Compares the elements of all blocks of 2*distance: k with k+distance or, `mirrored`, with the one that is as far
  /// from the end of the block as k from its start.
  void compare(std::int64_t distance, bool mirrored, const std::string& comment) {
    const Symbol pair = Symbol::fresh(), block = Symbol::fresh();
    const std::int64_t blocks = (size_ + 2 * distance - 1) / (2 * distance);
    const Affine low = Affine(pair) + Affine(block) * distance;
    const Affine high =
        mirrored ? Affine(block) * (3 * distance) + Affine(2 * distance - 1) - Affine(pair) : low + Affine(distance);
    nest_.open_loop(pair, Range::extent(blocks * distance), {}, {.parallel = true, .comment = comment});
    // block = pair / distance, if the second element exists
    Range one{{{distance, Affine(pair) - Affine(distance - 1)}}, {{distance, Affine(pair)}}};
    if (mirrored)
      one.highs.push_back({3 * distance, Affine(size_ - 2 * distance) + Affine(pair)});
    else
      one.highs.push_back({distance, Affine(size_ - 1 - distance) - Affine(pair)});
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
    const ValueId size = number(static_cast<double>(size_), place_type_);
    const ValueId position = choose(binary("<", place, size), place, minus(place, size));
    nest_.append(stmt::Store{output, resolve(root_.subscripts), converted(position)});
    if (is_loop) nest_.close_loop();
  }

  ValueId converted(ValueId value) {
    return place_type_ == type_ ? value : nest_.emit_operation(op::Convert{value}, type_, varying_);
  }

  ValueType key_type_, place_type_;
  ArrayId keys_, places_;
};

}  // namespace

void lower_sort(NestBuilder& nest, LoopProgram& program, const AlgebraResult& result, bool varying) {
  SortWriter(nest, program, *result.root, varying).run(result.output);
}

}  // namespace moxie
