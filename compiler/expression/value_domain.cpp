#include "compiler/expression/value_domain.h"

#include <fmt/format.h>

#include <cmath>

namespace moxie {

std::string to_string(const ValueDomain& domain) {
  const auto& [low, high] = domain;
  std::string text = low ? fmt::format("{} {}", low->open ? ">" : ">=", low->value) : "";
  if (high) text += fmt::format("{}{} {}", low ? " and " : "", high->open ? "<" : "<=", high->value);
  return text;
}

bool admits(const ValueDomain& domain, double value) {
  if (domain == ValueDomain::Any) return true;
  const auto& [low, high] = domain;
  const bool is_above = !low || (low->open ? value > low->value : value >= low->value);
  const bool is_below = !high || (high->open ? value < high->value : value <= high->value);
  return std::isfinite(value) && is_above && is_below;
}

}  // namespace moxie
