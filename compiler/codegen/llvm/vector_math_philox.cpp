// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. The constants are
// theirs.
#include <fmt/format.h>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

constexpr int kRounds = 10;
constexpr std::int64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::int64_t kKeySteps[] = {0x9E3779B9, 0xBB67AE85};

struct Product {
  Vec high, low;
};

Product multiply(const Vec& a, std::int64_t factor) {
  TextBuilder* builder = a.builder;
  const Vec wide = Vec{builder, builder->extend(a.val, Scalar::i64, false)} * factor;
  return {{builder, builder->extend((wide >> 32).val, Scalar::i32, false)},
          {builder, builder->extend(wide.val, Scalar::i32, false)}};
}

}  // namespace

std::vector<Val> emit_philox(TextBuilder& builder, const std::vector<Val>& key, const std::vector<Val>& counter) {
  if (key.size() != 2 || counter.size() != 4) {
    throw InternalError(
        fmt::format("emit_philox: takes 2 words of key and 4 of counter, not {} and {}", key.size(), counter.size()));
  }
  Vec k0{&builder, key[0]}, k1{&builder, key[1]};
  Vec c0{&builder, counter[0]}, c1{&builder, counter[1]}, c2{&builder, counter[2]}, c3{&builder, counter[3]};
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      k0 = k0 + kKeySteps[0];
      k1 = k1 + kKeySteps[1];
    }
    const Product first = multiply(c0, kMultipliers[0]), second = multiply(c2, kMultipliers[1]);
    c0 = second.high ^ c1 ^ k0;
    c1 = second.low;
    c2 = first.high ^ c3 ^ k1;
    c3 = first.low;
  }
  return {c0.val, c1.val, c2.val, c3.val};
}

}  // namespace moxie::llvm_ir
