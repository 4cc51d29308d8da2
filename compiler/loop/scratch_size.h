#pragma once
// ScratchSize: the memory that scratch arrays take, also where their extents depend on dims.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "compiler/expression/affine.h"

namespace moxie {

/// Elements of `element_bytes` bytes each: as many as the product of `extents`, which are affine in dims. An extent
/// that is negative, as S-2 where S is 1, counts as 0.
struct ScratchBlock {
  std::int64_t element_bytes = 0;
  std::vector<Affine> extents;
  bool operator==(const ScratchBlock&) const = default;
};

/// What is known when compiling, and behind it the blocks, each rounded up to a multiple of kBlockAlignment bytes.
struct ScratchSize {
  static constexpr std::int64_t kBlockAlignment = 64;  // a cache line, and the widest vector register

  std::int64_t fixed_bytes = 0;
  std::vector<ScratchBlock> blocks = {};
  bool operator==(const ScratchSize&) const = default;

  bool is_empty() const { return fixed_bytes == 0 && blocks.empty(); }
  /// `value` gives a dim its number. Throws CompileError where the bytes are more than 64 bits count.
  std::int64_t bytes(const std::function<std::int64_t(Symbol)>& value) const {
    std::int64_t sum = fixed_bytes;
    for (const ScratchBlock& block : blocks) {
      std::int64_t product = block.element_bytes;
      for (const Affine& extent : block.extents)
        product = checked_mul(product, std::max<std::int64_t>(extent.evaluate(value), 0));
      sum = checked_add(sum, checked_mul(ceil_div(product, kBlockAlignment), kBlockAlignment));
    }
    return sum;
  }
};

}  // namespace moxie
