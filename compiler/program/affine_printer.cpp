#include "compiler/program/affine_printer.h"

#include <fmt/format.h>

#include <algorithm>

namespace moxie {
namespace {

/// The unsigned_magnitude as unsigned, which also holds that of the smallest integer.
std::uint64_t unsigned_magnitude(std::int64_t value) {
  return value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
}

void append(std::string& text, bool negative, const std::string& term) {
  if (negative)
    text += "-";
  else if (!text.empty())
    text += "+";
  text += term;
}

/// Wraps what `ceil(.../d)` would otherwise misread: everything but a single product.
std::string numerator_text(const Affine& value, const SymbolSpelling& spell) {
  const std::string text = affine_text(value, spell);
  const bool product = value.is_constant() || (value.constant() == 0 && value.terms().size() == 1);
  return product ? text : "(" + text + ")";
}

std::string low_text(const Bound& low, const SymbolSpelling& spell) {
  if (low.divisor == 1) return affine_text(low.value, spell);
  return fmt::format("ceil({}/{})", numerator_text(low.value, spell), low.divisor);
}

/// The text is half open where the range holds the last value.
std::string high_text(const Bound& high, const SymbolSpelling& spell) {
  if (high.divisor == 1) return affine_text(high.value + Affine(1), spell);
  return fmt::format("floor({}/{})+1", numerator_text(high.value, spell), high.divisor);
}

std::string bounds_text(const std::vector<Bound>& bounds, const char* combine, const SymbolSpelling& spell,
                        std::string (*text)(const Bound&, const SymbolSpelling&)) {
  if (bounds.size() == 1) return text(bounds[0], spell);
  std::vector<std::string> parts;
  for (const Bound& bound : bounds) parts.push_back(text(bound, spell));
  return fmt::format("{}({})", combine, fmt::join(parts, ", "));
}

}  // namespace

std::string affine_text(const Affine& affine, const SymbolSpelling& spell) {
  std::string text;
  const auto append_terms = [&](bool negative) {
    for (const auto& [symbol, coefficient] : affine.terms()) {
      if ((coefficient < 0) != negative) continue;
      const std::uint64_t size = unsigned_magnitude(coefficient);
      append(text, negative, size == 1 ? spell(symbol) : fmt::format("{}*{}", size, spell(symbol)));
    }
  };
  append_terms(false);
  const bool constant_first = text.empty() && affine.constant() > 0;  // 3-i rather than -i+3
  if (constant_first) append(text, false, fmt::format("{}", affine.constant()));
  append_terms(true);
  const bool constant_last = !constant_first && (affine.constant() != 0 || text.empty());
  if (constant_last) append(text, affine.constant() < 0, fmt::format("{}", unsigned_magnitude(affine.constant())));
  return text;
}

std::string affine_list_text(const std::vector<Affine>& list, const SymbolSpelling& spell) {
  std::string text;
  for (const Affine& affine : list) text += (text.empty() ? "" : ",") + affine_text(affine, spell);
  return text;
}

std::string range_text(const Range& range, const SymbolSpelling& spell) {
  return bounds_text(range.lows, "max", spell, low_text) + ".." + bounds_text(range.highs, "min", spell, high_text);
}

}  // namespace moxie
