#pragma once
// Index arithmetic of a kernel: affine expressions, loop bounds and element offsets as 64-bit integers.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/codegen/llvm/text_builder.h"
#include "compiler/loop/loop_program.h"

namespace moxie::llvm_ir {

/// A sum of products `value * factor` plus a constant: what one symbol of a subscript contributes to an element's
/// offset.
struct Coefficient {
  std::int64_t constant = 0;
  std::vector<std::pair<Val, std::int64_t>> terms;
  bool is(std::int64_t number) const { return terms.empty() && constant == number; }
};

/// The element offset of the first lane, and how much further each lane is than the one before it; to which values that
/// vary between lanes add `scattered`.
struct Offset {
  Val first;
  Coefficient step;
  std::optional<Val> scattered = {};
};

/// Number of values of a range whose bounds are constants.
std::optional<std::int64_t> constant_trip_count(const Range& range);

/// The only value that may be in the range, where constant bounds leave no other.
std::optional<std::int64_t> only_iteration(const Range& range);

class Addressing {
 public:
  explicit Addressing(TextBuilder& builder) : ir_(builder) {}

  /// Gives a symbol its value, until the matching close(). Symbols are opened from the outermost loop to the innermost;
  /// sums are written in that order, so that what an outer loop adds is invariant in the inner ones.
  void open(Symbol symbol, Val value) { scope_.emplace_back(symbol, std::move(value)); }
  void close() { scope_.pop_back(); }
  /// Gives a value that subscripts may mention its number, in all lanes or, with several lanes, in each.
  void set(Symbol value, Val number) { values_.insert_or_assign(value, std::move(number)); }

  /// The value of an expression: in all lanes where it does not vary between them, else in the first.
  Val value(const Affine& affine);
  /// The first and last value of a loop variable; the last is below the first when the range is empty.
  Val first(const Range& range);
  Val last(const Range& range);
  /// Whether the value is in the range, as those of its bounds say that are no constants.
  Val contains(const Range& range, std::int64_t value);

  /// How far apart neighbours along each axis are stored. Emits the products that are not constant.
  std::vector<Coefficient> strides(const BufferDecl& buffer);
  /// The offset of an element; `lane_variable` is the loop variable that grows by one from lane to lane.
  Offset offset(const std::vector<Affine>& subscripts, const std::vector<Coefficient>& strides,
                std::optional<Symbol> lane_variable);
  Val materialise(const Coefficient& coefficient);

 private:
  Val integer(std::int64_t value) { return ir_.integer(Scalar::i64, 1, value); }
  Val add(const Val& a, const Val& b);
  Val multiply(const Val& a, const Val& b);
  Val floor_divide(const Val& dividend, std::int64_t divisor);
  Val rounded(const Bound& bound, bool round_up);
  Val extreme(const std::vector<Bound>& bounds, bool is_low);

  void add_values(Offset& offset, const std::vector<Affine>& subscripts, const std::vector<Coefficient>& strides);

  TextBuilder& ir_;
  std::vector<std::pair<Symbol, Val>> scope_;
  std::map<Symbol, Val> values_;
};

}  // namespace moxie::llvm_ir
