#pragma once
// Elements of tensors as they lie in memory, and the numbers that they are.
#include "compiler/codegen/llvm/text_builder.h"

namespace moxie::llvm_ir {

/// How elements of the dtype lie in memory.
Scalar scalar_of(DType dtype);

/// Conversions between elements and numbers, of all lanes.
class StoredElements {
 public:
  /// With `converts`, the machine rounds to integers and converts numbers of 16 bits by instructions; else arithmetic
  /// does, since LLVM would call functions that nobody defines.
  StoredElements(TextBuilder& builder, bool converts) : ir_(builder), converts_(converts) {}

  /// The number that an element is, as a floating-point number.
  Val number(const Val& element, DType dtype, Scalar to);
  /// The index that an element is, as an i64 that sums and products cannot carry beyond 64 bits.
  Val index(const Val& element, DType dtype);
  /// What a tensor stores for a number: stored_value().
  Val element(const Val& number, DType dtype);

 private:
  Val nearest_integer(const Val& value);
  Val integer_element(const Val& value, DType dtype);
  Val long_element(const Val& value, const Val& nearest, const Val& low, const Val& high);
  Val f16_number(const Val& element);
  Val f16_element(const Val& value);
  Val bf16_element(const Val& value);
  Val bits(std::int64_t value, int lanes) { return ir_.integer(Scalar::i32, lanes, value); }

  TextBuilder& ir_;
  bool converts_;
};

}  // namespace moxie::llvm_ir
