#include "runtime/byte_size.h"

#include <algorithm>
#include <charconv>

namespace moxie {

std::optional<std::int64_t> byte_size(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  constexpr std::string_view kUnits = "KMGT";
  const std::size_t power = unit.empty() ? 0 : kUnits.find(unit[0]) + 1;
  const std::string_view rest = unit.substr(std::min<std::size_t>(unit.size(), 1));
  const bool right = error == std::errc() && number >= 0 && number < 1e15 && (unit.empty() || power > 0) &&
                     (rest.empty() || rest == "iB" || rest == "B");
  if (!right) return std::nullopt;
  for (std::size_t k = 0; k < power; ++k) number *= 1024;
  if (number >= 0x1p62) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace moxie
