#include "compiler/ir/precision.h"

namespace moxie {

const char* to_string(Precision precision) { return precision == Precision::Strict ? "strict" : "fast"; }

std::optional<Precision> precision_named(std::string_view text) {
  for (const Precision precision : {Precision::Strict, Precision::Fast}) {
    if (text == to_string(precision)) return precision;
  }
  return std::nullopt;
}

}  // namespace moxie
