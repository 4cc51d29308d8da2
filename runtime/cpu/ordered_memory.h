#pragma once
// Where the tensors of a sum over the elements that compare below another one lie.

namespace moxie {

/// Addresses of the tensors; null where the call has no such operand.
struct OrderedMemory {
  const void *key, *query, *weight, *scale;
  void* out;
};

}  // namespace moxie
