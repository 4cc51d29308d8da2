#pragma once
// The C header of an AOT library.
#include <string>
#include <vector>

#include "runtime/aot/interface.h"

namespace moxie::aot {

struct HeaderFunction {
  Interface interface;
  std::string formula;  // as .mox text, for comments
  bool on_cpu = true;
  std::int64_t gpu_words = 0;  // of the struct of loaded kernels; 0 where there are none
};

std::string c_header(const std::string& library, const std::vector<HeaderFunction>& functions);

}  // namespace moxie::aot
