// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011. The constants are
// theirs. A word is the lower half of 64 bits, where a multiplication of vectors finds and leaves it. Nothing is said
// of upper halves: if LLVM knew that one is zero already, it would drop the mask by which it tells that multiplication.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/arithmetic/philox.h"
#include "compiler/codegen/llvm/vector_math.h"
#include "compiler/support/error.h"

namespace moxie::llvm_ir {
namespace {

constexpr int kRounds = 10;
constexpr std::int64_t kMultipliers[] = {0xD2511F53, 0xCD9E8D57};
constexpr std::int64_t kLowerHalf = 0xFFFFFFFF;

Vec multiply(const Vec& word, std::int64_t factor) { return (word & kLowerHalf) * factor; }

/// The upper half in both halves, by a shuffle: after a shift, LLVM would know the upper one.
Vec upper_half(const Vec& product) {
  if (product.val.lanes == 1) return product >> 32;
  TextBuilder& ir = *product.builder;
  const std::string halves = type_name(Scalar::i32, 2 * product.val.lanes);
  const Val parts =
      ir.raw(Scalar::i32, 2 * product.val.lanes, fmt::format("bitcast {} to {}", typed(product.val), halves));
  std::vector<int> odd(static_cast<std::size_t>(parts.lanes));
  for (int part = 0; part < parts.lanes; ++part) odd[part] = part | 1;
  const Val doubled = ir.shuffle(parts, odd);
  return product.with(
      ir.raw(Scalar::i64, product.val.lanes,
             fmt::format("bitcast {} to {}", typed(doubled), type_name(Scalar::i64, product.val.lanes))));
}

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
  Vec k0{&builder, key[0]}, k1{&builder, key[1]};
  Vec c0{&builder, counter[0]}, c1{&builder, counter[1]}, c2{&builder, counter[2]}, c3{&builder, counter[3]};
  for (int round = 0; round < kRounds; ++round) {
    if (round > 0) {
      k0 = k0 + std::int64_t{kPhiloxWeyl[0]};
      k1 = k1 + std::int64_t{kPhiloxWeyl[1]};
    }
    const Vec first = multiply(c0, kMultipliers[0]), second = multiply(c2, kMultipliers[1]);
    c0 = mixed(upper_half(second), mixed(c1, k0));
    c1 = second;
    c2 = mixed(upper_half(first), mixed(c3, k1));
    c3 = first;
  }
  return {c0.val, c1.val, c2.val, c3.val};
}

}  // namespace moxie::llvm_ir
