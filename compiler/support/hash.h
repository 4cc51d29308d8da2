#pragma once
// Hashes of content that are the same in every process.
#include <cstdint>
#include <string_view>

namespace moxie {

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014) over a running value.
inline std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
  std::uint64_t z = state * 0x9E3779B97F4A7C15ULL + value + 0x2545F4914F6CDD1DULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

inline std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix(h, static_cast<unsigned char>(c));
  return h;
}

}  // namespace moxie
