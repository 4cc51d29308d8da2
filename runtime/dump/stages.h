#pragma once
// The stages of a compilation, in the order of the pipeline.
#include <span>
#include <string_view>

namespace moxie {

struct Stage {
  std::string_view name;  // "loop"
  std::string_view purpose;
};

std::span<const Stage> dump_stages();

}  // namespace moxie
