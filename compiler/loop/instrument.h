#pragma once
// Instrumentation: kernels that look at what they compute. Checks are statements of the LoopProgram like all others, so
// that every device honours them, and a kernel with checks has a text, and so a cache key, of its own.
#include <array>
#include <span>
#include <string>

#include "compiler/loop/lower.h"

namespace moxie {

struct Checks {
  bool nan = false;     // what is stored is a finite number
  bool negvar = false;  // what is declared >= 0, > 0 or the like holds such values, inputs and definitions alike
  bool bounds = false;  // subscripts lie inside their tensors; outside nothing is read
  bool any() const { return nan || negvar || bounds; }
  bool operator==(const Checks&) const = default;
};

inline constexpr std::array<std::string_view, 3> kCheckNames = {"nan", "negvar", "bounds"};
/// Throws TypeError for an unknown name, with the list of the known ones.
Checks checks_named(std::span<const std::string> names);

/// The kernel with checks. What it stores of a sum that is split into chunks is not final, and not checked here.
LoweredKernel instrument(LoweredKernel kernel, const Program& program, const Checks& checks);
/// A kernel that does nothing but check a tensor: an input, or one whose final values no kernel stores. Of a scan's
/// tensor it checks one step, as a kernel of that scan.
LoweredKernel inspect(const FusedProgram& fused, const std::string& tensor, const Checks& checks);

}  // namespace moxie
