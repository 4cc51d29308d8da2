#pragma once
// The stages of a compilation as text, for `moxie dump` and MOXIE_DUMP.
#include <span>
#include <string>
#include <string_view>

#include "compiler/ir/program.h"
#include "runtime/plan.h"

namespace moxie {

struct Compilation {
  Program source;  // as written
  Program task;    // with gradients where they were asked for; specialised
  Plan plan;
  DimValues dims;  // dynamic dims may be missing
};

struct Stage {
  std::string_view name;  // "loop"
  std::string_view purpose;
  std::string (*text)(const Compilation& compilation);
};

/// In the order of the pipeline.
std::span<const Stage> stages();

}  // namespace moxie
