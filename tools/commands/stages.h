#pragma once
// The stages of a compilation as text, for `moxie dump` and MOXIE_DUMP.
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// A kernel's text for this processor, under the name by which MOXIE_KERNEL_OVERRIDE knows it.
struct KernelFile {
  std::string name;
  std::string text;
};
std::vector<KernelFile> kernel_files(const Compilation& compilation);

}  // namespace moxie
