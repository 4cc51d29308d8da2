#include "compiler/program/precision.h"

namespace moxie {

const char* to_string(Precision precision) {
  static constexpr const char* kNames[] = {"strict", "fast", "accurate"};
  return kNames[static_cast<int>(precision)];
}

std::optional<Precision> precision_named(std::string_view text) {
  for (const Precision precision : {Precision::Strict, Precision::Fast, Precision::Accurate}) {
    if (text == to_string(precision)) return precision;
  }
  return std::nullopt;
}

}  // namespace moxie
