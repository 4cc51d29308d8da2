#pragma once
// Numbers with their positions, sorted by counting digits.
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace moxie {

template <class T>
using SortBits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// A number that is no NaN, as an unsigned integer in the order of the numbers: both zeros are one. None is the largest
/// integer. Without a branch on the sign, which would be guessed wrong half of the time.
template <class T>
SortBits<T> ordered_bits(T value) {
  using Bits = SortBits<T>;
  constexpr int kSignBit = 8 * sizeof(T) - 1;
  constexpr Bits kSign = Bits{1} << kSignBit;
  const Bits given = std::bit_cast<Bits>(value);
  const Bits bits = given & (Bits{0} - static_cast<Bits>((given & ~kSign) != 0));
  return bits ^ ((Bits{0} - (bits >> kSignBit)) | kSign);
}

template <class T>
struct SortEntry {
  SortBits<T> bits;
  std::uint32_t index;
};

/// Shorter rows are sorted by comparing: counting digits takes longer.
inline constexpr std::size_t kShortestRadix = 64;

/// Sorts by `bits`, entries with equal ones in the order in which they are. `spare` is room for as many.
template <class T>
void sort_entries(std::vector<SortEntry<T>>& entries, std::vector<SortEntry<T>>& spare) {
  const auto below = [](const SortEntry<T>& a, const SortEntry<T>& b) { return a.bits < b.bits; };
  if (entries.size() < kShortestRadix) {
    std::ranges::stable_sort(entries, below);
    return;
  }
  constexpr std::size_t kDigits = sizeof(T), kValues = 256;
  const auto digit_of = [](const SortEntry<T>& entry, std::size_t digit) {
    return static_cast<std::size_t>(entry.bits >> (8 * digit)) % kValues;
  };
  std::array<std::array<std::uint32_t, kValues>, kDigits> counts{};
  for (const SortEntry<T>& entry : entries) {
    for (std::size_t digit = 0; digit < kDigits; ++digit) ++counts[digit][digit_of(entry, digit)];
  }
  spare.resize(entries.size());
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    auto& places = counts[digit];
    if (places[digit_of(entries.front(), digit)] == entries.size()) continue;  // all have this digit
    std::uint32_t next = 0;
    for (std::uint32_t& place : places) next += std::exchange(place, next);
    for (const SortEntry<T>& entry : entries) spare[places[digit_of(entry, digit)]++] = entry;
    entries.swap(spare);
  }
}

}  // namespace moxie
