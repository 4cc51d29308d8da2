#pragma once
// How much of the algebra of real numbers rewrites may use.
#include <cstdint>
#include <optional>
#include <string_view>

namespace moxie {

/// Strict: infinities, NaN and cancellation stay as they are written, unless declared domains prove that there are
/// none. Fast: all laws of the real numbers. Accurate: as strict, and sums are computed in double. docs/precision.md
/// lists the rewrites.
enum class Precision : std::uint8_t { Strict, Fast, Accurate };
const char* to_string(Precision precision);
/// "strict", "fast" or "accurate"; nothing for another text.
std::optional<Precision> precision_named(std::string_view text);

}  // namespace moxie
