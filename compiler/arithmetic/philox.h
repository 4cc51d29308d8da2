#pragma once
// Philox4x32-10, a counter-based random number generator (Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As
// Easy as 1, 2, 3", SC11), and how moxie keys it. Every device draws the same bits, whatever its schedule.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>

namespace moxie {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Increment of a key from round to round: the golden ratio and sqrt(3) - 1, in 32-bit fixed point.
constexpr PhiloxKey kPhiloxWeyl{0x9E3779B9u, 0xBB67AE85u};

constexpr PhiloxCounter philox_round(const PhiloxCounter& c, const PhiloxKey& key) {
  const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
  const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
  return {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p0)};
}

constexpr PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) key = {key[0] + kPhiloxWeyl[0], key[1] + kPhiloxWeyl[1]};
    counter = philox_round(counter, key);
  }
  return counter;
}

/// The key of one stream of `seed` in one training step.
constexpr PhiloxKey philox_key(std::uint64_t seed, std::int64_t stream, std::uint64_t step) {
  return {static_cast<std::uint32_t>(seed) ^ (kPhiloxWeyl[0] * static_cast<std::uint32_t>(stream)),
          static_cast<std::uint32_t>(seed >> 32) ^ static_cast<std::uint32_t>(step)};
}

/// In the open interval (0, 1).
constexpr double uniform_from_word(std::uint32_t word) { return (word + 0.5) * 0x1p-32; }

/// Box and Muller's transform of two words.
inline double normal_from_words(std::uint32_t a, std::uint32_t b) {
  return std::sqrt(-2 * std::log(uniform_from_word(a))) * std::cos(2 * std::numbers::pi * uniform_from_word(b));
}

/// Elements that follow each other along the last coordinate share a block of four words; four begin at a multiple of
/// four.
constexpr std::int64_t kPhiloxWords = 4;
/// Of two normal numbers of one pair of words, the second turns a quarter less: it is the sine where the first is the
/// cosine.
constexpr std::uint32_t kQuarterTurn = std::uint32_t{1} << 30;

constexpr std::size_t kMostDrawAxes = PhiloxCounter{}.size();

/// The draws of one stream, by at most kMostDrawAxes coordinates.
class PhiloxStream {
 public:
  explicit constexpr PhiloxStream(PhiloxKey key) : key_(key) {}

  double uniform(std::span<const std::int64_t> coordinates) const {
    return uniform_from_word(block(coordinates)[place(coordinates)]);
  }
  double normal(std::span<const std::int64_t> coordinates) const {
    const PhiloxCounter words = block(coordinates);
    const std::size_t own = place(coordinates), pair = own & 2;
    return normal_from_words(words[pair], words[pair + 1] - (own % 2 == 0 ? 0 : kQuarterTurn));
  }

 private:
  static std::size_t place(std::span<const std::int64_t> coordinates) {
    return coordinates.empty() ? 0 : static_cast<std::size_t>(coordinates.back() & (kPhiloxWords - 1));
  }
  PhiloxCounter block(std::span<const std::int64_t> coordinates) const {
    PhiloxCounter counter{};
    for (std::size_t i = 0; i < coordinates.size(); ++i) {
      const bool last = i + 1 == coordinates.size();
      counter[i] = static_cast<std::uint32_t>(last ? coordinates[i] >> 2 : coordinates[i]);
    }
    return philox4x32_10(counter, key_);
  }

  PhiloxKey key_;
};

}  // namespace moxie
