#pragma once
// The C header of an AOT library.
#include <string>
#include <string_view>
#include <vector>

#include "runtime/aot/interface.h"

namespace moxie::aot {

struct HeaderFunction {
  Interface interface;
  std::string formula;  // as .mox text, for comments
  bool on_cpu = true;
  std::int64_t gpu_words = 0;  // of the struct of loaded kernels; 0 where there are none
};

/// What an exported model predicts first: `probability`, or `mean` and `variance`, or neither.
enum class ExportedKind : std::uint8_t { Classes, Values, Others };

/// A program in C that predicts with an exported model: the template's lines for every kind, and those for this one.
std::string prediction_example(ExportedKind kind);

std::string c_header(const std::string& library, const std::vector<HeaderFunction>& functions);

}  // namespace moxie::aot
