#pragma once
// Characters of texts in UTF-8.
#include <cstddef>
#include <string_view>

namespace moxie {

/// How many bytes the character takes that the text begins with: 1 for ASCII, 2 to 4 for others; 0 where these bytes
/// are no character (RFC 3629), or there are none.
constexpr std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned char lead = byte(0);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (length > text.size()) return 0;
  for (std::size_t k = 1; k < length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
  }
  // Not the shortest form, half of a pair of UTF-16, or beyond U+10FFFF.
  const bool is_wrong = length >= 3 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
                                        (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90));
  return is_wrong ? 0 : length;
}

}  // namespace moxie
