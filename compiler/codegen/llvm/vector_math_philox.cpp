// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. The constants are
// theirs. Words stand in lanes of 64 bits, in the lower half, which is where a multiplication reads and leaves them;
// only the multiplication looks at its operand's upper half, and clears it.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/ir/philox.h"
#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

constexpr int kRounds = 10;
constexpr std::int64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::int64_t kLowerHalf = 0xFFFFFFFF;

Vec multiply(const Vec& word, std::int64_t factor) { return (word & kLowerHalf) * factor; }

/// Of one lane as long as both are: what all lanes have in common is computed once for them all.
Vec mixed(const Vec& a, const Vec& b) {
  const int lanes = std::max(a.val.lanes, b.val.lanes);
  return a.with(a.builder->splat(a.val, lanes)) ^ b.with(b.builder->splat(b.val, lanes));
}

}  // namespace

std::vector<Val> emit_philox(TextBuilder& builder, const std::vector<Val>& key, const std::vector<Val>& counter) {
  if (key.size() != 2 || counter.size() != 4) {
    throw InternalError(
        fmt::format("emit_philox: takes 2 words of key and 4 of counter, not {} and {}", key.size(), counter.size()));
  }
  const auto widened = [&](const Val& word) { return Vec{&builder, builder.extend(word, Scalar::i64, false)}; };
  Vec k0 = widened(key[0]), k1 = widened(key[1]);
  Vec c0 = widened(counter[0]), c1 = widened(counter[1]), c2 = widened(counter[2]), c3 = widened(counter[3]);
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      k0 = k0 + std::int64_t{kPhiloxWeyl[0]};
      k1 = k1 + std::int64_t{kPhiloxWeyl[1]};
    }
    const Vec first = multiply(c0, kMultipliers[0]), second = multiply(c2, kMultipliers[1]);
    c0 = mixed(second >> 32, mixed(c1, k0));
    c1 = second;
    c2 = mixed(first >> 32, mixed(c3, k1));
    c3 = first;
  }
  std::vector<Val> words;
  for (const Vec& word : {c0, c1, c2, c3}) words.push_back(builder.extend(word.val, Scalar::i32, false));
  return words;
}

}  // namespace moxie::llvm_ir
